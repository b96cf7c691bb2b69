"""Why pods are not ready, as far as somebody has said so."""

import pytest

from kai_operator.pods import why

CRASHING = {
    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}},
    "lastState": {"terminated": {"exitCode": 2, "reason": "Error"}},
}


def a_pod(name="binder-1", *, container=None, created="2030-01-02T00:00:00Z", ready=False, **metadata):
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"conditions": conditions, "containerStatuses": [container or {}]}
    return {"metadata": {"name": name, "creationTimestamp": created, **metadata}, "status": status}


@pytest.mark.parametrize(
    ("container", "said"),
    [
        (CRASHING, "CrashLoopBackOff, ended with status 2 (Error)"),
        ({"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}, "ended with status 1 (Error)"),
        (
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}},
            "ImagePullBackOff: no such image",
        ),
        ({"state": {"waiting": {"reason": "CreateContainerConfigError"}}}, "CreateContainerConfigError"),
    ],
)
def test_it_is_what_the_kubelet_says_of_its_container(container, said):
    assert why([a_pod(container=container)]) == f"pod binder-1: {said}"


def test_of_a_pod_without_a_node_it_is_what_the_scheduler_says():
    pod = a_pod()
    pod["status"]["conditions"].append({"type": "PodScheduled", "status": "False", "message": "no room"})
    assert why([pod]) == "pod binder-1: no room"


def test_the_newest_that_is_not_ready_and_stays_counts():
    pods = [
        a_pod("older", container=CRASHING, created="2030-01-01T00:00:00Z"),
        a_pod("newer", container={"state": {"waiting": {"reason": "ErrImagePull"}}}),
        a_pod("ready", ready=True, created="2030-01-03T00:00:00Z"),
        a_pod("leaving", container=CRASHING, created="2030-01-04T00:00:00Z", deletionTimestamp="now"),
    ]
    assert why(pods) == "pod newer: ErrImagePull"


def test_nothing_is_said_of_pods_that_are_on_their_way():
    assert why([a_pod(container={"state": {"waiting": {"reason": "ContainerCreating"}}})]) == ""
    assert why([]) == ""
