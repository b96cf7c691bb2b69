"""How one job's search goes: how many pods it tries, whose places it keeps in mind, and when it ends."""

from typing import Any

import pytest

from kai.config import SearchBudgets
from kai.engine import Engine
from kai.engine.framework.session import Session
from kai.engine.queueing.turns import Turns
from kai.engine.search.budget import limits
from kai.engine.search.solver import Search, SearchResult, enabled_generators
from libs.tests.engine.builders import NOW, a_job, a_state, config, job_of, nodes, taker, task_of

UNLIMITED = SearchBudgets(action={"default": 0.0}, job=0.0, generator={"default": 0.0})
LOCAL = config(off=("sg-multinodegang",))
GANGS = config(off=("sg-nodelocalgreedy",))


class Watched(Search):
    """Keeps what was tried: how many pods, with which victims recorded, and whether they found room."""

    def __init__(self, session: Session, **options: Any) -> None:
        super().__init__(session, **options)
        self.probes: list[tuple[int, list[int], bool]] = []

    def _probe(self, generator: str, pods: int, recorded: frozenset[int]) -> Any:
        solution = super()._probe(generator, pods, recorded)
        self.probes.append((pods, sorted(recorded), solution is not None))
        return solution


class Clock:
    """Moves on by a second whenever it is read, once it ticks."""

    def __init__(self) -> None:
        self.now, self.tick = 0.0, 0.0

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


def a_search(*world, by=LOCAL, judge=lambda victims: True, budgets=UNLIMITED, clock=None) -> Watched:
    """A search for the job ``taker`` among all that can be preempted."""
    state = a_state(*world)
    session = Engine(by).open(state, NOW)
    taker = job_of(state, "taker")
    source = session.victim_source(taker, lambda queue: True)
    clock = clock or Clock()
    deadline = limits(budgets, Turns(clock), "preempt", clock=clock, cuts=None).deadline(taker.key)
    return Watched(
        session,
        action="preempt",
        job=taker,
        source=source,
        validator=judge,
        deadline=deadline,
        generators=enabled_generators(session.config),
    )


def full(count, *, gpus=1):
    """So many nodes, each with one job that fills it; the last is the first victim."""
    return [nodes(count, gpus=gpus), [a_job(f"r{n}", gpus=gpus, on=f"n{n}", created=n) for n in range(count)]]


def tried(search: Watched) -> list[int]:
    return [pods for pods, _, _ in search.probes]


def evicted(solution) -> list[str]:
    return sorted(task.name for task in solution.statement.evicted())


@pytest.mark.parametrize(
    ("pods", "sizes"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (4, [1, 2, 4]), (7, [1, 2, 4, 7])]
)
def test_the_number_of_pods_is_doubled_until_all_fit(pods: int, sizes: list[int]) -> None:
    search = a_search(full(8), taker(pods), by=GANGS)
    result, solution = search.run()
    assert result is SearchResult.SOLVED
    assert tried(search) == sizes
    assert len(evicted(solution)) == pods


def test_a_number_that_fails_is_halved_down_to_the_largest_that_fits_and_then_all_are_tried_again() -> None:
    search = a_search(full(5), taker(8), by=GANGS)
    result, solution = search.run()
    assert (result, solution) == (SearchResult.EXHAUSTED, None)
    assert [(pods, fits) for pods, _, fits in search.probes] == [
        (1, True), (2, True), (4, True), (8, False), (6, False), (5, True), (8, False),
    ]  # fmt: skip


def test_who_gave_way_to_fewer_pods_gives_way_to_more() -> None:
    search = a_search(full(4), taker(4), by=GANGS)
    search.run()
    assert [recorded for _, recorded, _ in search.probes] == [[], [0], [0, 1]]


