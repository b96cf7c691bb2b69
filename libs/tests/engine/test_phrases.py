"""Sentences that clients match, and when they are said anew."""

import re
from typing import Any

import pytest

from kai.engine import Engine, EngineParams, SchedulerConfig
from kai.model.decisions import Outcome
from kai.model.objects import SubGroup
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import NOW, a_group, a_node, a_pod, a_queue, a_state

#: As end-to-end tests of the KAI Scheduler have it.
NOT_READY = re.compile(
    r"Job is not ready for scheduling. Waiting for \d+ pods( for SubGroup \S+)?, "
    r"currently \d+ exist, \d+ are gated"
)


@pytest.fixture
def state() -> ClusterState:
    return a_state(a_node("node"), a_queue("team"))


def part(name: str, minimum: int) -> SubGroup:
    return SubGroup(name=name, min_member=minimum)


def said_anew(state: ClusterState, engine: Engine) -> list[tuple[Outcome, str, str]]:
    """What one cycle says anew."""
    return [(each.outcome, each.message, each.staleness) for each in engine.run(state, NOW).outcomes]


def test_a_group_that_lacks_pods_is_told_how_many_and_again_when_that_changes(state: ClusterState) -> None:
    engine = Engine()
    state.apply(Kind.POD_GROUP, a_group("job", queue="team", min_member=3))
    state.apply(Kind.POD, a_pod("job-0", group="job"))
    ((outcome, message, _),) = said_anew(state, engine)
    assert outcome is Outcome.NOT_READY
    assert message == "Job is not ready for scheduling. Waiting for 3 pods, currently 1 exist, 0 are gated"
    assert NOT_READY.match(message)
    assert said_anew(state, engine) == []
    state.apply(Kind.POD, a_pod("job-1", group="job"))
    ((_, message, _),) = said_anew(state, engine)
    assert "currently 2 exist, 0 are gated" in message


def test_gated_pods_exist_but_do_not_count_and_a_group_of_gated_pods_alone_is_told_so(
    state: ClusterState,
) -> None:
    state.apply(Kind.POD_GROUP, a_group("job", queue="team", min_member=2))
    for i in range(2):
        state.apply(Kind.POD, a_pod(f"job-{i}", group="job", gated=True))
    engine = Engine()
    ((outcome, message, _),) = said_anew(state, engine)
    assert outcome is Outcome.NOT_READY
    assert message.endswith("Waiting for 2 pods, currently 2 exist, 2 are gated")
    state.apply(Kind.POD, a_pod("job-0", group="job"))
    ((_, message, _),) = said_anew(state, engine)
    assert message.endswith("Waiting for 2 pods, currently 2 exist, 1 are gated")


def test_each_subgroup_that_lacks_pods_is_named(state: ClusterState) -> None:
    parts = [part("a", 1), part("b", 5), part("c", 2)]
    state.apply(Kind.POD_GROUP, a_group("job", queue="team", sub_groups=parts))
    for name in ("a", "b", "c"):
        state.apply(Kind.POD, a_pod(f"job-{name}", group="job", sub_group=name))
    ((_, message, _),) = said_anew(state, Engine())
    assert message == (
        "Job is not ready for scheduling. Waiting for 5 pods for SubGroup b, currently 1 exist, 0 are gated. "
        "Waiting for 2 pods for SubGroup c, currently 1 exist, 0 are gated."
    )
    assert NOT_READY.match(message)


def test_of_very_many_subgroups_the_first_are_named_so_that_an_event_has_room(state: ClusterState) -> None:
    parts = [part(f"part-{i:03}", 2) for i in range(400)]
    state.apply(Kind.POD_GROUP, a_group("job", queue="team", sub_groups=parts))
    state.apply(Kind.POD, a_pod("job-0", group="job", sub_group="part-000"))
    ((_, message, _),) = said_anew(state, Engine())
    assert message.endswith(
        "Waiting for 2 pods for SubGroup part-007, currently 0 exist, 0 are gated. and 392 more SubGroups"
    )
    assert NOT_READY.match(message)
    assert len(message) < 1024


