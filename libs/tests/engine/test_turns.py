"""Searches give way to those who wait, and whoever waits for a search gets his turn."""

import itertools
from dataclasses import dataclass

import pytest

from kai.config import SEARCHING
from kai.engine import Engine, EngineParams, SchedulerConfig
from kai.engine.queueing.turns import LEAST_SECONDS, LONGEST_STRETCH_SECONDS, MOST_SECONDS, Turn, Turns
from kai.engine.reasons import Unschedulable
from kai.engine.search.solver import Search
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import NOW, a_job, a_node, a_queue, a_state, add, nodes
from libs.tests.engine.random_worlds import carry_out, fuzz, random_objects

NO_ROOM = Unschedulable("NoRoom", "there is none")


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def _somebody_waits() -> bool:
    return True


# --- one pass ------------------------------------------------------------------------------------------
@pytest.fixture
def clock():
    return Clock(100.0)


@pytest.fixture
def turns(clock):
    made = Turns(clock)
    made.begin(_somebody_waits)
    made.search("reclaim", placed=False)
    return made


def test_a_cycle_searches_for_somebody_and_for_a_while_whoever_waits(turns, clock):
    clock.now += 2 * LEAST_SECONDS
    assert not turns.over("reclaim", job="b")
    turns.start("reclaim", job="a")
    assert turns.over("reclaim", job="b")


@pytest.mark.parametrize(("before", "searches"), [(0.01, LEAST_SECONDS), (0.6, 0.6), (5.0, MOST_SECONDS)])
def test_a_cycle_searches_as_long_as_all_else_took_within_bounds_each_action_its_share(
    clock, before, searches
):
    turns = Turns(clock)
    turns.begin(_somebody_waits)
    clock.now += before
    for action in SEARCHING:
        turns.search(action, placed=False)
        turns.start(action, job="a")
        clock.now += searches / 3 - 0.01
        assert not turns.over(action, job="b")
        clock.now += 0.02
        assert turns.over(action, job="b")


def test_whoever_comes_waits_for_the_pass_of_his_own_action_only(turns):
    turns.give_way("consolidation", ["a", "b"])
    turns.end()
    turns.begin(_somebody_waits)
    assert not turns.takes_part("consolidation", job="late")
    assert turns.takes_part("reclaim", job="late")


def test_nothing_gives_way_to_nobody(clock):
    turns = Turns(clock)
    turns.begin(lambda: False)
    turns.search("reclaim", placed=False)
    turns.start("reclaim", job="a")
    clock.now += 1000.0
    assert not turns.over("reclaim", job="b")


def test_whoever_had_his_turn_waits_until_all_had_theirs(turns):
    turns.take("reclaim", job="a", turn=Turn(failed=True))
    turns.give_way("reclaim", ["a", "b"])
    turns.end()
    turns.begin(_somebody_waits)
    assert turns.had("reclaim", job="a") == Turn(failed=True)
    assert turns.had("reclaim", job="b") is None
    assert turns.had("preempt", job="a") is None
    turns.end()
    turns.begin(_somebody_waits)
    assert turns.had("reclaim", job="a") is None


def test_a_search_that_was_stopped_begins_only_as_the_first_of_its_cycle(turns):
    turns.take("reclaim", job="a", turn=Turn(failed=False))
    turns.stop("reclaim", job="a")
    turns.give_way("reclaim", ["a", "b", "c"])
    for _ in range(2):  # the rest of this pass, and the next
        turns.end()
        turns.begin(_somebody_waits)
        turns.search("reclaim", placed=False)
        assert not turns.over("reclaim", job="a")
        turns.start("reclaim", job="b")
    assert turns.over("reclaim", job="a")
    assert not turns.over("reclaim", job="c")


def test_whoever_was_placed_in_a_later_cycle_of_a_pass_waits_for_no_search_but_searches_wait_only_once(turns):
    turns.give_way("reclaim", ["a"])
    for over in (True, False, True, False):
        turns.end()
        turns.begin(_somebody_waits)
        turns.search("reclaim", placed=True)
        assert turns.over("reclaim", job="a") is over
        turns.give_way("reclaim", ["a"])
    turns.end()
    turns.begin(lambda: False)
    turns.search("reclaim", placed=True)
    assert not turns.over("reclaim", job="a")


