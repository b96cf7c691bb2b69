"""Who loses first among equal victims where the plugin ``gpujoborder`` is on."""

from dataclasses import replace
from typing import Any

import pytest

from kai.config import PluginOption
from kai.config.arguments import ConfigError
from kai.engine import Engine, SchedulerConfig
from kai.snapshot.kinds import Kind
from libs.tests.engine.builders import NOW, a_job, a_queue, a_running, a_state, config, decided, nodes, urgent

LARGER, SMALLER = "evict-larger-first", "evict-smaller-first"


def sized(mode: str = LARGER, *actions: str) -> SchedulerConfig:
    """The default configuration with the plugin."""
    base = config(*actions)
    return replace(base, plugins=(*base.plugins, PluginOption("gpujoborder", {"mode": mode})))


def test_without_it_the_youngest_loses_whatever_its_size() -> None:
    world = [
        nodes(1, gpus=3),
        a_running("large", gpus=2, created=1),
        a_running("small", gpus=1, created=2),
        urgent(),
    ]
    assert decided(a_state(world), config("preempt")).evicts == {"small-0"}


#: Name, world, mode, and who loses.
CASES = [
    (
        "the larger though it is older",
        [
            nodes(1, gpus=3),
            a_running("large", gpus=2, created=1),
            a_running("small", gpus=1, created=2),
            urgent(),
        ],
        LARGER,
        "large-0",
    ),
    (
        "the smaller though it is older",
        [
            nodes(1, gpus=3),
            a_running("small", gpus=1, created=1),
            a_running("large", gpus=2, created=2),
            urgent(),
        ],
        SMALLER,
        "small-0",
    ),
    (
        "the younger of equal sizes",
        [
            nodes(1, gpus=2),
            a_running("old", gpus=1, created=1),
            a_running("young", gpus=1, created=2),
            urgent(),
        ],
        LARGER,
        "young-0",
    ),
    (
        "the lower priority whatever its size",
        [
            nodes(1, gpus=3),
            a_running("large", gpus=2, created=2, priority="build-preemptible"),
            a_running("small", gpus=1, created=1),
            urgent(),
        ],
        LARGER,
        "small-0",
    ),
    (
        "the one above its minimum whatever its size",
        [
            nodes(1, gpus=5),
            a_running("large", gpus=3, created=2),
            a_job("elastic", gpus=1, on=["n0"] * 2, min_member=1, created=1),
            urgent(),
        ],
        LARGER,
        "elastic-1",
    ),
    (
        "pods that wait count in the size of their job",
        [
            nodes(1, gpus=2),
            a_job("wide", gpus=1, on=["n0", "", ""], min_member=1, created=1),
            a_running("narrow", gpus=1, created=2),
            urgent(),
        ],
        LARGER,
        "wide-0",
    ),
]


@pytest.mark.parametrize(("world", "mode", "loses"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_of_equal_victims_it_takes(world: Any, mode: str, loses: str) -> None:
    assert decided(a_state(world), sized(mode, "preempt")).evicts == {loses}


@pytest.mark.parametrize(("mode", "loses"), [(LARGER, "large-0"), (SMALLER, "small-0")])
def test_it_counts_between_jobs_of_a_queue_that_is_reclaimed_from(mode: str, loses: str) -> None:
    world = [
        [a_queue("rich", gpu=0), a_queue("poor", gpu=2)],
        nodes(1, gpus=4),
        a_running("large", gpus=2, created=1, queue="rich"),
        a_running("small", gpus=1, created=2, queue="rich"),
        a_running("middle", gpus=1, created=3, queue="rich", priority="build-preemptible"),
        a_job("p", gpus=1, queue="poor", created=4),
    ]
    assert decided(a_state(world), sized(mode, "reclaim")).evicts == {loses}


def test_who_waits_is_served_by_age_as_without_it() -> None:
    state = a_state(nodes(1, gpus=4), a_job("small", gpus=1, created=1), a_job("large", gpus=4, created=2))
    session = Engine(sized()).open(state, NOW)
    assert [job.name for job in sorted(state.jobs.values(), key=session.job_key)] == ["small", "large"]


def test_a_disruption_budget_spares_a_job_whatever_its_size() -> None:
    budget = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "large"}}},
        "status": {"disruptionsAllowed": 0},
    }
    world = [
        nodes(1, gpus=3),
        (Kind.POD_DISRUPTION_BUDGET, budget),
        a_running("large", gpus=2, created=1, labels={"app": "large"}),
        a_running("small", gpus=1, created=2),
        urgent(),
    ]
    assert decided(a_state(world), sized(LARGER, "preempt")).evicts == {"small-0"}


def test_a_mode_that_nobody_has_is_refused_with_those_that_there_are() -> None:
    text = "tiers: [{plugins: [{name: gpujoborder, arguments: {mode: prefer-larger}}]}]"
    with pytest.raises(ConfigError, match="evict-larger-first"):
        SchedulerConfig.parse(text)
