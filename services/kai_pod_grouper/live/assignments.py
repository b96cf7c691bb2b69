"""Pods of which schedulers are told where they belong, so that most need not be written.

A bind carries the annotation, so a pod that finds room at once costs no patch. One is patched where nobody
would bind it so: it still waits after a moment, has a node already, needs a label, or nobody listens.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import grpc

from kai.grouping.objects.pods import Pod
from kai.model import names
from kai.model.ids import PodUid
from kai.wire.assignments import HEARTBEAT_SECONDS, Assignment, AssignmentNews, encode_assignments
from kai.wire.v1 import assignment_pb2 as pb
from kai.wire.v1.assignment_pb2_grpc import AssignmentServiceServicer


@dataclass(slots=True)
class _Told:
    assignment: Assignment
    #: When its pod is to be written if it waits until then, by the clock.
    due: float
    late: bool = False


class _Reader:
    """What one who listens has not been told; of what changed twice, the last."""

    def __init__(self) -> None:
        self.waiting: dict[PodUid, Assignment | None] = {}
        self.news = asyncio.Event()
        self.ended = False


def _group_of(assignment: Assignment) -> str:
    return f"{assignment.namespace}/{assignment.pod_group}"


class Assignments:
    """What is told and not on pods yet. ``clock`` is monotonic.

    A pod is written when it has waited for ``after`` seconds; with 0 nothing is told.
    """

    def __init__(self, *, after: float, clock: Callable[[], float]) -> None:
        #: Is called with the key of each pod that is to be written after all, once.
        self.late: Callable[[str], None] = lambda key: None
        self._after = after
        self._clock = clock
        #: By key of the pod.
        self._told: dict[str, _Told] = {}
        #: The same keys in order, by group (``namespace/name``).
        self._members: dict[str, dict[str, None]] = {}
        #: Those that are not late, and some that are forgotten, in the order in which they are due.
        self._order: deque[tuple[str, _Told]] = deque()
        self._readers: set[_Reader] = set()
        #: Whether this process groups; nobody is answered while it does not.
        self.open = False

    @property
    def listeners(self) -> int:
        """How many are told."""
        return len(self._readers)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """This process groups while the block runs."""
        self.open = True
        try:
            yield
        finally:
            self.open = False
            self._told.clear()
            self._members.clear()
            self._order.clear()
            for reader in self._readers:
                reader.ended = True
                reader.news.set()

    # --- pods ----------------------------------------------------------------------------------
    def tell(self, pod: Pod, group: str, sub_group: str) -> bool:
        """Whether those who bind the pod are told of its group, so that it need not be written now.

        The group has to exist.
        """
        known = self._told.get(pod.key)
        if not self._can_be_bound_with_it(pod, sub_group):
            return False
        if known is not None and (known.assignment.uid, known.assignment.pod_group) == (
            pod.metadata.uid,
            group,
        ):
            return not known.late
        if not self._readers:
            self.forget(pod.key)
            return False
        assignment = Assignment(
            uid=PodUid(pod.metadata.uid),
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            pod_group=group,
        )
        self.forget(pod.key)
        self._told[pod.key] = told = _Told(assignment, self._clock() + self._after)
        self._members.setdefault(_group_of(assignment), {})[pod.key] = None
        self._order.append((pod.key, told))
        self._spread(assignment.uid, assignment)
        return True

    def group_of(self, key: str) -> str:
        """The name of the group that was told of a pod; empty if none was, or the pod says it itself."""
        told = self._told.get(key)
        return told.assignment.pod_group if told is not None else ""

    def members(self, group: str) -> list[str]:
        """Keys of the pods of which this group (``namespace/name``) was told."""
        return list(self._members.get(group, ()))

    def forget(self, key: str) -> None:
        """The pod is gone, or says itself where it belongs."""
        told = self._told.pop(key, None)
        if told is None:
            return
        group = _group_of(told.assignment)
        members = self._members[group]
        del members[key]
        if not members:
            del self._members[group]
        self._spread(told.assignment.uid, None)

    def heard_of(self, pod: Pod) -> bool:
        """A pod has changed; whether it says now what we told of it, so that it need not be looked at."""
        told = self._told.get(pod.key)
        if told is None:
            return False
        said = pod.annotations.get(names.POD_GROUP_ANNOTATION)
        if said is not None or told.assignment.uid != pod.metadata.uid:
            self.forget(pod.key)
            return (pod.metadata.uid, said) == (told.assignment.uid, told.assignment.pod_group)
        if pod.spec.node_name:
            self._is_late(pod.key, told)
        return False

    def _can_be_bound_with_it(self, pod: Pod, sub_group: str) -> bool:
        """A bind carries annotations alone, and one that there is already may be meant for somebody else."""
        return (
            self._after > 0
            and not pod.spec.node_name
            and names.POD_GROUP_ANNOTATION not in pod.annotations
            and sub_group in ("", pod.labels.get(names.SUBGROUP_LABEL))
        )

    # --- time ----------------------------------------------------------------------------------
    async def run(self) -> None:
        """Tell of those that are late, until cancelled."""
        while self._after > 0:
            # What is told meanwhile is due no sooner.
            await asyncio.sleep(self._order[0][1].due - self._clock() if self._order else self._after)
            self.look()

    def look(self) -> None:
        """Tell of those that are late by now."""
        while self._order and self._order[0][1].due <= self._clock():
            self._is_late(*self._order.popleft())

    def _is_late(self, key: str, told: _Told) -> None:
        if self._told.get(key) is told and not told.late:
            told.late = True
            self.late(key)

    # --- who listens ---------------------------------------------------------------------------
    async def watch(self, *, heartbeat: float = HEARTBEAT_SECONDS) -> AsyncGenerator[AssignmentNews]:
        """All that is not on pods yet, then what changes; nothing after ``heartbeat`` seconds of silence.

        That something is forgotten goes with what comes next: nobody waits for it, and mostly the watch of
        pods has said why already. A message for each would be half of all.
        """
        reader = _Reader()
        self._readers.add(reader)
        try:
            yield AssignmentNews(told=tuple(each.assignment for each in self._told.values()))
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(heartbeat):
                        await reader.news.wait()
                if reader.ended:
                    return
                reader.news.clear()
                waiting, reader.waiting = reader.waiting, {}
                yield AssignmentNews(
                    told=tuple(filter(None, waiting.values())),
                    forgotten=tuple(uid for uid, assignment in waiting.items() if assignment is None),
                )
        finally:
            self._readers.discard(reader)
            if not self._readers:
                self._leave_nothing_untold()

    def _leave_nothing_untold(self) -> None:
        """Nobody listens: who would bind these may never have heard of them."""
        self._order.clear()
        for key, told in list(self._told.items()):
            self._is_late(key, told)

    def _spread(self, uid: PodUid, assignment: Assignment | None) -> None:
        for reader in self._readers:
            reader.waiting[uid] = assignment
            if assignment is not None:
                reader.news.set()


class AssignmentServicer(AssignmentServiceServicer):
    """Tells them over gRPC."""

    def __init__(self, assignments: Assignments) -> None:
        self._assignments = assignments

    async def WatchAssignments(  # noqa: N802 (the name in the contract)
        self, request: pb.WatchAssignmentsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.Assignments]:
        """All, and what changes."""
        if self._assignments.open:
            async with aclosing(self._assignments.watch()) as found:
                async for news in found:
                    for message in encode_assignments(news):
                        yield message
        await context.abort(
            grpc.StatusCode.UNAVAILABLE, "this pod-grouper groups nothing; another one may lead"
        )
