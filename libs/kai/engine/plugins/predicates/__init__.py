"""``predicates``: everything but room that a pod's spec demands of a node.

Each filter is a plugin of its own, made only where somebody demands it. What pods prefer of other pods is
counted by the same plugins as what they require of them, where it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Plugin
from kai.engine.neighbourhood.affinity import PodAffinity, terms
from kai.engine.neighbourhood.attraction import Companions, companions
from kai.engine.neighbourhood.spread import TopologySpread, must_hold
from kai.engine.plugins.predicates.device_plugins import DevicePluginGpus
from kai.engine.plugins.predicates.left_alone import LeftAlone
from kai.engine.plugins.predicates.offered import OfferedOnly
from kai.engine.plugins.predicates.prerequisites import ConfigMaps, HostPorts, LargestNode
from kai.engine.plugins.predicates.refusals import RefusingNodes
from kai.engine.plugins.predicates.volumes import Volumes
from kai.snapshot.classes import TaskClass
from kai.snapshot.kept import Kept
from kai.snapshot.kinds import Kind


class _Demands(NamedTuple):
    """Which filters somebody needs."""

    host_ports: bool = False
    volumes: bool = False
    config_maps: bool = False
    near: bool = False
    spread: bool = False
    #: Some of it must hold.
    kept_apart: bool = False

    @classmethod
    def of(cls, classes: Iterable[TaskClass]) -> _Demands:
        """All that pods of these classes need."""
        host_ports = volumes = config_maps = near = spread = kept_apart = False
        for each in classes:
            constraints = each.constraints
            host_ports = host_ports or bool(constraints.host_ports)
            volumes = volumes or bool(constraints.volume_claims)
            config_maps = config_maps or bool(constraints.config_maps)
            near = near or bool(constraints.pod_affinity)
            if constraints.spread:
                spread = True
                kept_apart = kept_apart or any(map(must_hold, constraints.spread))
        return cls(host_ports, volumes, config_maps, near, spread, kept_apart)


#: Of the classes that wait, while they are the same.
_WAITING: Final = Kept[_Demands]()
#: Of all classes, while there is no new one: pods that run may be moved for those that wait.
_MOVABLE: Final = Kept[_Demands]()
_NOTHING: Final = _Demands()


def opened(handle: Handle) -> Iterator[Plugin]:
    """The filters that this cycle needs; none in a cycle in which nobody waits."""
    if not handle.waiting:
        return
    waiting = _WAITING.get(handle.kept, handle.waiting, lambda: _Demands.of(handle.waiting))
    movable = _NOTHING
    if handle.moves:
        movable = _MOVABLE.get(handle.kept, handle.classes.made, lambda: _Demands.of(handle.classes))
    yield LargestNode(handle)
    if handle.refusals:
        yield RefusingNodes(handle)
    if handle.eviction_refusals:
        yield LeftAlone(handle)
    if waiting.config_maps and handle.versions[Kind.CONFIG_MAP]:
        yield ConfigMaps(handle)
    if waiting.host_ports or movable.host_ports:
        yield HostPorts()
    if waiting.volumes or movable.volumes:
        yield Volumes(handle)
    others = companions(handle)
    if waiting.near or _neighbours_matter(handle, others):
        yield PodAffinity(handle, others)
    if waiting.spread or movable.kept_apart:
        yield TopologySpread(handle)
    if handle.objects[Kind.DEVICE_CLASS] and not handle.claims:
        yield OfferedOnly(handle)
    if rows := handle.filters.offering_both:
        yield DevicePluginGpus(handle, rows)


def _neighbours_matter(handle: Handle, others: Companions) -> bool:
    """Whether pods do not want others near, or must be near them wherever they are moved; where they only
    prefer that, if it counts.
    """
    return any(
        said.repelled
        or (handle.prefers and said.wishes)
        or (handle.moves and terms(pods[0].cls, "pod_affinity"))
        for said, pods in others
    )
