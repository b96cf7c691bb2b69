"""Which plugins of this kind a cycle needs: those that are on, and that the cluster gives something to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kai.engine.placement.affinity import PodAffinity, terms
from kai.engine.placement.attraction import companions, wishes
from kai.engine.placement.claims import OfferedOnly, ResourceClaims, claims_are_on, needs_claims
from kai.engine.placement.references import ConfigMaps, HostPorts, LargestNode
from kai.engine.placement.refusals import RefusingNodes
from kai.engine.placement.spread import TopologySpread
from kai.engine.placement.topology import TopologyPlugin
from kai.engine.placement.volumes import Volumes
from kai.engine.placement.zones import NumaZones
from kai.engine.plugins import Plugin, Topologies
from kai.snapshot.classes import TaskClass
from kai.snapshot.state import Kind

if TYPE_CHECKING:
    from kai.engine.session import Session


def build_topology(session: Session) -> Topologies | None:
    """The topology plugin, if it is on."""
    return TopologyPlugin(session) if session.config.plugin("topology") is not None else None


def _neighbours_matter(session: Session, waiting: Iterable[TaskClass]) -> bool:
    affine = companions(session) if session.state.affine else ()
    if any(terms(task.cls, "pod_anti_affinity") for task in affine):
        return True
    if any(cls.constraints.pod_affinity for cls in waiting):
        return True
    return session.config.plugin("podaffinity") is not None and any(wishes(task.cls) for task in affine)


def build_plugins(session: Session) -> tuple[Plugin, ...]:
    """All others; classes of pods that wait decide what is needed."""
    state, config = session.state, session.config
    waiting = {
        task.cls
        for job in state.pending_jobs.values()
        for pod_set in job.pod_sets.values()
        for task in pod_set.tasks.values()
    }
    if not waiting:
        return ()
    plugins: list[Plugin] = []

    def add(name: str, kind: Callable[[Session], Plugin]) -> None:
        with session.timed(name):
            plugins.append(kind(session))

    if session.predicates:
        add("predicates", LargestNode)
        if state.refusals:
            add("predicates", RefusingNodes)
        if any(cls.constraints.config_maps for cls in waiting) and state.versions[Kind.CONFIG_MAP]:
            add("predicates", ConfigMaps)
        if any(cls.constraints.host_ports for cls in waiting):
            add("predicates", lambda _: HostPorts())
        if any(cls.constraints.volume_claims for cls in waiting):
            add("predicates", Volumes)
        if _neighbours_matter(session, waiting):
            add("podaffinity", PodAffinity)
        if any(cls.constraints.spread for cls in waiting):
            add("predicates", TopologySpread)
    if config.plugin("dynamicresources") is not None and needs_claims(session, waiting):
        add("dynamicresources", ResourceClaims)
    if session.predicates and not claims_are_on(session) and state.objects[Kind.DEVICE_CLASS]:
        add("predicates", OfferedOnly)
    if config.plugin("numa") is not None and state.objects[Kind.NODE_RESOURCE_TOPOLOGY]:
        add("numa", NumaZones)
    return tuple(plugins)
