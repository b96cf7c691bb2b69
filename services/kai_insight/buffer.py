"""What waits to be written: bounded, so that a store that is away costs history and nothing else."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from kai.history.databases import Value
from kai.history.records import AnyRecord

Batch: TypeAlias = dict[tuple[type[AnyRecord], tuple[Value, ...]], AnyRecord]


class Buffer:
    """Records by key: of one that changes while it waits only the last word is written.

    One that is full takes no more: who follows has to begin anew, from what the store has and what there is.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._waiting: Batch = {}
        #: Set once it had no room; it stays so.
        self.full = asyncio.Event()
        #: Records that it had no room for.
        self.refused = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, record: AnyRecord) -> None:
        """Have a record written soon."""
        key = (type(record), tuple(getattr(record, name) for name in record.key))
        if self.full.is_set() or (len(self._waiting) >= self._most and key not in self._waiting):
            self.refused += 1
            self.full.set()
            return
        self._waiting[key] = record

    def take(self) -> Batch:
        """All that waits, which waits no longer."""
        taken, self._waiting = self._waiting, {}
        return taken

    def give_back(self, taken: Batch) -> None:
        """What could not be written waits again; what came meanwhile is newer."""
        self._waiting = {**taken, **self._waiting}
