"""Which sets of victims are proposed, in which order."""

from kai.engine import Engine
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.engine.search.bounds import GangBound
from kai.engine.search.scenarios import Accumulation, multi_node_gang, node_local_greedy
from libs.tests.engine.builders import NOW, a_job, a_node, a_state, job_of, nodes, taker


def proposals(propose, *world, recorded=()):
    """The pods of each proposal, by name."""
    state = a_state(*world)
    session = Engine().open(state, NOW)
    taker = job_of(state, "taker")
    tasks = tasks_to_allocate(taker, simulation=True)
    source = session.victim_source(taker, lambda queue: True)
    for number in recorded:
        source.get(number)
    bound = GangBound(session, tasks)
    accumulation = Accumulation(session, source, recorded=frozenset(recorded), tasks=tasks, bound=bound)
    return [
        sorted(task.name for batch in proposal for task in batch.tasks) for proposal in propose(accumulation)
    ]


def each_on_its_node(count):
    return [nodes(count, gpus=1), [a_job(f"r{n}", gpus=1, on=f"n{n}", created=n) for n in range(count)]]


def test_one_node_after_the_other_is_proposed_by_the_order_of_victims() -> None:
    found = proposals(node_local_greedy, each_on_its_node(3), taker())
    assert found == [["r2-0"], ["r1-0"], ["r0-0"]]


def test_all_victims_of_a_node_are_proposed_together() -> None:
    jobs = [a_job(f"r{n}", gpus=1, on="n0", created=n) for n in range(3)]
    found = proposals(node_local_greedy, nodes(1, gpus=3), jobs, taker(gpus=2))
    assert found == [["r1-0", "r2-0"], ["r0-0", "r1-0", "r2-0"]]


def test_of_a_job_with_a_victim_on_the_node_all_victims_are_proposed_wherever_they_are() -> None:
    elastic = a_job("e", gpus=1, on=("n0", "n1", "n0"), min_member=2, created=2)
    other = a_job("o", gpus=1, on="n1", created=1)
    found = proposals(node_local_greedy, nodes(2, gpus=2), elastic, other, taker())
    assert found == [["e-2"], ["e-0", "e-1", "e-2"], ["e-0", "e-1", "e-2", "o-0"]]


def test_nobody_is_proposed_until_the_bound_holds() -> None:
    jobs = [a_job(f"r{n}", gpus=1, on="n0", created=n) for n in range(2)]
    assert proposals(node_local_greedy, nodes(1, gpus=2), jobs, taker(gpus=2)) == [["r0-0", "r1-0"]]
    assert proposals(multi_node_gang, nodes(1, gpus=2), jobs, taker(gpus=3)) == []


def test_who_is_recorded_is_not_proposed_again() -> None:
    found = proposals(node_local_greedy, each_on_its_node(3), taker(pods=2), recorded=[0])
    assert found == [["r1-0"], ["r0-0"]]


def test_a_gang_is_offered_as_many_nodes_as_it_needs_then_more() -> None:
    found = proposals(multi_node_gang, each_on_its_node(4), taker(pods=2))
    assert found[0] == ["r2-0", "r3-0"]
    assert found[1] == ["r2-0", "r3-0"]
    assert ["r1-0", "r2-0", "r3-0"] in found
    assert found[-1] == ["r0-0", "r1-0", "r2-0", "r3-0"]


def test_the_nodes_with_least_room_that_suffice_come_first() -> None:
    made = a_node("a", gpus=2), a_node("b", gpus=1)
    jobs = a_job("both", gpus=2, on="a", created=2), a_job("one", gpus=1, on="b", created=1)
    found = proposals(multi_node_gang, made, jobs, taker())
    assert found == [["both-0"], ["one-0"], ["both-0", "one-0"]]
