"""What is known beside pods: their pod groups, and what GPUs cost on nodes and in claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from sys import intern
from typing import Final

from kai.history.records import NAME_CHARACTERS, cut
from kai.kube.reflector import Change, Removed, Upserted
from kai.live.groups import workload_of
from kai.model.dra import ResourceClaim
from kai.model.objects import Node, PodGroup
from kai.model.rules.device_claims import claimed_gpus
from kai.model.rules.gpus import gpu_memory_mib
from kai_insight.pods import Devices, user_of


@dataclass(frozen=True, slots=True)
class Group:
    """Whose a pod group is, and who pays for it."""

    queue: str
    workload: str
    user: str


NO_GROUP: Final = Group("", "", "")


class Surroundings:
    """Its sinks are for reflectors. Of each group ``regrouped`` is called with the key where it changed, and
    ``gone`` where it does not exist any more.
    """

    def __init__(self, regrouped: Callable[[str], None], *, gone: Callable[[str], None]) -> None:
        self.groups: dict[str, Group] = {}
        self._regrouped = regrouped
        self._gone = gone
        self._memory_mib: dict[str, int] = {}
        self._claimed: dict[str, int] = {}
        self.devices = Devices(self._memory_mib.get, self._claimed.get)

    def group(self, key: str) -> Group:
        """A pod group (``namespace/name``); :data:`NO_GROUP` where there is none."""
        return self.groups.get(key, NO_GROUP)

    def group_sink(self, change: Change[PodGroup]) -> None:
        """Take in a change of a pod group."""
        if isinstance(change, Upserted):
            key, found = change.obj.key, _group(change.obj)
            if self.groups.get(key) != found:
                self.groups[key] = found
                self._regrouped(key)
        elif isinstance(change, Removed):
            self._gone(change.obj_key)
            self.groups.pop(change.obj_key, None)

    def node_sink(self, change: Change[Node]) -> None:
        """Take in a change of a node; only how much memory its GPUs have matters."""
        if isinstance(change, Upserted):
            _note(self._memory_mib, change.obj.metadata.name, gpu_memory_mib(change.obj.labels))
        elif isinstance(change, Removed):
            self._memory_mib.pop(change.obj_key, None)

    def claim_sink(self, change: Change[ResourceClaim]) -> None:
        """Take in a change of a resource claim."""
        if isinstance(change, Upserted):
            claimed = claimed_gpus(change.obj)
            _note(self._claimed, change.obj.key, None if claimed is None else claimed[1])
        elif isinstance(change, Removed):
            self._claimed.pop(change.obj_key, None)


def _group(group: PodGroup) -> Group:
    queue, workload = (cut(each, NAME_CHARACTERS) for each in (group.spec.queue, workload_of(group)))
    return Group(intern(queue), workload, intern(user_of(group)))


def _note(known: dict[str, int], key: str, value: int | None) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value
