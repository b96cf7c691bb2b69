"""Who may use which queue, as queues and namespaces say at the moment; every answer is found once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kai.model import access
from kai.model.access import User
from kai.model.objects import Queue

#: Answers that are kept; users decide how many different ones there are.
_MOST: Final = 1 << 14


class AccessTable:
    """Answers to who may use a queue. Whoever changes queues or namespaces says so.

    Queues of all node pools count: what one says holds below it, wherever that is.
    """

    def __init__(self, namespaces: Mapping[str, Mapping[str, Any]]) -> None:
        self._queues: dict[str, Queue] = {}
        self._namespaces = namespaces
        #: Whether any queue says who may use it; where none does nobody need ask.
        self.restricted = False
        self._restricted: set[str] = set()
        #: Namespaces whose answers may have changed since somebody looked; None: all.
        self.stale: set[str] | None = set()
        self._known: dict[tuple[str, str, str | None], str] = {}

    def queue_changed(self, name: str, new: Queue | None) -> None:
        """A queue came, went or says something else."""
        old = self._queues.pop(name, None)
        if new is not None:
            self._queues[name] = new
        if _rule(old) == _rule(new):
            return
        before = self.restricted
        if new is not None and new.spec.access is not None:
            self._restricted.add(name)
        else:
            self._restricted.discard(name)
        self.restricted = bool(self._restricted)
        if before or self.restricted:
            self._known.clear()
            self.stale = None

    def namespace_changed(self, namespace: str) -> None:
        """A namespace came, went or has other labels."""
        if self.restricted:
            self._known = {key: shut for key, shut in self._known.items() if key[1] != namespace}
            if self.stale is not None:
                self.stale.add(namespace)

    def barrier(self, queue: str, *, namespace: str, account: str | None) -> str:
        """The queue that keeps pods of a service account out of a queue; empty if none does.

        Without an account: that keeps out all of a namespace.
        """
        if not self.restricted:
            return ""
        key = (queue, namespace, account)
        shut = self._known.get(key)
        if shut is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            shut = self._known[key] = access.barrier(queue, self._queues, self._user(namespace, account))
        return shut

    def refusal(self, queue: str, *, namespace: str, account: str) -> str:
        """Why pods of a service account may not use a queue; empty if they may."""
        shut = self.barrier(queue, namespace=namespace, account=account)
        if not shut:
            return ""
        user = self._user(namespace, account)
        return access.refusal(queue, shut, self._queues[shut].spec.access, user)

    def _user(self, namespace: str, account: str | None) -> User:
        meta = self._namespaces.get(namespace, {}).get("metadata") or {}
        return User(namespace=namespace, labels=meta.get("labels") or {}, account=account)


def _rule(queue: Queue | None) -> object:
    """What of a queue answers depend on."""
    return None if queue is None else (queue.spec.access, queue.spec.parent_queue)