def test_who_comes_during_a_pass_waits_for_the_next(turns):
    turns.give_way("reclaim", ["a"])
    turns.end()
    turns.begin(_somebody_waits)
    assert turns.takes_part("reclaim", job="a")
    assert not turns.takes_part("reclaim", job="late")
    turns.end()
    assert turns.takes_part("reclaim", job="late")


def test_who_is_made_anew_comes_after_the_pass_began_and_has_nothing_of_the_former(turns):
    turns.take("reclaim", job="a", turn=Turn(failed=True))
    turns.explain("reclaim", job="a", why=NO_ROOM)
    turns.explain("reclaim", job="b", why=NO_ROOM)
    for job in ("a", "b"):
        turns.stop("reclaim", job=job)
    turns.give_way("reclaim", ["a", "b"])
    turns.end()
    turns.forget({"a": "uid"})
    turns.begin(_somebody_waits)
    assert not turns.takes_part("reclaim", job="a")
    assert turns.had("reclaim", job="a") is None
    assert turns.start("reclaim", job="a") == 0.25
    assert turns.takes_part("reclaim", job="b")
    assert turns.explanations("reclaim") == {"b": NO_ROOM}
    assert turns.start("reclaim", job="b") == 0.5


def test_a_search_that_was_stopped_may_take_longer_each_time_up_to_a_bound(turns):
    found = []
    for _ in range(6):
        found.append(turns.start("reclaim", job="a"))
        turns.take("reclaim", job="a", turn=Turn(failed=False))
        turns.stop("reclaim", job="a")
        turns.give_way("reclaim", ["a"])
        turns.end()
        turns.begin(_somebody_waits)
        turns.end()
        turns.begin(_somebody_waits)
    assert found == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]
    assert found[-1] == LONGEST_STRETCH_SECONDS


def test_a_search_that_came_to_its_end_begins_with_the_shortest_stretch_again(turns):
    turns.stop("reclaim", job="a")
    turns.take("reclaim", job="a", turn=Turn(failed=True))
    turns.end()
    assert turns.start("reclaim", job="a") == 0.25


# --- cycles --------------------------------------------------------------------------------------------
def _poor_and_rich(*, wanting: int) -> ClusterState:
    """Jobs of the poor queue may take nodes of the rich one, each a node."""
    return a_state(
        [a_queue("rich", parent="top", gpu=0, weight=0), a_queue("poor", parent="top", gpu=-1)],
        nodes(wanting, gpus=2),
        [a_job(f"run-{i}", queue="rich", gpus=2, on=f"n{i}") for i in range(wanting)],
        [a_job(f"want-{i}", queue="poor", gpus=2, created=i) for i in range(wanting)],
    )


def _an_engine(turns: Turns) -> Engine:
    engine = Engine()
    engine.turns = turns
    return engine


def _each_look_takes_a_second() -> Turns:
    return Turns(itertools.count().__next__)


def test_a_search_gives_way_after_each_job_and_goes_on_with_the_next():
    state, engine = _poor_and_rich(wanting=3), _an_engine(_each_look_takes_a_second())
    takers = []
    for number in range(3):
        result = engine.run(state, NOW + number, hurry=_somebody_waits)
        takers.append([each.evictor for each in result.evictions])
    assert takers == [["default/want-0"], ["default/want-1"], ["default/want-2"]]


def test_without_a_hurry_one_cycle_does_it_all():
    state, engine = _poor_and_rich(wanting=3), _an_engine(_each_look_takes_a_second())
    result = engine.run(state, NOW, hurry=lambda: False)
    assert len(result.evictions) == 3
    assert not result.gave_way


def test_a_pod_that_was_placed_waits_for_no_search():
    state, engine = _poor_and_rich(wanting=3), _an_engine(_each_look_takes_a_second())
    add(state, a_node("free", gpus=1), a_job("small", queue="rich", gpus=1))
    result = engine.run(state, NOW, hurry=lambda: False)
    assert [bind.pod.name for bind in result.binds] == ["small-0"]
    assert result.gave_way
    assert len(result.evictions) == 1


def test_pods_that_are_placed_in_each_cycle_of_a_pass_keep_nobody_from_his_search():
    state, engine = _poor_and_rich(wanting=3), _an_engine(_each_look_takes_a_second())
    takers, waited = [], []
    for number in range(6):
        add(state, a_node(f"free-{number}", gpus=1), a_job(f"small-{number}", queue="rich", gpus=1))
        result = engine.run(state, NOW + number, hurry=lambda: False)
        assert [bind.pod.name for bind in result.binds] == [f"small-{number}-0"]
        takers += [each.evictor for each in result.evictions]
        waited.append(not result.evictions)
    assert takers == ["default/want-0", "default/want-1", "default/want-2"]
    assert waited[:5] == [False, True, False, True, False]


