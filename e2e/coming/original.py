"""A cluster as the original leaves it: its objects, and work that it has placed, group by group.

Played are its pod-grouper, scheduler, binder and operator, as far as what they write outlives them.
"""

from __future__ import annotations

import uuid
from typing import Any

import yaml

from e2e.harness import Cluster
from e2e.manifests import a_job, a_pod, as_yaml
from kai.kube.client import PatchKind
from kai.kube.resources import BIND_REQUESTS, CONFIG_MAPS, JOBS, POD_GROUPS, PODS
from kai.model import names
from kai.model.objects import Pod

Json = dict[str, Any]
RESERVATIONS = names.RESERVATION_NAMESPACE
SYSTEM = names.NAMESPACE
#: By whom and when; of no consequence to anybody.
_PLACED_AT = "2026-11-01T10:00:00Z"
_MANAGED = {"app.kubernetes.io/managed-by": "kai-operator"}
_OF_RELEASE: Json = {
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
    "annotations": {
        "meta.helm.sh/release-name": "kai-scheduler",
        "meta.helm.sh/release-namespace": SYSTEM,
    },
}


class Original:
    """What it has done in one namespace, on one cluster."""

    def __init__(self, cluster: Cluster, namespace: str, queue: str) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = namespace
        self.queue = queue

    async def install(self) -> None:
        """What its chart makes that work depends on, and helm knows by the name of the release."""
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": names.RESERVATION_SERVICE_ACCOUNT, "namespace": RESERVATIONS, **_OF_RELEASE},
        }
        await self.cluster.apply(as_yaml(account))

    # --- work ----------------------------------------------------------------------------------
    async def run_gang(self, name: str, *, pods: int, node: str) -> None:
        """A Job with whole GPUs, all of whose pods it has bound."""
        await self.cluster.apply(
            as_yaml(a_job(name, self.namespace, self.queue, pods=pods, gang=pods, gpus=1))
        )
        job = await self.client.get(JOBS, name, namespace=self.namespace)
        made = await self.cluster.eventually(
            lambda: self.cluster.pods(self.namespace, name),
            lambda found: len(found) == pods,
            what=f"the pods of {name} are there",
        )
        group = await self.group(job, "batch/v1", "Job", pods=pods)
        for pod in made:
            await self.join(pod, group)
            await self.bind(pod, node, kind="Regular", gpus=1)

    async def share(self, name: str, *, portion: str, node: str, groups: list[str]) -> None:
        """A pod that runs on a part of each of these devices, which reservation pods hold."""
        pod, prefix = await self._asking(name, portion, devices=len(groups))
        devices = [await self.reserve(node, group) for group in groups]
        labels = (
            {names.GPU_GROUP_LABEL: groups[0]}
            if len(groups) == 1
            else {f"{names.MULTI_GPU_GROUP_PREFIX}{group}": group for group in groups}
        )
        await self.client.patch(PODS, name, {"metadata": {"labels": labels}}, namespace=self.namespace)
        told = f"{float(portion):.2f}"
        data = {"NVIDIA_VISIBLE_DEVICES": ",".join(devices), "GPU_PORTION": told, "RUNAI_NUM_OF_GPUS": told}
        await self.config_map(pod, f"{prefix}-0", data)
        await self.config_map(pod, f"{prefix}-0-evar", {})
        await self.bind(pod, node, kind="Fraction", gpus=len(groups), portion=told, groups=groups)

    async def leave_half_shared(self, name: str, *, portion: str, node: str, group: str) -> None:
        """A pod for which a device is held already, and which nobody has bound any more."""
        pod, _ = await self._asking(name, portion, devices=1)
        await self.reserve(node, group)
        labels = {"metadata": {"labels": {names.GPU_GROUP_LABEL: group}}}
        await self.client.patch(PODS, name, labels, namespace=self.namespace)
        told = f"{float(portion):.2f}"
        await self.bind_request(pod, node, kind="Fraction", gpus=1, phase="", portion=told, groups=[group])

    async def _asking(self, name: str, portion: str, *, devices: int) -> tuple[Pod, str]:
        """A pod that asks for parts of devices, in its group; with the prefix of its ConfigMaps."""
        wanted = {names.GPU_FRACTION: portion}
        if devices > 1:
            wanted[names.GPU_FRACTION_NUM_DEVICES] = str(devices)
        body = a_pod(name, self.namespace, self.queue, annotations=wanted)
        prefix = _completed(body)
        await self.cluster.apply(as_yaml(body))
        pod = await self.pod(name)
        await self.join(pod, await self.group(body, "v1", "Pod", pods=1, uid=pod.metadata.uid))
        return pod, prefix

    async def leave_waiting(self, name: str, *, gpus: int) -> None:
        """A pod that it has found no place for, and said so."""
        await self.cluster.apply(as_yaml(a_pod(name, self.namespace, self.queue, gpus=gpus)))
        pod = await self.pod(name)
        body = {"metadata": {"name": name, "labels": {}}}
        group = await self.group(body, "v1", "Pod", pods=1, uid=pod.metadata.uid)
        await self.join(pod, group)
        told = "no node has enough idle GPUs"
        await self._status(PODS, name, conditions=[_waits(told)], kind=PatchKind.STRATEGIC)
        condition = {
            "type": "UnschedulableOnNodePool",
            "nodePool": "default",
            "reason": "Unschedulable",
            "message": told,
            "transitionID": "3",
            "status": "True",
            "lastTransitionTime": _PLACED_AT,
        }
        await self._status(POD_GROUPS, group, schedulingConditions=[condition])

    async def leave_half_bound(self, name: str, *, node: str) -> None:
        """A pod that it has decided about, and nobody has bound any more."""
        await self.cluster.apply(as_yaml(a_pod(name, self.namespace, self.queue, gpus=1)))
        pod = await self.pod(name)
        body = {"metadata": {"name": name, "labels": {}}}
        await self.join(pod, await self.group(body, "v1", "Pod", pods=1, uid=pod.metadata.uid))
        await self.bind_request(pod, node, kind="Regular", gpus=1, phase="")

    # --- its processes -------------------------------------------------------------------------
    async def group(self, top: Json, api_version: str, kind: str, *, pods: int, uid: str = "") -> str:
        """The pod group of a workload, as its pod-grouper writes it; the name."""
        meta = top["metadata"]
        uid = uid or meta["uid"]
        group, _, version = api_version.rpartition("/")
        origin = {"name": meta["name"], "uid": uid, "group": group, "version": version, "kind": kind}
        name = f"pg-{meta['name']}-{uid}"
        body = {
            "apiVersion": names.POD_GROUP_API_VERSION,
            "kind": "PodGroup",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {names.QUEUE_LABEL: self.queue, **(meta.get("labels") or {})},
                "annotations": {
                    names.TOP_OWNER_METADATA: yaml.safe_dump(origin),
                    names.LAST_START_TIMESTAMP: _PLACED_AT,
                    **(meta.get("annotations") or {}),
                },
                "ownerReferences": [
                    {"apiVersion": api_version, "kind": kind, "name": meta["name"], "uid": uid}
                ],
            },
            "spec": {"minMember": pods, "queue": self.queue, "priorityClassName": "train"},
        }
        await self.client.create(POD_GROUPS, body, namespace=self.namespace)
        return name

    async def join(self, pod: Pod, group: str) -> None:
        """A pod is told its group."""
        annotations = {"metadata": {"annotations": {names.POD_GROUP_ANNOTATION: group}}}
        await self.client.patch(PODS, pod.metadata.name, annotations, namespace=self.namespace)

    async def bind(self, pod: Pod, node: str, *, kind: str, gpus: int, **more: Any) -> None:
        """A pod is bound, by a bind request that has succeeded, and runs."""
        name = pod.metadata.name
        await self.bind_request(pod, node, kind=kind, gpus=gpus, phase="Succeeded", **more)
        received = {"metadata": {"annotations": {names.RECEIVED_RESOURCE_TYPE: kind}}}
        await self.client.patch(PODS, name, received, namespace=self.namespace)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": self.namespace, "uid": pod.metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.client.create_subresource(PODS, name, "binding", binding, namespace=self.namespace)
        bound = {"type": "PodBound", "status": "True", "reason": "Bound", "lastTransitionTime": _PLACED_AT}
        await self._status(PODS, name, conditions=[bound], kind=PatchKind.STRATEGIC)

    async def bind_request(
        self,
        pod: Pod,
        node: str,
        *,
        kind: str,
        gpus: int,
        phase: str,
        portion: str = "1.00",
        groups: list[str] | None = None,
    ) -> None:
        """What its scheduler tells its binder."""
        name = pod.metadata.name
        body = {
            "apiVersion": names.BIND_REQUEST_API_VERSION,
            "kind": "BindRequest",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {"selected-node": node},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod.metadata.uid}
                ],
            },
            "spec": {
                "podName": name,
                "selectedNode": node,
                "receivedResourceType": kind,
                "receivedGPU": {"count": gpus, "portion": portion},
                **({"selectedGPUGroups": groups} if groups else {}),
            },
        }
        await self.client.create(BIND_REQUESTS, body, namespace=self.namespace)
        if phase:
            await self._status(BIND_REQUESTS, name, phase=phase)

    async def reserve(self, node: str, group: str) -> str:
        """The device of a group on a node; whoever is first makes the pod that holds it."""
        known = [pod for pod in await self.reservations() if pod.labels.get(names.GPU_GROUP_LABEL) == group]
        name = known[0].metadata.name if known else f"gpu-reservation-{node}-{uuid.uuid4().hex[:5]}"
        if not known:
            await self.client.create(PODS, _reservation(name, node, group), namespace=RESERVATIONS)

        async def told() -> str:
            pod = await self.client.get(PODS, name, namespace=RESERVATIONS, type=Pod)
            return pod.annotations.get(names.RESERVED_GPU, "") if pod.status.phase == "Running" else ""

        return await self.cluster.eventually(told, bool, what=f"{name} tells its device")

    async def config_map(self, pod: Pod, name: str, data: dict[str, str]) -> None:
        """What its binder tells a container of its device."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
        body = {"metadata": {"name": name, "ownerReferences": [owner]}, "data": data}
        await self.client.create(CONFIG_MAPS, body, namespace=self.namespace)

    async def leave_itself(self) -> None:
        """What is there of it where somebody has only scaled it away: processes, webhooks, Config, shard."""
        everything = [
            *map(_deployment, ("admission", "binder", "pod-grouper")),
            *_webhooks(),
            *configuration(),
        ]
        await self.cluster.apply(as_yaml(*everything))

    # --- what is there -------------------------------------------------------------------------
    async def pod(self, name: str) -> Pod:
        """One of its pods."""
        return await self.client.get(PODS, name, namespace=self.namespace, type=Pod)

    async def reservations(self) -> list[Pod]:
        """The pods that hold shared devices."""
        return await self.cluster.pods(RESERVATIONS)

    async def _status(
        self, resource: Any, name: str, *, kind: PatchKind = PatchKind.MERGE, **status: Any
    ) -> None:
        await self.client.patch(
            resource, name, {"status": status}, namespace=self.namespace, subresource="status", kind=kind
        )


def _completed(body: Json) -> str:
    """What its admission adds to a pod with a part of a device; the prefix of its ConfigMaps."""
    name = body["metadata"]["name"]
    prefix = f"{name}-k3x9q2z-shared-gpu"
    body["metadata"]["annotations"][names.SHARED_GPU_CONFIGMAP] = prefix
    [container] = body["spec"]["containers"]
    container["env"] = [
        {"name": variable, "valueFrom": {"configMapKeyRef": {"name": f"{prefix}-0", "key": variable}}}
        for variable in (names.NVIDIA_VISIBLE_DEVICES, names.RUNAI_NUM_OF_GPUS, names.GPU_PORTION)
    ]
    container["envFrom"] = [{"configMapRef": {"name": f"{prefix}-0-evar"}}]
    body["spec"] |= {
        "runtimeClassName": "nvidia",
        "volumes": [{"name": f"{prefix}-0-vol", "configMap": {"name": f"{prefix}-0"}}],
    }
    return prefix


def _waits(message: str) -> Json:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": _PLACED_AT,
    }


def _reservation(name: str, node: str, group: str) -> Json:
    return {
        "metadata": {
            "name": name,
            "labels": {names.APP_LABEL: names.RESERVATION_APP, names.GPU_GROUP_LABEL: group},
            "annotations": {"karpenter.sh/do-not-disrupt": "true"},
        },
        "spec": {
            "nodeName": node,
            "serviceAccountName": names.RESERVATION_SERVICE_ACCOUNT,
            "containers": [
                {
                    "name": "resource-reservation",
                    "image": "registry.example.com/kai/resourcereservation:v0.12.0",
                    "resources": {part: {names.NVIDIA_GPU: "1"} for part in ("requests", "limits")},
                }
            ],
        },
    }


def _deployment(name: str) -> Json:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": name, "image": f"registry.example.com/kai/{name}:v0.17.0"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": SYSTEM, "labels": {"app": name, **_MANAGED}},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def _webhooks() -> list[Json]:
    """Where nobody answers, and nothing that they concern can be written."""
    rule = {"apiVersions": ["v1"], "operations": ["CREATE"], "scope": "Namespaced"}
    of_queues = {"apiGroups": [names.SCHEDULING_GROUP], "apiVersions": ["v2"], "resources": ["queues"]}
    return [
        _webhook("Mutating", "mutating-kai-admission", "/mutate--v1-pod", rule | _OF_PODS),
        _webhook("Validating", "validating-kai-admission", "/validate--v1-pod", rule | _OF_PODS),
        _webhook(
            "Validating",
            "kai-queue-validation-v2",
            "/validate-scheduling-run-ai-v2-queue",
            {"operations": ["CREATE", "UPDATE"], "scope": "*"} | of_queues,
        ),
    ]


_CONCERNS = (
    "request.kind.kind != 'Pod' || "
    "(has(object.spec.schedulerName) && object.spec.schedulerName == 'kai-scheduler')"
)
_OF_PODS = {"apiGroups": [""], "resources": ["pods"]}


def _webhook(kind: str, name: str, path: str, rule: Json) -> Json:
    hook = {
        "name": f"admission.{SYSTEM}.svc",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
        "rules": [rule],
        "clientConfig": {"service": {"name": "gone", "namespace": SYSTEM, "path": path}},
        "matchConditions": [
            {
                "name": "ours",
                "expression": _CONCERNS,
            }
        ],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name, "labels": _MANAGED},
        "webhooks": [hook],
    }


def configuration() -> list[Json]:
    """As its chart makes them; the shard is kept when the release is removed."""
    return [
        {
            "apiVersion": names.CONFIG_API_VERSION,
            "kind": "Config",
            "metadata": {"name": "kai-config"},
            "spec": {"namespace": SYSTEM, "global": {"schedulerName": names.SCHEDULER_NAME}},
        },
        {
            "apiVersion": names.CONFIG_API_VERSION,
            "kind": "SchedulingShard",
            "metadata": {
                "name": names.DEFAULT_SHARD,
                "labels": _OF_RELEASE["labels"],
                "annotations": {**_OF_RELEASE["annotations"], "helm.sh/resource-policy": "keep"},
            },
            "spec": {"placementStrategy": {"gpu": "binpack", "cpu": "binpack"}, "partitionLabelValue": ""},
        },
    ]
