"""Objects that scheduling goes on without, and why.

Whatever is wrong with one object is that object's matter: it is left out, its owner is told, and everybody
else is served as if it were not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

#: The object says something that cannot be taken in, as a field that is out of its bounds.
INVALID_OBJECT: Final = "InvalidObject"
#: The object was taken in, and what was decided about it failed.
SET_ASIDE: Final = "SetAside"
#: The pod says that it holds something else of a GPU than it was granted; the grant counts.
NOT_AS_GRANTED: Final = "NotAsGranted"
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One object, and why it is left out.

    ``kind`` is Kubernetes' (``Pod``), ``key`` is ``namespace/name`` (or the name of what has no namespace),
    ``reason`` is for programs, ``message`` for people: field and bound, or the error, and the remedy.
    """

    kind: str
    key: str
    uid: str
    reason: str
    message: str


class OutOfBounds(ValueError):
    """A field has a value that no part of the scheduler can work with.

    ``field`` is its path in the object (``spec.containers[0].resources.requests[cpu]``), ``bound`` says what
    would be taken, as an ending of "it must be": "at most 1024".
    """

    def __init__(self, field: str, value: Any, bound: str) -> None:
        shown = str(value)
        if len(shown) > _SHOWN:
            shown = f"{shown[:_SHOWN]}… ({len(shown)} characters)"
        super().__init__(f"{field} is {shown!r}; it must be {bound}")
        self.field = field
        self.value = value
        self.bound = bound
