"""A dry run says what happens when the change is really made."""

import random

import msgspec
import pytest
from hypothesis import note

from kai.bench.worlds import NOW, a_world
from kai.engine import SchedulerConfig
from kai.model.objects import OwnerReference
from kai.simulate import what_if
from kai.simulate.changes import AddWorkload, Bound, Change, DrainNode, RemoveNode, SetBounds
from kai.simulate.course import Happened
from kai.snapshot import codec
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import a_group, a_node, a_pod, a_queue, a_state
from libs.tests.engine.random_worlds import fuzz
from libs.tests.simulate.changing import a_bound
from libs.tests.simulate.really import Cluster

WITHIN = 300.0


@fuzz
def test_a_dry_run_of_a_bound_names_who_is_evicted_and_who_starts(world: int) -> None:
    given = a_world(random.Random(world))
    state = given.state()
    change = a_bound(random.Random(world), state)
    assert isinstance(change, SetBounds)
    before = codec.encode(codec.cut(state))
    told = what_if.ask(state, SchedulerConfig(), [change], now=NOW, within=WITHIN).changed
    state.check()
    assert codec.encode(codec.cut(state)) == before

    really = Cluster(given, now=NOW)
    queue = next(each for each in given.queues if each.metadata.name == change.queue)
    body = msgspec.to_builtins(queue)
    for resource, amount in change.amounts.items():
        body["spec"]["resources"].setdefault(resource, {})[change.bound.value] = amount
    really.apply([(Kind.QUEUE, msgspec.convert(body, type(queue)))])
    really.live(NOW + WITHIN)
    note(f"{change.text}\n{given}")
    assert told.evicted == really.evicted
    assert told.started == really.started


# --- single cases -------------------------------------------------------------------------------
def _cluster(*things: object) -> ClusterState:
    """Two full nodes: queue a has all eight GPUs, and may have four; b waits for four."""
    running = [
        [
            a_group(f"a{n}", queue="a", created=NOW - 900 + n, started=NOW - 500),
            a_pod(f"a{n}-0", group=f"a{n}", gpus=1, node=f"n{n % 2}"),
        ]
        for n in range(8)
    ]
    return a_state(
        [a_node(f"n{n}", gpus=4) for n in range(2)],
        a_queue("top"),
        a_queue("a", parent="top", gpu=8),
        a_queue("b", parent="top", gpu=0, weight=0),
        running,
        *things,
    )


def _waiting(name: str, *, pods: int, owner: str = "Job", queue: str = "b") -> list[object]:
    group = a_group(name, queue=queue, min_member=pods, created=NOW - 50)
    group.metadata.owner_references = [OwnerReference(api_version="x/v1", kind=owner, name=name, uid=name)]
    return [group, *(a_pod(f"{name}-{n}", group=name, gpus=1) for n in range(pods))]


def _ask(state: ClusterState, *changes: object, within: float = WITHIN) -> what_if.Answer:
    return what_if.ask(state, SchedulerConfig(), changes, now=NOW, within=within)  # type: ignore[arg-type]


def test_a_quota_takes_from_one_queue_what_it_gives_to_another() -> None:
    state = _cluster(_waiting("b", pods=2))
    answer = _ask(
        state,
        SetBounds(queue="a", bound=Bound.QUOTA, amounts={"gpu": 4}),
        SetBounds(queue="b", bound=Bound.QUOTA, amounts={"gpu": 4}),
    )
    assert answer.changed.started == {"default/b-0", "default/b-1"}
    assert answer.changed.evicted == {"default/a6-0", "default/a7-0"}
    assert not answer.unchanged.events
    assert (answer.before.work["default/b"].running, answer.changed.after.work["default/b"].running) == (0, 2)
    assert answer.before.queues["b"].allocated[2] == 0
    assert answer.changed.after.queues["b"].allocated[2] == 2
    by = {event.by for event in answer.changed.events if event.what is Happened.EVICTED}
    assert by == {"default/b"}
    starts = [event.at - NOW for event in answer.changed.events if event.what is Happened.STARTED]
    assert starts == [30.0, 30.0], "once those are gone that made room"


def test_what_happens_anyway_is_told_apart() -> None:
    state = a_state(
        a_node("n0", gpus=4),
        a_queue("top"),
        a_queue("a", parent="top"),
        a_queue("b", parent="top", limit=0),
        _waiting("first", pods=1, queue="a"),
        _waiting("second", pods=1),
    )
    answer = _ask(state, SetBounds(queue="b", bound=Bound.LIMIT, amounts={"gpu": 1}))
    anyway = {event.pod: answer.anyway(event) for event in answer.changed.events}
    assert anyway == {"default/first-0": True, "default/second-0": False}