def test_one_job_whose_search_never_ends_keeps_nobody_from_his_turn(monkeypatch):
    state, clock, searched = _poor_and_rich(wanting=4), Clock(), []
    engine = Engine(SchedulerConfig(params=EngineParams(use_scheduling_signatures=False)))
    engine.turns = Turns(clock)

    def run(search: Search):
        searched.append(search.job.name)
        if search.job.name == "want-0":
            while not search.deadline.passed:
                clock.now += 0.1
            return "deadline_exhausted", None
        clock.now += 0.1
        return "generators_exhausted", None

    monkeypatch.setattr(Search, "run", run)
    monkeypatch.setattr(Search, "first_victim", lambda search: None)
    monkeypatch.setattr("kai.engine.framework.session.time.monotonic", clock)
    took = []
    for number in range(24):
        began = clock.now
        engine.run(state, NOW + number, hurry=_somebody_waits)
        took.append(clock.now - began)
    assert max(took) < LONGEST_STRETCH_SECONDS + 2 * LEAST_SECONDS + 0.2
    times = {name: searched.count(name) for name in set(searched)}
    assert set(times) == {f"want-{i}" for i in range(4)}
    assert max(times.values()) - min(times.values()) <= 1


def test_whoever_takes_back_what_is_his_waits_for_nobody_who_might_be_moved_about(monkeypatch):
    clock, searched = Clock(), []
    state = a_state(
        [a_queue("rich", parent="top", gpu=0, weight=0), a_queue("poor", parent="top", gpu=-1)],
        nodes(4, gpus=2),
        [a_job(f"run-{i}", queue="rich", gpus=1, on=f"n{i}") for i in range(4)],
        [a_job(f"wide-{i}", queue="rich", gpus=2, cpu=str(12 - i), created=i) for i in range(12)],
    )
    engine = _an_engine(Turns(clock))

    def run(search: Search):
        searched.append((search.action, search.job.name))
        clock.now += 0.2
        return "generators_exhausted", None

    monkeypatch.setattr(Search, "run", run)
    monkeypatch.setattr(Search, "first_victim", lambda search: None)
    monkeypatch.setattr("kai.engine.framework.session.time.monotonic", clock)
    assert engine.run(state, NOW, hurry=_somebody_waits).gave_way
    add(state, a_job("late", queue="poor", gpus=2))
    searched.clear()
    assert engine.run(state, NOW + 1, hurry=_somebody_waits).gave_way
    assert ("reclaim", "late") in searched
    assert [action for action, _ in searched].count("consolidation") == 1


def test_what_a_job_was_told_stays_while_its_turn_has_not_come():
    state = _poor_and_rich(wanting=2)
    rich = a_queue("rich", parent="top", gpu=0, weight=0)
    rich.spec.reclaim_min_runtime = "10h"
    state.apply(Kind.QUEUE, rich)
    engine = _an_engine(_each_look_takes_a_second())
    first = engine.run(state, NOW)
    told = {each.pod_group for each in first.outcomes if "protected by minimum runtime" in each.message}
    assert told == {"default/want-0", "default/want-1"}
    for number in range(1, 7):
        result = engine.run(state, NOW + number, hurry=_somebody_waits)
        assert result.gave_way or number > 1
        assert not [each for each in result.outcomes if each.pod_group in told], "nothing new is said of them"


@fuzz
def test_cycles_that_give_way_leave_nothing_to_do_for_one_that_does_not(world: int) -> None:
    objects = random_objects(world, sharing=False)
    state, engine = a_state(objects), _an_engine(_each_look_takes_a_second())
    pods = {obj.key: obj for kind, obj in objects if kind is Kind.POD}
    quiet, number = 0, 0
    while quiet < 40:  # more than a pass takes
        number += 1
        assert number < 600, "it does not come to rest"
        result = engine.run(state, NOW + number, hurry=_somebody_waits)
        carry_out(state, pods, result, number)
        state.check()
        quiet = 0 if result.evictions or result.binds else quiet + 1
    left = Engine().run(state, NOW + number + 1)
    assert not left.binds
    assert not left.evictions
