"""What the kubelets see of the cluster beside their pods, and who waits for what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.reflector import Reflector
from kai.kube.store import Store
from kai_local.kubelet.references import Missing
from kai_local.parts.objects import DataObject, DeviceClaim, VolumeClaim


class References:
    """ConfigMaps, Secrets and claims, with the pods to be woken when one of them changes."""

    def __init__(self, client: KubeClient, wake: Callable[[str], None]) -> None:
        self._wake = wake
        self._waiting: dict[tuple[str, str], set[str]] = {}
        self._config_maps: Store[DataObject] = Store()
        self._secrets: Store[DataObject] = Store()
        self._volume_claims: Store[VolumeClaim] = Store()
        self._device_claims: Store[DeviceClaim] = Store()
        #: Each with its sink: the caller runs them.
        self.reflectors: list[tuple[Reflector[Any], Store[Any]]] = [
            (Reflector(client, resources.CONFIG_MAPS, DataObject), self._config_maps),
            (Reflector(client, resources.SECRETS, DataObject), self._secrets),
            (Reflector(client, resources.PVCS, VolumeClaim), self._volume_claims),
            (Reflector(client, resources.RESOURCE_CLAIMS, DeviceClaim, optional=True), self._device_claims),
        ]
        for reflector, store in self.reflectors:
            store.listen(self._listener(reflector.resource.kind))

    def config_map(self, key: str) -> DataObject | None:
        """The ConfigMap ``namespace/name``."""
        return self._config_maps.get(key)

    def secret(self, key: str) -> DataObject | None:
        """The Secret ``namespace/name``."""
        return self._secrets.get(key)

    def volume_claim(self, key: str) -> VolumeClaim | None:
        """The PersistentVolumeClaim ``namespace/name``."""
        return self._volume_claims.get(key)

    def device_claim(self, key: str) -> DeviceClaim | None:
        """The ResourceClaim ``namespace/name``."""
        return self._device_claims.get(key)

    def wait_for(self, missing: Missing, pod_key: str) -> None:
        """Wake the pod once when what it misses changes."""
        self._waiting.setdefault((missing.kind, missing.key), set()).add(pod_key)

    def _listener(self, kind: str) -> Callable[[Any, Any], None]:
        def changed(_old: Any, new: Any) -> None:
            if new is not None:
                for pod_key in self._waiting.pop((kind, new.key), ()):
                    self._wake(pod_key)

        return changed
