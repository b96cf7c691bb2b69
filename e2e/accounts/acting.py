"""Clients with the token of a service account, to see what whoever holds it can do."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from e2e.harness import Cluster
from kai.kube.client import KubeClient, PatchKind
from kai.kube.errors import AlreadyExists, Conflict, Forbidden
from kai.kube.resources import SERVICE_ACCOUNTS, Resource
from kai.model import names

Json = dict[str, Any]
#: Of processes that run only where they are asked for.
ASKED_FOR = frozenset({"insight", "node-scale-adjuster"})
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
#: Our accounts by name, with their namespaces.
OURS = {
    **dict.fromkeys(
        (
            "admission",
            "binder",
            "kai-operator",
            "pod-grouper",
            "podgroup-controller",
            "queue-controller",
            "scheduler",
        ),
        names.NAMESPACE,
    ),
    **dict.fromkeys(ASKED_FOR, names.NAMESPACE),
    "numa-placement-exporter": names.NAMESPACE,
    names.RESERVATION_SERVICE_ACCOUNT: names.RESERVATION_NAMESPACE,
}
#: What each leads by.
LEASES_OF = {"scheduler": names.SCHEDULER_NAME, **names.LEASES}


async def accounts(cluster: Cluster) -> dict[str, str]:
    """Ours, but those of processes that nobody asked for in a cluster that was given."""
    roles = {role["metadata"]["name"] for role in await cluster.client.list(CLUSTER_ROLES)}
    return {name: where for name, where in OURS.items() if f"kai-{name}" in roles or name not in ASKED_FOR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of the API server: ``body`` is the object, or the patch."""

    verb: str
    resource: Resource
    name: str = ""
    namespace: str = ""
    subresource: str = ""
    body: Json | None = None
    kind: PatchKind = PatchKind.MERGE

    async def send(self, client: KubeClient) -> Any:
        """Ask; what is refused raises."""
        where = {"namespace": self.namespace}
        match self.verb:
            case "update":
                return await client.update(self.resource, self.name, self.body, **where)
            case "get":
                return await client.get(self.resource, self.name, **where)
            case "list":
                return await client.list(self.resource, **where)
            case "create" if self.subresource:
                return await client.create_subresource(
                    self.resource, self.name, self.subresource, self.body, **where
                )
            case "create":
                return await client.create(self.resource, self.body, **where)
            case "delete":
                return await client.delete(self.resource, self.name, **where)
            case "patch":
                return await client.patch(
                    self.resource,
                    self.name,
                    self.body,
                    subresource=self.subresource,
                    kind=self.kind,
                    **where,
                )
        raise ValueError(f"no request of the verb {self.verb}")


@contextlib.asynccontextmanager
async def acting_as(
    cluster: Cluster, folder: Path, account: str, *, namespace: str = "", pod: Json | None = None
) -> AsyncIterator[KubeClient]:
    """A client with a token of this account; ``pod`` is the one that the token is mounted into.

    An account is made where its process does not run: its rights are there all the same.
    """
    namespace = namespace or OURS[account]
    with contextlib.suppress(AlreadyExists):
        await cluster.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": account}}, namespace=namespace)
    spec: Json = {"expirationSeconds": 600}
    if pod is not None:
        meta = pod["metadata"]
        spec["boundObjectRef"] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta["name"],
            "uid": meta["uid"],
        }
    made = await cluster.client.create_subresource(
        SERVICE_ACCOUNTS,
        account,
        "token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
        namespace=namespace,
    )
    path = folder / f"{account}-{uuid.uuid4().hex[:8]}"
    path.write_text(_kubeconfig(cluster.kubeconfig, made["status"]["token"]))
    async with KubeClient.connect(str(path), user_agent="e2e-attack") as client:
        yield client


def _kubeconfig(admin: Path, token: str) -> str:
    """The administrator's, with other credentials."""
    config = yaml.safe_load(admin.read_text())
    context = next(c for c in config["contexts"] if c["name"] == config["current-context"])
    config["users"] = [{"name": context["context"]["user"], "user": {"token": token}}]
    return yaml.safe_dump(config)


async def refusal(client: KubeClient, request: Request, *, reader: KubeClient) -> str:
    """What the API server says against it; that it did not is said too. ``reader`` may read everything."""
    while True:
        try:
            await (await _as_read(request, reader)).send(client)
        except Forbidden as refused:
            return str(refused)
        except Exception as other:  # noqa: BLE001 (is told as what it is)
            if request.verb == "update" and isinstance(other, Conflict):
                continue  # whose it is wrote it meanwhile
            return f"{type(other).__name__}: {other}"
        return "done"


async def _as_read(request: Request, reader: KubeClient) -> Request:
    """An update brings the version that there is: one without is refused for that alone."""
    if request.verb != "update" or request.body is None:
        return request
    there = await reader.get(request.resource, request.name, namespace=request.namespace)
    metadata = {**request.body["metadata"], "resourceVersion": there["metadata"]["resourceVersion"]}
    return replace(request, body={**request.body, "metadata": metadata})


def describe(request: Request) -> str:
    """In a line."""
    subresource = f"/{request.subresource}" if request.subresource else ""
    return f"{request.verb} {request.resource.plural}{subresource} {request.namespace}/{request.name}"
