"""Who may not use a queue, or a priority of the system, is told so when he asks, and nobody is held up."""

from dataclasses import replace

import msgspec
import pytest

from kai.advice.facts import Facts
from kai.kube import errors
from kai.model.objects import ApiObject, Queue
from kai.runtime.webhook import AdmissionRequest, GroupVersionKind
from kai_admission.advisor import advisor
from kai_admission.cluster_watch import ClusterWatch
from services.tests.admission.builders import a_pod_of


def a_queue(name, **spec):
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, Queue)


FACTS = Facts(
    queues={
        "q-a": a_queue("q-a"),
        "q-b": a_queue("q-b", access={"namespaces": ["team-b"], "serviceAccounts": ["team-a/guest"]}),
        "below": a_queue("below", parentQueue="q-b"),
    },
    namespaces={"team-a": {}, "team-b": {}, "team-c": {}, "kube-system": {}},
)


def a_job(queue="q-b", *, labels=None, **spec):
    return {
        "metadata": {"name": "j", "labels": {"kai.scheduler/queue": queue} | (labels or {})},
        "spec": {"template": {"spec": {"schedulerName": "kai-scheduler", "containers": [], **spec}}},
    }


def a_cron_job(**job):
    return {
        "metadata": {"name": "c", "labels": {"kai.scheduler/queue": "q-b"}},
        "spec": {"jobTemplate": a_job(**job)},
    }


def a_group(queue="q-b", **spec):
    return {"metadata": {"name": "g"}, "spec": {"queue": queue, **spec}}


async def asked(obj, *, kind="Pod", namespace="team-c", old=None, facts=FACTS, live=None):
    async def is_missing(reference):
        return True

    async def renewed(namespace, queue):
        return facts if live is None else live

    return await advisor(lambda: facts, is_missing, renewed)(
        AdmissionRequest(
            uid="u",
            operation="UPDATE" if old else "CREATE",
            kind=GroupVersionKind(kind=kind),
            namespace=namespace,
            object=obj,
            old_object=old,
        )
    )


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        ("Pod", a_pod_of("q-b")),
        ("Pod", a_pod_of("below")),
        ("Job", a_job()),
        ("Deployment", a_job()),
        ("CronJob", a_cron_job()),
        ("PodGroup", a_group()),
    ],
)
async def test_a_foreign_queue_is_refused(kind, obj):
    answer = await asked(obj, kind=kind)
    assert (answer.allowed, answer.code) == (False, 403)
    assert 'is not open to namespace "team-c"' in answer.message
    assert "it admits namespaces team-b; service accounts team-a/guest" in answer.message
    assert 'ask who administers queue "q-b"' in answer.message
    assert (await asked(obj, kind=kind, namespace="team-b")).allowed


async def test_the_message_begins_with_the_object():
    assert (await asked(a_pod_of("q-b"))).message.startswith('pod team-c/p: queue "q-b" is not open')
    assert (await asked(a_group(), kind="PodGroup")).message.startswith("podgroup team-c/g: ")


async def test_a_service_account_may_use_what_its_namespace_may_not():
    assert (await asked(a_pod_of("q-b", serviceAccountName="guest"), namespace="team-a")).allowed
    assert not (await asked(a_pod_of("q-b"), namespace="team-a")).allowed
    # Of the pods that a group will have nothing is known yet.
    assert (await asked(a_group(), kind="PodGroup", namespace="team-a")).allowed


@pytest.mark.parametrize(
    "facts",
    [
        Facts(),
        replace(FACTS, namespaces=None),
        replace(FACTS, queues=None),
        replace(FACTS, namespaces={}),
    ],
    ids=["nothing", "no namespaces", "no queues", "not this namespace"],
)
async def test_for_what_is_not_known_nobody_is_refused(facts):
    assert (await asked(a_pod_of("q-b"), facts=facts)).allowed


async def test_other_schedulers_pods_are_no_matter_of_ours():
    assert (await asked(a_pod_of("q-b", schedulerName="default-scheduler"))).allowed


async def test_who_was_admitted_a_moment_ago_is_not_refused_by_a_late_watch():
    opened = replace(FACTS, queues={**FACTS.queues, "q-b": a_queue("q-b")})
    assert (await asked(a_pod_of("q-b"), live=opened)).allowed
    assert (await asked(a_pod_of("q-b"), live=Facts())).allowed


class Server:
    """What an API server says of namespaces and queues now."""

    def __init__(self, *queues):
        self.objects = {each.metadata.name: each for each in queues}
        self.objects["team-c"] = msgspec.convert({"metadata": {"name": "team-c"}}, ApiObject)

    async def get(self, resource, name, *, type, deadline):  # noqa: A002
        if name not in self.objects:
            raise errors.NotFound("no such object", status=404)
        return self.objects[name]


