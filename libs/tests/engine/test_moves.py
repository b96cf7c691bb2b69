"""Whom consolidation moves where it may look at only some of the jobs."""

import random
from collections.abc import Sequence

import pytest

from kai.engine import Engine, EngineParams, SchedulerConfig
from kai.engine.framework.statement import Statement
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.engine.search.moves import Moves
from kai.model.decisions import CycleResult
from kai.model.objects import SubGroup
from kai.snapshot.rows import Job, Node, Task
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import (
    NOW,
    a_constraint,
    a_group,
    a_job,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    a_state,
    a_topology,
)

CAP = 16
WITHIN_A_RACK = a_constraint("rack")


def _job(name, *, nodes=(), topology=None, **more):
    return a_job(name, on=nodes, group={"topology": topology}, **more)


def _nodes(count, *, gpus=8, labels=lambda i: None):
    return [a_node(f"n{i:02}", gpus=gpus, labels=labels(i)) for i in range(count)]


def _scattered(nodes, *, each=3, **pod):
    """Jobs of one pod, the oldest on the first node."""
    return [
        item
        for i in range(nodes * each)
        for item in _job(f"small-{i:03}", gpus=1, nodes=(f"n{i // each:02}",), created=i, **pod)
    ]


def _consolidate(state: ClusterState, *, most: int = CAP) -> CycleResult:
    config = SchedulerConfig(
        actions=("consolidation",), params=EngineParams(max_consolidation_preemptees=most)
    )
    result = Engine(config).run(state, NOW)
    state.check()
    return result


def _evicted(result: CycleResult) -> list[str]:
    return sorted(each.pod.name for each in result.evictions)


def test_one_pod_moves_for_each_of_a_gang_that_needs_a_little_more_room_everywhere() -> None:
    state = a_state(*_nodes(20), *_scattered(20), *_job("gang", pods=10, gpus=6, created=99))
    result = _consolidate(state)
    assert len(result.evictions) == 10
    places = {each.pod.name: each.node for each in result.nominations}
    gang = {node for name, node in places.items() if name.startswith("gang")}
    assert len(places) == 20
    assert len(gang) == 10
    assert not gang & {node for name, node in places.items() if name.startswith("small")}


def test_nobody_moves_where_more_would_have_to_than_may() -> None:
    state = a_state(*_nodes(40), *_scattered(40), *_job("gang", pods=10, gpus=7, created=99))
    assert not _consolidate(state).evictions
    state = a_state(*_nodes(40), *_scattered(40), *_job("gang", pods=10, gpus=7, created=99))
    assert len(_consolidate(state, most=20).evictions) == 20


def test_lower_priorities_move_first_and_of_equals_the_newest() -> None:
    jobs = _scattered(10, each=2)
    low = _job("low", gpus=1, nodes=("n04",), created=1, priority="low")
    state = a_state(
        (Kind.PRIORITY_CLASS, a_priority_class("low", 10)),
        *_nodes(10, gpus=3),
        *jobs,
        *_job("one", gpus=2, created=99),
    )
    assert _evicted(_consolidate(state)) == ["small-019-0"]
    moved = [each for each in jobs if "small-008" not in each.metadata.name]
    state = a_state(
        (Kind.PRIORITY_CLASS, a_priority_class("low", 10)),
        *_nodes(10, gpus=3),
        *moved,
        *low,
        *_job("one", gpus=2, created=99),
    )
    assert _evicted(_consolidate(state)) == ["low-0"]


def test_the_smallest_pod_that_suffices_moves_and_a_gang_only_where_nothing_else_helps() -> None:
    state = a_state(
        *_nodes(20, gpus=8),
        *_scattered(19, each=5),
        *_job("gang-of-two", pods=2, gpus=1, nodes=("n19", "n19"), created=200),
        *_job("large", gpus=3, nodes=("n19",), created=201),
        *_job("new", gpus=4, created=300),
    )
    assert _evicted(_consolidate(state)) == ["small-094-0"]


