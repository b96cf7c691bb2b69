"""What must exist before a pod's containers can start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from kai.model.objects import Json
from kai.model.rules.device_claims import claim_entries
from kai.model.rules.volumes import claim_name
from kai_local.parts.objects import DataObject, DeviceClaim, LocalContainer, LocalPod, VolumeClaim

CONFIG_ERROR = "CreateContainerConfigError"
CREATING = "ContainerCreating"
#: Every cluster has it, but nothing that we run reads it.
_ROOT_CA = "kube-root-ca.crt"


class Cluster(Protocol):
    """Looks things up by ``namespace/name``."""

    def config_map(self, key: str) -> DataObject | None: ...  # noqa: D102
    def secret(self, key: str) -> DataObject | None: ...  # noqa: D102
    def volume_claim(self, key: str) -> VolumeClaim | None: ...  # noqa: D102
    def device_claim(self, key: str) -> DeviceClaim | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Missing:
    """The first thing that a pod waits for. ``kind`` and ``key`` say what; the rest is for its status."""

    kind: str
    key: str
    reason: str
    message: str


def first_missing(pod: LocalPod, cluster: Cluster) -> Missing | None:
    """What keeps the pod's containers from starting, volumes first as a kubelet mounts them first."""
    found = next(_missing_volumes(pod, cluster), None) or next(_missing_claims(pod, cluster), None)
    if found is not None:
        return found
    for container in [*(pod.spec.init_containers or ()), *pod.spec.containers]:
        found = next(_missing_environment(pod, container, cluster), None)
        if found is not None:
            return found
    return None


def _missing_volumes(pod: LocalPod, cluster: Cluster) -> Iterator[Missing]:
    for volume in pod.spec.volumes or ():
        name = str(volume.get("name", ""))
        for source in [volume, *((volume.get("projected") or {}).get("sources") or ())]:
            yield from _missing_data(pod, name, source, cluster)
        if claim := claim_name(volume, pod.metadata.name):
            key = f"{pod.metadata.namespace}/{claim}"
            bound = cluster.volume_claim(key)
            if bound is None or bound.status.phase != "Bound":
                message = f'volume "{name}": persistentvolumeclaim "{claim}" is not bound'
                yield Missing("PersistentVolumeClaim", key, CREATING, message)


def _missing_data(pod: LocalPod, volume: str, source: Json, cluster: Cluster) -> Iterator[Missing]:
    config_map, secret = source.get("configMap"), source.get("secret")
    if config_map and not config_map.get("optional") and config_map.get("name") != _ROOT_CA:
        key = f"{pod.metadata.namespace}/{config_map.get('name')}"
        if cluster.config_map(key) is None:
            yield Missing("ConfigMap", key, CREATING, f'volume "{volume}": configmap "{key}" not found')
    if secret and not secret.get("optional"):
        key = f"{pod.metadata.namespace}/{secret.get('secretName') or secret.get('name')}"
        if cluster.secret(key) is None:
            yield Missing("Secret", key, CREATING, f'volume "{volume}": secret "{key}" not found')


def _missing_claims(pod: LocalPod, cluster: Cluster) -> Iterator[Missing]:
    for claim in claim_entries(pod):
        if claim.name is None and not claim.awaited:
            continue
        key = f"{pod.metadata.namespace}/{claim.name or claim.called}"
        found = cluster.device_claim(key) if claim.name else None
        users = [user.get("uid") for user in (found.status.reserved_for or ())] if found else []
        if found is None or found.status.allocation is None or pod.metadata.uid not in users:
            message = f'resource claim "{key}" is not allocated to this pod'
            yield Missing("ResourceClaim", key, CREATING, message)


def _missing_environment(pod: LocalPod, container: LocalContainer, cluster: Cluster) -> Iterator[Missing]:
    for source in container.env_from or ():
        yield from _missing_entry(pod, "ConfigMap", source.get("configMapRef"), cluster)
        yield from _missing_entry(pod, "Secret", source.get("secretRef"), cluster)
    for variable in container.env or ():
        value_from = variable.get("valueFrom") or {}
        yield from _missing_entry(pod, "ConfigMap", value_from.get("configMapKeyRef"), cluster)
        yield from _missing_entry(pod, "Secret", value_from.get("secretKeyRef"), cluster)


def _missing_entry(pod: LocalPod, kind: str, wanted: Json | None, cluster: Cluster) -> Iterator[Missing]:
    if not wanted or wanted.get("optional"):
        return
    key = f"{pod.metadata.namespace}/{wanted.get('name')}"
    found = cluster.config_map(key) if kind == "ConfigMap" else cluster.secret(key)
    if found is None:
        yield Missing(kind, key, CONFIG_ERROR, f'{kind.lower()} "{wanted.get("name")}" not found')
    elif "key" in wanted and not found.has_key(wanted["key"]):
        yield Missing(kind, key, CONFIG_ERROR, f"couldn't find key {wanted['key']} in {kind} {key}")
