"""What somebody could change so that a job runs: in words, and as something to try and to take back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from kai.engine.reasons.amounts import amount_text
from kai.model.objects import Node as NodeObject
from kai.model.objects import Taint, Toleration
from kai.snapshot import trials
from kai.snapshot.classes import Constraints, TaskClass
from kai.snapshot.resources import CPU, GPU, MEMORY
from kai.snapshot.rows import Job, PodSet, SubGroupSet, Task
from kai.snapshot.state import ClusterState
from kai.snapshot.status import Status

HOSTNAME: Final = "kubernetes.io/hostname"
#: Constraints of pods that can be left out: what stands for none, and what it is called.
CONSTRAINTS: Final[Mapping[str, tuple[Any, str]]] = {
    "node_selector": ((), "node selector"),
    "node_affinity": (None, "required node affinity"),
    "pod_affinity": (None, "pod affinity"),
    "pod_anti_affinity": (None, "pod anti-affinity"),
    "spread": ((), "topology spread constraints"),
    "host_ports": ((), "host ports"),
}
#: Sorts after every name that a node can have, so that no row of another node moves.
_ADDED: Final = "~added-{:04}"
_COLUMNS: Final = (CPU, MEMORY, GPU)

#: CPU millicores, memory bytes, GPU devices; None where nothing is to change.
Bounds: TypeAlias = tuple[float | None, float | None, float | None]


class Change(Protocol):
    """Something to change."""

    @property
    def text(self) -> str:
        """What to do, for people."""

    def made(self, state: ClusterState, job: Job) -> AbstractContextManager[None]:
        """The state with the change while the block runs; afterwards as it was, all caches included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseBounds:
    """Raise limits and quotas of queues to these amounts, and perhaps make the job preemptible."""

    limits: Mapping[str, Bounds] = field(default_factory=dict)
    quotas: Mapping[str, Bounds] = field(default_factory=dict)
    preemptible: bool = False

    @property
    def text(self) -> str:
        """What to do."""
        steps = [*_raises("limit", self.limits), *_raises("quota", self.quotas)]
        if self.preemptible:
            steps.append("make the workload preemptible")
        return ", and ".join(steps)

    @contextmanager
    def made(self, state: ClusterState, job: Job) -> Iterator[None]:
        """The state with it."""
        with ExitStack() as changes:
            for key in {**self.limits, **self.quotas}:
                queue = state.queues[key]
                limit = _raised(queue.limit, self.limits.get(key))
                deserved = _raised(queue.deserved, self.quotas.get(key))
                changes.enter_context(trials.with_bounds(queue, limit=limit, deserved=deserved))
            if self.preemptible:
                changes.enter_context(trials.preemptible(job))
            yield


def _raised(before: tuple[float, float, float], wanted: Bounds | None) -> tuple[float, float, float]:
    if wanted is None:
        return before
    cpu, memory, gpu = (old if new is None else new for old, new in zip(before, wanted, strict=True))
    return cpu, memory, gpu


def _raises(word: str, bounds: Mapping[str, Bounds]) -> Iterator[str]:
    for queue, wanted in bounds.items():
        pairs = zip(_COLUMNS, wanted, strict=True)
        amounts = " and ".join(amount_text(column, value) for column, value in pairs if value is not None)
        yield f"raise the {word} of queue {queue!r} to {amounts}"


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """Leave one of :data:`CONSTRAINTS` out of the job's pods."""

    name: str

    @property
    def text(self) -> str:
        """What to do."""
        return f"remove the {CONSTRAINTS[self.name][1]}"

    def made(self, state: ClusterState, job: Job) -> AbstractContextManager[None]:
        """The state with it."""
        del state
        nothing = CONSTRAINTS[self.name][0]
        return _reclassed(job, lambda _: {self.name: nothing})


@dataclass(frozen=True, slots=True)
class Tolerate:
    """Let the job's pods tolerate a taint."""

    taint: Taint

    @property
    def text(self) -> str:
        """What to do."""
        value = f"={self.taint.value}" if self.taint.value else ""
        return f"tolerate the taint {self.taint.key}{value}:{self.taint.effect}"

    @property
    def toleration(self) -> Toleration:
        """What to add to a pod."""
        taint = self.taint
        return Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)

    def made(self, state: ClusterState, job: Job) -> AbstractContextManager[None]:
        """The state with it."""
        del state
        return _reclassed(job, lambda known: {"tolerations": (*known.tolerations, self.toleration)})


@dataclass(frozen=True, slots=True)
class RelaxTopology:
    """Require no topology level of the group and its subgroups any more; what they prefer stays."""

    text: str = "relax the required topology level"

    @contextmanager
    def made(self, state: ClusterState, job: Job) -> Iterator[None]:
        """The state with it."""
        del state
        with ExitStack() as changes:
            for member in _members(job.root):
                if member.constraint is not None:
                    relaxed = msgspec.structs.replace(member.constraint, required_topology_level="")
                    changes.enter_context(trials.with_constraint(member, relaxed))
            yield


@dataclass(frozen=True, slots=True)
class LowerMinimum:
    """Need fewer pods at once, in a group without subgroups."""

    minimum: int
    before: int

    @property
    def text(self) -> str:
        """What to do."""
        return f"lower the minimum from {self.before} to {self.minimum} pods: so many fit now"

    def made(self, state: ClusterState, job: Job) -> AbstractContextManager[None]:
        """The state with it."""
        assert job.single is not None
        return trials.with_minimum(state, job, job.single, minimum=self.minimum)


@dataclass(frozen=True, slots=True)
class AddNodes:
    """Add nodes that are like one that there is, and empty."""

    like: NodeObject
    count: int

    @property
    def text(self) -> str:
        """What to do."""
        nodes = "1 node" if self.count == 1 else f"{self.count} nodes"
        return f"add {nodes} like {self.like.metadata.name}"

    def nodes(self) -> list[NodeObject]:
        """The nodes, as they would register."""
        return [self._node(_ADDED.format(number)) for number in range(self.count)]

    def _node(self, name: str) -> NodeObject:
        labels = dict(self.like.labels)
        if HOSTNAME in labels:
            labels[HOSTNAME] = name
        meta = msgspec.structs.replace(self.like.metadata, name=name, uid=name, labels=labels)
        return msgspec.structs.replace(self.like, metadata=meta)

    def made(self, state: ClusterState, job: Job) -> AbstractContextManager[None]:
        """The state with them."""
        del job
        return trials.with_nodes(state, self.nodes())


# --- trying things --------------------------------------------------------------------------------
def _members(group: SubGroupSet) -> Iterator[PodSet | SubGroupSet]:
    yield group
    for member in group.members:
        if isinstance(member, SubGroupSet):
            yield from _members(member)
        else:
            yield member


def _reclassed(job: Job, parts: Callable[[Constraints], dict[str, Any]]) -> AbstractContextManager[None]:
    """Give the pods that wait classes of their own for a while, with negative numbers."""
    tasks = waiting(job)
    made: dict[int, TaskClass] = {}
    for cls in (task.cls for task in tasks):
        if cls.id not in made:
            constraints: Constraints = replace(cls.constraints, **parts(cls.constraints))
            made[cls.id] = replace(cls, constraints=constraints, id=-2 - cls.id)
    return trials.reclassed(tasks, made)


def waiting(job: Job) -> list[Task]:
    """Pods of a job that wait for a place."""
    return [
        task
        for pod_set in job.pod_sets.values()
        for task in pod_set.tasks.values()
        if task.status is Status.PENDING
    ]
