"""A warning, and the codes that there are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """What kind of mistake; users find it in ``docs/warnings.md``."""

    # --- labels, annotations and the scheduler's name
    MISSPELT_KEY = "MisspeltKey"
    MISPLACED_KEY = "MisplacedKey"
    IGNORED_VALUE = "IgnoredValue"
    NO_EFFECT = "NoEffect"
    MISSPELT_SCHEDULER = "MisspeltScheduler"
    OTHER_SCHEDULER = "OtherScheduler"
    # --- what a workload asks for
    ROUNDED_FRACTION = "RoundedFraction"
    CHARGED_TWICE = "ChargedTwice"
    NO_SUCH_NODE = "NoSuchNode"
    GANG_TOO_LARGE = "GangTooLarge"
    # --- where it belongs
    NO_QUEUE = "NoQueue"
    UNKNOWN_QUEUE = "UnknownQueue"
    QUEUE_NOT_LEAF = "QueueNotLeaf"
    UNKNOWN_PRIORITY_CLASS = "UnknownPriorityClass"
    # --- pod groups
    PODS_ABOVE_SUBGROUPS = "PodsAboveSubgroups"
    UNSUPPORTED_BACKOFF = "UnsupportedBackoff"
    # --- queues
    UNKNOWN_PARENT = "UnknownParent"
    OTHER_NODE_POOL = "OtherNodePool"
    NEGATIVE_AMOUNT = "NegativeAmount"
    NEGATIVE_WEIGHT = "NegativeWeight"
    NOTHING_ALLOWED = "NothingAllowed"
    LIMIT_BELOW_QUOTA = "LimitBelowQuota"
    WRONG_UNIT = "WrongUnit"
    QUOTA_ABOVE_PARENT = "QuotaAboveParent"
    CHILDREN_ABOVE_QUOTA = "ChildrenAboveQuota"
    PARENT_DELETED = "ParentDeleted"
    WORK_ABANDONED = "WorkAbandoned"
    NOBODY_ADMITTED = "NobodyAdmitted"
    # --- topologies
    UNKNOWN_NODE_LABEL = "UnknownNodeLabel"


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that is said to be missing; what knows that may be late."""

    kind: str
    #: Its name; of a device class a resource by which its devices would be had.
    name: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One warning: ``text`` names field and remedy, but not the object.

    With ``missing`` it holds only if that object does not exist.
    """

    code: Code
    text: str
    missing: Reference | None = None

    def about(self, what: str) -> str:
        """The line that users read; ``what`` names the object."""
        return f"{what}: {self.text} [{self.code}]"
