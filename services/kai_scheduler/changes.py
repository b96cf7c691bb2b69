"""What the watches tell, gathered until the next cycle takes it in.

Changes of one object replace each other, so what waits is bounded by the number of objects. Changes
that cannot matter (a node's heartbeat, a queue's status) are dropped here; the others say how soon a
cycle should look: at once, within the period, or not at all.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import msgspec

from kai.kube.reflector import Removed, Sink, Synced, Unreadable, Upserted
from kai.model.objects import ApiObject, Node, Pod, PodGroup, Queue
from kai.model.rules.minimums import is_gang
from kai.model.rules.phases import has_ended
from kai.snapshot.changes import Changes, Unread
from kai.snapshot.reports import Report
from kai.snapshot.state import Kind
from kai.snapshot.times import seconds

_REMOVED: Final = None
_encode = msgspec.json.Encoder().encode


class Urgency(IntEnum):
    """How soon a cycle should look at a change."""

    NONE = 0
    SOON = 1
    PROMPT = 2


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """What carrying out decisions needs to know of a pod group."""

    uid: str
    generation: int
    #: Whether its pods make sense only together.
    gang: bool


@dataclass(frozen=True, slots=True)
class Started:
    """A pod that we gave a node runs."""

    node: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Vanished:
    """A pod that we gave a node left the watch before that started it, and nobody deleted it."""

    node: str
    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class ChangeQueue:
    """Gathers changes. ``clock`` is monotonic; ``debounce`` and ``period`` are in seconds."""

    def __init__(
        self, *, scheduler_name: str, debounce: float, period: float, clock: Callable[[], float]
    ) -> None:
        self.groups: dict[str, GroupSummary] = {}
        #: Pods (uids) whose volumes have to be bound before them.
        self.pods_with_claims: set[str] = set()
        #: Our pods (uids) that are not bound: when they were created, Unix seconds.
        self.waiting_since: dict[str, float] = {}
        #: Is told how the wait of a bound pod for its node ends.
        self.ends: Callable[[Started | Vanished], None] = lambda end: None
        #: Our pods (uids) that waited, got a node and do not run yet, with their nodes. What was never seen
        #: waiting may have been put there by its owner, to be refused or to start as he likes.
        self._starting: dict[str, str] = {}
        self._scheduler_name = scheduler_name
        self._debounce = debounce
        self._period = period
        self._clock = clock
        self._batch = Changes()
        self._due = math.inf
        #: Whether a change was gathered that a cycle should look at at once.
        self.prompt = False
        self._wake = asyncio.Event()
        self._nodes: dict[str, bytes] = {}
        self._queues: dict[str, tuple[int, bytes]] = {}
        self._pods: dict[str, str] = {}
        self._synced: set[Kind] = set()
        #: Whether all pods have been told again since the last batch.
        self._relisted = False

    def sink(self, kind: Kind) -> Sink:
        """A sink for the reflector of a kind."""
        looks: dict[Kind, Callable[[Any], Urgency]] = {
            Kind.POD: self._look_at_pod,
            Kind.NODE: self._look_at_node,
            Kind.QUEUE: self._look_at_queue,
            Kind.POD_GROUP: self._look_at_group,
        }
        look = looks.get(kind, lambda obj: Urgency.PROMPT)

        def take_in(change: Any) -> None:
            match change:
                case Upserted(obj):
                    urgency = look(obj)
                    if urgency is not Urgency.NONE:
                        self._put(kind, _key(obj), obj, urgency)
                case Removed(key, uid, last_known):
                    self._gone(kind, key, uid, last_known)
                    self._put(kind, key, _REMOVED, Urgency.PROMPT)
                case Unreadable(key, uid, reason):
                    self._look_again(kind, key)
                    self._put(kind, key, Unread(uid, reason), Urgency.PROMPT)
                case Synced():
                    self._told_everything(kind)

        return take_in

    def note(self, report: Report, urgency: Urgency = Urgency.PROMPT) -> None:
        """What became of a decision, which no watch tells."""
        self._batch.reports.append(report)
        self._rush(urgency)

    def nudge(self) -> None:
        """Have a cycle within the period though the state is as it was: what it goes by has changed."""
        self._rush(Urgency.SOON)

    async def wait(self, *, timer: float = math.inf, not_before: float = 0.0) -> None:
        """Until a cycle is due: changes gathered, or ``timer`` has come; not earlier than ``not_before``."""
        while True:
            delay = max(min(self._due, timer), not_before) - self._clock()
            if delay <= 0:
                return
            self._wake.clear()
            try:
                async with asyncio.timeout(delay if math.isfinite(delay) else None):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def take(self) -> Changes:
        """All that was gathered; gathering starts anew."""
        batch, self._batch = self._batch, Changes()
        if self._relisted:  # as of now: what came since the relist is in the batch, too
            batch.pods_after_relist = frozenset(self._pods.values())
            self._relisted = False
        self._due, self.prompt = math.inf, False
        return batch

    # --- looking -------------------------------------------------------------------------------
    def _look_at_pod(self, pod: Pod) -> Urgency:
        meta, spec, phase = pod.metadata, pod.spec, pod.status.phase
        known = self._pods.get(pod.key) == meta.uid
        self._pods[pod.key] = meta.uid
        if meta.deletion_timestamp or has_ended(phase):
            self._waits_no_more(meta.uid)
            self._starting.pop(meta.uid, None)
            return Urgency.PROMPT
        if spec.scheduler_name != self._scheduler_name or spec.node_name:
            if spec.node_name and (meta.uid in self.waiting_since or meta.uid in self._starting):
                self._look_at_start(pod)
            self._waits_no_more(meta.uid)
            return Urgency.SOON
        self.waiting_since[meta.uid] = seconds(meta.creation_timestamp)
        if any("persistentVolumeClaim" in volume or "ephemeral" in volume for volume in spec.volumes or ()):
            self.pods_with_claims.add(meta.uid)
        # A new pod comes again once it is grouped; conditions that were written to it change nothing.
        return Urgency.PROMPT if not known or not _is_refused(pod) else Urgency.SOON

    def _look_at_start(self, pod: Pod) -> None:
        meta, node = pod.metadata, pod.spec.node_name
        if pod.status.phase != "Running":
            self._starting[meta.uid] = node
        else:
            self._starting.pop(meta.uid, None)
            self.ends(Started(node, meta.namespace))

    def _look_at_node(self, node: Node) -> Urgency:
        status = node.status
        conditions = [(condition.type, condition.status) for condition in status.conditions or ()]
        meta = node.metadata
        print_ = _encode(
            (meta.labels, meta.annotations, node.spec, status.allocatable, status.capacity, conditions)
        )
        if self._nodes.get(node.key) == print_:
            return Urgency.NONE
        self._nodes[node.key] = print_
        return Urgency.PROMPT

    def _look_at_queue(self, queue: Queue) -> Urgency:
        print_ = (queue.metadata.generation, _encode((queue.metadata.labels, queue.spec)))
        if self._queues.get(queue.key) == print_:
            return Urgency.NONE
        self._queues[queue.key] = print_
        return Urgency.PROMPT

    def _look_at_group(self, group: PodGroup) -> Urgency:
        meta, spec = group.metadata, group.spec
        before = self.groups.get(group.key)
        self.groups[group.key] = GroupSummary(meta.uid, meta.generation, is_gang(spec))
        new = before is None or (before.uid, before.generation) != (meta.uid, meta.generation)
        return Urgency.PROMPT if new or meta.generation == 0 else Urgency.SOON

    def _gone(self, kind: Kind, key: str, uid: str, last_known: Any) -> None:
        match kind:
            case Kind.POD:
                self._pods.pop(key, None)
                node = self._starting.pop(uid, None)
                if node is not None and not (last_known and last_known.metadata.deletion_timestamp):
                    namespace, _, name = key.partition("/")
                    self.ends(Vanished(node, namespace, name, uid))
                self._waits_no_more(uid)
            case Kind.NODE:
                self._nodes.pop(key, None)
            case Kind.QUEUE:
                self._queues.pop(key, None)
            case Kind.POD_GROUP:
                self.groups.pop(key, None)
            case _:
                pass

    def _look_again(self, kind: Kind, key: str) -> None:
        """The next version that can be read is news, whatever it changes."""
        if kind is Kind.QUEUE:
            self._queues.pop(key, None)
        elif kind is Kind.NODE:
            self._nodes.pop(key, None)

    def _waits_no_more(self, uid: str) -> None:
        self.pods_with_claims.discard(uid)
        self.waiting_since.pop(uid, None)

    def _told_everything(self, kind: Kind) -> None:
        again = kind in self._synced
        self._synced.add(kind)
        if again and kind is Kind.POD:
            self._relisted = True
            self._rush(Urgency.SOON)

    # --- gathering -----------------------------------------------------------------------------
    def _put(self, kind: Kind, key: str, obj: Any, urgency: Urgency) -> None:
        self._batch.objects.setdefault(kind, {})[key] = obj
        self._rush(urgency)

    def _rush(self, urgency: Urgency) -> None:
        self.prompt = self.prompt or urgency is Urgency.PROMPT
        due = self._clock() + (self._debounce if urgency is Urgency.PROMPT else self._period)
        if due < self._due:
            self._due = due
            self._wake.set()


def _is_refused(pod: Pod) -> bool:
    return any(c.type == "PodScheduled" and c.status == "False" for c in pod.status.conditions or ())


def _key(obj: Any) -> str:
    if isinstance(obj, ApiObject):
        return obj.key
    meta = obj["metadata"]
    namespace = meta.get("namespace")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])
