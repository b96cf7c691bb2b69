"""The built-in resources: one line each."""

from collections.abc import Iterator, Mapping
from functools import partial

from kai.model import dra_forms
from kai_local.apiserver.kinds import events
from kai_local.apiserver.kinds.catalogue import ALL_VERBS, Catalogue, Resource, Version
from kai_local.apiserver.kinds.runtime_config import CHOICES, served_versions
from kai_local.apiserver.schemas import schema

_POD_PARTS = "status,ephemeralcontainers,binding,eviction,log,exec,attach,portforward"
_CORE = f"""
namespaces          Namespace             ns      -   status,finalize
nodes               Node                  no      -   status
persistentvolumes   PersistentVolume      pv      -   status
bindings            Binding               -       n   create-only
configmaps          ConfigMap             cm      n   -
endpoints           Endpoints             ep      n   -
events              Event                 ev      n   -
limitranges         LimitRange            limits  n   -
persistentvolumeclaims PersistentVolumeClaim pvc  n   status
pods                Pod                   po      n   {_POD_PARTS}
podtemplates        PodTemplate           -       n   -
replicationcontrollers ReplicationController rc   n   status,scale
resourcequotas      ResourceQuota         quota   n   status
secrets             Secret                -       n   -
serviceaccounts     ServiceAccount        sa      n   token
services            Service               svc     n   status
"""
_GROUPS = {
    "apps": """
controllerrevisions ControllerRevision    -       n   -
daemonsets          DaemonSet             ds      n   status
deployments         Deployment            deploy  n   status,scale
replicasets         ReplicaSet            rs      n   status,scale
statefulsets        StatefulSet           sts     n   status,scale
""",
    "batch": """
cronjobs            CronJob               cj      n   status
jobs                Job                   -       n   status
""",
    "admissionregistration.k8s.io": """
mutatingwebhookconfigurations   MutatingWebhookConfiguration   - - -
validatingwebhookconfigurations ValidatingWebhookConfiguration - - -
validatingadmissionpolicies     ValidatingAdmissionPolicy - - status
validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding - - -
""",
    "apiextensions.k8s.io": """
customresourcedefinitions CustomResourceDefinition crd,crds - status
""",
    "apiregistration.k8s.io": """
apiservices         APIService            -       -   status
""",
    "coordination.k8s.io": """
leases              Lease                 -       n   -
""",
    "discovery.k8s.io": """
endpointslices      EndpointSlice         -       n   -
""",
    "events.k8s.io": """
events              Event                 ev      n   -
""",
    "networking.k8s.io": """
ingressclasses      IngressClass          -       -   -
ingresses           Ingress               ing     n   status
networkpolicies     NetworkPolicy         netpol  n   -
""",
    "autoscaling": """
horizontalpodautoscalers HorizontalPodAutoscaler hpa n status
""",
    "authentication.k8s.io": """
tokenreviews        TokenReview           -       -   create-only
selfsubjectreviews  SelfSubjectReview     -       -   create-only
""",
    "authorization.k8s.io": """
localsubjectaccessreviews LocalSubjectAccessReview - n create-only
selfsubjectaccessreviews SelfSubjectAccessReview - -  create-only
selfsubjectrulesreviews SelfSubjectRulesReview - -    create-only
subjectaccessreviews SubjectAccessReview  -       -   create-only
""",
    "node.k8s.io": """
runtimeclasses      RuntimeClass          -       -   -
""",
    "policy": """
poddisruptionbudgets PodDisruptionBudget  pdb     n   status
""",
    "rbac.authorization.k8s.io": """
clusterrolebindings ClusterRoleBinding    -       -   -
clusterroles        ClusterRole           -       -   -
rolebindings        RoleBinding           -       n   -
roles               Role                  -       n   -
""",
    "resource.k8s.io": """
deviceclasses       DeviceClass           -       -   -
resourceclaims      ResourceClaim         -       n   status
resourceclaimtemplates ResourceClaimTemplate -    n   -
resourceslices      ResourceSlice         -       -   -
""",
    "scheduling.k8s.io": """
priorityclasses     PriorityClass         pc      -   -
""",
    "storage.k8s.io": """
csidrivers          CSIDriver             -       -   -
csinodes            CSINode               -       -   -
csistoragecapacities CSIStorageCapacity   -       n   -
storageclasses      StorageClass          sc      -   -
volumeattachments   VolumeAttachment      -       -   status
""",
}
_VERSIONS = {"autoscaling": "v2"}
#: kinds whose metadata.generation counts changes of the spec
_GENERATION = frozenset(
    [
        "Pod",
        "Deployment",
        "ReplicaSet",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "CronJob",
        "PodDisruptionBudget",
        "Ingress",
        "NetworkPolicy",
        "CustomResourceDefinition",
        "ReplicationController",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ResourceSlice",
        "DeviceClass",
        "PriorityClass",
    ]
)
#: Kinds whose updates must say which version they saw.
_CONDITIONAL = frozenset(
    [
        "APIService",
        "CSIDriver",
        "CSINode",
        "CSIStorageCapacity",
        "CustomResourceDefinition",
        "Lease",
        "MutatingWebhookConfiguration",
        "PodDisruptionBudget",
        "RuntimeClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
    ]
)
_ALL = frozenset(
    ["pods", "services", "deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs"]
)
_SELECTABLE = {
    "pods": "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork "
    "status.phase status.podIP status.nominatedNodeName",
    "events": "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid "
    "involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason "
    "reportingComponent source type",
    "nodes": "spec.unschedulable",
    "namespaces": "status.phase name",
    "secrets": "type",
    "services": "spec.clusterIP spec.type",
    "jobs": "status.successful",
    "replicasets": "status.replicas",
    "replicationcontrollers": "status.replicas",
    "resourceslices": "spec.nodeName spec.driver",
    "customresourcedefinitions": "spec.names.kind",
}