def test_what_fails_at_first_may_fit_with_what_smaller_numbers_taught() -> None:
    """This generator adds the victims of one node at a time, so it gets from two nodes to three, not four."""
    search = a_search(full(4), taker(4), by=LOCAL)
    result, _ = search.run()
    assert result is SearchResult.SOLVED
    assert search.probes == [
        (1, [], True), (2, [0], True), (4, [0, 1], False), (3, [0, 1], True), (4, [0, 1, 2], True),
    ]  # fmt: skip


def test_who_only_moved_is_not_kept_in_mind() -> None:
    """The first pod gets its place by moving the youngest, who is free to stay when it comes to more pods."""
    world = nodes(3, gpus=2), [a_job(f"r{n}", gpus=1, on=f"n{n}", created=n) for n in range(3)]
    search = a_search(world, taker(1, gpus=2))
    result, solution = search.run()
    assert result is SearchResult.SOLVED
    assert [batch.job.name for batch in solution.victims] == ["r2"]
    task = task_of(search.session.state, "r2-0")
    assert task.pipelined_node.name != "n2"
    assert Watched._record(solution) == {0}
    search.session.state.check()


def test_a_victim_that_stayed_where_it_was_is_not_recorded() -> None:
    """Around one node both jobs are tried; the older one fits again where it was."""
    world = nodes(1, gpus=2), [a_job(f"r{n}", gpus=1, on="n0", created=n) for n in range(2)]
    search = a_search(world, taker(1), by=GANGS)
    _, solution = search.run()
    assert evicted(solution) == ["r1-0"]
    assert Watched._record(solution) == {0}


def test_a_large_gang_is_tried_as_a_whole_first() -> None:
    search = a_search(full(20), taker(16), by=GANGS)
    result, _ = search.run()
    assert result is SearchResult.SOLVED
    assert tried(search) == [16]


def test_what_fails_leaves_the_state_as_it_was() -> None:
    search = a_search(full(3), taker(5))
    table = search.session.nodes
    before = table.idle.copy(), table.releasing.copy()
    assert search.run() == (SearchResult.EXHAUSTED, None)
    assert (table.idle == before[0]).all()
    assert (table.releasing == before[1]).all()
    assert search.job.pending == 5
    search.session.state.check()


def test_what_is_found_is_in_effect() -> None:
    search = a_search(full(2), taker(2))
    _, solution = search.run()
    assert search.job.gang_satisfied
    assert search.job.pending == 0
    solution.statement.rollback()
    search.session.state.check()


def test_victims_that_are_refused_are_given_back_and_others_are_tried() -> None:
    judged = []

    def only_the_oldest(victims) -> bool:
        judged.append([batch.job.name for batch in victims])
        gone = [batch.job.name for batch in victims if not batch.job.active_allocated]
        return gone == ["r0"]

    search = a_search(full(3), taker(1), judge=only_the_oldest)
    result, solution = search.run()
    assert result is SearchResult.SOLVED
    assert evicted(solution) == ["r0-0"]
    assert judged == [["r2"], ["r1"], ["r0"]]
    count = search.session.decisions.counters
    name = ("scenario_search_scenarios_total", "preempt", "NodeLocalGreedy")
    assert count[(*name, "validator_rejected")] == 2


def test_what_failed_once_is_not_simulated_again() -> None:
    """By both generators, and by the first victim alone before them."""
    judged = []

    def nobody(victims) -> bool:
        judged.append(frozenset(batch.number for batch in victims))
        return False

    search = a_search(full(3), taker(1), by=config(), judge=nobody)
    assert search.first_victim() is None
    assert search.run() == (SearchResult.EXHAUSTED, None)
    assert len(set(judged)) == len(judged)
    count = search.session.decisions.counters
    duplicates = {key[2]: number for key, number in count.items() if key[-1] == "duplicate"}
    assert duplicates["NodeLocalGreedy"] >= 1
    assert duplicates["MultiNodeGang"] >= 3


