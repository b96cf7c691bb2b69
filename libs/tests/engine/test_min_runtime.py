"""Minimum runtime: whose value counts, and what is told to those who wait. The tree is that of the docs."""

import pytest

from kai.config import DEFAULT_PLUGINS, PluginOption
from kai.engine import Engine, SchedulerConfig
from kai.engine.plugins.minruntime import MinRuntime
from kai.model.decisions import PodGroupOutcome
from kai.snapshot import codec
from kai.snapshot.state import ClusterState, Kind
from kai.snapshot.times import rfc3339
from libs.tests.engine.builders import (
    NOW,
    Part,
    a_group,
    a_job,
    a_node,
    a_pod,
    a_queue,
    a_state,
    add,
    decided,
    urgent,
)

MINUTE = 60.0
BY_QUEUE = SchedulerConfig(
    plugins=tuple(
        PluginOption(name, {"reclaimResolveMethod": "queue"} if name == "minruntime" else {})
        for name in DEFAULT_PLUGINS
    )
)

WITHOUT = SchedulerConfig(
    plugins=tuple(PluginOption(name) for name in DEFAULT_PLUGINS if name != "minruntime")
)


def research_and_production(*, research: str | None = None) -> ClusterState:
    """Eight GPUs; ``research`` has queues ``vision`` and ``speech``, ``production`` has ``serving``."""
    return a_state(
        a_node("node", gpus=8),
        a_queue("research", gpu=4, reclaim_min_runtime=research),
        a_queue("production", gpu=4),
        a_queue("vision", parent="research", gpu=2, reclaim_min_runtime="10m", preempt_min_runtime="3m"),
        a_queue("speech", parent="research", gpu=2),
        a_queue("serving", parent="production", gpu=4),
    )


def add_running(state: ClusterState, name: str, queue: str, *, minutes: float, gpus: int = 8) -> None:
    add(state, a_job(name, queue=queue, gpus=gpus, on="node", started=NOW - minutes * MINUTE))


def add_waiting(state: ClusterState, name: str, queue: str, priority: str = "train") -> None:
    add(state, a_job(name, queue=queue, gpus=1, priority=priority))


def protected_minutes(state: ClusterState, victim: str, taker: str, config: SchedulerConfig) -> int:
    """After how many whole minutes a job that runs may be taken from."""
    snapshot = codec.cut(state)
    for minutes in range(30):
        after = codec.restore(snapshot)
        add_running(after, "running", victim, minutes=minutes)
        add_waiting(after, "waiting", taker)
        if Engine(config).run(after, NOW).evictions:
            return minutes
    raise AssertionError("protected for ever")


@pytest.mark.parametrize(
    ("research", "victim", "taker", "minutes"),
    [
        (None, "vision", "speech", 10),
        (None, "vision", "serving", 0),
        (None, "speech", "vision", 0),
        ("5m", "vision", "speech", 10),
        ("5m", "vision", "serving", 5),
        ("5m", "speech", "vision", 5),
        ("5m", "speech", "serving", 5),
    ],
)
def test_the_queue_below_the_common_ancestor_says_how_long_a_job_is_safe_from_reclaim(
    research: str | None, victim: str, taker: str, minutes: int
) -> None:
    assert (
        protected_minutes(research_and_production(research=research), victim, taker, SchedulerConfig())
        == minutes
    )


@pytest.mark.parametrize(
    ("research", "victim", "taker", "minutes"),
    [(None, "vision", "serving", 10), ("5m", "vision", "serving", 10), ("5m", "speech", "serving", 5)],
)
def test_by_queue_the_victims_own_queue_says_it_whoever_takes(
    research: str | None, victim: str, taker: str, minutes: int
) -> None:
    assert protected_minutes(research_and_production(research=research), victim, taker, BY_QUEUE) == minutes