def groups() -> list[str]:
    """The API groups of the built-in resources."""
    return ["", *_GROUPS]


def install(catalogue: Catalogue, runtime_config: str = "") -> None:
    """Add every built-in resource, in the versions that a flag ``--runtime-config`` asks for.

    Raises:
        InvalidRuntimeConfig: it asks for something else.
    """
    served = served_versions(runtime_config)
    for resource in _built_in(served):
        catalogue.add(resource)


def _verbs(plural: str) -> tuple[str, ...]:
    """Namespaces are deleted one by one."""
    return tuple(verb for verb in ALL_VERBS if (plural, verb) != ("namespaces", "deletecollection"))


def _versions(group: str, kind: str, served: Mapping[str, tuple[str, ...]]) -> dict[str, Version]:
    """All versions of a kind; stored is the first."""
    names = CHOICES.get(group) or (_VERSIONS.get(group, "v1"),)
    versions = {name: Version(name, schema.builtin(group, name, kind)) for name in names}
    for name, version in versions.items() if group in CHOICES else ():
        version.served = name in served[group]
        if name != names[0]:
            version.to_storage = partial(dra_forms.newest, kind=kind, version=name)
            version.from_storage = partial(dra_forms.older, kind=kind, version=name)
    return versions


def _built_in(served: Mapping[str, tuple[str, ...]]) -> Iterator[Resource]:
    for group, table in {"": _CORE, **_GROUPS}.items():
        for line in table.strip().splitlines():
            plural, kind, short, scope, subresources = line.split()
            only_create = subresources == "create-only"
            versions = _versions(group, kind, served)
            name, version = next(iter(versions.items()))
            if group == events.GROUP:
                version.from_storage, version.to_storage = events.from_core, events.to_core
            elif kind == "Event":
                version.to_storage = events.stored
            yield Resource(
                group=group,
                plural=plural,
                kind=kind,
                namespaced=scope == "n",
                versions=versions,
                storage_version=name,
                stored_as=("", "events") if plural == "events" else None,
                singular=kind.lower(),
                short_names=() if short == "-" else tuple(short.split(",")),
                categories=("all",) if plural in _ALL else (),
                subresources=frozenset()
                if subresources == "-" or only_create
                else frozenset(subresources.split(",")),
                generation=kind in _GENERATION,
                unconditional=kind not in _CONDITIONAL,
                selectable=tuple(_SELECTABLE.get(plural, "").split()),
                verbs=("create",) if only_create else _verbs(plural),
                orphan_by_default=plural in ("jobs", "replicationcontrollers"),
                scale_paths={"spec": ".spec.replicas", "status": ".status.replicas"},
            )
