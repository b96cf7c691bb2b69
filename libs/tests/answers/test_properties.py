"""In random worlds each change that is told helps, nothing smaller does, and the reason is the true one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from hypothesis import event, note

from kai.answers.answer import Answer, Code, StageState, Verdict
from kai.answers.answering import answer_pod_group
from kai.answers.search import Search
from kai.answers.situation import Situation, serves
from kai.answers.what_if import EndDelay, EndProtection, LiftGates, RelaxTopology
from kai.bench.worlds import NOW, World
from kai.engine import Engine
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.model.decisions import CycleResult
from kai.model.ids import PodGroupKey
from kai.simulate.changes import (
    AddNodes,
    AddToleration,
    Bound,
    Change,
    DropConstraint,
    SetBounds,
    SetMinimum,
    made,
)
from kai.snapshot import codec
from libs.tests.engine import random_worlds

fuzz = random_worlds.fuzz(worlds=random_worlds.WORLDS)

#: Of each world so many groups that wait are asked about, for so many seconds of search each.
GROUPS = 2
SECONDS = 2.0
#: Obstacles that are told one after the other without a stage between.
NEXT_OF_STAGE = {(Code.OVER_LIMIT, Code.OVER_QUOTA), (Code.GATED, Code.PODS_MISSING)}


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
    before = codec.cut(situation._tried).digest
    for key in waiting(situation):
        answer = answered(situation, key)
        if answer.verdict is Verdict.RUNS or answer.reason.code in (Code.NEXT_CYCLE, Code.BEING_RELEASED):
            continue
        job = situation.state.jobs[key]
        search = Search(situation, situation.session, job, tasks_to_allocate(job), seconds=SECONDS)
        for changes in search.found(answer.reason.code):
            event(" and ".join(type(change).__name__ for change in changes))
            note(f"{key}: {answer.reason.text}: {[change.text for change in changes]}\n{world}")
            assert placed(situation, key, changes)
            for less in smaller(changes):
                result = decided(situation, less)
                # A limit is raised by what the work needs while all others stay: where others leave the queue
                # for it, a lower one does as well.
                leave = result.evictions and any(isinstance(change, SetBounds) for change in less)
                assert leave or not serves(result, key), [change.text for change in less]
    assert codec.cut(situation._tried).digest == before


def smaller(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """All that are a little less of the same; none of what has no size."""
    if len(changes) == 1:
        match changes[0]:
            case SetMinimum() as change:
                yield [dataclasses.replace(change, minimum=change.minimum + 1)]
            case AddNodes(count=count) as change if count > 1:
                yield [dataclasses.replace(change, count=count - 1)]
    bounds = [change for change in changes if isinstance(change, SetBounds)]
    limits = [change for change in bounds if "gpu" in change.amounts and change.bound is Bound.LIMIT]
    for change in limits:
        lower = dataclasses.replace(change, amounts={**change.amounts, "gpu": change.amounts["gpu"] - 0.01})
        yield [lower if each is change else each for each in changes]


@fuzz
def test_without_just_the_obstacle_that_is_told_the_work_gets_further(world: World) -> None:
    situation = the_situation(world)
    for key in waiting(situation):
        answer = answered(situation, key)
        changes = removal(situation, key, answer)
        if not changes:
            continue
        event(answer.reason.code)
        note(f"{key}: {answer.reason.code}: {answer.reason.text}\n{world}")
        if placed(situation, key, changes):
            continue
        state = codec.restore(situation.snapshot)
        with made(state, changes):
            after = Situation(snapshot=codec.cut(state), now=situation.now)
        then = answered(after, key)
        note(f"then: {then.reason.code}: {then.reason.text}")
        assert reached(then) > reached(answer) or (answer.reason.code, then.reason.code) in NEXT_OF_STAGE


def reached(answer: Answer) -> int:
    """How many stages are passed."""
    return sum(stage.state is StageState.PASSED for stage in answer.stages)


def removal(situation: Situation, key: PodGroupKey, answer: Answer) -> list[Change]:
    """What takes away just what the reason names; nothing where that is no single thing."""
    job, name = situation.state.jobs[key], str(key)
    match answer.reason.code:
        case Code.OVER_LIMIT | Code.OVER_QUOTA:
            bound = Bound.LIMIT if answer.reason.code is Code.OVER_LIMIT else Bound.QUOTA
            free = dict.fromkeys(("cpu", "memory", "gpu"), -1.0)
            # The one that is told is the first on the way up; those above it may be in the way as well.
            return [SetBounds(queue=queue.name, bound=bound, amounts=free) for queue in job.queue.path]
        case Code.NODE_SELECTOR:
            return [DropConstraint(group=name, constraint="node selector")]
        case Code.TAINTED:
            return [AddToleration(group=name, key="dedicated", value="x", effect="NoSchedule")]
        case Code.GATED:
            return [LiftGates(group=name)]
        case Code.TOPOLOGY_TOO_SMALL:
            return [RelaxTopology(group=name)]
        case Code.PROTECTED:
            return [EndProtection()]
        case Code.PREEMPTION_DELAY:
            return [EndDelay(group=name)]
    return []
