"""The validation webhook of queues."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from kai.kube.errors import KubeError
from kai.model.objects import Queue
from kai.runtime.webhook import AdmissionRequest, AdmissionResponse, Handler
from kai.validation import queues as rules
from kai.validation.queues import QueueRules
from kai.validation.verdict import Verdict

#: Reads a queue from the API server; None if there is none of this name.
Live: TypeAlias = Callable[[str], Awaitable[Queue | None]]


def reviewer(queues: Mapping[str, Queue], queue_rules: QueueRules, live: Live) -> Handler:
    """A handler that judges by the queues there are at the time of each request."""

    async def confirm(request: AdmissionRequest, refused: Verdict) -> AdmissionResponse:
        """Refuse for children that are really there: the watch is late where a tree is deleted from below."""
        for child in rules.children(request.name, queues.values()):
            try:
                queue = await live(child)
            except KubeError:
                return _answer(refused)
            if queue is not None and queue.spec.parent_queue == request.name:
                return _answer(refused)
        return AdmissionResponse()

    def review(request: AdmissionRequest) -> AdmissionResponse | Awaitable[AdmissionResponse]:
        if request.operation == "DELETE":
            verdict = rules.check_deletion(request.name, queues.values())
            return _answer(verdict) if verdict.allowed else confirm(request, verdict)
        if request.object is None or request.sub_resource:
            return AdmissionResponse()
        try:
            queue = msgspec.convert(request.object, Queue)
        except msgspec.ValidationError as error:
            return _answer(Verdict((f"queue {request.name}: {error}",)))
        if queue.metadata.deletion_timestamp:
            # What is on its way out must not be held up by a rule.
            return AdmissionResponse()
        return _answer(rules.check(queue, queues, queue_rules))

    return review


def _answer(verdict: Verdict) -> AdmissionResponse:
    return AdmissionResponse(
        allowed=verdict.allowed,
        message=verdict.message,
        warnings=verdict.warnings,
        code=422,
        reason="Invalid",
    )
