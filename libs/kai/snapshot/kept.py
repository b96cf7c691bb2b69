"""What is kept in a state from cycle to cycle, each value by its owner, who alone has the key to it.

* :class:`Kept` saves work: nothing in it is needed to decide right, so it may be forgotten at any time.
* :class:`Carried` is what one cycle leaves to the next, and no object says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class KeptValues:
    """The values of all owners; read and written by their keys only."""

    __slots__ = ("_carried", "_kept")

    def __init__(self) -> None:
        self._kept: dict[Kept[Any], tuple[object, Any]] = {}
        self._carried: dict[Carried[Any], Any] = {}

    def __len__(self) -> int:
        """How many owners keep something."""
        return len(self._kept)

    def forget(self) -> None:
        """Keep nothing any more; what is carried stays."""
        self._kept.clear()

    def carried(self) -> KeptValues:
        """A copy of what a cycle that fails must find again; see :meth:`restore`."""
        saved = KeptValues()
        saved._carried = {key: key.copied(value) for key, value in self._carried.items() if key.revocable}
        return saved

    def restore(self, saved: KeptValues) -> None:
        """Be as when ``saved`` was made, but for what cannot be taken back, and with nothing kept."""
        self._kept.clear()
        final = {key: value for key, value in self._carried.items() if not key.revocable}
        self._carried = saved.carried()._carried | final

    def lent(self) -> KeptValues:
        """What a trial may know; what it finds out stays there."""
        trial = KeptValues()
        trial._carried = {key: key.copied(value) for key, value in self._carried.items() if key.lent}
        trial._kept = {
            key: (stamp, key.lent(value))
            for key, (stamp, value) in self._kept.items()
            if key.lent is not None
        }
        return trial


class Kept(Generic[T]):
    """The key to a value of one type that saves its owner work."""

    def __init__(self, *, lent: Callable[[T], T] | None = None) -> None:
        """``lent`` gives what a trial may have of it; without, it gets nothing."""
        self.lent = lent

    def get(self, values: KeptValues, stamp: object, make: Callable[[], T]) -> T:
        """The value, made anew where it was made for another ``stamp``.

        Stamps are compared by their values; only what was made for the last is kept.
        """
        known = values._kept.get(self)
        if known is None or known[0] != stamp:
            known = values._kept[self] = (stamp, make())
        value: T = known[1]
        return value


class Carried(Generic[T]):
    """The key to a value of one type that its owner goes by in the next cycle."""

    def __init__(
        self,
        empty: Callable[[], T],
        *,
        copied: Callable[[T], T] | None,
        lent: bool = False,
    ) -> None:
        """``copied`` copies it for a cycle that may be taken back; None where it cannot be taken back.

        ``lent`` says that trials go by it, too.
        """
        self.revocable = copied is not None
        self.copied: Callable[[T], T] = copied or as_it_is
        self.lent = lent
        self._empty = empty

    def of(self, values: KeptValues) -> T:
        """The value, to be read and changed."""
        try:
            value: T = values._carried[self]
        except KeyError:
            value = values._carried[self] = self._empty()
        return value

    def put(self, values: KeptValues, value: T) -> None:
        """Another value from now on."""
        values._carried[self] = value


def as_it_is(value: T) -> T:
    """For values that nobody changes, or only adds to what anybody would find."""
    return value
