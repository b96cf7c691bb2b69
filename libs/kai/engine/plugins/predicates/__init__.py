"""``predicates``: everything but room that a pod's spec demands of a node, and what it prefers of neighbours.

Each filter is a plugin of its own, made only where somebody demands it. Preferences among the same terms are
counted by the same plugins, if ``podaffinity`` is on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Plugin
from kai.engine.plugins.predicates.affinity import PodAffinity, terms
from kai.engine.plugins.predicates.attraction import companions, wishes
from kai.engine.plugins.predicates.offered import OfferedOnly
from kai.engine.plugins.predicates.references import ConfigMaps, HostPorts, LargestNode
from kai.engine.plugins.predicates.refusals import RefusingNodes
from kai.engine.plugins.predicates.spread import TopologySpread, must_hold
from kai.engine.plugins.predicates.volumes import Volumes
from kai.snapshot.kept import Kept
from kai.snapshot.kinds import Kind


@dataclass(frozen=True, slots=True)
class _Demands:
    """Which filters somebody needs: who waits, and who may be moved for them, since both are placed."""

    host_ports: bool = False
    volumes: bool = False
    spread: bool = False


#: Of all classes, while there is no new one.
_DEMANDS: Final = Kept[_Demands]()


def opened(handle: Handle) -> Iterator[Plugin]:
    """The filters that this cycle needs; none in a cycle in which nobody waits."""
    waiting = handle.waiting
    if not waiting:
        return
    movable = _Demands()
    if handle.moves:
        movable = _DEMANDS.get(handle.memory, handle.classes.made, lambda: _of_all(handle))
    yield LargestNode(handle)
    if handle.refusals:
        yield RefusingNodes(handle)
    if any(cls.constraints.config_maps for cls in waiting) and handle.versions[Kind.CONFIG_MAP]:
        yield ConfigMaps(handle)
    if movable.host_ports or any(cls.constraints.host_ports for cls in waiting):
        yield HostPorts()
    if movable.volumes or any(cls.constraints.volume_claims for cls in waiting):
        yield Volumes(handle)
    if _neighbours_matter(handle):
        yield PodAffinity(handle)
    if movable.spread or any(cls.constraints.spread for cls in waiting):
        yield TopologySpread(handle)
    claims = handle.flags.dynamic_resources and handle.on("dynamicresources")
    if not claims and handle.objects[Kind.DEVICE_CLASS]:
        yield OfferedOnly(handle)


def _of_all(handle: Handle) -> _Demands:
    every = [cls.constraints for cls in handle.classes]
    return _Demands(
        host_ports=any(each.host_ports for each in every),
        volumes=any(each.volume_claims for each in every),
        spread=any(must_hold(constraint) for each in every for constraint in each.spread),
    )


def _neighbours_matter(handle: Handle) -> bool:
    affine = companions(handle) if handle.affine else ()
    if any(terms(task.cls, "pod_anti_affinity") for task in affine):
        return True
    if any(cls.constraints.pod_affinity for cls in handle.waiting):
        return True
    return handle.on("podaffinity") and any(wishes(task.cls) for task in affine)
