"""The validation webhook of queues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from kai.advice import queues as advice
from kai.kube.errors import KubeError
from kai.model.objects import Queue
from kai.runtime.webhook import AdmissionRequest, AdmissionResponse, Handler
from kai.validation import queues as rules
from kai.validation.queues import QueueRules
from kai.validation.verdict import Verdict

#: Children that are looked at together.
_AT_ONCE: Final = 8

#: Reads a queue from the API server; None if there is none of this name.
Live: TypeAlias = Callable[[str], Awaitable[Queue | None]]


def reviewer(queues: Mapping[str, Queue], queue_rules: QueueRules, live: Live) -> Handler:
    """A handler that judges by the queues there are at the time of each request."""

    def review(request: AdmissionRequest) -> AdmissionResponse | Awaitable[AdmissionResponse]:
        deleting = request.operation == "DELETE"
        body = request.old_object if deleting else request.object
        if body is None or request.sub_resource or request.keeps_spec:
            return AdmissionResponse()
        try:
            queue = msgspec.convert(body, Queue)
        except msgspec.ValidationError as error:
            # What cannot be understood may still be deleted.
            return AdmissionResponse() if deleting else _answer(Verdict((f"queue {request.name}: {error}",)))
        if deleting:
            return review_deletion(queue)
        if queue.metadata.deletion_timestamp:
            # What is on its way out must not be held up by a rule.
            return AdmissionResponse()
        verdict = rules.check(queue, queues, queue_rules)
        if queue_rules.quotas and queue.spec.parent_queue and not verdict.allowed:
            return compare_with_parent(queue)
        return _answer(verdict)

    async def compare_with_parent(queue: Queue) -> AdmissionResponse:
        """Judge by the parent as it is really: the watch is late where a tree is made from above."""
        parent = queue.spec.parent_queue
        try:
            found = await live(parent)
        except KubeError:
            found = None
        known = queues if found is None else {**queues, parent: found}
        return _answer(rules.check(queue, known, queue_rules))

    def review_deletion(queue: Queue) -> AdmissionResponse | Awaitable[AdmissionResponse]:
        children = advice.children(queue.metadata.name, queues.values())
        if queue_rules.refuse_deletion and children:
            return refuse_for(queue, children)
        return _answer(_deletion(queue, children, refuse=queue_rules.refuse_deletion))

    async def refuse_for(queue: Queue, children: list[str]) -> AdmissionResponse:
        """Refuse for children that are really there: the watch is late where a tree is deleted from below.

        Where one is, the others need not be looked at.
        """
        there: list[str] = []
        for start in range(0, len(children), _AT_ONCE):
            some, others = children[start : start + _AT_ONCE], children[start + _AT_ONCE :]
            looks = await asyncio.gather(*(is_there(child, queue.metadata.name) for child in some))
            if any(looks):
                there = [child for child, found in zip(some, looks, strict=True) if found] + others
                break
        return _answer(_deletion(queue, there, refuse=True))

    async def is_there(child: str, parent: str) -> bool:
        try:
            queue = await live(child)
        except KubeError:
            return True
        return queue is not None and queue.spec.parent_queue == parent

    return review


def _deletion(queue: Queue, children: Sequence[str], *, refuse: bool) -> Verdict:
    """Only warnings unless they are to ``refuse``, since a tree may be deleted from above."""
    told = tuple(found.about(f"queue {queue.metadata.name}") for found in advice.deletion(queue, children))
    return Verdict(errors=told) if refuse else Verdict(warnings=told)


def _answer(verdict: Verdict) -> AdmissionResponse:
    return AdmissionResponse(
        allowed=verdict.allowed,
        message=verdict.message,
        warnings=verdict.warnings,
        code=422,
        reason="Invalid",
    )
