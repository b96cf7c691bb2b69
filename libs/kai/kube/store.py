"""The objects of one kind as last told, by key and by whatever else is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView
from typing import Any, Generic, TypeVar

from kai.kube.reflector import Change, Removed, Upserted
from kai.model.objects import ApiObject

T = TypeVar("T", bound=ApiObject)
Indexer = Callable[[T], Iterable[str]]
Listener = Callable[[T | None, T | None], None]


class Store(Generic[T]):
    """A sink for a reflector. Reading it is plain code; what it hands out must not be modified.

    ``indexes`` maps a name to a function that tells under which values an object is to be found.
    """

    def __init__(self, *, indexes: dict[str, Indexer[T]] | None = None) -> None:
        self._objects: dict[str, T] = {}
        self._indexers = indexes or {}
        # Dictionaries without values: sets that keep the order of arrival.
        self._indexes: dict[str, dict[str, dict[str, None]]] = {name: {} for name in self._indexers}
        self._listeners: list[Listener[T]] = []

    def listen(self, listener: Listener[T]) -> None:
        """Call ``listener(old, new)`` after each change: None is before the first, and after the last."""
        self._listeners.append(listener)

    def __call__(self, change: Change[T]) -> None:
        """Take in one change."""
        if isinstance(change, Upserted):
            self._put(change.obj.key, change.obj)
        elif isinstance(change, Removed):
            self._put(change.obj_key, None)

    def get(self, key: str) -> T | None:
        """The object of this key (``namespace/name``, or the name of a cluster-scoped one)."""
        return self._objects.get(key)

    def by_index(self, index: str, value: str) -> list[T]:
        """The objects found under a value of an index, in order of arrival."""
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    def values_of(self, index: str) -> Iterable[str]:
        """The values under which an index finds anything."""
        return self._indexes[index].keys()

    def keys(self) -> KeysView[str]:
        """All keys."""
        return self._objects.keys()

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def _put(self, key: str, new: T | None) -> None:
        old = self._objects.pop(key, None) if new is None else self._objects.get(key)
        if new is not None:
            self._objects[key] = new
        for name, indexer in self._indexers.items():
            self._reindex(self._indexes[name], key, indexer, old, new)
        for listener in self._listeners:
            listener(old, new)

    @staticmethod
    def _reindex(
        index: dict[str, dict[str, None]],
        key: str,
        indexer: Callable[[Any], Iterable[str]],
        old: Any,
        new: Any,
    ) -> None:
        before = tuple(indexer(old)) if old is not None else ()
        after = tuple(indexer(new)) if new is not None else ()
        if before == after:
            return
        for value in before:
            if (keys := index.get(value)) is not None:
                keys.pop(key, None)
                if not keys:
                    del index[value]
        for value in after:
            index.setdefault(value, {})[key] = None
