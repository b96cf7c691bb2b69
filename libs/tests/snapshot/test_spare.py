"""What saves work is forgotten when most of those are gone whose work it saved."""

from kai.bench.objects import a_group, a_node, a_pod, a_queue
from kai.model import cel, quantity
from kai.model.objects import Pod
from kai.snapshot import times
from kai.snapshot.kept import Kept
from kai.snapshot.spare import FEW
from kai.snapshot.state import ClusterState, Kind

NOW = 1_900_000_000.0
PODS = 4 * FEW


def _unlike(number: int) -> Pod:
    pod = a_pod(f"pod-{number}", group="many")
    pod.spec.node_selector = {f"x.example.com/{number}": "y"}
    return pod


def _state(count: int) -> ClusterState:
    state = ClusterState()
    state.apply(Kind.NODE, a_node("node"))
    state.apply(Kind.QUEUE, a_queue("queue"))
    state.apply(Kind.POD_GROUP, a_group("many", queue="queue"))
    for number in range(count):
        state.apply(Kind.POD, _unlike(number))
    state.settle(NOW)
    return state


def _leave(state: ClusterState, left: int) -> None:
    for task in list(state.tasks.values())[left:]:
        state.remove(Kind.POD, task.key)
    state.settle(NOW + 1)


def _remembered(state: ClusterState) -> dict[str, int]:
    quantity.parse("123m")
    times.seconds("2026-01-01T00:00:00Z")
    cel.compile_selector("true")
    Kept[int]().get(state.kept, None, lambda: 1)
    return _sizes(state)


def _sizes(state: ClusterState) -> dict[str, int]:
    return {
        "kept": len(state.kept),
        "classes": len(state.classes),
        "selectors": len(cel.COMPILED),
        "quantities": quantity.parse.cache_info().currsize,
        "times": times.remembered(),
    }


def test_when_half_of_the_pods_are_gone_nothing_is_left_that_saved_their_work() -> None:
    state = _state(PODS)
    assert all(_remembered(state).values())
    _leave(state, PODS // 2)
    assert _sizes(state) == {"kept": 0, "classes": PODS // 2, "selectors": 0, "quantities": 0, "times": 0}
    _leave(state, 0)
    assert not state.classes


def test_while_most_pods_are_there_all_is_kept() -> None:
    state = _state(PODS)
    before = _remembered(state)
    _leave(state, PODS // 2 + 1)
    assert _sizes(state) == before


def test_it_is_not_forgotten_again_before_half_of_the_rest_is_gone() -> None:
    state = _state(PODS)
    _leave(state, PODS // 2)
    before = _remembered(state)
    _leave(state, PODS // 4 + 1)
    assert _sizes(state) == before


def test_a_few_pods_that_come_and_go_cost_nobody_what_he_keeps() -> None:
    state = _state(FEW)
    before = _remembered(state)
    _leave(state, 0)
    assert _sizes(state) == before


def test_it_is_forgotten_a_few_times_more_when_those_that_went_have_left_nothing_behind() -> None:
    state = _state(PODS)
    _leave(state, PODS // 2)
    forgotten = []
    for second in range(0, 200, 10):
        _remembered(state)
        state.settle(NOW + 1 + second)
        if not len(state.kept):
            forgotten.append(second)
    assert forgotten == [20, 40, 60, 80, 100, 120]
