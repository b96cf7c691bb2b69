"""The queues that there are, for whoever wants to know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kai.kube.reflector import Change, Removed, Upserted
from kai.model.objects import Queue


class QueueBook:
    """All queues by name; a sink for a reflector."""

    def __init__(self) -> None:
        self.by_name: dict[str, Queue] = {}
        self._listeners: list[Callable[[], None]] = []

    def __call__(self, change: Change[Queue]) -> None:
        """Take in a change."""
        if isinstance(change, Upserted):
            self.take(change.obj)
        elif isinstance(change, Removed):
            self.by_name.pop(change.obj_key, None)
        for listener in self._listeners:
            listener()

    def take(self, queue: Queue) -> None:
        """Take in a queue, unless it is older than what is known.

        What we wrote ourselves comes in here first, so that it is not written twice while the watch is late.
        """
        known = self.by_name.get(queue.metadata.name)
        if known is None or known.metadata.uid != queue.metadata.uid or _version(known) <= _version(queue):
            self.by_name[queue.metadata.name] = queue

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call ``listener`` after each change, while in here."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)


def _version(queue: Queue) -> int:
    text = queue.metadata.resource_version
    return int(text) if text.isdecimal() else 0
