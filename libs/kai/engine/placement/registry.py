"""Which plugins of this kind a cycle needs: those that are on, and that the cluster gives something to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kai.engine.placement.affinity import PodAffinity, terms
from kai.engine.placement.attraction import companions, wishes
from kai.engine.placement.claims import OfferedOnly, ResourceClaims, claims_are_on, needs_claims
from kai.engine.placement.references import ConfigMaps, HostPorts, LargestNode
from kai.engine.placement.refusals import RefusingNodes
from kai.engine.placement.spread import TopologySpread, must_hold
from kai.engine.placement.topology import TopologyPlugin
from kai.engine.placement.volumes import Volumes
from kai.engine.placement.zones import NumaZones
from kai.engine.plugins import Plugin, Topologies
from kai.snapshot.classes import TaskClass
from kai.snapshot.state import ClusterState, Kind

if TYPE_CHECKING:
    from kai.engine.session import Session


#: Actions that place pods which run elsewhere, if only to see whether they could be.
_MOVING: Final = frozenset({"consolidation", "reclaim", "preempt"})


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


@dataclass(frozen=True, slots=True)
class _Demands:
    """Which filters somebody needs: who waits, and who may be moved for them, since both are placed."""

    host_ports: bool
    volumes: bool
    spread: bool
    claims: bool


def _demands(session: Session, waiting: Iterable[TaskClass]) -> _Demands:
    movable = _of_all(session.state) if _MOVING & set(session.config.actions) else None
    return _Demands(
        host_ports=bool(movable and movable.host_ports) or any(cls.constraints.host_ports for cls in waiting),
        volumes=bool(movable and movable.volumes) or any(cls.constraints.volume_claims for cls in waiting),
        spread=bool(movable and movable.spread) or any(cls.constraints.spread for cls in waiting),
        claims=bool(movable and movable.claims) or needs_claims(session, waiting),
    )


def _of_all(state: ClusterState) -> _Demands:
    """What any pod demands, looked at again when there is a new class."""
    made = state.classes.made
    known: tuple[int, _Demands] | None = state.memory.get("demands")
    if known is None or known[0] != made:
        every = [cls.constraints for cls in state.classes]
        found = _Demands(
            host_ports=any(each.host_ports for each in every),
            volumes=any(each.volume_claims for each in every),
            spread=any(must_hold(constraint) for each in every for constraint in each.spread),
            claims=any(cls.claims for cls in state.classes),
        )
        known = state.memory["demands"] = (made, found)
    return known[1]


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
    demands = _demands(session, waiting)

    def add(name: str, kind: Callable[[Session], Plugin]) -> None:
        with session.timed(name):
            plugins.append(kind(session))

    if session.predicates:
        add("predicates", LargestNode)
        if state.refusals:
            add("predicates", RefusingNodes)
        if any(cls.constraints.config_maps for cls in waiting) and state.versions[Kind.CONFIG_MAP]:
            add("predicates", ConfigMaps)
        if demands.host_ports:
            add("predicates", lambda _: HostPorts())
        if demands.volumes:
            add("predicates", Volumes)
        if _neighbours_matter(session, waiting):
            add("podaffinity", PodAffinity)
        if demands.spread:
            add("predicates", TopologySpread)
    if config.plugin("dynamicresources") is not None and demands.claims:
        add("dynamicresources", ResourceClaims)
    if session.predicates and not claims_are_on(session) and state.objects[Kind.DEVICE_CLASS]:
        add("predicates", OfferedOnly)
    if config.plugin("numa") is not None and state.objects[Kind.NODE_RESOURCE_TOPOLOGY]:
        add("numa", NumaZones)
    return tuple(plugins)
