"""How free GPUs are spread over nodes, as the result of a cycle says it."""

from kai.snapshot.state import Kind
from libs.tests.engine.builders import a_job, a_node, a_queue, a_state, add, cycle


def test_nodes_are_counted_by_what_the_cycle_leaves_free():
    nodes = [a_node("n0", gpus=4), a_node("n1", gpus=4), a_node("cpu", gpus=0)]
    state = a_state([a_queue("q", gpu=8)], nodes, a_job("three", gpus=3, queue="q"))
    assert cycle(state).nodes_by_free == (1, 1, 0, 0, 1)


def test_a_shared_device_is_not_free_and_neither_is_one_of_a_node_that_takes_nobody():
    closed = a_node("n1", gpus=2)
    closed.spec.unschedulable = True
    state = a_state(
        [a_queue("q", gpu=8)], [a_node("n0", gpus=2), closed], a_job("half", fraction=0.5, queue="q")
    )
    assert cycle(state).nodes_by_free == (0, 1)


def test_a_node_that_comes_or_goes_is_counted_in_the_next_cycle():
    state = a_state([a_queue("q")], [a_node("n0", gpus=1)])
    assert cycle(state).nodes_by_free == (0, 1)
    add(state, a_node("n1", gpus=2))
    assert cycle(state).nodes_by_free == (0, 1, 1)
    state.remove(Kind.NODE, "n0")
    assert cycle(state).nodes_by_free == (0, 0, 1)
