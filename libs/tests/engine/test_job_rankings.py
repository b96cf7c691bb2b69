"""In which order jobs of one queue are served and lose their places, by the plugins that are named."""

from dataclasses import replace
from itertools import permutations

import pytest

from kai.config import PluginOption
from kai.engine import Engine, SchedulerConfig
from kai.engine.framework import JobRanking
from kai.engine.plugins.elastic import Elastic
from kai.engine.plugins.priority import Priority
from kai.engine.queueing.order import KeyOfJob
from kai.model.ids import NOBODY, PodUid
from kai.snapshot.rows import Job
from libs.tests.engine.builders import NOW, Part, a_job, a_node, a_queue, a_state, config, decided, job_of

#: Below its minimum, at it, and above it; the youngest has the highest priority.
WORLD = [
    a_node("n", gpus=10),
    a_job("above", on=["n", "n"], pods=3, min_member=1, gpus=1, created=1),
    a_job("at", on="n", pods=2, min_member=1, gpus=1, created=2),
    a_job("below", pods=1, gpus=1, created=3),
    a_job("high", on=["n", "n"], pods=3, min_member=1, gpus=1, created=4, priority="build-preemptible"),
]


class ByName(JobRanking):
    """Ranks that are written down."""

    def __init__(self, ranks: dict[str, int]) -> None:
        self._ranks = ranks

    def rank(self, job: Job, gone: frozenset[PodUid], /) -> float:
        return self._ranks[job.name]


def named(*names: str) -> SchedulerConfig:
    """The default configuration with just these plugins among those that rank jobs, in this order."""
    rest = [each for each in SchedulerConfig().plugins if each.name not in ("priority", "elastic")]
    return replace(SchedulerConfig(), plugins=(*map(PluginOption, names), *rest))


def order(by: SchedulerConfig) -> list[str]:
    state = a_state(WORLD)
    found = Engine(by).open(state, NOW)
    return [job.name for job in sorted(state.jobs.values(), key=found.job_key)]


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        (("priority", "elastic"), ["high", "below", "at", "above"]),
        (("elastic", "priority"), ["below", "at", "high", "above"]),
        (("priority",), ["high", "above", "at", "below"]),
        (("elastic",), ["below", "at", "above", "high"]),
        ((), ["above", "at", "below", "high"]),
    ],
)
def test_plugins_rank_jobs_in_the_order_in_which_they_are_named_and_age_decides_the_rest(
    plugins: tuple[str, ...], expected: list[str]
) -> None:
    assert order(named(*plugins)) == expected


def test_what_is_above_a_minimum_makes_up_for_nothing_that_is_gone() -> None:
    state = a_state(a_node("n", gpus=4), a_job("job", on=["n"] * 3, min_member=2, gpus=1))
    job, key = job_of(state, "job"), Engine(named("elastic")).open(state, NOW).job_key
    pods = sorted(task.uid for each in job.pod_sets.values() for task in each.tasks.values())
    assert [key(job, frozenset(pods[:count]))[0] for count in range(4)] == [2, 1, 0, 0]


@pytest.mark.parametrize("count", range(4))
def test_any_number_of_ranks_gives_the_same_order_as_comparing_them_in_turn(count: int) -> None:
    state = a_state(a_job("a", created=2), a_job("b", created=1), a_job("c", created=1))
    jobs = [job_of(state, name) for name in "abc"]
    for first, second, third in permutations(range(3)):
        by_name = ({"a": first, "b": second, "c": third}, {"a": 0, "b": 0, "c": 1}, {"a": 1, "b": 0, "c": 0})
        key = KeyOfJob([ByName(each) for each in by_name[:count]])
        expected = sorted(
            (*[each[job.name] for each in by_name[:count]], job.created, job.name) for job in jobs
        )
        assert [key(job)[:-1] for job in sorted(jobs, key=key)] == expected
        assert key.of_many(jobs) == [key(job) for job in jobs]


@pytest.mark.parametrize("ranking", [Priority(), Elastic()])
def test_many_are_ranked_as_each_is(ranking: JobRanking) -> None:
    split = a_job("split", Part("x", on=["n"] * 2), Part("y", pods=1), gpus=1)
    jobs = list(a_state(WORLD, split).jobs.values())
    assert ranking.ranks(jobs) == [ranking.rank(job, NOBODY) for job in jobs]
    assert len(set(ranking.ranks(jobs))) > 1


def test_without_elastic_a_victim_that_gave_up_a_pod_competes_as_before() -> None:
    world = [
        a_node("n", gpus=4),
        a_queue("team", parent="top", gpu=4),
        a_job("old", on=["n", "n"], min_member=1, gpus=1, created=1),
        a_job("young", on=["n", "n"], min_member=1, gpus=1, created=2),
        a_job("urgent", pods=2, gpus=1, priority="build"),
    ]
    for off, expected in (((), {"young-1", "old-1"}), (("elastic",), {"young-0", "young-1"})):
        assert decided(a_state(world), config("preempt", off=off)).evicts == expected
