"""The two ConfigMaps through which a container learns what part of which device it got."""

from __future__ import annotations

import asyncio
from typing import Any

from kai.kube import errors
from kai.kube.client import KubeClient
from kai.kube.resources import CONFIG_MAPS
from kai.model import names, sharing
from kai.model.objects import ApiObject, Container, Pod
from kai_binder.errors import BindFailed


class _ConfigMap(ApiObject):
    data: dict[str, str] | None = None


class SharingTarget:
    """The container of a pod that gets the part, and its ConfigMaps.

    Raises:
        BindFailed: the pod does not say which; admission has not seen it.
    """

    def __init__(self, pod: Pod) -> None:
        prefix = pod.annotations.get(names.SHARED_GPU_CONFIGMAP)
        if not prefix:
            raise BindFailed(
                f"pod {pod.key} has no annotation {names.SHARED_GPU_CONFIGMAP}: GPU sharing was not enabled "
                "when it was created; create it again",
            )
        try:
            position = sharing.fraction_container(pod)
        except sharing.NoSuchContainer as error:
            raise BindFailed(f"pod {pod.key}: {error}") from error
        containers = (pod.spec.init_containers or []) if position.init else pod.spec.containers
        self.container: Container = containers[position.index]
        self.capabilities = sharing.capabilities_config_map(prefix, position)
        self.environment = sharing.environment_config_map(prefix, position)

    @property
    def devices_by_reference(self) -> bool:
        """Whether the container takes its device ids from a key of the capabilities map."""
        return any(
            variable.get("name") == names.NVIDIA_VISIBLE_DEVICES
            and "configMapKeyRef" in (variable.get("valueFrom") or {})
            for variable in self.container.env or ()
        )


async def write(client: KubeClient, pod: Pod, entries: dict[str, dict[str, str]]) -> None:
    """Create or complete ConfigMaps of a pod: by name, their data.

    Raises:
        BindFailed: one exists that does not belong to the pod.
    """
    await asyncio.gather(*(_upsert(client, pod, name, data) for name, data in entries.items()))


async def read(client: KubeClient, pod: Pod, name: str) -> dict[str, str]:
    """The data of a ConfigMap that belongs to the pod; empty if there is none."""
    try:
        existing = await _read(client, pod, name)
    except errors.NotFound:
        return {}
    return (existing.data or {}) if _belongs(existing, pod) else {}


async def delete(client: KubeClient, pod: Pod, config_maps: list[str]) -> None:
    """Delete those of these ConfigMaps that belong to the pod."""
    for name in config_maps:
        try:
            existing = await _read(client, pod, name)
            if _belongs(existing, pod):
                await client.delete(
                    CONFIG_MAPS, name, namespace=pod.metadata.namespace, uid=existing.metadata.uid
                )
        except (errors.NotFound, errors.Conflict):
            continue


async def _upsert(client: KubeClient, pod: Pod, name: str, data: dict[str, str]) -> None:
    meta = pod.metadata
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": meta.namespace, "ownerReferences": [owner]},
        "data": data,
    }
    try:
        await client.create(CONFIG_MAPS, body, namespace=meta.namespace)
    except errors.AlreadyExists:
        await _complete(client, pod, name, data)


async def _complete(client: KubeClient, pod: Pod, name: str, data: dict[str, str]) -> None:
    meta = pod.metadata
    existing = await _read(client, pod, name)
    if not _belongs(existing, pod):
        raise BindFailed(
            f"ConfigMap {meta.namespace}/{name} exists and does not belong to pod {meta.name}; delete it, or "
            f"choose another annotation {names.SHARED_GPU_CONFIGMAP}"
        )
    if data:
        uid = existing.metadata.uid
        await client.patch(
            CONFIG_MAPS, name, {"metadata": {"uid": uid}, "data": data}, namespace=meta.namespace
        )


async def _read(client: KubeClient, pod: Pod, name: str) -> _ConfigMap:
    return await client.get(CONFIG_MAPS, name, namespace=pod.metadata.namespace, type=_ConfigMap)


def _belongs(existing: ApiObject, pod: Pod) -> bool:
    owners = existing.metadata.owner_references or []
    return [owner.uid for owner in owners] == [pod.metadata.uid]
