"""The validation webhook of pod groups."""

from __future__ import annotations

import msgspec

from kai.model.objects import PodGroup
from kai.runtime.webhook import AdmissionRequest, AdmissionResponse
from kai.validation import pod_groups


def review(request: AdmissionRequest) -> AdmissionResponse:
    """Whether the pod group may be stored as it is."""
    if request.object is None or request.keeps_spec:
        return AdmissionResponse()
    try:
        pod_group = msgspec.convert(request.object, PodGroup)
        before = _before(request)
    except msgspec.ValidationError as error:
        name = f"{request.namespace}/{request.name}"
        return AdmissionResponse(
            allowed=False, message=f"podgroup {name}: {error}", code=422, reason="Invalid"
        )
    verdict = pod_groups.check(pod_group, updating=request.operation == "UPDATE", before=before)
    return AdmissionResponse(
        allowed=verdict.allowed,
        message=verdict.message,
        warnings=verdict.warnings,
        code=422,
        reason="Invalid",
    )


def _before(request: AdmissionRequest) -> PodGroup | None:
    """What is stored; None where it cannot be read, as an older release may have let it be written."""
    if request.old_object is None:
        return None
    try:
        return msgspec.convert(request.old_object, PodGroup)
    except msgspec.ValidationError:
        return None
