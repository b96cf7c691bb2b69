"""What Config and shards say of themselves."""

from datetime import UTC, datetime

import pytest

from kai.model.condition_texts import MOST_BYTES
from kai_operator.bodies import RETIRED
from kai_operator.conditions import Standing, begun, ended, unavailable
from kai_operator.kinds import Ref

NOW, LATER = datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 2, tzinfo=UTC)
WELL = Standing()


def told(standing, known=(), *, generation=1, now=NOW):
    return {one["type"]: one for one in ended(list(known), standing, generation=generation, now=now)}


def words(standing):
    return {kind: (one["status"], one["reason"]) for kind, one in told(standing).items()}


FINE = {
    "Reconciling": ("False", "reconciled"),
    "Deployed": ("True", "deployed"),
    "Available": ("True", "available"),
    "DependenciesFulfilled": ("True", "dependencies_fulfilled"),
    "Ready": ("True", "ready"),
}


@pytest.mark.parametrize(
    ("standing", "differs"),
    [
        (WELL, {}),
        (
            Standing(unavailable=["Deployment kai/binder: 0 of 1 pods"]),
            {"Available": ("False", "not_available"), "Ready": ("False", "not_ready")},
        ),
        (
            Standing(troubles={Ref("Service", "kai", "x"): "refused"}),
            {"Deployed": ("False", "not_deployed"), "Ready": ("False", "not_ready")},
        ),
        (
            Standing(problems=["spec.x is not known"]),
            {"Reconciling": ("False", "invalid_spec"), "Ready": ("False", "invalid_spec")},
        ),
        (
            Standing(problems=["spec.x is not known"], unknown=True),
            {
                "Reconciling": ("False", "invalid_spec"),
                "Deployed": ("Unknown", "not_known"),
                "Available": ("Unknown", "not_known"),
                "Ready": ("False", "invalid_spec"),
            },
        ),
        (
            Standing(troubles={Ref("S", "", "x"): "a defect"}, unknown=True),
            {
                "Deployed": ("False", "not_deployed"),
                "Available": ("Unknown", "not_known"),
                "Ready": ("False", "not_ready"),
            },
        ),
        (
            Standing(stopped="there is no Config"),
            {
                "Deployed": ("False", "not_deployed"),
                "Available": ("False", "not_available"),
                "Ready": ("False", "not_ready"),
            },
        ),
        (
            Standing(missing=["no Prometheus here"]),
            {"DependenciesFulfilled": ("False", "dependencies_missing")},
        ),
        (
            Standing(watches_prometheus=True),
            {"Available": ("True", "prometheus_connected")},
        ),
        (
            Standing(watches_prometheus=True, prometheus="does not answer"),
            {"Available": ("False", "prometheus_connection_failed"), "Ready": ("False", "not_ready")},
        ),
    ],
    ids=[
        "well",
        "pods away",
        "refused",
        "misspelt",
        "misspelt from the start",
        "cannot be told",
        "stopped",
        "lacks",
        "prometheus",
        "prometheus away",
    ],
)
def test_conditions_by_what_was_found(standing, differs):
    assert words(standing) == {**FINE, **differs}


def test_where_nothing_can_be_lacking_that_is_said_too_as_clients_wait_for_it_of_shards():
    assert words(Standing()) == FINE


def test_messages_name_what_is_wrong():
    found = told(
        Standing(problems=["spec.binder.replicas is -1"], unavailable=["Deployment kai/binder: 0 of 1"])
    )
    assert found["Ready"]["message"] == "spec.binder.replicas is -1; what ran before goes on"
    assert found["Available"]["message"] == "Deployment kai/binder: 0 of 1"
    assert told(Standing(stopped="there is no Config"))["Ready"]["message"] == "there is no Config"
    many = told(Standing(unavailable=[f"d{n}" for n in range(30)]))["Available"]["message"]
    assert many.endswith("d9; and 20 more")


def test_a_condition_keeps_its_time_until_its_status_changes():
    first = list(told(WELL).values())
    again = told(WELL, first, generation=2, now=LATER)
    assert {one["lastTransitionTime"] for one in again.values()} == {"2030-01-01T00:00:00Z"}
    assert {one["observedGeneration"] for one in again.values()} == {2}
    lost = told(Standing(unavailable=["x"]), first, now=LATER)
    assert lost["Available"]["lastTransitionTime"] == "2030-01-02T00:00:00Z"
    assert lost["Deployed"]["lastTransitionTime"] == "2030-01-01T00:00:00Z"


