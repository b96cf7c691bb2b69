"""Where the volumes of claims that are not bound yet will be, as the pods that use them are placed.

A claim whose class waits for its first consumer gets its volume for the node of the pod that comes first.
What is decided for that pod holds for others: who shares the claim, and who might want the same volume.
Nothing is remembered that a placement taken back would leave behind: who is where is read from the pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from kai.engine.framework.handle import Handle
from kai.model.arrays import Ints, Mask
from kai.model.rules.volumes import is_to_be_had, storage_bytes, suits
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Node, Task
from kai.snapshot.status import OCCUPYING

Object: TypeAlias = Mapping[str, Any]
#: Access modes of volumes that several nodes may have at the same time.
_SEVERAL_NODES: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})


class FreeVolume(NamedTuple):
    """A volume that exists, and the nodes that reach it; None for all."""

    name: str
    reached: Mask | None


class Settled(NamedTuple):
    """What a claim will get: this volume, or None for one that is made for the node."""

    node: Node
    volume: FreeVolume | None


class UnboundClaims:
    """Claims by ``namespace/name`` that are bound for the first of their pods, in one cycle."""

    def __init__(
        self,
        handle: Handle,
        *,
        waits: Callable[[Object], bool],
        reached: Callable[[Object], Mask | None],
    ) -> None:
        """``waits`` tells which claims are still to be bound, ``reached`` the nodes of a volume."""
        self._handle = handle
        self._claims = handle.objects[Kind.PERSISTENT_VOLUME_CLAIM]
        self._reached = reached
        #: Those that are free, by their class, and those that are kept for a claim, by its key.
        self._volumes: dict[str, list[Object]] = {}
        self._kept: dict[str, list[Object]] = {}
        self._sort_volumes()
        #: By name of a volume: its place in the order, and what all claims share that could get it.
        self._known: dict[str, tuple[tuple[bool, int, str], FreeVolume]] = {}
        self._candidates: dict[str, tuple[FreeVolume, ...]] = {}
        self._counts: dict[str, Ints] = {}
        self._users = self._find_users(waits)
        self._settled: dict[str, Settled] = {}
        self._stamp = -1

    def _sort_volumes(self) -> None:
        for volume in self._handle.objects[Kind.PERSISTENT_VOLUME].values():
            spec = volume.get("spec") or {}
            if holder := spec.get("claimRef"):
                key = f"{holder.get('namespace')}/{holder.get('name')}"
                self._kept.setdefault(key, []).append(volume)
            else:
                self._volumes.setdefault(spec.get("storageClassName") or "", []).append(volume)

    def _of_class(self, claim: Object) -> Sequence[Object]:
        return self._volumes.get((claim.get("spec") or {}).get("storageClassName") or "", ())

    def _find_users(self, waits: Callable[[Object], bool]) -> dict[str, list[Task]]:
        """Pods by claim, of claims that several of them use, or for which there may be volumes to be had."""
        users: dict[str, list[Task]] = {}
        for task in self._handle.tasks.values():
            for name in task.cls.constraints.volume_claims:
                users.setdefault(f"{task.namespace}/{name}", []).append(task)
        return {
            key: using
            for key, using in users.items()
            if (claim := self._claims.get(key)) is not None
            and waits(claim)
            and (len(using) > 1 or key in self._kept or self._of_class(claim))
        }

    def candidates(self, key: str) -> tuple[FreeVolume, ...]:
        """Volumes that a claim could get, as the binder takes them: kept for it, then the smallest."""
        known = self._candidates.get(key)
        if known is None:
            claim = self._claims[key]
            spec = claim.get("spec") or {}
            found = sorted(
                self._ranked(volume)
                for volume in (*self._kept.get(key, ()), *self._of_class(claim))
                if is_to_be_had(volume, claim)
                and suits(volume.get("spec") or {}, volume["metadata"].get("labels") or {}, spec)
            )
            known = self._candidates[key] = tuple(volume for _, volume in found)
        return known

    def _ranked(self, volume: Object) -> tuple[tuple[bool, int, str], FreeVolume]:
        name = volume["metadata"]["name"]
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = (_preference(volume), FreeVolume(name, self._reached(volume)))
        return known

    def settled(self, key: str) -> Settled | None:
        """What the claim gets, since a pod that uses it has a place; None if none has."""
        return self._now().get(key)

    def open_rows(self, key: str) -> Mask:
        """``[nodes]`` those that reach a volume which the claim could get, and no other claim gets."""
        counts = self._counts.get(key)
        candidates = self.candidates(key)
        if counts is None:
            counts = self._counts[key] = self._count(candidates)
        others = self._taken(but=key) if candidates else ()
        if others:
            counts = counts - self._count(each for each in candidates if each.name in others)
        return counts > 0

    def reaching_alike(self, key: str) -> Ints:
        """``[nodes]`` a number for each set of the claim's possible volumes that the same nodes reach."""
        nodes = len(self._handle.nodes)
        reached = [
            np.ones(nodes, dtype=bool) if each.reached is None else each.reached
            for each in self.candidates(key)
        ]
        if not reached:
            return np.zeros(nodes, dtype=np.int64)
        _, numbers = np.unique(np.array(reached), axis=1, return_inverse=True)
        return np.asarray(numbers, dtype=np.int64).reshape(-1)

    def has_volumes(self, keys: Iterable[str], node: Node) -> bool:
        """Whether all of these claims, of which none is settled, get volumes that exist on the node."""
        taken = self._taken()
        for key in keys:
            volume = self._smallest(key, node, taken)
            if volume is None:
                return False
            taken.add(volume.name)
        return True

    def _count(self, volumes: Iterable[FreeVolume]) -> Ints:
        counts = np.zeros(len(self._handle.nodes), dtype=np.int64)
        for volume in volumes:
            counts += 1 if volume.reached is None else volume.reached
        return counts

    def _taken(self, *, but: str = "") -> set[str]:
        return {
            settled.volume.name
            for key, settled in self._now().items()
            if settled.volume is not None and key != but
        }

    def _now(self) -> dict[str, Settled]:
        """What is settled with the pods where they are now; what was settled before stays if they stayed."""
        if self._stamp != self._handle.nodes.log_end:
            before, places = self._settled, dict(self._places())
            self._settled = {
                key: settled
                for key, node in places.items()
                if (settled := before.get(key)) is not None and settled.node is node
            }
            taken = {each.volume.name for each in self._settled.values() if each.volume is not None}
            for key, node in places.items():
                if key not in self._settled:
                    volume = self._smallest(key, node, taken)
                    self._settled[key] = Settled(node, volume)
                    if volume is not None:
                        taken.add(volume.name)
            self._stamp = self._handle.nodes.log_end
        return self._settled

    def _places(self) -> Iterator[tuple[str, Node]]:
        for key, users in self._users.items():
            for task in users:
                node = task.pipelined_node or task.node
                if node is not None and OCCUPYING[task.status]:
                    yield key, node
                    break

    def _smallest(self, key: str, node: Node, taken: set[str]) -> FreeVolume | None:
        for volume in self.candidates(key):
            if volume.name not in taken and (volume.reached is None or volume.reached[node.row]):
                return volume
        return None


def on_one_node(claim: Object) -> bool:
    """Whether all pods that use a claim must be on the same node, by its access modes."""
    return _SEVERAL_NODES.isdisjoint((claim.get("spec") or {}).get("accessModes") or ())


def _preference(volume: Object) -> tuple[bool, int, str]:
    spec = volume.get("spec") or {}
    return not spec.get("claimRef"), storage_bytes(spec.get("capacity")), volume["metadata"]["name"]
