"""The answer for a pod group: the first stage that it does not pass, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec
import numpy as np

from kai.answers.allowed import Masks, nodes_allowed, one_of_each_class
from kai.answers.answer import Answer, Code, Ladder, Position, Reason, Stage, Verdict
from kai.answers.objects import is_being_made
from kai.answers.room import Room, room_for
from kai.answers.search import SECONDS, Search
from kai.answers.situation import Situation, gainers, serves
from kai.answers.standing import Finding, admitted, complete, grouped, tasks_of, within_limits
from kai.answers.what_if import EndDelay, EndOthers, EndProtection, RelaxTopology
from kai.engine.explain.job_order import job_order
from kai.engine.framework.allocation import allocate_job
from kai.engine.framework.fit import OUTSIDE_DOMAIN, is_shortage
from kai.engine.framework.session import Session
from kai.engine.plugins.predicates.refusals import REASON as REFUSED_LATELY
from kai.engine.queueing.chunks import tasks_to_allocate
from kai.engine.reasons.amounts import amount_text
from kai.model.decisions import CycleResult
from kai.model.ids import PodGroupKey
from kai.model.words import counted, listed
from kai.simulate.changes import Change
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.resources import GPU
from kai.snapshot.rows import Job, Queue, Task
from kai.snapshot.status import ACTIVE_ALLOCATED
from kai.snapshot.times import rfc3339

#: What a reason means where the work would not even start if all others had ended.
_OTHERWISE = {
    Code.OVER_LIMIT: Verdict.ESCALATE,
    Code.OVER_QUOTA: Verdict.CHANGE,
    Code.TOO_LARGE: Verdict.NEVER,
    Code.NOT_OFFERED: Verdict.NEVER,
    Code.NO_NODES: Verdict.ESCALATE,
    Code.NODES_UNAVAILABLE: Verdict.ESCALATE,
    Code.NOT_ENOUGH_FREE: Verdict.ESCALATE,
    Code.FRAGMENTED: Verdict.ESCALATE,
    Code.TOPOLOGY_TOO_SMALL: Verdict.ESCALATE,
    Code.NEIGHBOURS: Verdict.CHANGE,
    Code.NODES_SET_ASIDE: Verdict.WAIT,
    Code.OTHERS_FIRST: Verdict.WAIT,
    Code.QUEUE_CLOSED: Verdict.ESCALATE,
    Code.PROTECTED: Verdict.WAIT,
    Code.PREEMPTION_DELAY: Verdict.WAIT,
    Code.NEXT_CYCLE: Verdict.WAIT,
    Code.BEING_RELEASED: Verdict.WAIT,
}
#: Its turn is near, or nobody can do anything about it.
_NOTHING_TO_DO = (
    Code.NEXT_CYCLE,
    Code.BEING_RELEASED,
    Code.NOT_TAKEN_IN,
    Code.QUEUE_CLOSED,
    Code.PRIORITY_DENIED,
)
#: Reasons that may go by themselves when others end their work.
_PASSING = (
    Code.OVER_LIMIT,
    Code.OVER_QUOTA,
    Code.NOT_ENOUGH_FREE,
    Code.FRAGMENTED,
    Code.TOPOLOGY_TOO_SMALL,
    Code.NEIGHBOURS,
)

#: Pods that controllers may be making.
_STILL_MADE = (Code.PODS_MISSING, Code.NO_PODS)


def answer_pod_group(situation: Situation, key: PodGroupKey, *, seconds: float = SECONDS) -> Answer | None:
    """Why a pod group (``namespace/name``) is as it is, and what would let it start; None if there is none.

    Changes are looked for during so many seconds of this thread's own work at most.
    """
    job = situation.state.jobs.get(key)
    if job is None:
        return None
    session = situation.session
    asked = _Group(situation, session, job)
    answer = asked.answer()
    if answer.verdict is Verdict.RUNS or answer.reason.code in _NOTHING_TO_DO:
        return answer
    search = Search(situation, session, job, asked.tasks, seconds=seconds)
    return msgspec.structs.replace(answer, changes=tuple(search.changes(answer.reason.code)))


def nothing_waits(*, placed: int, done: int) -> Reason:
    """Why something runs: so many of its pods have a place, and so many are done."""
    parts = [f"{counted(placed, 'pod')} placed"] if placed else []
    if done:
        parts.append(f"{counted(done, 'pod')} done")
    return Reason(
        code=Code.RUNNING,
        text=f"nothing of it waits: {', '.join(parts)}",
        amounts={"placed": placed, "done": done},
    )


class _Group:
    def __init__(self, situation: Situation, session: Session, job: Job) -> None:
        self.situation, self.session, self.job = situation, session, job
        self.state = session.state
        self.ladder = Ladder()
        self.tasks: list[Task] = []
        #: The limit that is in its way until others make room.
        self.over: Reason | None = None

    def answer(self) -> Answer:
        job = self.job
        if (fault := self.situation.faults.get(("PodGroup", job.key))) is not None:
            text = f"the scheduler goes on without pod group {job.key}: {fault.message}"
            return self._because(Reason(code=Code.NOT_TAKEN_IN, text=text, amounts={"reason": fault.reason}))
        self.ladder.passes(f"{counted(len(tasks_of(job)), 'pod')} known to the scheduler")
        waits = job.pending or job.gated
        if not waits and (job.active_allocated or job.succeeded) and job.gang_satisfied:
            return self._runs()
        for check in self._checks():
            found = check()
            if isinstance(found, Reason):
                return self._because(found)
            self.ladder.passes(found)
        raise AssertionError("the last stage is never passed by what waits")

    def _checks(self) -> tuple[Callable[[], Finding], ...]:
        session, job, state = self.session, self.job, self.state
        return (
            lambda: grouped(job),
            lambda: admitted(state, job),
            self._complete,
            self._within_limits,
            lambda: nodes_allowed(session, job, self.tasks),
            self._room,
            self._victims,
            self._bound,
        )

    def _complete(self) -> Finding:
        found = complete(self.job)
        self.tasks = list(tasks_to_allocate(self.job))
        return found

    # --- answers ---------------------------------------------------------------------------------
    def _answer(self, verdict: Verdict, reason: Reason, stages: tuple[Stage, ...]) -> Answer:
        return Answer(
            kind="PodGroup",
            namespace=self.job.namespace,
            name=self.job.name,
            pod_group=self.job.name,
            verdict=verdict,
            reason=reason,
            stages=stages,
            position=self._position() if self.tasks else None,
        )

    def _runs(self) -> Answer:
        job = self.job
        running = sum(ACTIVE_ALLOCATED[task.status] for task in tasks_of(job))
        reason = nothing_waits(placed=running, done=job.succeeded)
        return self._answer(Verdict.RUNS, reason, self.ladder.all_passed())

    def _because(self, reason: Reason) -> Answer:
        if self.job.active_allocated:
            total = len(tasks_of(self.job))
            head = f"{self.job.active_allocated} of {total} pods are placed; for the rest: "
            reason = Reason(
                code=reason.code,
                text=head + reason.text,
                amounts={"placed": self.job.active_allocated, "of": total, **reason.amounts},
            )
        return self._answer(self._verdict(reason.code), reason, self.ladder.failed(reason))

    def _verdict(self, code: Code) -> Verdict:
        if code in _PASSING and self._starts_when_others_end():
            return Verdict.WAIT
        if code in _STILL_MADE and is_being_made(self._newest(), now=self.situation.now):
            return Verdict.WAIT
        return _OTHERWISE.get(code, Verdict.CHANGE)

    def _newest(self) -> float:
        """When the pod group or the youngest of its pods was created, in Unix seconds."""
        return max(self.job.created, *(task.created for task in tasks_of(self.job)), 0.0)

    def _starts_when_others_end(self) -> bool:
        return serves(self.situation.cycle(EndOthers(group=self.job.key)), self.job.key)

    def _position(self) -> Position | None:
        """Looks at the order in which jobs are served; nothing is placed."""
        queue = self.job.queue.name
        line = [each.id for each in job_order(self.session).queue_order.get(queue, ())]
        return (
            Position(queue=queue, ahead=line.index(self.job.key), of=len(line))
            if self.job.key in line
            else None
        )

    # --- limits ----------------------------------------------------------------------------------
    def _within_limits(self) -> Finding:
        """It may have what it asks for, or what others hold below the same limit is to be had."""
        found = within_limits(self.session, self.job, self.tasks)
        if not isinstance(found, Reason):
            return found
        if serves(self.now, self.job.key) or (self._others_hold_some() and self._others_would_yield):
            self.over = found
            return f"queue {found.amounts['queue']} would hold no more: others make room for it"
        if self._never_fits():
            return f"{found.text}; but a higher one would not help"
        return found

    def _never_fits(self) -> bool:
        """Whether no node could take it if it were empty, whatever its queue may hold."""
        found = nodes_allowed(self.session, self.job, self.tasks)
        return isinstance(found, Reason) and _OTHERWISE.get(found.code) is Verdict.NEVER

    def _others_hold_some(self) -> bool:
        top = self.job.queue.path[-1]
        return any(
            job.active_allocated and job is not self.job and top in job.queue.path
            for job in self.state.jobs.values()
        )

    # --- room ------------------------------------------------------------------------------------
    def _room(self) -> Finding:
        """It is free, or others would have to make it if nothing protected them."""
        if serves(self.now, self.job.key):
            return "there is room" if not self._taken(self.now) else "others make room"
        if self.over is None and self._fits():
            return self._others_first()
        return "others would have to make room" if self._others_would_yield else self._no_room()

    @cached_property
    def now(self) -> CycleResult:
        """What the next cycle decides."""
        return self.situation.cycle()

    @cached_property
    def later(self) -> tuple[float, CycleResult] | None:
        """When it gets a place by the passing of time alone."""
        return self.situation.start_of(self.job.key)

    @cached_property
    def _others_would_yield(self) -> bool:
        """Whether it would have the place of others, but for protections and its own delay alone."""
        if not serves(self.situation.cycle(EndProtection(), *self._end_delay()), self.job.key):
            return False
        return self.later is None or bool(self._taken(self.later[1]))

    def _taken(self, result: CycleResult) -> list[str]:
        """Pod groups that a cycle takes pods from for this one, each once."""
        mine = self.job.key
        return sorted({str(each.pod.pod_group) for each in result.evictions if each.evictor == mine})

    def _fits(self) -> bool:
        statement = self.session.statement()
        placed = allocate_job(self.session, statement, self.job)
        statement.rollback()
        return placed

    def _others_first(self) -> Reason:
        position = self._position()
        got = sorted(gainers(self.now))
        return Reason(
            code=Code.OTHERS_FIRST,
            text=f"there would be room, but others come first and take it: {listed(got) or 'those ahead'}",
            amounts={"takenBy": got, "ahead": position.ahead if position else None},
        )

    def _no_room(self) -> Reason:
        room = room_for(self.session, self.tasks)
        if not room.enough:
            code = Code.FRAGMENTED if room.fragmented else Code.NOT_ENOUGH_FREE
            hint = self._in_the_way(room) if code is Code.FRAGMENTED and room.pods == 1 else ""
            text = f"{room.text}; {hint}{self._why_nobody_yields()}"
            return Reason(code=code, text=text, amounts=room.amounts | self._share())
        return self._refused_by_rules(room)

    def _in_the_way(self, room: Room) -> str:
        """Who would have to be elsewhere on the node where the least is missing."""
        cls, table = self.tasks[0].cls, self.session.nodes
        wanted = dict(cls.items).get(GPU)
        if room.column != GPU or room.shared or not wanted:
            return ""
        masks = Masks.of(self.session, cls)
        free = (table.idle + table.releasing)[:, GPU]
        rows = np.flatnonzero(masks.allowed & masks.capable)
        row = int(rows[free[rows].argmax()])
        missing = int(wanted - free[row])
        there = sorted(
            (task for task in table.nodes[row].tasks.values() if task.cls.devices and not task.cls.shared),
            key=lambda task: (abs(task.cls.devices - missing), task.key),
        )
        chosen: list[str] = []
        for task in there:
            if missing > 0:
                chosen.append(f"{task.key} ({amount_text(GPU, task.cls.devices)})")
                missing -= task.cls.devices
        return (
            f"{listed(chosen)} is in the way on {table.nodes[row].name}; " if chosen and missing <= 0 else ""
        )

    def _refused_by_rules(self, room: Room) -> Reason:
        """Amounts would do; what keeps it out is who is where."""
        errors = self.session.errors.get(self.job.key)
        counts: Counter[str] = Counter()
        for entry in errors.entries if errors is not None else ():
            counts.update(dict(entry.counts))
        always = {
            why for task in one_of_each_class(self.tasks) for why, _ in self.session.static.verdicts(task.cls)
        }
        rules = [
            (number, why)
            for why, number in counts.items()
            if not is_shortage(why) and why not in always and why != OUTSIDE_DOMAIN
        ]
        why = errors.entries[-1].sentence if errors is not None and errors.entries else "no place was found"
        if self.job.has_constraint and serves(
            self.situation.cycle(RelaxTopology(group=self.job.key)), self.job.key
        ):
            text = f"{room.text}; no domain of its topology has room for all of it: {why}"
            return Reason(code=Code.TOPOLOGY_TOO_SMALL, text=text, amounts=room.amounts)
        if rules and {why for _, why in rules} == {REFUSED_LATELY}:
            return self._set_aside(room)
        if rules:
            parts = [f"{counted(number, 'node')}: {why}" for number, why in sorted(rules, reverse=True)]
            text = f"nodes with room refuse it for those who run there: {listed(parts)}"
            return Reason(code=Code.NEIGHBOURS, text=text, amounts=room.amounts | {"refusals": dict(counts)})
        text = f"{room.text}, and yet not for all of it together; {self._why_nobody_yields()}"
        return Reason(code=Code.FRAGMENTED, text=text, amounts=room.amounts | self._share())

    def _set_aside(self, room: Room) -> Reason:
        """The nodes with room have refused pods, and are left alone for a while."""
        closed = self.state.refusals.closed(self.situation.now)
        may = np.logical_or.reduce([self.session.static.mask(each.cls) for each in self.tasks])
        nodes = self.session.nodes.by_name
        until = {
            node: moment
            for node, moment in (closed.get("", {}) | closed.get(self.job.namespace, {})).items()
            if node in nodes and may[nodes[node].row]
        }
        text = (
            f"nodes with room refused the last pods that they were given ({listed(sorted(until))}); "
            f"the first of them gets pods again at {rfc3339(min(until.values()))}"
        )
        times = {node: rfc3339(moment) for node, moment in sorted(until.items())}
        return Reason(code=Code.NODES_SET_ASIDE, text=text, amounts=room.amounts | {"until": times})

    def _share(self) -> dict[str, object]:
        queue = self.job.queue
        fair = float(self.session.shares.fair[queue.row][GPU])
        return {
            "queue": queue.name,
            "gpuFairShare": round(fair, 2),
            "gpuHeld": queue.allocated.gpu_centi / GPU_CENTI,
        }

    def _why_nobody_yields(self) -> str:
        """Why the place of nobody who runs is taken."""
        queue = self.job.queue
        fair = round(float(self.session.shares.fair[queue.row][GPU]), 2)
        asked = sum(task.cls.gpu_centi for task in self.tasks)
        would = round((queue.allocated.gpu_centi + asked) / GPU_CENTI, 2)
        if asked and would > fair:
            return (
                f"queue {queue.name!r} would hold {amount_text(GPU, would)} with it, more than its fair "
                f"share of {amount_text(GPU, fair)}, so it takes from no other queue"
            )
        return "nothing that runs may be taken for it"

    # --- victims ---------------------------------------------------------------------------------
    def _victims(self) -> Finding:
        if serves(self.now, self.job.key):
            victims = self._taken(self.now)
            return f"pods of {listed(victims)} make room" if victims else "nobody has to make room"
        at, victims = (self.later[0], self._taken(self.later[1])) if self.later else (0.0, [])
        until = rfc3339(at) if at else ""
        delay = self.job.facts.preemption_delay
        if delay and serves(self.situation.cycle(*self._end_delay()), self.job.key):
            text = (
                f"it may not take the place of others before {until} (preemption delay {delay:g} s); "
                "it is its turn then"
            )
            return Reason(
                code=Code.PREEMPTION_DELAY, text=text, amounts={"until": until, "delaySeconds": delay}
            )
        who = self._holders(victims)
        text = f"{who} protected by minimum runtime" + (
            f" until {until}; it is its turn then" if until else ""
        )
        lacks = self.over or room_for(self.session, self.tasks)
        return Reason(
            code=Code.PROTECTED,
            text=f"{lacks.text}; {text}",
            amounts={
                **lacks.amounts,
                **self._share(),
                "until": until or None,
                "protected": victims,
            },
        )

    def _end_delay(self) -> list[Change]:
        return [EndDelay(group=self.job.key)] if self.job.facts.preemption_delay else []

    def _holders(self, victims: Sequence[str]) -> str:
        jobs = [job for key in victims if (job := self.state.jobs.get(PodGroupKey(key))) is not None]
        queues = list(dict.fromkeys(job.queue for job in jobs if job.queue is not self.job.queue))
        over = [f"{self._holding(queue)}, but " for queue in queues[:1]]
        verb = "is" if len(victims) == 1 else "are"
        return f"{''.join(over)}{listed(list(victims)) or 'those who would make room'} {verb}"

    def _holding(self, queue: Queue) -> str:
        held = amount_text(GPU, queue.allocated.gpu_centi / GPU_CENTI)
        fair = amount_text(GPU, round(float(self.session.shares.fair[queue.row][GPU]), 2))
        return f"queue {queue.name!r} holds {held} of a fair share of {fair}"

    # --- bound -----------------------------------------------------------------------------------
    def _bound(self) -> Finding:
        waiting = [each for each in self.now.nominations if each.pod.pod_group == self.job.key]
        victims = self._taken(self.now)
        if victims:
            text = f"the next cycle takes pods of {listed(victims)} to make room for it"
            return Reason(code=Code.NEXT_CYCLE, text=text, amounts={"victims": victims})
        if waiting:
            nodes = sorted({each.node for each in waiting})
            text = f"what it is to have is being released on {listed(nodes)}"
            return Reason(code=Code.BEING_RELEASED, text=text, amounts={"nodes": nodes})
        text = "there is room for it, and it has its turn in the next cycle"
        return Reason(code=Code.NEXT_CYCLE, text=text, amounts={})