# --- who started before this process did -----------------------------------------------------------
def add_unrecorded(state: ClusterState, name: str, queue: str, *minutes: float | None) -> None:
    """A job of which nobody wrote down when it started; its pods run for so long, if a kubelet says so."""
    on = ["node"] * len(minutes)
    group, *pods = a_job(name, queue=queue, gpus=8 // len(on), on=on, started=0)
    for pod, since in zip(pods, minutes, strict=True):
        pod.status.start_time = rfc3339(NOW - since * MINUTE) if since is not None else None
    add(state, group, pods)


@pytest.mark.parametrize(
    ("minutes", "safe"),
    [
        ((1,), True),
        ((9,), True),
        ((11,), False),
        ((None,), False),
        ((11, 1), False),
        ((None, 1), True),
    ],
)
@pytest.mark.parametrize("kept", [False, True])
def test_a_job_whose_start_nobody_wrote_down_runs_since_its_first_pod_does(
    minutes: tuple[float | None, ...], safe: bool, kept: bool
) -> None:
    """It is written where a queue has a minimum runtime, and this one may have got its own only now."""
    state = research_and_production()
    add_unrecorded(state, "running", "vision", *minutes)
    add_waiting(state, "waiting", "speech")
    if kept:
        state = codec.restore(codec.decode(codec.encode(codec.cut(state))))
    assert bool(Engine().run(state, NOW).evictions) is not safe


def test_what_came_one_by_one_is_as_safe_as_what_was_there() -> None:
    state = research_and_production()
    add(state, a_job("running", queue="vision", gpus=8, started=0))
    add_unrecorded(state, "running", "vision", 1)
    add_waiting(state, "waiting", "speech")
    assert not Engine().run(state, NOW).evictions


def test_pods_that_ended_say_nothing_of_those_that_run() -> None:
    state = research_and_production()
    add_unrecorded(state, "running", "vision", 1)
    ended = a_pod("ended", group="running", gpus=8, node="node", phase="Succeeded")
    ended.status.start_time = rfc3339(NOW - 60 * MINUTE)
    add(state, ended)
    add_waiting(state, "waiting", "speech")
    assert not Engine().run(state, NOW).evictions


def test_a_start_that_is_far_in_the_future_or_no_time_protects_nobody() -> None:
    for text in (rfc3339(NOW + 86_400), "soon"):
        state = research_and_production()
        group, pod = a_job("running", queue="vision", gpus=8, on="node", started=0)
        pod.status.start_time = text
        add(state, group, pod)
        add_waiting(state, "waiting", "speech")
        assert Engine().run(state, NOW).evictions


# --- what is told --------------------------------------------------------------------------------
def outcome(
    state: ClusterState, name: str, *, now: float = NOW, engine: Engine | None = None
) -> PodGroupOutcome:
    outcomes = (engine or Engine()).run(state, now).outcomes
    return next(each for each in outcomes if each.pod_group == f"default/{name}")


def reasons(found: PodGroupOutcome) -> dict[str, str]:
    return {each.reason: each.message for each in found.explanations}


def test_who_waits_for_a_protected_job_is_told_which_one_and_until_when() -> None:
    state = research_and_production()
    add_running(state, "first", "vision", minutes=4, gpus=4)
    add_running(state, "second", "vision", minutes=9, gpus=4)
    add_waiting(state, "waiting", "speech")
    add_waiting(state, "alike", "speech")
    engine = Engine()
    told = "protected by minimum runtime: default/second until 2030-03-17T17:47:40Z, default/first until "
    for found in engine.run(state, NOW).outcomes:
        if found.pod_group in ("default/waiting", "default/alike"):
            assert reasons(found)["MinRuntimeNotElapsed"] == told + "2030-03-17T17:52:40Z"
            assert told in found.message
    assert [each.pod.name for each in engine.run(state, NOW + 61).evictions] == ["second-0"]


def test_preemption_says_so_too_and_names_nobody_who_would_be_safe_anyway() -> None:
    state = research_and_production()
    add_running(state, "lower", "vision", minutes=1, gpus=4)
    state.apply(
        Kind.POD_GROUP, a_group("equal", queue="vision", started=NOW - MINUTE, priority="build-preemptible")
    )
    state.apply(Kind.POD, a_pod("equal-0", group="equal", gpus=4, node="node"))
    add_waiting(state, "waiting", "vision", priority="build-preemptible")
    found = outcome(state, "waiting")
    told = "protected by minimum runtime: default/lower until 2030-03-17T17:48:40Z"
    assert reasons(found)["MinRuntimeNotElapsed"] == told


def test_of_many_that_are_protected_those_are_named_that_may_be_taken_first() -> None:
    state = research_and_production()
    for number in range(8):
        add_running(state, f"job-{number}", "vision", minutes=number, gpus=1)
    add_waiting(state, "waiting", "speech")
    told = reasons(outcome(state, "waiting"))["MinRuntimeNotElapsed"]
    assert [word for word in told.split() if word.startswith("default/")] == [
        "default/job-7",
        "default/job-6",
        "default/job-5",
    ]
    assert told.endswith(" and 5 more")


def test_nobody_is_told_of_minimum_runtime_where_it_keeps_nobody_from_anything() -> None:
    state = research_and_production()
    add_running(state, "old", "vision", minutes=60)
    state.apply(Kind.POD_GROUP, a_group("large", queue="speech", min_member=1))
    state.apply(Kind.POD, a_pod("large-0", group="large", gpus=9))
    assert "MinRuntimeNotElapsed" not in reasons(outcome(state, "large"))


def test_a_cycle_in_which_nobody_says_anything_of_it_has_no_such_plugin() -> None:
    state = ClusterState()
    state.apply(Kind.QUEUE, a_queue("plain"))
    engine = Engine()
    assert engine.open(state, NOW).plugins.of(MinRuntime) is None
    state.apply(Kind.QUEUE, a_queue("plain", preempt_min_runtime="3m"))
    assert engine.open(state, NOW).plugins.of(MinRuntime) is not None
    assert Engine(WITHOUT).open(state, NOW).plugins.of(MinRuntime) is None


def test_left_out_of_the_configuration_it_protects_nobody() -> None:
    assert protected_minutes(research_and_production(), "vision", "speech", WITHOUT) == 0


# --- the minimum of an elastic job ---------------------------------------------------------------
def four_pods_that_need_two(*waiting: object) -> ClusterState:
    """An elastic job that began just now, has all four GPUs, and belongs to another queue than ``poor``."""
    return a_state(
        a_node("node", gpus=4),
        a_queue("rich", parent="top", gpu=0, preempt_min_runtime="1h", reclaim_min_runtime="1h"),
        a_queue("poor", parent="top", gpu=4),
        a_job("elastic", queue="rich", on=("node",) * 4, min_member=2, gpus=1, started=NOW - MINUTE),
        waiting,
    )


def test_within_a_cycle_surplus_pods_that_leave_for_one_job_leave_the_minimum_safe_from_the_next() -> None:
    takers = [urgent(name, gpus=2, queue="poor") for name in ("first", "second")]
    found = decided(four_pods_that_need_two(*takers))
    assert found.evicts == {"elastic-2", "elastic-3"}
    assert found.waits == {"first-0": "node"}


@pytest.mark.parametrize("queue", ["poor", "rich"], ids=["reclaim", "preempt"])
def test_surplus_pods_still_on_their_way_out_leave_the_minimum_safe(queue: str) -> None:
    taker = {"gpus": 2, "queue": queue, "priority": "build-preemptible"}
    state = four_pods_that_need_two(urgent("first", **taker))
    assert decided(state).evicts == {"elastic-2", "elastic-3"}
    add(state, urgent("second", **taker))
    found = decided(state, now=NOW + 1)
    assert found.evicts == frozenset()
    assert found.waits == {"first-0": "node"}


@pytest.mark.parametrize("queue", ["poor", "rich"], ids=["reclaim", "preempt"])
def test_subgroups_beyond_those_that_are_needed_may_go_and_leave_the_minimum_safe(queue: str) -> None:
    """Four replicas of which two are needed, each with a pod that it needs."""
    asks = {"gpus": 2, "queue": queue, "priority": "build-preemptible"}
    takers = [urgent(name, **asks) for name in ("first", "second")]
    state = a_state(
        a_node("node", gpus=4),
        a_queue("rich", parent="top", gpu=0, preempt_min_runtime="1h", reclaim_min_runtime="1h"),
        a_queue("poor", parent="top", gpu=4),
        a_job(
            "elastic",
            *[Part(name, on="node") for name in "abcd"],
            queue="rich",
            gpus=1,
            started=NOW - MINUTE,
            group={"min_sub_group": 2},
        ),
        takers,
    )
    found = decided(state)
    assert found.evicts == {"elastic-c-0", "elastic-d-0"}
    assert found.waits == {"first-0": "node"}


@pytest.mark.parametrize("waiting", [0, 1], ids=["no surplus", "surplus waits"])
@pytest.mark.parametrize("queue", ["poor", "rich"], ids=["reclaim", "preempt"])
def test_a_job_that_must_keep_its_minimum_shields_nobody_beside_it(queue: str, waiting: int) -> None:
    state = a_state(
        a_node("node", gpus=3),
        a_queue("rich", parent="top", gpu=0, preempt_min_runtime="1h", reclaim_min_runtime="1h"),
        a_queue("poor", parent="top", gpu=1),
        a_job("old", queue="rich", on="node", gpus=1, created=1, started=NOW - 120 * MINUTE),
        a_job(
            "fresh",
            queue="rich",
            on=("node", "node"),
            pods=2 + waiting,
            min_member=2,
            gpus=1,
            created=2,
            started=NOW - MINUTE,
        ),
        urgent("taker", gpus=1, queue=queue, priority="build-preemptible"),
    )
    found = decided(state)
    assert found.evicts == {"old-0"}
    assert found.waits == {"taker-0": "node"}


def test_surplus_goes_together_with_a_job_beside_it_and_the_minimum_stays() -> None:
    state = a_state(
        a_node("node", gpus=4),
        a_queue("rich", parent="top", gpu=0, preempt_min_runtime="1h", reclaim_min_runtime="1h"),
        a_queue("poor", parent="top", gpu=2),
        a_job("old", queue="rich", on="node", gpus=1, created=1, started=NOW - 120 * MINUTE),
        a_job("fresh", queue="rich", on=("node",) * 3, min_member=2, gpus=1, created=2, started=NOW - MINUTE),
        urgent("taker", gpus=2, queue="poor"),
    )
    found = decided(state)
    assert found.evicts == {"old-0", "fresh-2"}
    assert found.waits == {"taker-0": "node"}
