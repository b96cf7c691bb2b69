"""Compares what the kubelet says with what pods say, and writes what differs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from kai.kube import errors
from kai.kube.client import KubeClient, selector_params
from kai.kube.resources import PODS
from kai.model import names
from kai.model.objects import ApiObject
from kai_numa_placement_exporter.kubelet import Kubelet
from kai_numa_placement_exporter.placement import placement

#: After the API server refused to annotate a pod, or knew of none by its name on our node.
RETRY_SECONDS: Final = 60.0

_log = structlog.get_logger(__name__)


class ExporterMetrics:
    """What the exporter sees and does."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.placed = Gauge(
            "kai_numa_exporter_placed_pods", "Pods of the node with a place in NUMA zones", registry=registry
        )
        self.looks = Counter(
            "kai_numa_exporter_looks", "Questions to the kubelet", ("result",), registry=registry
        )
        self.writes = Counter(
            "kai_numa_exporter_writes", "Annotations written", ("result",), registry=registry
        )


class _Said(NamedTuple):
    uid: str
    text: str


class Exporter:
    """Writes where pods of one node are. ``zones`` are the NUMA nodes of its CPUs."""

    def __init__(
        self,
        client: KubeClient,
        kubelet: Kubelet,
        *,
        node: str,
        zones: Mapping[int, int],
        metrics: ExporterMetrics,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock or asyncio.get_running_loop().time
        self._client = client
        self._kubelet = kubelet
        self._node = node
        self._zones = zones
        self._metrics = metrics
        #: What pods of our node say, as far as is known, by ``namespace/name``. A kubelet tells no more of
        #: one, and another of that name may be elsewhere while the former still ends here.
        self._said: dict[str, _Said] = {}
        #: Pods that could not be written to, and when to try again.
        self._refused: dict[str, float] = {}

    async def look_at_pods(self) -> None:
        """Learn what pods of our node say, whoever wrote it.

        Raises:
            KubeError: the API server does not tell.
        """
        # What the API server has in its memory: each node asks, and it must not read all pods for each.
        params = selector_params("", f"spec.nodeName={self._node}") | {"resourceVersion": "0"}
        said: dict[str, _Said] = {}
        async for page in self._client.pages(PODS, params=params, type=ApiObject, metadata_only=True):
            for pod in page.items or ():
                said[pod.key] = _Said(pod.metadata.uid, pod.annotations.get(names.NUMA_OBSERVED, ""))
        self._said = said

    async def look_at_kubelet(self) -> None:
        """Write what differs from what the kubelet says.

        Raises:
            KubeletError: the kubelet does not answer.
            KubeError: the API server does not.
        """
        placed = {
            f"{pod.namespace}/{pod.name}": placement(pod, self._zones) for pod in await self._kubelet.pods()
        }
        self._metrics.placed.set(sum(map(bool, placed.values())))
        self._said = {key: said for key, said in self._said.items() if key in placed}
        self._refused = {key: until for key, until in self._refused.items() if until > self._clock()}
        to_tell = {key: text for key, text in placed.items() if key not in self._refused}
        if any(text and key not in self._said for key, text in to_tell.items()):
            await self.look_at_pods()
        differing = {key: text for key, text in to_tell.items() if text != self._text_of(key)}
        # All at once: what one of them waits for, such as a webhook that is down, holds up no other.
        ends = await asyncio.gather(
            *(self._write(key, text) for key, text in differing.items()), return_exceptions=True
        )
        for end in ends:
            if end is not None:
                raise end

    def _text_of(self, key: str) -> str:
        said = self._said.get(key)
        return said.text if said is not None else ""

    async def _write(self, key: str, text: str) -> None:
        """Annotate one pod; one that cannot be written holds up no other."""
        namespace, _, name = key.partition("/")
        said = self._said.get(key)
        if said is None:  # it has just been deleted, or is none of the API server's
            self._refused[key] = self._clock() + RETRY_SECONDS
            self._metrics.writes.labels("gone").inc()
            return
        patch = {"metadata": {"uid": said.uid, "annotations": {names.NUMA_OBSERVED: text or None}}}
        try:
            await self._client.patch(PODS, name, patch, namespace=namespace, type=ApiObject)
        except (errors.NotFound, errors.Conflict):  # the next look at pods tells whether there is another one
            del self._said[key]
            self._metrics.writes.labels("gone").inc()
        except (errors.Forbidden, errors.Invalid, errors.BadRequest, errors.InternalError) as error:
            self._refused[key] = self._clock() + RETRY_SECONDS
            self._metrics.writes.labels("refused").inc()
            _log.warning("placement not written", pod=key, error=str(error))
        else:
            self._said[key] = said._replace(text=text)
            self._metrics.writes.labels("written").inc()
            _log.info("placement written", pod=key, zones=text)