def test_what_cannot_suffice_is_not_simulated() -> None:
    """Of two victims on one node each, one alone makes no room for a pod of two GPUs."""
    world = nodes(1, gpus=2), [a_job(f"r{n}", gpus=1, on="n0", created=n) for n in range(2)]
    search = a_search(world, taker(1, gpus=2))
    result, _ = search.run()
    assert result is SearchResult.SOLVED
    count = search.session.decisions.counters
    assert count["scenarios_simulation_by_action", "preempt"] == 1


def test_a_scenario_is_judged_by_its_own_victims_alone() -> None:
    """All that were drawn would make room; the last alone does not, and is not simulated."""
    jobs = a_job("first", gpus=2, on="n0", created=2), a_job("second", gpus=1, on="n1", created=1)
    fixed = a_job("fixed", gpus=1, on="n1", priority="build")
    search = a_search(nodes(2, gpus=2), jobs, fixed, taker(1, gpus=2), judge=lambda victims: False)
    assert search.run() == (SearchResult.EXHAUSTED, None)
    count = search.session.decisions.counters
    assert count["scenarios_simulation_by_action", "preempt"] == 1
    assert count["scenarios_filtered_by_action", "preempt"] == 1


def test_without_time_nothing_is_attempted() -> None:
    clock = Clock()
    search = a_search(full(1), taker(1), budgets=SearchBudgets(job=1.0), clock=clock)
    clock.now = 1.0
    assert search.run() == (SearchResult.NOT_ATTEMPTED, None)
    assert search.probes == []


def test_a_search_whose_time_runs_out_ends_between_two_scenarios_and_takes_all_back() -> None:
    clock = Clock()

    def slow(victims) -> bool:
        clock.now += 4.0
        return False

    search = a_search(full(9), taker(1), budgets=SearchBudgets(job=10.0), clock=clock, judge=slow)
    assert search.run() == (SearchResult.DEADLINE, None)
    assert clock.now == 12.0
    search.session.state.check()
    assert search.session.nodes.releasing.sum() == 0


def test_a_generator_whose_time_runs_out_gives_way_to_the_next() -> None:
    clock = Clock()

    def slow_at_first(victims) -> bool:
        clock.now += 4.0
        return clock.now > 10.0

    budgets = SearchBudgets(job=100.0, generator={"default": 0.0, "NodeLocalGreedy": 6.0})
    search = a_search(full(9), taker(1), by=config(), budgets=budgets, clock=clock, judge=slow_at_first)
    result, solution = search.run()
    assert result is SearchResult.SOLVED
    assert list(search.session.decisions.searches) == [
        ("preempt", "NodeLocalGreedy", "deadline_exhausted"),
        ("preempt", "MultiNodeGang", "solved"),
    ]
    assert solution is not None


def test_without_generators_there_is_no_search() -> None:
    by = config(off=("sg-nodelocalgreedy", "sg-multinodegang"))
    search = a_search(full(1), taker(1), by=by)
    assert search.run() == (SearchResult.NO_GENERATOR, None)
    assert search.first_victim() is None


def test_a_job_of_which_nothing_waits_needs_no_search() -> None:
    search = a_search(full(1), a_job("taker", gpus=0, on="n0"))
    assert search.run() == (SearchResult.EXHAUSTED, None)


def test_the_first_victim_alone_is_what_the_search_would_find() -> None:
    found = a_search(full(3), taker(1)).first_victim()
    _, searched = a_search(full(3), taker(1)).run()
    assert evicted(found) == evicted(searched) == ["r2-0"]


@pytest.mark.parametrize(
    ("world", "by"),
    [
        ([full(2), taker(2)], LOCAL),
        ([full(2), taker(1)], GANGS),
        ([nodes(1, gpus=2), a_job("gang", gpus=1, on=["n0"] * 2), taker(1)], LOCAL),
        ([nodes(1, gpus=1), taker(1)], LOCAL),
    ],
    ids=["two pods", "another generator", "a gang is the first victim", "nobody is"],
)
def test_the_first_victim_alone_says_nothing_of(world, by) -> None:
    assert a_search(*world, by=by).first_victim() is None
