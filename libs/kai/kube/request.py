"""What is asked of an API server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kai.kube.ranks import Rank

#: For one object; lists have more time.
DEADLINE_SECONDS: Final = 10.0
LIST_DEADLINE_SECONDS: Final = 60.0
#: Objects in one answer to a list request.
PAGE_SIZE: Final = 500
#: Content types of patches that say how an object is to be.
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to send. ``verb``, ``resource`` and ``subject`` are for people and metrics."""

    verb: str
    resource: str
    path: str
    method: str = "GET"
    subject: str = ""
    params: dict[str, str] | None = None
    data: bytes | None = None
    content_type: str = "application/json"
    #: What kind of answer is wanted; empty: the object as it is.
    accept: str = ""
    #: Whether carrying it out twice is the same as once.
    repeatable: bool = True
    retry_throttled: bool = True
    #: Of a write; None for a read.
    rank: Rank | None = None

    def __str__(self) -> str:
        return " ".join(part for part in (self.verb, self.resource, self.subject) if part)
