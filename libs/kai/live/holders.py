"""Who has devices: pod groups, and pods that are in none."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final, NamedTuple

from kai.snapshot.rows import Task


class Holder(NamedTuple):
    """A pod group, or a pod of none."""

    namespace: str
    name: str
    is_group: bool = True

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def holder_of(task: Task) -> Holder:
    """Who has what a pod has."""
    job = task.job
    if job is None:
        return Holder(task.namespace, task.name, is_group=False)
    return Holder(job.namespace, job.name)


#: No holder has this number: it stands for those whose names somebody may not see.
HIDDEN: Final = 0


class Numbers:
    """Holders by number. Each keeps the one that it was given first, for as long as it is kept."""

    def __init__(self) -> None:
        #: Like that of no others, also none of another process: a number means somebody else there.
        self.name = secrets.token_hex(8)
        self._numbers: dict[Holder, int] = {}
        self._holders: dict[int, Holder] = {}
        self._next = HIDDEN + 1

    def of(self, holder: Holder) -> int:
        """Its number."""
        number = self._numbers.get(holder)
        if number is None:
            number, self._next = self._next, self._next + 1
            self._numbers[holder] = number
            self._holders[number] = holder
        return number

    def known(self, holder: Holder) -> int | None:
        """Its number; None if it has none."""
        return self._numbers.get(holder)

    def holder(self, number: int) -> Holder | None:
        """Whose number that is; None where it is nobody's."""
        return self._holders.get(number)

    def keep(self, wanted: Callable[[Holder], bool]) -> None:
        """Forget all others; their numbers are nobody's for ever."""
        for holder, number in list(self._numbers.items()):
            if not wanted(holder):
                del self._numbers[holder], self._holders[number]
