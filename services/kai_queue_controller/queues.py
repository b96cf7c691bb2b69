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
        if isinstance(change, Removed):
            self.by_name.pop(name, None)
        elif change.listed or old is None or not _is_older(change.obj, old):
            self.by_name[name] = change.obj
        self._tell(old, self.by_name.get(name))

    def take_written(self, queue: Queue) -> None:
        """Take in the answer to a write of ours, so that it is not written twice while the watch is late.

        Unless the watch has told that the queue is gone, or more.
        """
        known = self.by_name.get(queue.metadata.name)
        if known is None or known.metadata.uid != queue.metadata.uid or _is_older(queue, known):
            return
        self.by_name[queue.metadata.name] = queue
        if known.spec != queue.spec:
            # Somebody has changed it meanwhile: what the watch says of that will be no news any more.
            self._tell(known, queue)

    def _tell(self, old: Queue | None, new: Queue | None) -> None:
        for listener in self._listeners:
            listener(old, new)

    @contextmanager
    def listening(self, listener: Listener) -> Iterator[None]:
        """Call ``listener`` after each change, while in here."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)


def _is_older(queue: Queue, known: Queue) -> bool:
    return queue.metadata.uid == known.metadata.uid and _version(queue) < _version(known)


def _version(queue: Queue) -> int:
    text = queue.metadata.resource_version
    return int(text) if text.isdecimal() else 0