@pytest.mark.parametrize(
    ("group", "told"),
    [
        ({"min_member": 3}, ["minMember is 3"]),
        (
            {"sub_groups": [part("a", 1), part("b", 2)]},
            ["minMember is 3", "subGroup b minMember is 2 and 1 pods are active"],
        ),
        (
            {"sub_groups": [part("a", 1), part("b", 2), part("c", 1)], "min_sub_group": 2},
            [
                "1 of 2 required subGroups are satisfied",
                "subGroup b minMember is 2 and 1 pods are active",
                "subGroup c minMember is 1 and 0 pods are active",
            ],
        ),
    ],
    ids=["plain", "parts", "some of the parts"],
)
def test_a_gang_that_lost_pods_is_told_what_it_lacks(
    state: ClusterState, group: dict[str, object], told: list[str]
) -> None:
    state.apply(Kind.POD_GROUP, a_group("job", queue="team", started=NOW - 60, **group))  # type: ignore[arg-type]
    for name in ("a", "b"):
        state.apply(Kind.POD, a_pod(f"job-{name}", group="job", sub_group=name, node="node"))
    engine = Engine(SchedulerConfig(params=EngineParams(default_staleness_grace_seconds=60)))
    ((_, _, staleness),) = said_anew(state, engine)
    assert staleness == ", ".join(["Job is stale. 2 pods are active", *told])
    assert said_anew(state, engine) == []


def test_a_search_in_vain_is_counted_under_the_result_that_dashboards_know(state: ClusterState) -> None:
    state.apply(Kind.QUEUE, a_queue("safe", gpu=0, reclaim_min_runtime="60s"))
    state.apply(Kind.POD_GROUP, a_group("victim", queue="safe", started=NOW - 5))
    state.apply(Kind.POD, a_pod("victim-0", group="victim", gpus=8, node="node"))
    state.apply(Kind.POD_GROUP, a_group("job", queue="team"))
    state.apply(Kind.POD, a_pod("job-0", group="job", gpus=1))
    counters = Engine().run(state, NOW).counters
    name = "scenario_search_jobs_total"
    assert counters[name, "reclaim", "generators_exhausted", "false"] == 1


@pytest.mark.parametrize(
    ("places", "asks"),
    [(1, {"cpu": "1"}), (2, {"fraction": 0.5})],
    ids=["of its own", "and for the reservation of its device"],
)
def test_a_pod_without_a_place_among_those_of_a_node_is_told_in_the_words_that_clients_know(
    state: ClusterState, places: int, asks: dict[str, Any]
) -> None:
    state.apply(Kind.NODE, a_node("node", gpus=1, gpu_memory_mib=40_000, pods=places))
    state.apply(Kind.POD_GROUP, a_group("first", queue="team", started=NOW - 60))
    state.apply(Kind.POD, a_pod("first-0", group="first", node="node"))
    state.apply(Kind.POD_GROUP, a_group("job", queue="team"))
    state.apply(Kind.POD, a_pod("job-0", group="job", **asks))
    [outcome] = Engine().run(state, NOW).outcomes
    assert "1 node(s) pod number exceeded" in outcome.pod_messages["default/job-0"]


@pytest.mark.parametrize("deleted", [NOW + 30, NOW + 86_400], ids=["soon", "tomorrow"])
def test_a_gang_whose_pods_are_on_their_way_out_is_told_that_it_lacks_others(
    state: ClusterState, deleted: float
) -> None:
    """Two of four pods are there again, while two still run that were deleted."""
    state.apply(Kind.POD_GROUP, a_group("job", queue="team", min_member=4))
    for i in range(2):
        state.apply(Kind.POD, a_pod(f"old-{i}", group="job", node="node", deleted=deleted))
        state.apply(Kind.POD, a_pod(f"new-{i}", group="job"))
    engine = Engine()
    ((outcome, message, _),) = said_anew(state, engine)
    assert outcome is Outcome.NOT_READY
    assert message == (
        "Job is not ready for scheduling. Waiting for 4 pods, "
        "currently 2 exist, 0 are gated, 2 are being deleted"
    )
    assert NOT_READY.match(message)
