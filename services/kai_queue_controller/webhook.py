"""The validation webhook of queues."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kai.model.objects import Queue
from kai.runtime.webhook import AdmissionRequest, AdmissionResponse, Handler
from kai.validation import queues as rules
from kai.validation.queues import QueueRules
from kai.validation.verdict import Verdict


def reviewer(queues: Mapping[str, Queue], queue_rules: QueueRules) -> Handler:
    """A handler that judges by the queues there are at the time of each request."""

    def review(request: AdmissionRequest) -> AdmissionResponse:
        if request.operation == "DELETE":
            return _answer(rules.check_deletion(request.name, queues.values()))
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
