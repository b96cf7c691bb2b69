"""Defaults of the built-in kinds, as the real server fills them in."""

import base64
from collections.abc import Callable
from typing import Final

from kai_local.apiserver.errors import Obj
from kai_local.apiserver.rules.pod_defaults import fill, pod, pod_spec

_NODE_INFO: Final = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)


def apply(group: str, kind: str, obj: Obj) -> None:
    """Fill in what the user left out. Idempotent: a defaulted object is not changed."""
    rule = _RULES.get((group, kind))
    if rule is not None:
        rule(obj)


def _template(spec: Obj) -> None:
    template = spec.get("template")
    if template is not None:
        template.setdefault("metadata", {})
        pod_spec(template.setdefault("spec", {}))


def _deployment(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = spec.setdefault("strategy", {})
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), maxUnavailable="25%", maxSurge="25%")
    _template(spec)


def _replica_set(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, replicas=1)
    _template(spec)


def _stateful_set(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
    fill(spec, persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"})
    strategy = spec.setdefault("updateStrategy", {})
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), partition=0)
    for claim in spec.get("volumeClaimTemplates", ()):
        _claim(claim)
    _template(spec)


def _daemon_set(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, revisionHistoryLimit=10)
    strategy = spec.setdefault("updateStrategy", {})
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), maxUnavailable=1, maxSurge=0)
    _template(spec)


def _job_spec(spec: Obj) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    # Where each index has a limit of its own there is none for all together.
    limit = 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1
    fill(spec, parallelism=1, backoffLimit=limit, completionMode="NonIndexed", suspend=False)
    fill(spec, podReplacementPolicy="Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    _failure_patterns(spec)
    _template(spec)


def _failure_patterns(job_spec: Obj) -> None:
    """Conditions of pods that a Job asks for are to be true unless it says otherwise."""
    for rule in (job_spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            fill(pattern, status="True")


def _job(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    _job_spec(spec)
    uid = obj["metadata"].get("uid")
    if uid and not spec.get("manualSelector") and "selector" not in spec and "template" in spec:
        spec.setdefault("manualSelector", False)
        labels = spec["template"]["metadata"].setdefault("labels", {})
        name = obj["metadata"]["name"]
        fill(labels, **{"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name})
        fill(labels, **{"controller-uid": uid, "job-name": name})
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _cron_job(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    fill(
        spec, concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1
    )
    template = spec.get("jobTemplate")
    if template is not None:
        template.setdefault("metadata", {})
        job_spec = template.setdefault("spec", {})
        _failure_patterns(job_spec)
        _template(job_spec)


def _namespace(obj: Obj) -> None:
    obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    obj.setdefault("status", {}).setdefault("phase", "Active")
    metadata = obj["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata["name"]}


def _node(obj: Obj) -> None:
    status = obj.setdefault("status", {})
    fill(status, daemonEndpoints={"kubeletEndpoint": {"Port": 0}})
    if status.get("capacity"):
        fill(status, allocatable=status["capacity"])
    fill(status.setdefault("nodeInfo", {}), **dict.fromkeys(_NODE_INFO, ""))


def _service(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, type="ClusterIP", sessionAffinity="None")
    obj.setdefault("status", {}).setdefault("loadBalancer", {})
    if spec["type"] == "ExternalName":
        return
    fill(spec, internalTrafficPolicy="Cluster", ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
    for port in spec.get("ports", ()):
        fill(port, protocol="TCP")
        if "port" in port:
            fill(port, targetPort=port["port"])


def _secret(obj: Obj) -> None:
    obj.setdefault("type", "Opaque")
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
        obj["data"] = {**obj.get("data", {}), **encoded}


def _claim(obj: Obj) -> None:
    fill(obj.setdefault("spec", {}), volumeMode="Filesystem")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def _volume(obj: Obj) -> None:
    fill(obj.setdefault("spec", {}), persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def _storage_class(obj: Obj) -> None:
    fill(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _csi_driver(obj: Obj) -> None:
    fill(
        obj.setdefault("spec", {}),
        attachRequired=True,
        podInfoOnMount=False,
        requiresRepublish=False,
        seLinuxMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        volumeLifecycleModes=["Persistent"],
    )


def _priority_class(obj: Obj) -> None:
    fill(obj, value=0, preemptionPolicy="PreemptLowerPriority")


def _device_requests(spec: Obj) -> None:
    for request in spec.get("devices", {}).get("requests", ()):
        exact = request.get("exactly")
        if exact is not None:
            fill(exact, allocationMode="ExactCount")
            if exact["allocationMode"] == "ExactCount":
                fill(exact, count=1)
        for option in request.get("firstAvailable", ()):
            fill(option, allocationMode="ExactCount")
            if option["allocationMode"] == "ExactCount":
                fill(option, count=1)


def _claim_template(obj: Obj) -> None:
    _device_requests(obj.get("spec", {}).get("spec", {}))


def _webhooks(obj: Obj) -> None:
    for webhook in obj.get("webhooks", ()):
        fill(webhook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        fill(webhook, namespaceSelector={}, objectSelector={})
        if obj["kind"].startswith("Mutating"):
            fill(webhook, reinvocationPolicy="Never")
        for rule in webhook.get("rules", ()):
            fill(rule, scope="*")
        service = webhook.get("clientConfig", {}).get("service")
        if service is not None:
            fill(service, port=443)


def _binding(obj: Obj) -> None:
    for subject in obj.get("subjects", ()):
        if subject.get("kind") in ("User", "Group"):
            fill(subject, apiGroup="rbac.authorization.k8s.io")
    fill(obj.setdefault("roleRef", {}), apiGroup="rbac.authorization.k8s.io")


def _endpoint_slice(obj: Obj) -> None:
    for port in obj.get("ports", ()):
        fill(port, name="", protocol="TCP")


def _crd(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    fill(names, singular=kind.lower(), listKind=kind + "List")
    fill(spec, conversion={"strategy": "None"})


_RULES: Final[dict[tuple[str, str], Callable[[Obj], None]]] = {
    ("", "Pod"): pod,
    ("", "Namespace"): _namespace,
    ("", "Node"): _node,
    ("", "Service"): _service,
    ("", "Secret"): _secret,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "PersistentVolume"): _volume,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("storage.k8s.io", "CSIDriver"): _csi_driver,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("resource.k8s.io", "ResourceClaim"): lambda obj: _device_requests(obj.get("spec", {})),
    ("resource.k8s.io", "ResourceClaimTemplate"): _claim_template,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _webhooks,
    ("rbac.authorization.k8s.io", "RoleBinding"): _binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _binding,
    ("discovery.k8s.io", "EndpointSlice"): _endpoint_slice,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _crd,
}
