"""Texts that tell what a comparison of many of them costs, where time would only tell of the machine."""

from typing import ClassVar


class Counted(str):
    """A text that counts how often anybody looks at one of its kind."""

    __slots__ = ()
    looks: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        Counted.looks += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        Counted.looks += 1
        return str.__hash__(self)
