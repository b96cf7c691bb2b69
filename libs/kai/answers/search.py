"""The smallest changes that let a pod group start, each of them tried before it is told."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from kai.answers.allowed import Masks, one_of_each_class
from kai.answers.answer import Code, ToldChange
from kai.answers.room import room_for
from kai.answers.situation import Situation
from kai.answers.what_if import EndDelay, LiftGates, MoveToQueue, RelaxTopology, TryAgain
from kai.engine.framework.session import Session
from kai.engine.queueing.requests import asked, asked_firmly
from kai.model.decisions import ResourceVector
from kai.model.quantity import render
from kai.model.rules.priorities import PREEMPTIBLE
from kai.model.rules.queue_amounts import MEMORY_BYTES
from kai.model.rules.taints import REPELLING
from kai.model.spelling import nearest
from kai.simulate.changes import (
    AddNodes,
    AddToleration,
    Bound,
    Change,
    ChangeRefused,
    DropConstraint,
    SetBounds,
    SetGpuShare,
    SetMinimum,
    SetPreemptibility,
    SetPriority,
    SetRequest,
)
from kai.simulate.changes.nodes import HOSTNAME
from kai.snapshot.amounts import GPU_CENTI, Amounts, Totals
from kai.snapshot.classes import GpuKind, TaskClass
from kai.snapshot.resources import CPU, GPU, MEMORY, PODS
from kai.snapshot.rows import DEFAULT_POD_SET, Job, Node, Queue, Task

#: What a search may take of its thread, in seconds.
SECONDS: Final = 10.0
#: So many changes are told, taints and kinds of nodes tried, and values tried one by one.
_TOLD: Final = 6
_KINDS: Final = 3
_ONE_BY_ONE: Final = 16
_MOST_NODES: Final = 64
_TOLERANCE: Final = 1e-6

#: Changes that are made together.
Made: TypeAlias = tuple[Change, ...]
_UNITS: Final = ("cpu", "memory", "gpu")


class Search:
    """Looks for changes that place the next chunk of one pod group."""

    def __init__(
        self,
        situation: Situation,
        session: Session,
        job: Job,
        tasks: Sequence[Task],
        *,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._situation, self._session, self._job, self._tasks = situation, session, job, list(tasks)
        self._key = str(job.key)
        self._clock = clock
        self._deadline = clock() + seconds

    def changes(self, code: Code) -> Iterator[ToldChange]:
        """Those that help where work waits for this reason, the ones of its owner first."""
        for made in self.found(code):
            commands = [change.command(self._situation.state) for change in made]
            yield ToldChange(
                text=", and ".join(change.text for change in made),
                command=" && ".join(filter(None, commands)) if all(commands) else None,
            )

    def found(self, code: Code) -> list[Made]:
        """The same as changes, each entry by itself; those of one entry belong together."""
        found: list[Made] = []
        for way in self._ways(code):
            if len(found) == _TOLD or self._over:
                break
            if (made := way()) is not None and made not in found:
                found.append(made)
        if not found and not self._over and (made := self._fewest_constraints()) is not None:
            found.append(made)
        return found

    def _ways(self, code: Code) -> list[Callable[[], Made | None]]:
        own = [self._preemptible, self._priority]
        smaller = [self._minimum, self._request]
        where = self._constraints()
        match code:
            case Code.QUEUE_MISSING | Code.QUEUE_NOT_LEAF:
                return [self._queue]
            case Code.GIVEN_UP:
                return [lambda: self._one(TryAgain(group=self._key))]
            case Code.GATED:
                return [lambda: self._one(LiftGates(group=self._key)), self._minimum]
            case Code.PODS_MISSING:
                return [self._minimum]
            case Code.OVER_LIMIT | Code.OVER_QUOTA:
                return [self._preemptible, *smaller, self._bounds]
            case Code.PROTECTED | Code.PREEMPTION_DELAY:
                return [lambda: self._one(EndDelay(group=self._key)), *own, *where, *smaller, self._nodes]
            case Code.TOPOLOGY_MISSING:
                return [lambda: self._one(RelaxTopology(group=self._key))]
        return [*where, *own, *smaller, self._quota, self._nodes]

    # --- trying ----------------------------------------------------------------------------------
    @property
    def _over(self) -> bool:
        return self._clock() > self._deadline

    def _helps(self, *changes: Change) -> bool:
        if self._over:
            return False
        try:
            return self._situation.places(self._job.key, *changes)
        except ChangeRefused:
            return False

    def _one(self, *changes: Change) -> Made | None:
        return changes if self._helps(*changes) else None

    def _least(self, values: Sequence[float], change: Callable[[float], Made]) -> Made | None:
        """The first value that helps. Many are halved, as if all after one that helps did, too."""
        if len(values) <= _ONE_BY_ONE:
            return next((made for each in values if self._helps(*(made := change(each)))), None)
        if not self._helps(*change(values[-1])):
            return None
        low, high = -1, len(values) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._helps(*change(values[middle])) else (middle, high)
        return None if self._over else change(values[high])

    # --- its queue -------------------------------------------------------------------------------
    def _queue(self) -> Made | None:
        """Another queue: the one that is most alike by name, then those below the one that it names."""
        state, named = self._session.state, self._job.facts.queue
        leaves = sorted(queue.name for queue in state.queue_rows if queue.leaf)
        below = [name for name in leaves if any(each.name == named for each in state.queues[name].path)]
        near = nearest(named, leaves)
        first = list(dict.fromkeys([*filter(None, [near]), *below, *leaves]))[:_ONE_BY_ONE]
        return next(
            (made for name in first if (made := self._one(MoveToQueue(group=self._key, queue=name)))), None
        )

    def _bounds(self) -> Made | None:
        """What is too low on the way to the top, less what need not be: it may take from its own queue."""
        memory = self._session.state.max_gpu_memory_mib
        amounts = asked(self._tasks, gpu_memory_mib=memory)
        firm = asked_firmly(self._job, self._tasks, gpu_memory_mib=memory)
        changes = self._too_low(Bound.LIMIT, lambda queue: (queue.limit, queue.allocated), amounts)
        if firm is not None:
            changes += self._too_low(Bound.QUOTA, lambda queue: (queue.deserved, queue.non_preemptible), firm)
        if not changes or not self._helps(*changes):
            return None
        for each in list(changes):
            others = [change for change in changes if change is not each]
            if others and self._helps(*others):
                changes = others
        return None if self._over else tuple(changes)

    def _too_low(
        self, bound: Bound, of: Callable[[Queue], tuple[ResourceVector, Totals]], amounts: Amounts
    ) -> list[Change]:
        found: list[Change] = []
        for queue in self._job.queue.path:
            known, held = of(queue)
            needs = (
                float(held.cpu_millis + amounts.cpu_millis),
                float(-(-(held.memory_bytes + amounts.memory_bytes) // MEMORY_BYTES)),
                (held.gpu_centi + amounts.gpu_centi) / GPU_CENTI,
            )
            cpu_millis, memory_bytes, gpus = known
            has = (cpu_millis, memory_bytes / MEMORY_BYTES if memory_bytes >= 0 else -1.0, gpus)
            raised = {
                name: need
                for name, need, more, now in zip(_UNITS, needs, amounts, has, strict=True)
                if more and 0 <= now < need - _TOLERANCE
            }
            if raised:
                found.append(SetBounds(queue=queue.name, bound=bound, amounts=raised))
        return found

    def _quota(self) -> Made | None:
        """As many GPUs of quota, all the way up, as let it take back what others have beyond their share."""
        wanted = asked(self._tasks, gpu_memory_mib=self._session.state.max_gpu_memory_mib).gpu_centi
        queue = self._job.queue
        if not wanted or queue.deserved[GPU] < 0:
            return None
        most = (queue.allocated.gpu_centi + wanted) / GPU_CENTI
        if most <= queue.deserved[GPU]:
            return None

        def raised(step: float) -> Made:
            value = min(float(step), most)
            return tuple(
                SetBounds(queue=each.name, bound=Bound.QUOTA, amounts={"gpu": value})
                for each in queue.path
                if each is queue or 0 <= each.deserved[GPU] < value
            )

        # No list of them: there may be as many as the pods of a gang ask for together.
        made = self._least(range(int(queue.deserved[GPU]) + 1, math.ceil(most) + 1), raised)
        return None if made is None else self._less_above(made)

    def _less_above(self, made: Made) -> Made:
        """The same with less for the queues above, where their quota need not be as much as the leaf's."""
        quotas = {queue.name: queue.deserved[GPU] for queue in self._job.queue.path}
        for change in made[1:]:
            assert isinstance(change, SetBounds)
            made = self._least_of(change, made, now=quotas[change.queue]) or made
        return made

    def _least_of(self, change: SetBounds, made: Made, *, now: float) -> Made | None:
        """The same with as little of one quota as helps; without the change where it may stay as it is."""
        until = change.amounts["gpu"]

        def with_(step: float) -> Made:
            value = max(min(float(step), until), now)
            if value == now:
                return tuple(each for each in made if each is not change)
            new = replace(change, amounts={"gpu": value})
            return tuple(new if each is change else each for each in made)

        return self._least(range(int(now), math.ceil(until) + 1), with_)

    # --- itself ----------------------------------------------------------------------------------
    def _preemptible(self) -> Made | None:
        if self._job.preemptible:
            return None
        return self._one(SetPreemptibility(group=self._key, preemptibility=PREEMPTIBLE))

    def _priority(self) -> Made | None:
        """The next higher class that helps."""
        classes = self._session.state.priority_classes
        higher = sorted(
            (each.value, name)
            for name, each in classes.items()
            if each.value > self._job.priority and not name.startswith("system-")
        )
        changes = [SetPriority(group=self._key, priority_class=name) for _, name in higher]
        return next((made for change in changes[:_ONE_BY_ONE] if (made := self._one(change))), None)

    def _minimum(self) -> Made | None:
        """The largest minimum below its own."""
        single = self._job.single
        if single is None or single.name != DEFAULT_POD_SET or single.min_member < 2:
            return None
        placed = single.active_allocated
        values = [float(each) for each in range(single.min_member - 1, max(placed, 0), -1)]
        return self._least(values, lambda value: (SetMinimum(group=self._key, minimum=int(value)),))

    def _request(self) -> Made | None:
        """The most of the resource that is short, less than it asks for, where all pods ask alike."""
        if not len(self._session.nodes):  # nothing is short where there is nothing
            return None
        if not self._tasks or len({task.cls.id for task in self._tasks}) > 1:
            return None
        cls = self._tasks[0].cls
        if cls.shared:
            return self._share(cls)
        large = self._too_large(cls)
        column = large if large is not None else room_for(self._session, self._tasks).column
        amount = dict(cls.items).get(column, 0)
        if column == GPU and cls.kind is GpuKind.WHOLE:
            name = next(iter(self._gpu_names(self._tasks[0])), "")
            values = range(amount - 1, 0, -1)
            return self._least(values, lambda value: (self._asking(name, f"{int(value)}"),)) if name else None
        if column not in (CPU, MEMORY):
            return None
        most = self._most_free(cls, column, large=large is not None)
        if not 0 < most < amount:
            return None
        written = render(Decimal(most) / 1000) if column == CPU else render(Decimal(most), binary=True)
        return self._one(self._asking("cpu" if column == CPU else "memory", written))

    def _asking(self, name: str, amount: str) -> Change:
        return SetRequest(group=self._key, resource=name, amount=amount)

    def _gpu_names(self, task: Task) -> Iterator[str]:
        column = self._session.state.resources.column
        for container in task.cls.pod.spec.containers:
            requests = container.resources.requests if container.resources is not None else None
            yield from (name for name in requests or () if column(name) == GPU)

    def _too_large(self, cls: TaskClass) -> int | None:
        """A resource of which no node has as much as a pod asks for."""
        table = self._session.nodes.allocatable
        return next(
            (c for c, amount in cls.items if c != PODS and len(table) and int(table[:, c].max()) < amount),
            None,
        )

    def _most_free(self, cls: TaskClass, column: int, *, large: bool) -> int:
        nodes = self._session.nodes
        free = (nodes.allocatable if large else nodes.idle + nodes.releasing)[:, column]
        allowed = Masks.of(self._session, cls).allowed
        return int(free[allowed].max(initial=0)) if allowed.any() else 0

    def _share(self, cls: TaskClass) -> Made | None:
        room = room_for(self._session, self._tasks)
        if not room.shared:
            return None
        if cls.gpu_memory_mib:
            most = max(int(room.largest), int(self._session.static.gpu_memory_mib.max(initial=0)))
            values = [each for each in (most, int(room.largest)) if 0 < each < cls.gpu_memory_mib]
            return self._least(values, lambda value: (SetGpuShare(group=self._key, memory_mib=int(value)),))
        least, most = 1, cls.portion_centi - 1
        start = min(most, round(room.largest * GPU_CENTI))
        portions = [each / GPU_CENTI for each in range(start, least - 1, -1)][:_ONE_BY_ONE]
        return self._least(portions, lambda value: (SetGpuShare(group=self._key, portion=value),))

    # --- where it may run ------------------------------------------------------------------------
    def _single_constraints(self) -> list[Change]:
        found: list[Change] = [*self._tolerations()]
        known = [task.cls.constraints for task in one_of_each_class(self._tasks)]
        for constraint, field in (
            ("node selector", "node_selector"),
            ("node affinity", "node_affinity"),
            ("pod affinity", "pod_affinity"),
            ("pod anti-affinity", "pod_anti_affinity"),
            ("topology spread constraints", "spread"),
            ("host ports", "host_ports"),
        ):
            if any(getattr(each, field) for each in known):
                found.append(DropConstraint(group=self._key, constraint=constraint))
        if self._job.has_constraint:
            found.append(RelaxTopology(group=self._key))
        return found

    def _constraints(self) -> list[Callable[[], Made | None]]:
        return [partial(self._one, change) for change in self._single_constraints()]

    def _tolerations(self) -> list[AddToleration]:
        """Of taints that repel pods those of most nodes first."""
        if not self._tasks:
            return []
        count: dict[tuple[str, str, str], int] = {}
        for node in self._session.nodes.nodes:
            for taint in node.object.spec.taints or ():
                if node.ready and taint.effect in REPELLING:
                    key = (taint.key, taint.value, taint.effect)
                    count[key] = count.get(key, 0) + 1
        found = [
            AddToleration(group=self._key, key=key, value=value, effect=effect)
            for key, value, effect in sorted(count, key=lambda key: (-count[key], key))
        ]
        known = self._tasks[0].cls.constraints.tolerations
        return [each for each in found if each.toleration not in known][:_KINDS]

    def _fewest_constraints(self) -> Made | None:
        """Two constraints together, where none alone is enough."""
        found = self._single_constraints()
        pairs = [(one, two) for number, one in enumerate(found) for two in found[number + 1 :]]
        # One alone was tried only where it is what the work waits for.
        ways: list[Made] = [*((one,) for one in found), *pairs[:_ONE_BY_ONE]]
        return next((made for made in ways if self._helps(*made)), None)

    # --- more nodes ------------------------------------------------------------------------------
    def _nodes(self) -> Made | None:
        """The fewest nodes of one kind that there is already, the smallest kind first."""
        count = min(len(self._tasks), _MOST_NODES)
        values = [float(number) for number in range(1, count + 1)]
        for node in self._like()[:_KINDS]:
            if (made := self._least(values, partial(_more_nodes, node.name))) is not None:
                return made
        return None

    def _like(self) -> list[Node]:
        """One node of each kind that could take any of the pods if it were empty."""
        masks = [Masks.of(self._session, task.cls) for task in one_of_each_class(self._tasks)]
        if not masks:
            return []
        able = np.logical_and.reduce([each.allowed & each.capable for each in masks])
        kinds: dict[tuple[object, ...], Node] = {}
        for row in np.flatnonzero(able).tolist():
            node = self._session.nodes.nodes[row]
            kinds.setdefault(_kind(node), node)
        table = self._session.nodes.cells_allocatable
        return sorted(
            kinds.values(), key=lambda node: (table[node.row, GPU], table[node.row, CPU], node.name)
        )


def _more_nodes(like: str, count: float) -> Made:
    return (AddNodes(like=like, count=int(count)),)


def _kind(node: Node) -> tuple[object, ...]:
    """What two nodes agree in if they are of one kind."""
    labels = tuple(sorted((key, value) for key, value in node.object.labels.items() if key != HOSTNAME))
    amounts = tuple(sorted((node.object.status.allocatable or {}).items()))
    taints = tuple((each.key, each.value, each.effect) for each in node.object.spec.taints or ())
    return labels, amounts, taints
