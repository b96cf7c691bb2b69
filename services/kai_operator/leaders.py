"""Where the leader of a shard's scheduler is, as endpoints of its Service.

With several replicas a Service with a selector would lead to any of them, of which only one has sessions,
metrics and answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from kai.kube.lease import GIVEN_BACK_SECONDS
from kai.kube.leases import Lease
from kai.model import names
from kai.model.objects import ApiObject, ApiStruct
from kai_operator.former_endpoints import SERVICE_NAME
from kai_operator.kinds import ENDPOINT_SLICES, Manifest


class PodStatus(ApiStruct):
    """Where a pod is."""

    pod_ip: str = msgspec.field(default="", name="podIP")


class SchedulerPod(ApiObject):
    """A pod of a scheduler."""

    status: PodStatus = msgspec.field(default_factory=PodStatus)


def leader_of(lease: Lease | None) -> str:
    """The pod that holds a Lease: what its identity begins with, up to the first ``_``; empty for nobody."""
    holder = lease.spec.holder_identity if lease is not None else None
    return (holder or "").partition("_")[0]


def leader_slices(
    objects: Sequence[Manifest], lease: Lease | None, pods: Mapping[str, SchedulerPod]
) -> list[Manifest]:
    """For each Service without a selector among a shard's objects where the leader is.

    None while no leader can be reached. That of IPv6 has a name of its own, since the family of a slice
    cannot be changed.
    """
    leader = pods.get(leader_of(lease))
    if leader is None or not leader.status.pod_ip or leader.metadata.deletion_timestamp:
        return []
    ports = {
        port["name"]: port["containerPort"]
        for manifest in objects
        if manifest["kind"] == "Deployment"
        for container in manifest["spec"]["template"]["spec"]["containers"]
        for port in container.get("ports") or ()
    }
    return [
        _leader_slice(manifest, ports, leader)
        for manifest in objects
        if manifest["kind"] == "Service" and not manifest["spec"].get("selector")
    ]


def left_behind(leases: Iterable[Lease], *, scheduler_name: str, wanted: Collection[str]) -> list[Lease]:
    """Leases of schedulers whose shard is gone: nobody holds them, and the last holder gave them back."""
    return [
        lease
        for lease in leases
        if lease.metadata.name.startswith(f"{scheduler_name}-")
        and lease.metadata.name not in (*wanted, *names.LEASES.values())
        and not lease.spec.holder_identity
        and lease.spec.lease_duration_seconds == GIVEN_BACK_SECONDS
    ]


def _leader_slice(service: Manifest, ports: Mapping[str, int], leader: SchedulerPod) -> Manifest:
    meta = service["metadata"]
    family, suffix = ("IPv6", "-ipv6") if ":" in leader.status.pod_ip else ("IPv4", "")
    return {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": ENDPOINT_SLICES.kind,
        "metadata": {
            "name": f"{meta['name']}-leader{suffix}",
            "namespace": meta["namespace"],
            "labels": {**(meta.get("labels") or {}), SERVICE_NAME: meta["name"]},
        },
        "addressType": family,
        "endpoints": [_endpoint(leader)],
        "ports": [
            {"name": port["name"], "port": _number(port, ports), "protocol": "TCP"}
            for port in service["spec"]["ports"]
        ],
    }


def _number(port: Manifest, ports: Mapping[str, int]) -> int:
    target: int | str = port.get("targetPort") or port["port"]
    return ports[target] if isinstance(target, str) else target


def _endpoint(pod: SchedulerPod) -> Manifest:
    return {
        "addresses": [pod.status.pod_ip],
        "conditions": {"ready": True},
        "targetRef": {
            "kind": "Pod",
            "name": pod.metadata.name,
            "namespace": pod.metadata.namespace,
            "uid": pod.metadata.uid,
        },
    }
