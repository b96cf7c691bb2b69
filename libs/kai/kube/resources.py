"""The kinds that we talk about, and where the API server keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from kai.kube.errors import ImpossibleName


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object in one API version. ``group`` is empty for core/v1."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As manifests say it: ``v1`` or ``group/version``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """URL path of an object, or of the collection if ``name`` is empty.

        No namespace with a namespaced kind means all namespaces, which only a collection can have.

        Raises:
            ImpossibleName: no object or namespace may be called so, and the path would lead elsewhere.
        """
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{_segment('Namespace', namespace)}")
        elif self.namespaced and name:
            raise ValueError(f"{self.kind} {name} lives in a namespace; pass namespace=")
        parts.append(self.plural)
        if name:
            parts.append(_segment(self.kind, name))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def object_path(self, name: str, namespace: str = "", subresource: str = "") -> str:
        """URL path of an object, and of nothing else.

        Raises:
            ImpossibleName: no object or namespace may be called so; the empty name is of none either.
        """
        if not name:
            raise ImpossibleName(self.kind, name)
        return self.path(namespace, name, subresource)


def _segment(kind: str, name: str) -> str:
    """A name as a part of a path. What Kubernetes forbids in it is what a server or proxy resolves."""
    if name in (".", "..") or "/" in name or "%" in name:
        raise ImpossibleName(kind, name)
    return quote(name, safe="")


def _core(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource("", "v1", plural, kind, namespaced)


PODS: Final = _core("pods", "Pod")
NODES: Final = _core("nodes", "Node", namespaced=False)
NAMESPACES: Final = _core("namespaces", "Namespace", namespaced=False)
CONFIG_MAPS: Final = _core("configmaps", "ConfigMap")
SECRETS: Final = _core("secrets", "Secret")
SERVICES: Final = _core("services", "Service")
SERVICE_ACCOUNTS: Final = _core("serviceaccounts", "ServiceAccount")
CORE_EVENTS: Final = _core("events", "Event")
PVCS: Final = _core("persistentvolumeclaims", "PersistentVolumeClaim")
PVS: Final = _core("persistentvolumes", "PersistentVolume", namespaced=False)

DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet")
JOBS: Final = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS: Final = Resource("batch", "v1", "cronjobs", "CronJob")
PDBS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
CSI_DRIVERS: Final = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False)
CSI_NODES: Final = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False)
CSI_STORAGE_CAPACITIES: Final = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
VOLUME_ATTACHMENTS: Final = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False)
RESOURCE_CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
RESOURCE_CLAIM_TEMPLATES: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"
)
RESOURCE_SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
DEVICE_CLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    False,
)
VALIDATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
)
#: These are only created: the answer stands in what comes back.
TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False
)
#: The same about oneself, which everybody may create.
SELF_SUBJECT_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False
)
SELF_SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False
)

QUEUES: Final = Resource("scheduling.run.ai", "v2", "queues", "Queue", False)
POD_GROUPS: Final = Resource("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup")
BIND_REQUESTS: Final = Resource("scheduling.run.ai", "v1alpha2", "bindrequests", "BindRequest")
TOPOLOGIES: Final = Resource("kai.scheduler", "v1alpha1", "topologies", "Topology", False)
CONFIGS: Final = Resource("kai.scheduler", "v1", "configs", "Config", False)
SCHEDULING_SHARDS: Final = Resource("kai.scheduler", "v1", "schedulingshards", "SchedulingShard", False)
#: Kinds that the chart's crds/ folder brings.
OURS: Final = (QUEUES, POD_GROUPS, BIND_REQUESTS, TOPOLOGIES, CONFIGS, SCHEDULING_SHARDS)
NODE_RESOURCE_TOPOLOGIES: Final = Resource(
    "topology.node.k8s.io", "v1alpha2", "noderesourcetopologies", "NodeResourceTopology", False
)
