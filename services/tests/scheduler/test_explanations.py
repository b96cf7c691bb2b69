"""What is said of pods and pod groups that cannot be taken in."""

from kai.bench.objects import a_group, a_node, a_pod, a_queue
from kai.engine import Engine
from kai.model.faults import SET_ASIDE, Fault
from kai.snapshot.state import ClusterState, Kind
from kai_scheduler import explanations

NOW = 1_900_000_000.0


def a_state():
    state = ClusterState()
    state.apply(Kind.NODE, a_node("n", gpus=4))
    state.apply(Kind.QUEUE, a_queue("q"))
    state.apply(Kind.POD_GROUP, a_group("g", queue="q"))
    return state


def a_bad_pod(**options):
    pod = a_pod("p", group="g", **options)
    pod.metadata.annotations["gpu-memory"] = str(2**64)
    return pod


def test_a_pod_that_cannot_be_taken_in_is_told_the_field_and_the_bound():
    state = a_state()
    state.take(Kind.POD, a_bad_pod())
    answer = explanations.pod(Engine(), state, "default/p", NOW)
    assert answer.found
    assert answer.status == "InvalidObject"
    assert "metadata.annotations[gpu-memory]" in answer.message
    assert "from 1 to 2147483648 MiB" in answer.message


def test_a_pod_that_runs_and_cannot_be_taken_in_is_told_both():
    state = a_state()
    state.take(Kind.POD, a_bad_pod(node="n"))
    answer = explanations.pod(Engine(), state, "default/p", NOW)
    assert (answer.status, answer.node) == ("Running", "n")
    assert "Running on n" in answer.message
    assert "gpu-memory" in answer.message


def test_a_pod_group_that_cannot_be_taken_in_is_told_so():
    state = a_state()
    state.take(Kind.POD_GROUP, a_group("g", queue="q", min_member=2**40))
    state.apply(Kind.POD, a_pod("p", group="g"))
    answer = explanations.pod_group(Engine(), state, "default/g", NOW)
    assert "spec.minMember" in answer.outcome.message


def test_a_pod_that_nobody_knows_is_not_found():
    assert not explanations.pod(Engine(), a_state(), "default/p", NOW).found


class FailingEngine(Engine):
    """Fails over whatever it is asked."""

    def explain_pod(self, state, key, *, now):
        raise RecursionError

    explain_pod_group = explain_pod


def test_of_a_group_that_is_set_aside_nothing_is_asked_that_could_fail_again():
    state = a_state()
    state.apply(Kind.POD, a_pod("p", group="g"))
    fault = Fault(kind="PodGroup", key="default/g", uid="g", reason=SET_ASIDE, message="it failed")
    state.set_aside(state.jobs["default/g"], fault)
    group = explanations.pod_group(FailingEngine(), state, "default/g", NOW)
    assert group.outcome.message == "SetAside: it failed"
    assert [(line.name, line.status) for line in group.pod_lines] == [("p", "Pending")]
    pod = explanations.pod(FailingEngine(), state, "default/p", NOW)
    assert (pod.status, pod.message) == ("Pending", "its pod group is left out: SetAside: it failed")