@pytest.mark.parametrize(
    ("now", "allowed"),
    [
        pytest.param([a_queue("q-b"), a_queue("below", parentQueue="q-b")], True, id="both were opened"),
        pytest.param([a_queue("below", parentQueue="q-b")], True, id="the one above is gone"),
        pytest.param([a_queue("below")], True, id="moved from there"),
        pytest.param([FACTS.queues["q-b"], a_queue("below", parentQueue="q-b")], False, id="one was opened"),
        pytest.param(
            [a_queue("below", parentQueue="x"), a_queue("x", parentQueue="below")], True, id="circle"
        ),
    ],
)
async def test_the_queues_above_one_that_was_opened_are_looked_at_again_as_well(now, allowed, monkeypatch):
    closed = a_queue("below", parentQueue="q-b", access={})
    facts = replace(FACTS, queues={**FACTS.queues, "below": closed})
    watch = ClusterWatch(Facts())
    monkeypatch.setattr(watch, "_client", Server(*now))
    monkeypatch.setattr(watch, "facts", lambda: facts)
    known = await watch.renewed("team-c", "below")
    assert (await asked(a_pod_of("below"), facts=facts, live=known)).allowed is allowed
    assert known.queues["q-a"] == FACTS.queues["q-a"]


async def test_an_api_server_that_cannot_be_asked_again_knows_nothing():
    assert await ClusterWatch(Facts()).renewed("team-a", "q-b") == Facts()


async def test_other_changes_of_what_was_there_before_are_warned_of_only():
    old = a_job(parallelism=1)
    answer = await asked(a_job(labels={"app": "x"}), kind="Job", old=old)
    assert answer.allowed
    assert any("is not open to" in each for each in answer.warnings)
    moved = await asked(a_job(), kind="Job", old=a_job("q-a"))
    assert not moved.allowed


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        ("Pod", a_pod_of("q-a", labels={"priorityClassName": "system-node-critical"})),
        ("Pod", a_pod_of("q-a", priorityClassName="system-cluster-critical")),
        ("Job", a_job("q-a", labels={"priorityClassName": "system-node-critical"})),
        ("CronJob", a_cron_job(queue="q-a", labels={"priorityClassName": "system-node-critical"})),
        ("PodGroup", a_group("q-a", priorityClassName="system-node-critical")),
    ],
)
async def test_a_priority_of_the_system_is_refused_outside_of_its_namespaces(kind, obj):
    facts = replace(FACTS, queues={"q-a": a_queue("q-a"), "q-b": a_queue("q-b")})
    answer = await asked(obj, kind=kind, facts=facts)
    assert not answer.allowed
    assert 'is of the system, and not for namespace "team-c"' in answer.message
    assert (await asked(obj, kind=kind, namespace="kube-system", facts=facts)).allowed
    assert not (await asked(obj, kind=kind, facts=Facts())).allowed


@pytest.mark.parametrize("kind", ["CronJob", "DaemonSet"])
async def test_what_stands_where_nobody_groups_by_it_is_neither_refused_nor_admitted(kind):
    """A run of a CronJob is grouped by its Job, a pod of a DaemonSet by itself."""

    def made(*, above, counts):
        labels = {"kai.scheduler/queue": counts["queue"], "priorityClassName": counts["priority"]}
        if kind == "CronJob":
            job = a_job()
            job["metadata"]["labels"] = labels
            body = {"spec": {"jobTemplate": job}}
        else:
            body = a_job()
            body["spec"]["template"]["metadata"] = {"labels": labels}
        said = {"kai.scheduler/queue": above["queue"], "priorityClassName": above["priority"]}
        return {**body, "metadata": {"name": "m", "labels": said}}

    ours = {"queue": "q-a", "priority": "train"}
    facts = replace(FACTS, queues={**FACTS.queues, "q-a": a_queue("q-a")})
    for foreign in (ours | {"queue": "q-b"}, ours | {"priority": "system-node-critical"}):
        assert (await asked(made(above=foreign, counts=ours), kind=kind, facts=facts)).allowed
        assert not (await asked(made(above=ours, counts=foreign), kind=kind, facts=facts)).allowed


async def test_the_priority_that_counts_is_the_one_that_grouping_takes():
    labels = {"priorityClassName": "train"}
    assert (await asked(a_pod_of("q-a", labels=labels, priorityClassName="system-node-critical"))).allowed
