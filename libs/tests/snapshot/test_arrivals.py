"""Pods and groups that come at once leave a state as if each had come alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai.bench.objects import a_group, a_node, a_pod, a_queue, usual_priorities
from kai.bench.worlds import NOW, a_world
from kai.model import limits, names
from kai.model.claims import Grant
from kai.model.faults import OutOfBounds
from kai.model.objects import (
    Pod,
    PodGroup,
    PodGroupStatus,
    PodResourceClaim,
    QueueAccess,
    SchedulingCondition,
)
from kai.model.rules.gpu_groups import gpu_groups
from kai.snapshot import arrivals, changes
from kai.snapshot.accounts import Accounts, facts_of
from kai.snapshot.changes import Changes, take_in
from kai.snapshot.kinds import by_kind
from kai.snapshot.rows import Job, PodSet, Task
from kai.snapshot.state import ClusterState, Kind
from libs.tests.snapshot.test_grants import a_reservation
from libs.tests.snapshot.test_state import _sums


def _image(state: ClusterState) -> object:
    """All that is known of pods, in the order in which it is found."""
    return (
        [_row(task) for task in state.tasks.values()],
        [(key, task.uid) for key, task in state.tasks_by_key.items()],
        [(key, list(members)) for key, members in state.members.items()],
        [(name, list(there)) for name, there in state.on_node.items()],
        [(node.name, list(node.tasks), node.legacy_mig) for node in state.nodes.nodes],
        [
            (job.key, [(name, list(each.tasks), each.alive) for name, each in job.pod_sets.items()])
            for job in state.jobs.values()
        ],
        [
            (job.key, job.pending, job.active_allocated, job.active_used, job.succeeded, job.gated)
            for job in state.jobs.values()
        ],
        [(job.key, list(job.invalid)) for job in state.jobs.values()],
        [_group_row(job) for job in state.jobs.values()],
        [(queue.name, list(queue.jobs)) for queue in state.queues.values()],
        (list(state.group_objects.items()), list(state.elsewhere), list(state.unsettled)),
        (list(state.pending_jobs), list(state.touched_jobs), list(state.deleted), list(state.affine)),
        (list(state.faults.items()), list(state.overruled), state.foreign, state.version),
        [(cls.id, cls.signature) for cls in state.classes],
        _sums(state),
    )


def _row(task: Task) -> object:
    facts = msgspec.structs.asdict(facts_of(task))
    refers = (task.job and task.job.key, task.pod_set and task.pod_set.name, task.node and task.node.name)
    plain = (task.uid, task.namespace, task.name, task.created, task.order, task.labels, task.claims)
    holds = (task.status, task.groups, task.releasing, task.charged, task.lingering, task.allotment)
    more = (
        task.nominated,
        task.bare,
        task.shut_out,
        task.cls.id,
        task.declared_cls and task.declared_cls.id,
        task.virtual,
    )
    return facts, refers, plain, holds, more


def _group_row(job: Job) -> object:
    tree = [(each.name, each.min_member, each.constraint, _path(each)) for each in job.pod_sets.values()]
    plain = (job.key, job.namespace, job.name, job.uid, job.queue.name, job.created, job.error)
    stands = (job.priority, job.preemptible, job.semi_preemptible, job.usurps, job.elsewhere, job.unwelcome)
    times = (job.stale_since, job.last_start, job.last_eviction)
    single = job.single and job.single.name
    return (
        msgspec.structs.asdict(job.facts),
        tree,
        plain,
        stands,
        times,
        single,
        job.has_constraint,
        job.aside,
    )


def _path(pod_set: PodSet) -> list[object]:
    found: list[object] = []
    above = pod_set.parent
    while above is not None:
        found.append((above.name, above.constraint, above.min_sub_group, len(above.members)))
        above = above.parent
    return found


def _objects(rng: random.Random) -> list[tuple[Kind, object]]:
    """A random cluster with pods of all kinds, some of them twice, in any order or that of a list."""
    world = a_world(rng)
    for pod in list(world.pods):
        if rng.random() < 0.25:
            world.pods.append(rng.choice(_ODD)(pod))
    if rng.random() < 0.2:
        world.pods.extend(list(_records(world.pods)))
    if rng.random() < 0.5:
        rng.shuffle(world.pods)
    for at, group in enumerate(world.groups):
        if rng.random() < 0.15:
            world.groups[at] = rng.choice(_ODD_GROUPS)(group)
        if rng.random() < 0.1:
            world.groups.append(rng.choice((group, world.groups[at])))
    if rng.random() < 0.3:
        del world.groups[rng.randrange(len(world.groups))]
    if rng.random() < 0.3:
        world.queues.pop()
    if rng.random() < 0.1:
        world.queues[-1].spec.access = QueueAccess(namespaces=["other"])
    return world.objects()


def _records(pods: list[Pod]) -> Iterator[Pod]:
    """Reservation pods of shared devices, which say what is granted to those who have a part of them."""
    for pod in pods:
        for group in gpu_groups(pod.labels) if pod.spec.node_name else ():
            yield a_reservation(group, node=pod.spec.node_name, **{pod.metadata.name: Grant(1, 50)})


def _group(group: PodGroup, *, labels: dict[str, str] | None = None, **spec: object) -> PodGroup:
    meta = msgspec.structs.replace(group.metadata, labels=labels)
    return msgspec.structs.replace(group, metadata=meta, spec=msgspec.structs.replace(group.spec, **spec))


def _told(group: PodGroup, *pools: str) -> PodGroup:
    conditions = [SchedulingCondition(node_pool=pool) for pool in pools]
    return msgspec.structs.replace(group, status=PodGroupStatus(scheduling_conditions=conditions))


#: One that is beyond its bounds, one that may not have its priority, one of another node pool, one without a
#: queue, one that says what others do not, and some that were told something.
_ODD_GROUPS = (
    lambda group: _group(group, min_member=1 << 40),
    lambda group: _group(group, priority_class_name="system-node-critical"),
    lambda group: _group(group, labels={names.NODE_POOL_LABEL: "other"}),
    lambda group: _group(group, labels={"team": "x"}, queue="nobodys"),
    lambda group: _group(group, staleness_grace_period="1h", scheduling_backoff=1, mark_unschedulable=False),
    lambda group: _told(group, ""),
    lambda group: _told(group, "", "other"),
    lambda group: _told(group),
)


def _named(pod: Pod, name: str, *, spec: object = None, **meta: object) -> Pod:
    changed = msgspec.structs.replace(pod.metadata, name=name, **{"uid": name, **meta})
    return msgspec.structs.replace(pod, metadata=changed, **({"spec": spec} if spec is not None else {}))


def _with_status(pod: Pod, name: str, **status: object) -> Pod:
    return msgspec.structs.replace(_named(pod, name), status=msgspec.structs.replace(pod.status, **status))


_ODD = (
    lambda pod: pod,
    lambda pod: _named(pod, pod.metadata.name, uid=f"{pod.metadata.name}-again"),
    lambda pod: _named(pod, f"{pod.metadata.name}-anonymous", uid=""),
    lambda pod: _named(pod, f"{pod.metadata.name}-bad", labels={names.TASK_PRIORITY_LABEL: "high"}),
    lambda pod: _named(
        pod,
        f"{pod.metadata.name}-worse",
        spec=msgspec.structs.replace(pod.spec, priority=1 << 40),
    ),
    lambda pod: _named(
        pod, f"{pod.metadata.name}-foreign", spec=msgspec.structs.replace(pod.spec, scheduler_name="other")
    ),
    lambda pod: _with_status(pod, f"{pod.metadata.name}-done", phase="Succeeded"),
    lambda pod: _with_status(pod, f"{pod.metadata.name}-failed", phase="Failed"),
    lambda pod: _with_status(pod, f"{pod.metadata.name}-unknown", phase="Unknown"),
    lambda pod: _with_status(pod, f"{pod.metadata.name}-hopes", nominated_node_name="node-0"),
    lambda pod: _named(
        pod,
        f"{pod.metadata.name}-zones",
        annotations={**pod.annotations, names.NUMA_OBSERVED: "{}"},
    ),
    lambda pod: _named(
        pod,
        f"{pod.metadata.name}-claims",
        spec=msgspec.structs.replace(pod.spec, resource_claims=[PodResourceClaim(name="c")]),
    ),
    lambda pod: _named(
        pod,
        f"{pod.metadata.name}-many",
        labels={f"{names.MULTI_GPU_GROUP_PREFIX}{at}": "" for at in range(limits.GPU_GROUPS.most + 1)},
    ),
    lambda pod: a_pod("vast", group="job-00", gpus=1, node="node-0", memory=f"{1 << 44}"),
    lambda pod: _named(
        pod, f"{pod.metadata.name}-mig", annotations={**pod.annotations, "nvidia.com/mig-1g.5gb": "1"}
    ),
)


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32), at_once=st.sampled_from([1, 3, 256]))
def test_a_cluster_is_loaded_as_if_all_had_come_one_by_one(seed: int, at_once: int) -> None:
    rng = random.Random(seed)
    objects = _objects(rng)
    before = _some_of(objects, rng)
    late = _some_of([each for each in objects if each[0] in (Kind.NODE, Kind.POD_GROUP, Kind.QUEUE)], rng)
    loaded = [each for each in objects if not any(each is other for other in late)]
    alone, together = ClusterState(), ClusterState()
    for state in (alone, together):
        for kind, obj in before:
            state.take(kind, obj)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrivals, "_AT_ONCE", at_once)
        together.load(loaded)
    for kind, arriving in by_kind(loaded):
        if kind in (Kind.POD_GROUP, Kind.POD):
            alone._intake.refresh()
        for obj in arriving:
            alone.take(kind, obj)
    assert _image(together) == _image(alone)
    for state in (alone, together):
        state.check()
        for kind, obj in late:
            state.take(kind, obj)
        state.settle(NOW)
        state.check()
    assert _image(together) == _image(alone)


def _some_of(objects: list[tuple[Kind, object]], rng: random.Random) -> list[tuple[Kind, object]]:
    """None of them, or nearly a third."""
    share = rng.choice([0, 0.3])
    return [each for each in objects if rng.random() < share]


def _some(count: int) -> ClusterState:
    """A state that knows everything but pods: a node, and as many groups in a queue."""
    state = ClusterState()
    state.load(
        [
            *((Kind.PRIORITY_CLASS, each) for each in usual_priorities()),
            (Kind.NODE, a_node("n", gpus=8)),
            (Kind.QUEUE, a_queue("q", gpu=8)),
            *((Kind.POD_GROUP, a_group(f"g{at}", queue="q")) for at in range(count)),
        ]
    )
    return state


def test_changes_of_a_whole_cluster_are_taken_in_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_WHOLE_CLUSTER", 3)
    pods = {f"default/p{at}": a_pod(f"p{at}", group=f"g{at % 2}", gpus=1, node="n") for at in range(6)}
    pods["default/p3"] = _named(pods["default/p3"], "p3", labels={names.TASK_PRIORITY_LABEL: "high"})
    alone, together = _some(2), _some(2)
    for state in (alone, together):
        state.apply(Kind.POD, a_pod("gone", group="g0", gpus=1, node="n"))
    taken = take_in(together, Changes(objects={Kind.POD: {"default/gone": None, **pods}}))
    take_in(alone, Changes(objects={Kind.POD: {"default/gone": None}}))
    for pod in pods.values():
        alone.take(Kind.POD, pod)
    for state in (alone, together):
        state.settle(NOW)
        state.check()
    assert [each.key for each in taken.rejections] == ["default/p3"]
    assert _image(together) == _image(alone)


def test_who_cannot_be_put_into_sums_holds_what_it_does_and_costs_nobody_his_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once as what stands in for it, once not at all, as where it comes alone."""
    enter, enter_all = Accounts._enter, Accounts._enter_all

    def fails(task: Task) -> None:
        if task.key == "default/p2" or (task.key == "default/p4" and not facts_of(task).gated):
            raise OutOfBounds("memory", 1, "less")

    def entered(accounts: Accounts, task: Task) -> None:
        fails(task)
        enter(accounts, task)

    def all_entered(accounts: Accounts, tasks: list[Task]) -> None:
        enter_all(accounts, tasks[: len(tasks) // 2])
        for task in tasks:
            fails(task)

    monkeypatch.setattr(Accounts, "_enter", entered)
    monkeypatch.setattr(Accounts, "_enter_all", all_entered)
    monkeypatch.setattr(changes, "_WHOLE_CLUSTER", 1)
    pods = {f"default/p{at}": a_pod(f"p{at}", group=f"g{at % 2}", gpus=1, node="n") for at in range(6)}
    alone, loaded, told = _some(2), _some(2), _some(2)
    for pod in pods.values():
        alone.take(Kind.POD, pod)
    loaded.load((Kind.POD, pod) for pod in pods.values())
    taken = take_in(told, Changes(objects={Kind.POD: {**pods}}))
    for state in (alone, loaded, told):
        state.settle(NOW)
        state.check()
        assert _image(state) == _image(alone)
    assert [each.key for each in taken.rejections] == ["default/p2", "default/p4"]
    assert [task.name for task in told.tasks.values() if task.node is not None] == [
        "p0",
        "p1",
        "p3",
        "p4",
        "p5",
    ]
    assert told.tasks_by_key["default/p4"].bare


def test_a_step_that_fails_costs_no_pod_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_WHOLE_CLUSTER", 1)

    def fails(accounts: Accounts, tasks: list[Task]) -> None:
        accounts.attach(tasks[0])
        accounts._cluster.unsound = True
        raise RuntimeError("a defect")

    monkeypatch.setattr(Accounts, "attach_all", fails)
    state = _some(2)
    pods = {f"default/p{at}": a_pod(f"p{at}", group=f"g{at % 2}", gpus=1, node="n") for at in range(6)}
    taken = take_in(state, Changes(objects={Kind.POD: pods}))
    state.settle(NOW)
    state.check()
    assert not taken.rejections
    assert [task.node is not None for task in state.tasks.values()] == [True] * 6


def test_what_cannot_be_entered_at_the_end_is_found_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_WHOLE_CLUSTER", 1)
    state = _some(1)

    def fails(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise RuntimeError("a defect")

    monkeypatch.setattr(state.ledger.charges, "add", fails)
    pods = {f"default/p{at}": a_pod(f"p{at}", group="g0", gpus=1, node="n") for at in range(3)}
    taken = take_in(state, Changes(objects={Kind.POD: pods}))
    state.settle(NOW)
    state.check()
    assert not taken.rejections
    assert len(state.tasks) == 3


def test_a_full_group_takes_no_more_pods_however_many_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROUP_PODS", replace(limits.GROUP_PODS, most=300))
    state = _some(1)
    state.load((Kind.POD, a_pod(f"p{at}", group="g0")) for at in range(310))
    assert len(state.tasks) == 300
    assert len(state.faults) == 10


def test_a_version_that_can_be_taken_in_ends_the_fault_of_the_one_before() -> None:
    state = _some(1)
    pod = a_pod("p", group="g0")
    state.take(Kind.POD, _named(pod, "p", uid="default-p", labels={names.TASK_PRIORITY_LABEL: "high"}))
    assert list(state.faults) == [(Kind.POD, "default/p")]
    state.load([(Kind.POD, pod)])
    assert not state.faults
