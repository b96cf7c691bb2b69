"""The kinds that an installation consists of, in the order in which they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kai.kube import resources
from kai.kube.resources import Resource

Manifest = dict[str, Any]

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
OPERATOR: Final = "kai-operator"
#: What the watches of our objects select.
SELECTOR: Final = f"{MANAGED_BY}={OPERATOR}"

NETWORK_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
VPAS: Final = Resource("autoscaling.k8s.io", "v1", "verticalpodautoscalers", "VerticalPodAutoscaler")
SERVICE_MONITORS: Final = Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor")
PROMETHEUSES: Final = Resource("monitoring.coreos.com", "v1", "prometheuses", "Prometheus")
CLUSTER_POLICIES: Final = Resource("nvidia.com", "v1", "clusterpolicies", "ClusterPolicy", False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of operand. ``rank``: lower ones are there before higher ones are made.

    An ``optional`` kind is served only where somebody has installed its definition. Objects of one that is
    ``everywhere`` are in other namespaces than that of the installation, too.
    """

    resource: Resource
    rank: int
    optional: bool = False
    everywhere: bool = False


def _table() -> tuple[Kind, ...]:
    accounts, content, network, programs, extras, webhooks = range(6)
    return (
        Kind(resource=resources.SERVICE_ACCOUNTS, rank=accounts, everywhere=True),
        Kind(resource=resources.SECRETS, rank=content),
        Kind(resource=resources.CONFIG_MAPS, rank=content),
        Kind(resource=resources.PVCS, rank=content),
        Kind(resource=resources.PRIORITY_CLASSES, rank=content),
        Kind(resource=resources.SERVICES, rank=network),
        Kind(resource=NETWORK_POLICIES, rank=network, everywhere=True),
        Kind(resource=resources.DEPLOYMENTS, rank=programs),
        Kind(resource=resources.DAEMON_SETS, rank=programs),
        Kind(resource=resources.PDBS, rank=extras),
        Kind(resource=ENDPOINT_SLICES, rank=extras),
        Kind(resource=VPAS, rank=extras, optional=True),
        Kind(resource=SERVICE_MONITORS, rank=extras, optional=True),
        Kind(resource=PROMETHEUSES, rank=extras, optional=True),
        # Last: from then on the API server asks processes that are still on their way.
        Kind(resource=resources.MUTATING_WEBHOOKS, rank=webhooks),
        Kind(resource=resources.VALIDATING_WEBHOOKS, rank=webhooks),
    )


KINDS: Final[tuple[Kind, ...]] = _table()
BY_TYPE: Final[Mapping[tuple[str, str], Kind]] = {
    (kind.resource.api_version, kind.resource.kind): kind for kind in KINDS
}


class Ref(NamedTuple):
    """Which object; ``namespace`` is empty for cluster-scoped ones."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where}"


def ref_of(manifest: Manifest) -> Ref:
    """The object that a manifest is about."""
    meta = manifest["metadata"]
    return Ref(manifest["kind"], meta.get("namespace", ""), meta["name"])


def kind_of(manifest: Manifest) -> Kind:
    """The kind of a manifest.

    Raises:
        KeyError: an installation has none of this kind.
    """
    return BY_TYPE[manifest["apiVersion"], manifest["kind"]]


def definition_name(resource: Resource) -> str:
    """The name of the custom resource definition that serves a kind."""
    return f"{resource.plural}.{resource.group}"
