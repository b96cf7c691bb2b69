"""In random worlds each change that is told helps, nothing smaller does, and the reason is the true one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
from hypothesis import event, note

from kai.answers.answer import Answer, Code, StageState, Verdict
from kai.answers.answering import answer_pod_group
from kai.answers.search import Search
from kai.answers.situation import Situation, serves
from kai.answers.standing import tasks_of
from kai.answers.what_if import EndDelay, EndOthers, EndProtection, LiftGates, RelaxTopology
from kai.bench.worlds import NOW, World
from kai.engine import Engine
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.model.decisions import CycleResult
from kai.model.ids import PodGroupKey
from kai.model.objects import Condition
from kai.simulate.changes import (
    AddNodes,
    AddToleration,
    Bound,
    Change,
    DropConstraint,
    SetBounds,
    SetGpuShare,
    SetMinimum,
    SetPriority,
    SetRequest,
    made,
)
from kai.simulate.journal import Journal
from kai.snapshot import codec
from kai.snapshot.resources import CPU, MEMORY
from kai.snapshot.rows import Job
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine import random_worlds

fuzz = random_worlds.fuzz(worlds=random_worlds.WORLDS)

#: Of each world so many groups that wait are asked about, for so many seconds of search each.
GROUPS = 2
SECONDS = 2.0
#: There is nothing in its way any more.
ITS_TURN = (Code.NEXT_CYCLE, Code.BEING_RELEASED)
#: What may be told next, where that is no stage further. With room for all of it there are still those ahead,
#: who may use up what its queue may hold.
NEXT_OF_STAGE = {
    Code.NOT_ENOUGH_FREE: {Code.OTHERS_FIRST},
    Code.FRAGMENTED: {Code.OTHERS_FIRST},
    Code.TOPOLOGY_TOO_SMALL: {Code.OTHERS_FIRST},
    Code.NEIGHBOURS: {Code.OTHERS_FIRST},
    Code.GATED: {Code.PODS_MISSING},
    Code.TOO_LARGE: {Code.TAINTED, Code.NODES_UNAVAILABLE, Code.NODE_SELECTOR, Code.NODES_REFUSE},
    Code.NOT_OFFERED: {Code.TAINTED, Code.NODES_UNAVAILABLE, Code.NODE_SELECTOR, Code.NODES_REFUSE},
}


def the_situation(world: World) -> Situation:
    """After a cycle, as somebody would ask who sees that it waits."""
    state = world.state()
    Engine().run(state, NOW)
    return Situation(snapshot=codec.cut(state), now=NOW + 1)


def waiting(situation: Situation) -> list[PodGroupKey]:
    found = sorted(key for key, job in situation.state.jobs.items() if job.pending or job.gated)
    return found[:GROUPS]


def answered(situation: Situation, key: PodGroupKey, *, seconds: float = 0.0) -> Answer:
    found = answer_pod_group(situation, key, seconds=seconds)
    assert found is not None
    return found


def decided(situation: Situation, changes: Sequence[Change]) -> CycleResult:
    """In another copy, which no search has seen."""
    state = codec.restore(situation.snapshot)
    with made(state, changes) as journal:
        result = Engine().run(state, situation.now)
        journal.decided(result)
    return result


def placed(situation: Situation, key: PodGroupKey, changes: Sequence[Change]) -> bool:
    return serves(decided(situation, changes), key)


@fuzz
def test_each_change_that_is_told_places_the_work_and_nothing_smaller_does(world: World) -> None:
    situation = the_situation(world)
    before = codec.cut(situation.tried).digest
    for key in waiting(situation):
        answer = answered(situation, key)
        if answer.verdict is Verdict.RUNS or answer.reason.code in ITS_TURN:
            continue
        job = situation.state.jobs[key]
        search = Search(situation, situation.session, job, tasks_to_allocate(job), seconds=SECONDS)
        for changes in search.found(answer.reason.code):
            event(" and ".join(type(change).__name__ for change in changes))
            note(f"{key}: {answer.reason.text}: {[change.text for change in changes]}\n{world}")
            assert placed(situation, key, changes)
            for less in smaller(situation, job, changes):
                result = decided(situation, less)
                # A limit is raised by what the work needs while all others stay: where others leave the queue
                # for it, a lower one does as well.
                leave = result.evictions and is_limit(changes)
                assert leave or not serves(result, key), [change.text for change in less]
    assert codec.cut(situation.tried).digest == before


def is_limit(changes: Sequence[Change]) -> bool:
    return any(isinstance(change, SetBounds) and change.bound is Bound.LIMIT for change in changes)


def smaller(situation: Situation, job: Job, changes: Sequence[Change]) -> Iterator[list[Change]]:
    """All that are a little less of the same; of several changes each without one of them, too.

    A constraint that goes, a gate, a delay, a queue and preemptibility have no size.
    """
    # A quota that is to take back what others have is raised by whole GPUs, that of its own queue first.
    shared = all(isinstance(change, SetBounds) and change.bound is Bound.QUOTA for change in changes)
    if len(changes) > 1:
        needless = changes[1:] if shared and job.preemptible else changes
        yield from ([each for each in changes if each is not change] for change in needless)
    if len(changes) == 1:
        yield from ([less] for less in less_of(situation, job, changes[0]))
    for change in changes:
        for less in lower_bounds(change, by=1.0 if shared and job.preemptible else 0.01):
            yield [less if each is change else each for each in changes]


def less_of(situation: Situation, job: Job, change: Change) -> Iterator[Change]:
    cls = tasks_of(job)[0].cls
    match change:
        case SetMinimum() if job.single is not None and change.minimum + 1 < job.single.min_member:
            yield dataclasses.replace(change, minimum=change.minimum + 1)
        case AddNodes(count=count) if count > 1:
            yield dataclasses.replace(change, count=count - 1)
        case SetRequest(resource="cpu", amount=amount) if int(amount[:-1]) + 1 < dict(cls.items)[CPU]:
            yield dataclasses.replace(change, amount=f"{int(amount[:-1]) + 1}m")
        case SetRequest(resource="memory", amount=amount) if int(amount) + 1 < dict(cls.items)[MEMORY]:
            yield dataclasses.replace(change, amount=f"{int(amount) + 1}")
        case SetRequest(amount=amount) if cls.devices > int(amount) + 1 and not cls.shared:
            yield dataclasses.replace(change, amount=f"{int(amount) + 1}")
        case SetGpuShare(portion=portion) if portion and round(portion + 0.01, 2) < cls.portion_centi / 100:
            yield dataclasses.replace(change, portion=round(portion + 0.01, 2))
        case SetGpuShare(memory_mib=mib) if mib and mib + 1 < cls.gpu_memory_mib:
            yield dataclasses.replace(change, memory_mib=mib + 1)
        case SetPriority(priority_class=name):
            classes = situation.state.priority_classes
            for other, each in classes.items():
                if job.priority < each.value < classes[name].value:
                    yield dataclasses.replace(change, priority_class=other)


def lower_bounds(change: Change, *, by: float) -> Iterator[Change]:
    """The same with a little less of one resource: millicores, megabytes, parts of GPUs."""
    if not isinstance(change, SetBounds):
        return
    for resource, amount in change.amounts.items():
        less = amount - (by if resource == "gpu" else 1.0)
        if less >= 0:
            yield dataclasses.replace(change, amounts={**change.amounts, resource: less})


# --- the reason -----------------------------------------------------------------------------------
@fuzz
def test_without_just_the_obstacle_that_is_told_the_work_gets_further(world: World) -> None:
    situation = the_situation(world)
    for key in waiting(situation):
        answer = answered(situation, key)
        if answer.verdict is Verdict.RUNS:
            continue
        event(answer.reason.code)
        note(f"{key}: {answer.reason.code}: {answer.reason.text}\n{world}")
        if answer.reason.code in ITS_TURN:
            assert placed(situation, key, [])
            continue
        assert not placed(situation, key, []), "nothing keeps it from its place"
        changes = removal(situation, key, answer)
        if placed(situation, key, changes):
            continue
        state = codec.restore(situation.snapshot)
        with made(state, changes):
            after = Situation(snapshot=codec.cut(state), now=situation.now)
        then = answered(after, key)
        note(f"then: {then.reason.code}: {then.reason.text}")
        assert reached(then) > reached(answer) or obstacle(then) in next_of_stage(
            situation.state.jobs[key], answer
        )


@fuzz
def test_a_verdict_says_whether_others_need_only_end(world: World) -> None:
    situation = the_situation(world)
    for key in waiting(situation):
        answer = answered(situation, key)
        note(f"{key}: {answer.verdict}: {answer.reason.text}\n{world}")
        alone = placed(situation, key, [EndOthers(group=str(key))])
        if answer.verdict in (Verdict.CHANGE, Verdict.ESCALATE, Verdict.NEVER):
            event(answer.verdict)
            assert not alone
        elif answer.reason.code not in ITS_TURN and answer.verdict is Verdict.WAIT:
            event(answer.verdict)
            assert alone


def obstacle(answer: Answer) -> tuple[Code, str]:
    """What is in the way; of several queues each is another one."""
    limited = answer.reason.code in (Code.OVER_LIMIT, Code.OVER_QUOTA)
    return answer.reason.code, answer.reason.amounts["queue"] if limited else ""


def next_of_stage(job: Job, answer: Answer) -> set[tuple[Code, str]]:
    """Obstacles that are told one after the other without a stage between."""
    code, queue = obstacle(answer)
    bounds = {(each, above.name) for each in (Code.OVER_LIMIT, Code.OVER_QUOTA) for above in job.queue.path}
    if code in (Code.OVER_LIMIT, Code.OVER_QUOTA):
        return bounds - {(code, queue)}
    told = {(each, "") for each in NEXT_OF_STAGE.get(code, ())}
    # What no node can ever take is told whatever its queues may hold.
    return told | bounds if code in (Code.TOO_LARGE, Code.NOT_OFFERED) else told


def reached(answer: Answer) -> int:
    """How many stages are passed."""
    return sum(stage.state is StageState.PASSED for stage in answer.stages)


def removal(situation: Situation, key: PodGroupKey, answer: Answer) -> list[Change]:
    """What takes away just what the reason names."""
    job, name, amounts = situation.state.jobs[key], str(key), answer.reason.amounts
    match answer.reason.code:
        case Code.OVER_LIMIT | Code.OVER_QUOTA as code:
            bound, word = (Bound.LIMIT, "Limit") if code is Code.OVER_LIMIT else (Bound.QUOTA, "Quota")
            told = [each for each in ("cpu", "memory", "gpu") if f"{each}{word}" in amounts]
            return [SetBounds(queue=amounts["queue"], bound=bound, amounts=dict.fromkeys(told, -1.0))]
        case Code.GATED:
            return [LiftGates(group=name)]
        case Code.PODS_MISSING:
            return [Complete(group=name)]
        case Code.TOO_LARGE | Code.NOT_OFFERED:
            return [LargeNodes()]
        case Code.NODES_UNAVAILABLE:
            return [OpenNodes()]
        case Code.NODE_SELECTOR:
            return [DropConstraint(group=name, constraint="node selector")]
        case Code.TAINTED:
            return [AddToleration(group=name, key="dedicated", value="x", effect="NoSchedule")]
        case Code.NODES_REFUSE:
            return [OpenNodes(tainted=False), *without(job, "node selector")]
        case Code.NOT_ENOUGH_FREE | Code.FRAGMENTED:
            count = sum(each.pending + each.gated for each in situation.state.jobs.values())
            return [AddNodes(like=node.name, count=min(count, 50)) for node in situation.state.nodes.nodes]
        case Code.TOPOLOGY_TOO_SMALL:
            return [RelaxTopology(group=name)]
        case Code.NEIGHBOURS:
            return [ShunNobody()]
        case Code.OTHERS_FIRST:
            return [EndOthers(group=name)]
        case Code.PROTECTED:
            return [EndProtection()]
        case Code.PREEMPTION_DELAY:
            return [EndDelay(group=name)]
    raise AssertionError(f"random worlds have no {answer.reason.code}")


def without(job: Job, constraint: str) -> list[Change]:
    field = constraint.replace(" ", "_").replace("-", "_")
    has = any(getattr(task.cls.constraints, field) for task in tasks_of(job))
    return [DropConstraint(group=str(job.key), constraint=constraint)] if has else []


@dataclass(frozen=True)
class OpenNodes:
    """As if all nodes were ready; and had no taints, if said."""

    tainted: bool = True
    text: str = "open all nodes"

    def command(self, state: ClusterState) -> str | None:
        raise NotImplementedError

    def make(self, journal: Journal) -> None:
        for node in list(journal.state.nodes.nodes):
            taints = node.object.spec.taints if self.tainted else None
            spec = msgspec.structs.replace(node.object.spec, unschedulable=False, taints=taints)
            status = msgspec.structs.replace(
                node.object.status, conditions=[Condition(type="Ready", status="True")]
            )
            journal.put(Kind.NODE, msgspec.structs.replace(node.object, spec=spec, status=status))


@dataclass(frozen=True)
class LargeNodes:
    """As if all nodes had more of everything than anybody asks for."""

    text: str = "have large nodes"

    def command(self, state: ClusterState) -> str | None:
        raise NotImplementedError

    def make(self, journal: Journal) -> None:
        for node in list(journal.state.nodes.nodes):
            amounts = {"cpu": "999", "memory": "999G", "pods": "999", "nvidia.com/gpu": "99"}
            labels = {**node.object.labels, "nvidia.com/gpu.memory": "99000"}
            body = msgspec.structs.replace(
                node.object,
                metadata=msgspec.structs.replace(node.object.metadata, labels=labels),
                status=msgspec.structs.replace(node.object.status, allocatable=amounts, capacity=amounts),
            )
            journal.put(Kind.NODE, body)


@dataclass(frozen=True)
class ShunNobody:
    """As if no pod minded which others are on its node: whom it shuns, and who shuns it."""

    text: str = "shun nobody"

    def command(self, state: ClusterState) -> str | None:
        raise NotImplementedError

    def make(self, journal: Journal) -> None:
        for task in list(journal.state.tasks.values()):
            pod = task.cls.pod
            if task.cls.constraints.pod_anti_affinity:
                spec = msgspec.structs.replace(pod.spec, affinity=None)
                journal.reclass(task, msgspec.structs.replace(pod, spec=spec))


@dataclass(frozen=True)
class Complete:
    """As if a workload needed none of the pods that it lacks."""

    group: str
    text: str = "need no more than there is"

    def command(self, state: ClusterState) -> str | None:
        raise NotImplementedError

    def make(self, journal: Journal) -> None:
        group = journal.state.group_objects[journal.state.jobs[PodGroupKey(self.group)].key]
        spec = msgspec.structs.replace(group.spec, min_member=0, min_sub_group=None, sub_groups=None)
        journal.put(Kind.POD_GROUP, msgspec.structs.replace(group, spec=spec))
