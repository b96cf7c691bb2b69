"""The condition of a pod that does not end by itself: failure policies of Jobs ask for it."""

from __future__ import annotations

from kai.model.objects import Json


def disruption(reason: str, message: str, *, at: str) -> Json:
    """The condition ``DisruptionTarget`` since ``at``, a time as the API writes it."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": at,
    }