def test_nothing_is_new_where_nothing_changed():
    first = list(told(WELL).values())
    assert ended(first, WELL, generation=1, now=LATER) == first


def test_work_begins_once_for_each_generation():
    first = begun([], generation=1, now=NOW)
    assert [(one["type"], one["status"]) for one in first] == [("Reconciling", "True")]
    assert begun(first, generation=1, now=LATER) is None
    assert begun(list(told(WELL).values()), generation=1, now=LATER) is None
    assert begun(first, generation=2, now=LATER)[0]["observedGeneration"] == 2


def test_conditions_of_others_stay():
    theirs = {"type": "Audited", "status": "True"}
    assert told(WELL, [theirs])["Audited"] == theirs


def counted(*, replicas=2, updated=2, available=2, seen=3):
    """What its controller says of a Deployment; that it is available, it says of half of its pods as well."""
    return {
        "observedGeneration": seen,
        "replicas": replicas,
        "updatedReplicas": updated,
        "readyReplicas": available,
        "availableReplicas": available,
        "conditions": [{"type": "Available", "status": "True"}],
    }


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (counted(), []),
        ({}, ["Deployment kai-scheduler/binder: 0 of 2 pods"]),
        # Where pods have to be apart one may be missing at any time.
        (counted(available=1), ["Deployment kai-scheduler/binder: 1 of 2 pods"]),
        # The old pods are there still.
        (counted(updated=1), ["Deployment kai-scheduler/binder: 1 of 2 pods, 1 older"]),
        (counted(replicas=3), ["Deployment kai-scheduler/binder: 1 of 2 pods, 1 older"]),
        # It has not been looked at since it was written.
        (counted(seen=2), ["Deployment kai-scheduler/binder: 2 of 2 pods"]),
    ],
)
def test_a_deployment_is_available_when_all_its_new_pods_are(build, status, said):
    live = build.live(build.deployment(replicas=2), status=status)
    live["metadata"]["generation"] = 3
    assert list(unavailable([live]).values()) == said


@pytest.mark.parametrize(
    ("able", "updated", "said"),
    [
        (2, 2, []),
        (1, 2, ["DaemonSet kai-scheduler/numa: 1 of 2 pods"]),
        # The old pods are there still.
        (2, 0, ["DaemonSet kai-scheduler/numa: 0 of 2 pods, 2 older"]),
        (1, 1, ["DaemonSet kai-scheduler/numa: 0 of 2 pods, 1 older"]),
    ],
)
def test_a_daemon_set_is_available_when_all_nodes_have_its_new_pods(build, able, updated, said):
    live = build.manifest("DaemonSet", "numa", api_version="apps/v1")
    live["status"] = {
        "desiredNumberScheduled": 2,
        "currentNumberScheduled": 2,
        "numberAvailable": able,
        "updatedNumberScheduled": updated,
    }
    assert list(unavailable([live]).values()) == said


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ([], []),
        ([{"type": "Available", "status": "True"}], []),
        ([{"type": "Available", "status": "Unknown"}], []),
        (
            [
                {"type": "Reconciled", "status": "True"},
                {"type": "Available", "status": "False", "reason": "NoPodReady", "message": "0/1 nodes fit"},
            ],
            ["Prometheus kai-scheduler/prometheus: 0/1 nodes fit"],
        ),
        (
            [{"type": "Available", "status": "False", "reason": "NoPodReady", "message": ""}],
            ["Prometheus kai-scheduler/prometheus: NoPodReady"],
        ),
    ],
)
def test_a_prometheus_is_available_unless_it_says_otherwise(build, conditions, said):
    live = build.manifest("Prometheus", "prometheus", api_version="monitoring.coreos.com/v1")
    live["status"] = {"conditions": conditions}
    assert list(unavailable([live]).values()) == said


def test_nobody_waits_for_a_prometheus_that_was_switched_off(build):
    live = build.manifest("Prometheus", "prometheus", api_version="monitoring.coreos.com/v1")
    live["metadata"]["annotations"] = {RETIRED: "2030-01-01T00:00:00Z"}
    live["status"] = {"conditions": [{"type": "Available", "status": "False", "reason": "NoPodReady"}]}
    assert not unavailable([live])


def test_a_message_of_any_length_is_told_as_far_as_conditions_go():
    troubles = dict.fromkeys(("a", "b"), "webhook ä, " * MOST_BYTES)
    message = told(Standing(troubles=troubles))["Deployed"]["message"]
    assert message.startswith("webhook ä, webhook")
    assert len(message.encode()) <= MOST_BYTES
