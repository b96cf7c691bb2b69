"""Minimal definitions of the kinds of other projects: their names, and any content."""

from __future__ import annotations

from collections.abc import Mapping

from e2e.harness import Cluster
from e2e.manifests import as_yaml
from kai.kube.errors import NotFound
from kai.kube.resources import CRDS
from kai_local.operators.definitions import a_definition

#: Whom the chart lets read workloads.
POD_GROUPER = {"kind": "ServiceAccount", "name": "pod-grouper", "namespace": "kai-scheduler"}


async def install(cluster: Cluster, kinds: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Define the kinds that the cluster lacks; the names of the new definitions, once they are served."""
    made = []
    for group, versions_of in kinds.items():
        for kind, versions in versions_of.items():
            body = a_definition(group, kind, versions.split())
            try:
                await cluster.client.get(CRDS, body["metadata"]["name"])
            except NotFound:
                await cluster.apply(as_yaml(body))
                made.append(body["metadata"]["name"])
            for version in versions.split():
                await served(cluster, f"{group}/{version}", kind)
    return made


async def served(cluster: Cluster, api_version: str, kind: str) -> None:
    """Wait until the API server takes objects of a kind."""
    await cluster.eventually(
        lambda: cluster.client.discover(api_version, kind, max_age=0),
        lambda found: found is not None,
        what=f"{kind} of {api_version} is served",
    )


async def let_the_pod_grouper_read(cluster: Cluster, *groups: str) -> None:
    """What an administrator grants who has workloads of a kind that the chart does not name."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "e2e-workloads"},
        "rules": [{"apiGroups": list(groups), "resources": ["*"], "verbs": ["get", "list", "watch"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "e2e-workloads"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "e2e-workloads"},
        "subjects": [POD_GROUPER],
    }
    await cluster.apply(as_yaml(role, binding))
