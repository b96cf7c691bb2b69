"""What of a pod its scheduling class depends on: the only part of a pod that outlives it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from kai.model import names
from kai.model.objects import Container, Json, ObjectMeta, Pod, PodSpec, PodStatus
from kai.model.requests import resized
from kai.model.rules.volumes import is_ephemeral

_ANNOTATIONS: Final = (names.GPU_FRACTION, names.GPU_MEMORY, names.MIG_PREFIX, names.SHARED_GPU_CONFIGMAP)
_ABOUT_PODS: Final = ("podAffinity", "podAntiAffinity")


def essence(pod: Pod) -> Pod:
    """A small pod of the same class."""
    meta, spec = pod.metadata, pod.spec
    annotations = {
        key: text for key, text in (meta.annotations or {}).items() if key.startswith(_ANNOTATIONS)
    }
    return Pod(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            labels=meta.labels if _is_about_pods(spec) else None,
            annotations=annotations or None,
        ),
        spec=PodSpec(
            containers=_containers(spec.containers),
            init_containers=_containers(spec.init_containers) if spec.init_containers else None,
            overhead=spec.overhead,
            resources=spec.resources,
            node_selector=spec.node_selector,
            affinity=spec.affinity,
            tolerations=spec.tolerations,
            topology_spread_constraints=spec.topology_spread_constraints,
            priority_class_name=spec.priority_class_name,
            priority=spec.priority,
            preemption_policy=spec.preemption_policy,
            volumes=_volumes(spec.volumes),
            resource_claims=spec.resource_claims,
            host_network=spec.host_network,
        ),
        status=_status(pod),
    )


def _is_about_pods(spec: PodSpec) -> bool:
    affinity = spec.affinity or {}
    return bool(spec.topology_spread_constraints) or not affinity.keys().isdisjoint(_ABOUT_PODS)


def _containers(containers: Iterable[Container]) -> list[Container]:
    return [
        Container(
            name=each.name,
            resources=each.resources,
            ports=each.ports,
            restart_policy=each.restart_policy,
            env=_referring(each.env, "valueFrom"),
            env_from=_referring(each.env_from, "configMapRef"),
        )
        for each in containers
    ]


def _referring(entries: list[Json] | None, key: str) -> list[Json] | None:
    """Only those that take something from elsewhere."""
    return [{key: entry[key]} for entry in entries if entry.get(key)] if entries else None


def _volumes(volumes: list[Json] | None) -> list[Json] | None:
    """Those that scheduling looks at, without what only a kubelet reads."""
    if volumes is None:
        return None
    kept: list[Json] = []
    for volume in volumes:
        own: Json = {"ephemeral": {}} if is_ephemeral(volume) else {}
        if claim := volume.get("persistentVolumeClaim"):
            kept.append({"persistentVolumeClaim": {"claimName": claim.get("claimName", "")}, **own})
        elif own:
            kept.append({"name": volume.get("name", ""), **own})
        elif source := volume.get("configMap"):
            kept.append({"configMap": {key: source[key] for key in ("name", "optional") if key in source}})
    return kept


def _status(pod: Pod) -> PodStatus:
    status = pod.status
    if not pod.spec.node_name or resized(pod) is None:
        return PodStatus(qos_class=status.qos_class)
    return msgspec.structs.replace(
        status,
        phase="",
        nominated_node_name="",
        start_time=None,
        conditions=[each for each in status.conditions or () if each.type == "PodResizePending"],
        resource_claim_statuses=None,
        extended_resource_claim_status=None,
    )
