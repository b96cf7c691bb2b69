"""Why something is not placed, and how amounts are written."""

from kai.engine.reasons.unschedulable import NO_ROOM, Common, Errors, JobErrors, Unschedulable

__all__ = ["NO_ROOM", "Common", "Errors", "JobErrors", "Unschedulable"]
