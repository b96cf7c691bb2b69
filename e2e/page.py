"""The manifests of a page of the documentation, applied as they stand there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import yaml

from e2e.harness import ROOT, Cluster
from e2e.manifests import as_yaml
from kai.kube.resources import POD_GROUPS
from kai.model import names
from kai.model.objects import Pod, PodGroup

_BLOCK: Final = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: What of a page's manifests is in no namespace, and so has a name that no test has.
_CLUSTER_WIDE: Final = ("Queue", "SchedulingShard", "Topology")


def bodies(name: str) -> list[dict[str, Any]]:
    """All that stands as YAML on a page: manifests, and values of the chart, which have no kind."""
    text = (ROOT / "docs" / name).read_text()
    return [body for block in _BLOCK.findall(text) for body in yaml.safe_load_all(block)]


class Page:
    """The manifests of a page, applied in order in a namespace of the test's own."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._made: list[tuple[str, str, str]] = []

    async def apply(self, name: str, *, of: Callable[[dict[str, Any]], bool] = lambda body: True) -> None:
        """Those that ``of`` is true of."""
        for body in bodies(name):
            if "kind" not in body or not of(body):
                continue
            if body["kind"] in _CLUSTER_WIDE:
                self._made.append((body["apiVersion"], body["kind"], body["metadata"]["name"]))
            else:
                body["metadata"]["namespace"] = self.namespace
            await self.cluster.apply(as_yaml(body))

    async def running(self, prefix: str, count: int = 1) -> list[Pod]:
        """Pods whose names begin so, once so many run."""
        return await self.cluster.running(self.namespace, prefix, count=count)

    async def group_of(self, pod: Pod) -> PodGroup:
        """The group that a pod belongs to."""
        name = pod.annotations[names.POD_GROUP_ANNOTATION]
        group: PodGroup = await self.cluster.client.get(
            POD_GROUPS, name, namespace=self.namespace, type=PodGroup
        )
        return group

    async def clear(self) -> None:
        """Delete what is in no namespace."""
        for api_version, kind, name in reversed(self._made):
            await self.cluster.delete(api_version, kind, name)