def test_who_is_drained_runs_elsewhere_or_waits_and_is_told() -> None:
    state = a_state(
        [a_node(f"n{n}", gpus=2) for n in range(2)],
        [
            [a_group(f"j{n}", queue="team"), a_pod(f"j{n}-0", group=f"j{n}", gpus=1, node="n0")]
            for n in range(2)
        ],
        [a_group("k", queue="team"), a_pod("k-0", group="k", gpus=1, node="n1")],
    )
    answer = _ask(state, DrainNode(node="n0"))
    assert answer.changed.pods(Happened.DELETED) == {"default/j0-0", "default/j1-0"}
    assert len(answer.changed.started) == 1
    assert {event.node for event in answer.changed.events if event.what is Happened.STARTED} == {"n1"}
    [waiting] = [work for work in answer.changed.after.work.values() if work.waiting]
    assert "1 node" in answer.changed.outcomes[waiting.group].message


@pytest.mark.parametrize("change", [DrainNode(node="n0"), RemoveNode(node="n0")], ids=["drain", "remove"])
def test_of_the_pods_on_a_node_those_that_ended_stay_so_and_those_that_go_anyway_are_not_deleted(
    change: Change,
) -> None:
    state = a_state(
        [a_node(f"n{n}", gpus=8) for n in range(2)],
        a_group("g", queue="team", min_member=1),
        a_pod("done", group="g", gpus=1, node="n0", phase="Succeeded"),
        a_pod("failed", group="g", gpus=1, node="n0", phase="Failed"),
        a_pod("leaves", group="g", gpus=1, node="n0", deleted=NOW + 10),
        a_pod("runs", group="g", gpus=1, node="n0"),
    )
    answer = _ask(state, change)
    assert answer.changed.pods(Happened.DELETED) == {"default/runs"}
    anyway = {event.pod: answer.anyway(event) for event in answer.changed.events}
    assert anyway == {"default/runs": False, "default/leaves": True}
    assert answer.changed.started == {"default/runs", "default/leaves"}
    assert answer.changed.after.work["default/g"].running == 2


def test_who_leaves_a_node_that_is_drained_has_the_time_that_it_has_anyway() -> None:
    state = a_state(
        [a_node(f"n{n}", gpus=1) for n in range(2)],
        a_group("g", queue="team", min_member=1),
        a_pod("leaves", group="g", gpus=1, node="n0", deleted=NOW + 10),
    )
    [started] = _ask(state, DrainNode(node="n0")).changed.events
    assert (started.what, started.node, started.at - NOW) == (Happened.STARTED, "n1", 10.0)


def test_new_work_says_when_it_starts_once_what_runs_has_a_known_end() -> None:
    state = _cluster()
    group, *pods = _waiting("new", pods=1)
    change = AddWorkload(groups=[group], pods=pods)  # type: ignore[list-item]
    waits = _ask(state, change)
    assert not waits.changed.started
    assert waits.changed.outcomes["default/new"].message
    seen: list[tuple[bool, float]] = []
    ends = what_if.ask(
        state,
        SchedulerConfig(),
        [change],
        now=NOW,
        within=3600,
        runtimes=what_if.all_lasting(600),
        progress=lambda changed, after: seen.append((changed, after)),
    )
    first = next(event for event in ends.changed.events if event.what is Happened.STARTED)
    assert (first.pod, first.at - NOW) == ("default/new-0", 100.0)
    assert seen == sorted(seen)
    assert {(False, 0.0), (True, 0.0), (True, 100.0)} <= set(seen)


def test_a_gang_that_runs_with_too_few_pods_is_ended_also_once_nobody_waits_any_more() -> None:
    state = a_state(
        a_node("n0", gpus=4),
        a_queue("top"),
        a_queue("a", parent="top"),
        [a_group("short", queue="a", min_member=2), a_pod("short-0", group="short", gpus=1, node="n0")],
        _waiting("first", pods=1, queue="a"),
    )
    answer = _ask(state)
    assert answer.unchanged.started == {"default/first-0"}
    assert answer.unchanged.evicted == {"default/short-0"}


def test_the_same_question_has_the_same_answer() -> None:
    state = _cluster(_waiting("b", pods=2))
    change = SetBounds(queue="b", bound=Bound.QUOTA, amounts={"gpu": 4})
    assert _ask(state, change) == _ask(state, change)