def test_a_pod_that_would_find_no_other_place_stays() -> None:
    """The newest could go for the fewest, but only smaller pods fit elsewhere."""
    state = a_state(
        *_nodes(20, gpus=4),
        *_scattered(18, each=3),
        *_job("wide", gpus=2, nodes=("n18",), created=200),
        *_job("whole", gpus=4, nodes=("n19",), created=201),
        *_job("new", gpus=3, created=300),
    )
    result = _consolidate(state)
    assert len(result.evictions) == 2
    assert not {"wide-0", "whole-0"} & set(_evicted(result))


def test_one_node_is_cleared_for_several_pods_where_others_cannot_be() -> None:
    fixed = [
        item
        for i in (1, 2)
        for item in _job(f"fixed-{i}", gpus=6, nodes=(f"n{i:02}",), created=0, priority="build")
    ]
    newest = [
        item for i in range(3, 9) for item in _job(f"whole-{i}", gpus=8, nodes=(f"n{i:02}",), created=50 + i)
    ]
    state = a_state(
        *_nodes(9), *_scattered(1, each=6), *fixed, *newest, *_job("gang", pods=2, gpus=3, created=99)
    )
    result = _consolidate(state, most=5)
    assert len(result.evictions) == 4
    assert {each.node for each in result.nominations if each.pod.name.startswith("gang")} == {"n00"}


