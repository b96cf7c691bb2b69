"""What a statement does is in effect at once, and gone without a trace when it is rolled back."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai.engine import Engine
from kai.engine.framework.protocols import Tracker
from kai.engine.framework.statement import Statement
from kai.snapshot.resources import GPU
from kai.snapshot.rows import Node, Task
from kai.snapshot.state import ClusterState
from kai.snapshot.status import Status
from libs.tests.engine.builders import NOW, Part, a_job, a_queue, a_state, claiming, job_of, nodes, task_of
from libs.tests.snapshot.ledger.cluster import a_gpu_claim

DEVICES = [f"4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a{number:03}" for number in range(3)]


def all_sorts() -> ClusterState:
    """Whole and shared devices, gangs and growth, what stays and what leaves, in queues below queues."""
    return a_state(
        [a_queue("top", gpu=8), a_queue("a", parent="top"), a_queue("b", parent="top", gpu=2)],
        nodes(3, gpus=4, gpu_memory_mib=16_000),
        a_job("gang", queue="a", on=("n0", "n1"), gpus=1),
        a_job("elastic", queue="a", on=("n0", "n0", ""), min_member=1, gpus=1),
        a_job("half", queue="b", fraction=0.5, groups=DEVICES[:1], on="n1", priority="build"),
        a_job("quarter", queue="b", fraction=0.25, groups=DEVICES[:1], on="n1"),
        a_job("memory", queue="b", gpu_memory_mib=4_000, groups=DEVICES[1:2], on="n2"),
        a_job("leaves", queue="b", gpus=1, on="n2", deleted=NOW - 5),
        a_job("waits", Part("x", on=("n2", "")), Part("y", 2, pods=2), queue="a", gpus=1),
        a_job("part", queue="b", fraction=0.5),
        a_job("parts", queue="a", gpu_memory_mib=8_000, devices=2),
        a_job("plain", queue="a", cpu="2"),
    )


def held(state: ClusterState) -> dict[str, object]:
    """All that decisions read."""
    return {
        "idle": state.nodes.idle.tolist(),
        "releasing": state.nodes.releasing.tolist(),
        "devices": [
            {name: repr(device) for name, device in node.groups.items()} for node in state.nodes.nodes
        ],
        "claims": [{key: repr(claim) for key, claim in node.claims.items()} for node in state.nodes.nodes],
        "tasks on nodes": [sorted(node.tasks) for node in state.nodes.nodes],
        "queues": {
            q.name: (q.allocated.amounts(), q.non_preemptible.amounts(), q.pending.amounts())
            for q in state.queue_rows
        },
        "mirrors": (state.ledger.charges.allocated.tolist(), state.ledger.charges.non_preemptible.tolist()),
        "tasks": {
            uid: (
                task.status,
                task.virtual,
                task.node,
                task.groups,
                task.releasing,
                task.pipelined_node,
                task.pipelined_groups,
                task.charged,
            )
            for uid, task in state.tasks.items()
        },
        "jobs": {
            key: [
                (each.pending, each.active_allocated, each.active_used)
                for each in (job, *job.pod_sets.values())
            ]
            for key, job in state.jobs.items()
        },
    }


def groups_for(task: Task, node, rng: random.Random) -> tuple[str, ...]:
    if not task.cls.shared:
        return ()
    known = [*node.groups, *(f"{node.name}-{number}" for number in range(2))]
    return tuple(rng.sample(known, task.cls.devices))


def step(statement: Statement, state: ClusterState, rng: random.Random) -> None:
    """Something that may be done next."""
    task = rng.choice([task for task in state.tasks.values() if task.job is not None])
    node = rng.choice(state.nodes.nodes)
    groups = groups_for(task, node, rng)
    if task.status is Status.PENDING:
        (statement.allocate if rng.random() < 0.5 else statement.pipeline)(task, node, groups=groups)
    elif task.status in (Status.RUNNING, Status.PIPELINED):
        statement.evict(task)
    elif task.status is Status.RELEASING and task.virtual:
        back = task.node is not None and rng.random() < 0.5
        where, devices = (task.node, task.groups) if back else (node, groups)
        statement.pipeline(task, where, groups=devices)


@settings(max_examples=60)
@given(number=st.integers(0, 2**32), steps=st.lists(st.integers(0, 20), min_size=1, max_size=5))
def test_a_rollback_restores_what_was_at_the_checkpoint(number: int, steps: list[int]) -> None:
    state, rng = all_sorts(), random.Random(number)
    statement = Engine().open(state, NOW).statement()
    known = [(statement.checkpoint(), held(state))]
    for count in steps:
        for _ in range(count):
            step(statement, state, rng)
            statement.check()
        known.append((statement.checkpoint(), held(state)))
    while known:
        del known[rng.randrange(len(known)) + 1 :]
        checkpoint, before = known.pop()
        statement.rollback(checkpoint)
        statement.check()
        assert held(state) == before
    state.check()


@settings(max_examples=30)
@given(number=st.integers(0, 2**32), steps=st.integers(1, 40))
def test_what_was_allocated_can_wait_instead_and_be_taken_back_all_the_same(number: int, steps: int) -> None:
    state, rng = all_sorts(), random.Random(number)
    statement = Engine().open(state, NOW).statement()
    before = held(state)
    for _ in range(steps):
        step(statement, state, rng)
    for job in rng.sample(list(state.jobs.values()), 4):
        allocated = [
            task for task in state.tasks.values() if task.status is Status.ALLOCATED and task.job is job
        ]
        places = [(task, task.node, set(task.groups)) for task in allocated]
        statement.convert_to_pipelined(job)
        statement.check()
        for task, node, groups in places:
            assert (task.status, task.node) == (Status.PIPELINED, None)
            assert (task.pipelined_node, set(task.pipelined_groups)) == (node, groups)
    statement.rollback()
    assert held(state) == before
    state.check()


class Places(Tracker):
    """Knows who is where, or will be, by what it is told alone; lets some stay, and some not."""

    def __init__(self, may_stay: Callable[[], bool]) -> None:
        self.log: list[dict[str, str]] = [{}]
        self._may_stay = may_stay

    def may_stay(self, task: Task, node: Node) -> bool:
        return self._may_stay()

    def placed(self, task: Task, node: Node) -> None:
        self.log.append({**self.log[-1], task.uid: node.name})

    def evicted(self, task: Task, node: Node) -> None:
        self.log.append({uid: place for uid, place in self.log[-1].items() if uid != task.uid})

    def stays(self, task: Task, node: Node) -> None:
        self.placed(task, node)

    def mark(self) -> int:
        return len(self.log)

    def undo(self, mark: int) -> None:
        del self.log[mark:]


@settings(max_examples=30)
@given(number=st.integers(0, 2**32), steps=st.integers(1, 40))
def test_trackers_know_who_is_where_whatever_waits_instead(number: int, steps: int) -> None:
    state, rng = all_sorts(), random.Random(number)
    places = Places(lambda: rng.random() < 0.6)
    places.log = [{task.uid: task.node.name for task in state.tasks.values() if task.node is not None}]
    statement = Statement(state.ledger, trackers=(places,))
    for _ in range(steps):
        step(statement, state, rng)
    for job in rng.sample(list(state.jobs.values()), 4):
        statement.convert_to_pipelined(job)
        assert places.log[-1] == {
            task.uid: where.name
            for task in state.tasks.values()
            if (where := task.pipelined_node or task.node) is not None
            and not (task.virtual and task.status is Status.RELEASING)
        }
    statement.rollback()
    assert len(places.log) == 1


def opened(*world) -> tuple[ClusterState, Statement]:
    state = a_state(*world)
    return state, Engine().open(state, NOW).statement()


def gpus(state: ClusterState, name: str = "n0") -> tuple[int, int]:
    """Of a node: GPUs that are idle, and that are being released."""
    row = state.nodes.by_name[name].row
    return int(state.nodes.idle[row, GPU]), int(state.nodes.releasing[row, GPU])


def charged(state: ClusterState) -> float:
    return float(state.ledger.charges.allocated[state.queues["team"].row, 2])


def test_an_evicted_pod_holds_its_devices_until_it_is_gone_but_its_queue_pays_no_more() -> None:
    state, statement = opened(nodes(1, gpus=4), a_job("old", gpus=3, on="n0"))
    statement.evict(task_of(state, "old-0"))
    assert (gpus(state), charged(state)) == ((1, 3), 0)
    assert job_of(state, "old").active_used == 1
    assert job_of(state, "old").active_allocated == 0


@pytest.mark.parametrize("may", [True, False])
def test_a_pod_that_is_put_back_stays_if_all_trackers_let_it_and_else_is_evicted_all_the_same(may) -> None:
    state, _ = opened(nodes(1, gpus=4), a_job("old", gpus=3, on="n0"))
    statement, old = Statement(state.ledger, trackers=(Places(lambda: may),)), task_of(state, "old-0")
    statement.evict(old)
    statement.pipeline(old, state.nodes.nodes[0])
    assert (old.status, statement.evicted()) == ((Status.RUNNING, []) if may else (Status.PIPELINED, [old]))
    assert charged(state) == 3
    statement.rollback()
    assert (old.status, gpus(state), charged(state)) == (Status.RUNNING, (1, 0), 3)


def test_a_pod_that_waits_is_promised_what_is_released_and_its_queue_pays() -> None:
    state, statement = opened(nodes(1, gpus=4), a_job("old", gpus=3, on="n0"), a_job("new", gpus=4))
    statement.evict(task_of(state, "old-0"))
    statement.pipeline(task_of(state, "new-0"), state.nodes.nodes[0])
    assert (gpus(state), charged(state)) == ((1, -1), 4)


def test_a_victim_that_is_put_back_where_it_was_was_never_evicted() -> None:
    state, statement = opened(nodes(1, gpus=4), a_job("old", gpus=3, on="n0"))
    task, before = task_of(state, "old-0"), held(state)
    statement.evict(task)
    statement.pipeline(task, state.nodes.nodes[0])
    assert held(state) == before
    assert list(statement.operations()) == []
    assert statement.evicted() == []
    statement.rollback(1)
    assert (task.status, task.virtual, gpus(state)) == (Status.RELEASING, True, (1, 3))


def test_a_victim_that_gets_another_place_is_evicted_and_waits_there() -> None:
    state, statement = opened(nodes(2, gpus=4), a_job("old", gpus=3, on="n0"))
    task = task_of(state, "old-0")
    statement.evict(task)
    statement.pipeline(task, state.nodes.by_name["n1"])
    assert (gpus(state, "n0"), gpus(state, "n1"), charged(state)) == ((1, 3), (4, -3), 3)
    assert statement.evicted() == [task]


def test_a_victim_on_another_device_of_its_node_is_moved() -> None:
    state, statement = opened(
        nodes(1, gpus=2, gpu_memory_mib=16_000), a_job("half", fraction=0.5, groups=DEVICES[:1], on="n0")
    )
    task, node = task_of(state, "half-0"), state.nodes.nodes[0]
    statement.evict(task)
    statement.pipeline(task, node, groups=(DEVICES[1],))
    assert statement.evicted() == [task]
    assert task.pipelined_groups == (DEVICES[1],)


def test_who_gives_up_a_turn_waits_for_nothing() -> None:
    state, statement = opened(nodes(1, gpus=4), a_job("new", gpus=4))
    task = task_of(state, "new-0")
    statement.pipeline(task, state.nodes.nodes[0])
    statement.evict(task)
    assert (gpus(state), charged(state), task.pipelined_node) == ((4, 0), 0, None)
    statement.rollback(1)
    assert (gpus(state), charged(state), task.status) == ((4, -4), 4, Status.PIPELINED)


def two_sharing(count: int) -> list[Any]:
    """Two pods on each device."""
    return [
        a_job(f"j{n}", fraction=0.5, groups=[f"device-{n // 2}"], on=f"n{n // 2 % 2}") for n in range(count)
    ]


MANY = {
    "with whole devices": lambda count: a_job("j", on=["n0", "n1"] * (count // 2), gpus=1),
    "with shared devices": two_sharing,
    "with a claim": lambda count: [
        a_gpu_claim("c", gpus=2),
        a_job("j", on=["n0"] * count, spec=claiming("c")),
    ],
    "of which nobody may take some": lambda count: a_job(
        "j",
        on=["n0", "n1"] * (count // 2),
        min_member=2,
        gpus=1,
        group={"preemptibility": "semi-preemptible"},
    ),
}


@pytest.mark.parametrize("count", [2, 40])
@pytest.mark.parametrize("kind", MANY)
def test_many_are_evicted_as_each_alone(kind: str, count: int) -> None:
    worlds = [a_state(nodes(2, gpus=40, gpu_memory_mib=16_000), MANY[kind](count)) for _ in range(2)]
    one, many = (Engine().open(state, NOW).statement() for state in worlds)
    for uid in worlds[0].tasks:
        one.evict(worlds[0].tasks[uid])
    many.evict_all(list(worlds[1].tasks.values()))
    compared = ("idle", "releasing", "devices", "claims", "queues", "jobs")
    amounts = [{key: found[key] for key in compared} for found in map(held, worlds)]
    assert amounts[0] == amounts[1]
    many.check()
    many.rollback()
    assert worlds[1].nodes.releasing.sum() == 0
    worlds[1].check()
