"""The queues that there are, for whoever wants to know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from kai.kube.reflector import Change, Removed, Upserted
from kai.model.objects import Queue

#: Called with a queue as it was known (None before the first) and as it is now (None after the last).
Listener: TypeAlias = Callable[[Queue | None, Queue | None], None]


class QueueBook:
    """All queues by name; a sink for a reflector."""

    def __init__(self) -> None:
        self.by_name: dict[str, Queue] = {}
        self._listeners: list[Listener] = []

    def __call__(self, change: Change[Queue]) -> None:
        """Take in a change."""
        if isinstance(change, Upserted):
            name = change.obj.metadata.name
        elif isinstance(change, Removed):
            name = change.obj_key
        else:
            return
        old = self.by_name.get(name)
        if isinstance(change, Upserted):
            self.take(change.obj)
        else:
            self.by_name.pop(name, None)
        for listener in self._listeners:
            listener(old, self.by_name.get(name))

    def take(self, queue: Queue) -> None:
        """Take in a queue, unless it is older than what is known.

        What we wrote ourselves comes in here first, so that it is not written twice while the watch is late.
        """
        known = self.by_name.get(queue.metadata.name)
        if known is None or known.metadata.uid != queue.metadata.uid or _version(known) <= _version(queue):
            self.by_name[queue.metadata.name] = queue

    @contextmanager
    def listening(self, listener: Listener) -> Iterator[None]:
        """Call ``listener`` after each change, while in here."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)


def _version(queue: Queue) -> int:
    text = queue.metadata.resource_version
    return int(text) if text.isdecimal() else 0