def test_pods_move_within_the_domain_that_a_gang_must_not_leave() -> None:
    state = a_state(
        a_topology("rack"),
        *_nodes(20, labels=lambda i: {"rack": f"r{i // 4}"}),
        *_scattered(20),
        *_job("gang", pods=4, gpus=6, created=99, topology=WITHIN_A_RACK),
    )
    result = _consolidate(state)
    assert len(result.evictions) == 4
    gang = {each.node for each in result.nominations if each.pod.name.startswith("gang")}
    assert len({int(name[1:]) // 4 for name in gang}) == 1


def test_halves_move_together_so_that_a_device_is_whole() -> None:
    groups = [f"4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a{i:03}" for i in range(20)]
    halves = [
        item
        for i in range(20)
        for item in _job(f"half-{i:02}", fraction=0.5, nodes=(f"n{i:02}",), groups=(groups[i],), created=i)
    ]
    state = a_state(*_nodes(20, gpus=1), *halves, *_job("new", gpus=1, created=99))
    result = _consolidate(state)
    assert _evicted(result) == ["half-19-0"]
    places = {each.pod.name: each.node for each in result.nominations}
    assert places["new-0"] == "n19" != places["half-19-0"]


@pytest.mark.parametrize(("nodes", "where"), [(1, "other GPUs of its node"), (2, "another node")])
def test_the_owner_of_a_pod_that_moves_is_told_whether_it_leaves_its_node(nodes: int, where: str) -> None:
    groups = [f"4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a{i:03}" for i in range(2)]
    halves = [
        item
        for i in range(2)
        for item in _job(
            f"half-{i}", fraction=0.5, nodes=(f"n{i % nodes:02}",), groups=(groups[i],), created=i
        )
    ]
    state = a_state(*_nodes(nodes, gpus=2 // nodes), *halves, *_job("new", gpus=1, created=99))
    (moved,) = _consolidate(state).evictions
    assert moved.message == f"pod default/half-1-0 is moved to {where}, to make room for workload default/new"


def test_a_job_for_which_nobody_could_move_can_itself_be_moved_for_the_next() -> None:
    first = (*_job("first", gpus=1, nodes=("n00",)), (Kind.POD, a_pod("first-1", group="first", gpus=2)))
    fixed = _job("fixed", gpus=1, nodes=("n01",), priority="build")
    state = a_state(*_nodes(2, gpus=2), *first, *fixed, *_job("second", gpus=2))
    moves = Moves(Engine().open(state, NOW), most=1)
    first, second = state.jobs["default/first"], state.jobs["default/second"]
    assert moves.fewest(first, tasks_to_allocate(first, simulation=True)) == []
    assert moves.fewest(second, tasks_to_allocate(second, simulation=True)) == [first]


def test_a_job_that_moves_gives_up_one_chunk_and_for_the_next_pod_another_moves() -> None:
    """The search takes one chunk of each, so a job that moved already is not moved once more."""
    at = {name: {"spec": {"node_selector": {"at": name}}} for name in ("n0", "n1")}
    parts = [SubGroup(name=name, min_member=1) for name in at]
    state = a_state(
        *((Kind.NODE, a_node(name, gpus=gpus, labels={"at": name})) for name, gpus in (("n0", 2), ("n1", 4))),
        (Kind.NODE, a_node("n2", gpus=4)),
        *_job("cheap", gpus=1, nodes=("n0",)),
        *_job("dear", gpus=1, nodes=("n1",), priority="build-preemptible"),
        *_job("fixed", gpus=1, nodes=("n1",), priority="build"),
        (Kind.POD_GROUP, a_group("new", queue="team", created=9, sub_groups=parts)),
        *((Kind.POD, a_pod(f"new-{name}", group="new", gpus=2, sub_group=name, **at[name])) for name in at),
    )
    new = state.jobs["default/new"]
    moved = Moves(Engine().open(state, NOW), most=CAP).fewest(new, tasks_to_allocate(new, simulation=True))
    assert [job.name for job in moved] == ["cheap", "dear"]


def test_a_job_that_could_move_for_another_does_not_move_for_itself() -> None:
    """What its node could give up was found for the other one, and is kept."""
    group = a_group("runs", queue="team", min_member=2, started=NOW - 500, topology=WITHIN_A_RACK)
    state = a_state(
        a_topology("rack"),
        *((Kind.NODE, a_node(name, gpus=3, labels={"rack": name})) for name in ("n0", "n1", "n2")),
        *_job("fixed", gpus=2, nodes=("n1",), priority="build"),
        (Kind.POD_GROUP, group),
        (Kind.POD, a_pod("runs-0", group="runs", gpus=1, node="n0")),
        (Kind.POD, a_pod("runs-1", group="runs", gpus=3)),
        *_job("cheap", gpus=1, nodes=("n2",), created=9),
        *_job("other", gpus=3),
    )
    moves = Moves(Engine().open(state, NOW), most=CAP)
    runs, other = state.jobs["default/runs"], state.jobs["default/other"]
    assert moves.fewest(other, tasks_to_allocate(other, simulation=True)) == [state.jobs["default/cheap"]]
    moved = moves.fewest(runs, tasks_to_allocate(runs, simulation=True))
    assert runs not in moved


def _crowded(rng: random.Random, count: int, jobs: int) -> list[tuple[Kind, object]]:
    """Nodes with jobs of one to three pods each, some of which may lose pods without being lost."""
    free = {f"n{i:02}": 8 for i in range(count)}
    objects = _nodes(count)
    for i in range(jobs):
        pods, gpus = rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 1, 2, 3])
        nodes = []
        for _ in range(pods):
            node = rng.choice(list(free))
            if free[node] >= gpus:
                free[node] -= gpus
                nodes.append(node)
        if nodes:
            more = rng.choice([0, 1])
            minimum = rng.randint(1, len(nodes))
            objects += _job(
                f"run-{i:02}",
                pods=len(nodes) + more,
                gpus=gpus,
                nodes=tuple(nodes),
                created=i,
                min_member=minimum,
            )
    return objects


@pytest.mark.parametrize("number", range(60))
def test_a_choice_leaves_no_trace_and_keeps_to_the_cap(number: int) -> None:
    rng = random.Random(number)
    new = _job("new", pods=rng.randint(1, 4), gpus=rng.randint(1, 8), created=99)
    state = a_state(*_crowded(rng, rng.randint(2, 8), rng.randint(5, 30)), *new)
    session = Engine().open(state, NOW)
    job = state.jobs["default/new"]
    tasks = tasks_to_allocate(job, simulation=True)
    idle, releasing = state.nodes.idle.copy(), state.nodes.releasing.copy()
    most = rng.randint(1, 6)
    moved = Moves(session, most=most).fewest(job, tasks)
    assert len({each.key for each in moved}) == len(moved) <= most
    assert all(each.preemptible and each is not job for each in moved)
    assert (state.nodes.idle == idle).all()
    assert (state.nodes.releasing == releasing).all()
    session.close()
    state.check()


@pytest.mark.parametrize("number", range(60))
def test_what_is_known_of_nodes_after_other_jobs_is_what_one_would_find_anew(
    number: int, monkeypatch
) -> None:
    fewest, pipeline = Moves.fewest, Statement.pipeline

    def compared(self: Moves, job: Job, tasks: Sequence[Task]) -> list[Job]:
        self.check()
        moved = fewest(self, job, tasks)
        assert moved == fewest(Moves(self._session, most=self._most), job, tasks), job.key
        assert job not in moved
        return moved

    def fitting(self: Statement, task: Task, node: Node, *, groups: tuple[str, ...] = ()) -> None:
        pipeline(self, task, node, groups=groups)
        assert (state.nodes.idle[node.row] + state.nodes.releasing[node.row] >= 0).all()

    monkeypatch.setattr(Moves, "fewest", compared)
    monkeypatch.setattr(Statement, "pipeline", fitting)
    rng = random.Random(number)
    waiting = [
        item
        for i in range(6)
        for item in _job(f"new-{i}", pods=rng.randint(1, 3), gpus=rng.randint(4, 6), created=100 + i)
    ]
    state = a_state(*_crowded(rng, 12, 27), *waiting)
    _consolidate(state, most=rng.randint(2, 5))


def test_nobody_moves_for_a_gang_of_which_too_few_wait_since_the_others_are_leaving():
    group = a_group("gang", queue="team", min_member=4, started=NOW - 500, topology=WITHIN_A_RACK)
    state = a_state(
        a_topology("rack"),
        *_nodes(8, labels=lambda i: {"rack": f"r{i % 2}"}),
        *_scattered(8),
        (Kind.POD_GROUP, group),
        *((Kind.POD, a_pod(f"waits-{i}", group="gang", gpus=6)) for i in range(2)),
        *((Kind.POD, a_pod(f"leaves-{i}", group="gang", gpus=1, node="n00", deleted=NOW)) for i in range(2)),
    )
    assert not tasks_to_allocate(state.jobs["default/gang"], simulation=True)
    result = Engine().run(state, NOW)
    assert (result.evictions, result.binds, result.nominations) == ((), (), ())
    state.check()


def test_work_without_a_queue_is_not_moved_though_that_would_be_the_fewest() -> None:
    """It would find no place again; so two pods of others go, not one of its."""
    state = a_state(
        (Kind.QUEUE, a_queue("team")),
        *_nodes(4, gpus=4),
        *_job("left", gpus=2, nodes=("n00",), queue="gone"),
        *_job("fixed-0", gpus=1, nodes=("n00",), priority="build"),
        *_job("goes-0", gpus=1, nodes=("n01",)),
        *_job("goes-1", gpus=1, nodes=("n01",)),
        *_job("fixed-1", gpus=1, nodes=("n01",), priority="build"),
        *_job("fixed-2", gpus=2, nodes=("n02",), priority="build"),
        *(item for n in range(4) for item in _job(f"stays-{n}", gpus=1, nodes=("n03",))),
        *_job("new", gpus=3, created=20),
    )
    assert _evicted(_consolidate(state, most=2)) == ["goes-0-0", "goes-1-0"]


def test_work_without_a_queue_takes_nobodys_place_among_the_few_that_are_looked_at() -> None:
    state = a_state(
        (Kind.QUEUE, a_queue("team")),
        *_nodes(3, gpus=2),
        *_job("small-0", gpus=1, nodes=("n00",), created=0),
        *_job("small-1", gpus=1, nodes=("n01",), created=1),
        *_job("left", gpus=1, nodes=("n02",), queue="gone", created=8),
        *_job("fixed", gpus=1, nodes=("n02",), priority="build"),
        *_job("new", gpus=2, created=9),
    )
    assert _evicted(_consolidate(state, most=1)) == ["small-1-0"]
