"""Ends that a watch tells of while their object is written.

The answer to a write and the watch come by different ways: the watch may have told that an object is gone
before the answer tells how it looked. Nothing tells of that end again, so who takes such an answer in has the
object for good.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Endings:
    """Remembers ends only of what is being written, and only for so long."""

    def __init__(self) -> None:
        self._uids: dict[str, set[str]] = {}

    @contextmanager
    def writing(self, key: str) -> Iterator[None]:
        """While the object of this key is written, and until the answer is taken in."""
        begun = key not in self._uids
        self._uids.setdefault(key, set())
        try:
            yield
        finally:
            if begun:
                del self._uids[key]

    def told(self, key: str, uid: str) -> None:
        """The watch has told that this object is gone."""
        if (uids := self._uids.get(key)) is not None:
            uids.add(uid)

    def has_ended(self, key: str, uid: str) -> bool:
        """Whether an answer about this object comes too late."""
        return uid in self._uids.get(key, ())
