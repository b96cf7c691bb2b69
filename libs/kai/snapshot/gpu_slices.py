"""Which GPUs resource slices offer on one node alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from kai.model.rules.device_claims import is_gpu_name

#: Driver and name.
_Pool: TypeAlias = tuple[str, str]


class _Slice(NamedTuple):
    pool: _Pool
    generation: int
    #: Names of devices by node.
    devices: dict[str, set[str]]


class GpuSlices:
    """Slices of drivers of GPUs; of a pool those of the newest generation count."""

    def __init__(self) -> None:
        self._slices: dict[str, _Slice] = {}
        self._of_node: defaultdict[str, set[str]] = defaultdict(set)
        self._of_pool: defaultdict[_Pool, set[str]] = defaultdict(set)
        self._generations: defaultdict[_Pool, Counter[int]] = defaultdict(Counter)

    def put(self, name: str, obj: dict[str, Any] | None) -> set[str]:
        """Take in the newest version of a slice, None if it is gone; the nodes that may have other GPUs now.

        Costs time by the slice's devices, and where a pool's generation changes by the slices of the pool.
        """
        old, new = self._slices.get(name), _read(obj)
        pools = {each.pool for each in (old, new) if each is not None}
        newest = {pool: self._newest(pool) for pool in pools}
        if old is not None:
            self._drop(name, old)
        if new is not None:
            self._add(name, new)
        concerned = {node for each in (old, new) if each is not None for node in each.devices}
        for pool, generation in newest.items():
            if self._newest(pool) != generation:
                for each in self._of_pool.get(pool, ()):
                    concerned.update(self._slices[each].devices)
        return concerned

    def count(self, node: str) -> int:
        """GPUs of a node; a device counts once, however many slices name it."""
        found: set[tuple[_Pool, str]] = set()
        for name in self._of_node.get(node, ()):
            each = self._slices[name]
            if each.generation == self._newest(each.pool):
                found.update((each.pool, device) for device in each.devices[node])
        return len(found)

    def _newest(self, pool: _Pool) -> int | None:
        return max(self._generations.get(pool, ()), default=None)

    def _add(self, name: str, added: _Slice) -> None:
        self._slices[name] = added
        self._of_pool[added.pool].add(name)
        self._generations[added.pool][added.generation] += 1
        for node in added.devices:
            self._of_node[node].add(name)

    def _drop(self, name: str, dropped: _Slice) -> None:
        del self._slices[name]
        self._of_pool[dropped.pool].discard(name)
        generations = self._generations[dropped.pool]
        generations[dropped.generation] -= 1
        if not generations[dropped.generation]:
            del generations[dropped.generation]
        if not generations:
            del self._generations[dropped.pool], self._of_pool[dropped.pool]
        for node in dropped.devices:
            self._of_node[node].discard(name)
            if not self._of_node[node]:
                del self._of_node[node]


def _read(obj: dict[str, Any] | None) -> _Slice | None:
    spec = (obj or {}).get("spec") or {}
    driver = str(spec.get("driver", ""))
    if not is_gpu_name(driver):
        return None
    pool = spec.get("pool") or {}
    devices: defaultdict[str, set[str]] = defaultdict(set)
    for node, device in _of_one_node(spec):
        devices[node].add(device)
    return _Slice((driver, str(pool.get("name", ""))), int(pool.get("generation", 0)), dict(devices))


def _of_one_node(spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Nodes and the names of their devices; what several nodes reach is nobody's."""
    each_says = spec.get("perDeviceNodeSelection")
    for device in spec.get("devices") or ():
        node = (device if each_says else spec).get("nodeName")
        if node:
            yield str(node), str(device["name"])
