"""What of a pod's specification decides where it may run, beside the amounts that it asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kai.model import names
from kai.model.objects import Container, Pod
from kai.model.rules.host_ports import host_ports_of
from kai.model.rules.volumes import claim_name, is_ephemeral
from kai.snapshot.classes import Constraints


def constraints_of(pod: Pod) -> Constraints:
    """Those of a pod that is within its bounds (:func:`~kai.snapshot.pod_bounds.check_scheduling`)."""
    spec = pod.spec
    affinity = spec.affinity or {}
    spread = tuple(spec.topology_spread_constraints or ())
    about_pods = spread or affinity.get("podAffinity") or affinity.get("podAntiAffinity")
    claims, own_claims, _ = volume_references(pod)
    config_maps = config_maps_of(pod)
    named = claims or config_maps or about_pods
    return Constraints(
        node_selector=tuple(sorted((spec.node_selector or {}).items())),
        node_affinity=affinity.get("nodeAffinity"),
        pod_affinity=affinity.get("podAffinity"),
        pod_anti_affinity=affinity.get("podAntiAffinity"),
        tolerations=tuple(spec.tolerations or ()),
        host_ports=host_ports_of(pod),
        spread=spread,
        priority_class=spec.priority_class_name,
        priority=spec.priority or 0,
        never_preempts=spec.preemption_policy == "Never",
        volume_claims=tuple(sorted(set(claims))),
        own_claims=tuple(sorted(own_claims)),
        config_maps=tuple(sorted(config_maps)),
        namespace=pod.metadata.namespace if named else "",
        labels=tuple(sorted(pod.labels.items())) if about_pods else (),
    )


def container_key(container: Container, pod: Pod) -> tuple[Any, ...]:
    """What a class depends on; without an environment no config maps are needed."""
    own = (container.resources, container.ports, container.restart_policy)
    return (*own, *_config_maps_of(container, pod)) if container.env or container.env_from else own


def volume_references(pod: Pod) -> tuple[list[str], list[str], list[str]]:
    """What volumes refer to, by name: claims, those of ephemeral volumes again, and required config maps."""
    claims: list[str] = []
    own_claims: list[str] = []
    config_maps: list[str] = []
    for volume in pod.spec.volumes or ():
        if (claim := claim_name(volume, pod.metadata.name)) is not None:
            claims.append(claim)
            if is_ephemeral(volume):
                own_claims.append(claim)
        elif (source := volume.get("configMap")) and not source.get("optional"):
            name = source.get("name", "")
            if name and not _made_by_binder(name, pod):
                config_maps.append(name)
    return claims, own_claims, config_maps


def config_maps_of(pod: Pod) -> set[str]:
    """Those that a pod cannot start without, by name."""
    _, _, of_volumes = volume_references(pod)
    found = set(of_volumes)
    for container in (*pod.spec.containers, *(pod.spec.init_containers or ())):
        found.update(_config_maps_of(container, pod))
    return found


def _made_by_binder(config_map: str, pod: Pod) -> bool:
    """Whether the config map tells the pod its part of a GPU: then it comes with the binding."""
    prefix = pod.annotations.get(names.SHARED_GPU_CONFIGMAP, "")
    return bool(prefix) and config_map.startswith(prefix)


def _config_maps_of(container: Container, pod: Pod) -> list[str]:
    """Those that its environment cannot do without."""
    found: list[str] = []
    for variable in container.env or ():
        reference = (variable.get("valueFrom") or {}).get("configMapKeyRef")
        if reference and not reference.get("optional"):
            found.append(reference.get("name", ""))
    for source in container.env_from or ():
        reference = source.get("configMapRef")
        if reference and not reference.get("optional"):
            found.append(reference.get("name", ""))
    return [name for name in found if not _made_by_binder(name, pod)]


def numa_inputs(pod: Pod) -> list[Any]:
    """What else zones of a node depend on: containers one by one, and the class of service."""

    def side(containers: Iterable[Container]) -> list[Any]:
        return [
            (c.resources and (c.resources.requests, c.resources.limits), c.restart_policy) for c in containers
        ]

    return [side(pod.spec.containers), side(pod.spec.init_containers or ()), pod.status.qos_class]
