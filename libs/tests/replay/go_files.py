"""Snapshot files as Go's encoder writes the types of the original.

What distinguishes them from what an API server gives: no ``apiVersion`` and ``kind``; null for slices and
times that are empty and have no ``omitempty``; structs that are empty; of pods that succeeded little more
than a name.
"""

import io
import json
import zipfile

#: The lists of a file, in its order.
LISTS = (
    "pods", "nodes", "queues", "podGroups", "bindRequests", "priorityClasses", "configMaps",
    "persistentVolumes", "persistentVolumeClaims", "csiStorageCapacities", "storageClasses", "csiDrivers",
    "resourceClaims", "resourceSlices", "deviceClasses", "topologies", "nodeResourceTopologies",
)  # fmt: skip
#: What is false, zero or empty is left out; only the pool's names have no tags.
PARAMS = {
    "schedulerName": "kai-scheduler",
    "partitionParams": {"NodePoolLabelKey": "kai.scheduler/node-pool", "NodePoolLabelValue": ""},
    "gpuSharingMode": "NonMemoryEnforced",
    "maxNumberConsolidationPreemptees": 16,
    "useSchedulingSignatures": True,
    "fullHierarchyFairness": True,
    "allowConsolidatingReclaim": True,
    "numOfStatusRecordingWorkers": 5,
    "globalDefaultStalenessGracePeriod": 60_000_000_000,
    "schedulePeriod": 1_000_000_000,
    "stuckInReleasingThreshold": 120_000_000_000,
    "queueLabelKey": "kai.scheduler/queue",
}
PLUGINS = (
    "predicates", "proportion", "priority", "nodeavailability", "resourcetype", "podaffinity", "elastic",
    "kubeflow", "ray", "subgrouporder", "taskorder", "nominatednode", "dynamicresources", "minruntime",
    "topology", "snapshot", "gpupack", "nodeplacement", "gpusharingorder", "reflectjoborder",
)  # fmt: skip
ARGUMENTS = {"proportion": {"kValue": "1.0"}, "nodeplacement": {"cpu": "binpack", "gpu": "binpack"}}
CONFIG = {
    "actions": "allocate, consolidation, reclaim, preempt, stalegangeviction",
    "tiers": [
        {
            "plugins": [
                {"name": name, **({"arguments": ARGUMENTS[name]} if name in ARGUMENTS else {})}
                for name in PLUGINS
            ]
        }
    ],
    "scenarioSearchBudgets": {
        "maxActionSearchDuration": {"default": "5m0s"},
        "maxJobSearchDuration": "4m0s",
        "minJobSearchDuration": "0s",
        "maxGeneratorSearchDuration": {"MultiNodeGang": "2m0s", "NodeLocalGreedy": "30s"},
    },
}
DISCOVERY = {
    "serverVersion": {"major": "1", "minor": "34", "gitVersion": "v1.34.1", "platform": "linux/amd64"},
    "resources": [{"groupVersion": "v1", "resources": None}],
}


def a_file(*, raw, config=CONFIG, params=PARAMS, discovery=DISCOVERY):
    """The zip; lists that are not given are null."""
    document = {
        "config": config,
        "schedulerParams": params,
        "rawObjects": {**dict.fromkeys(LISTS), **raw},
        "discovery": discovery,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("snapshot.json", json.dumps(document, separators=(",\n", ":")))
    return buffer.getvalue()


def meta(name, namespace="", **more):
    """As before Kubernetes 1.34, which leaves out a time that is not set."""
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "creationTimestamp": None, **more}


def a_pod(name, *, group="", gpus=0, node="", phase="Pending", uid="", spec=None, claims=()):
    """As the cache of a scheduler holds it."""
    requests = {"cpu": "100m", "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    resources = {"requests": requests, **({"claims": [{"name": each} for each in claims]} if claims else {})}
    references = [{"name": each, "resourceClaimName": each} for each in claims]
    tolerated = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}
    return {
        "metadata": meta(
            name,
            "default",
            uid=uid or f"uid-{name}",
            ownerReferences=[
                {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "uid-job", "controller": True}
            ],
            **({"annotations": {"pod-group-name": group}} if group else {}),
        ),
        "spec": {
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "containers": [
                {
                    "name": "main",
                    "env": [{"name": "SECRET", "valueFrom": {}}],
                    "resources": resources,
                    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                }
            ],
            "dnsPolicy": "ClusterFirst",
            **({"nodeName": node} if node else {}),
            "securityContext": {},
            "schedulerName": "kai-scheduler",
            "tolerations": [tolerated],
            "priorityClassName": "train",
            "priority": 50,
            "preemptionPolicy": "PreemptLowerPriority",
            **({"resourceClaims": references} if claims else {}),
            **(spec or {}),
        },
        "status": {"phase": phase, "qosClass": "Burstable"},
    }


def a_succeeded_pod(name, *, group):
    """All that is kept of it."""
    annotations = {"pod-group-name": group}
    return {
        "metadata": meta(name, "default", uid=f"uid-{name}", annotations=annotations),
        "spec": {"containers": None},
        "status": {"phase": "Succeeded"},
    }


def a_node(name, *, gpus=8):
    """With what the kubelet says of itself."""
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    ready = {
        "type": "Ready",
        "status": "True",
        "lastHeartbeatTime": "2026-07-01T12:06:00Z",
        "lastTransitionTime": None,
    }
    return {
        "metadata": meta(
            name,
            uid=f"uid-{name}",
            labels={"kubernetes.io/hostname": name, "nvidia.com/gpu.memory": "40960"},
            managedFields=[{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {}}}],
        ),
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [ready],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {"machineID": "", "kubeletVersion": "v1.34.1"},
        },
    }


def a_queue(name, *, parent="", quota=-1):
    """Quotas are numbers, -1 is unlimited; run times are texts."""
    unlimited = {"quota": -1, "overQuotaWeight": 1, "limit": -1}
    spec = {
        "displayName": name,
        **({"parentQueue": parent} if parent else {}),
        "resources": {"gpu": {**unlimited, "quota": quota}, "cpu": unlimited, "memory": unlimited},
        "priority": 100,
        "reclaimMinRuntime": "1m0s",
    }
    return {"metadata": meta(name), "spec": spec, "status": {}}


def a_group(name, *, queue="team", minimum=1, annotations=None):
    """Its topology constraint is a struct, and written also where it is empty."""
    created = {"creationTimestamp": "2026-07-01T12:00:00Z", "uid": f"uid-{name}"}
    return {
        "metadata": meta(name, "default", **({"annotations": annotations} if annotations else {})) | created,
        "spec": {
            "minMember": minimum,
            "queue": queue,
            "priorityClassName": "train",
            "topologyConstraint": {},
            "markUnschedulable": True,
            "schedulingBackoff": -1,
        },
        "status": {"resourcesStatus": {}},
    }


def a_bind_request(pod, *, node, spec=None, status=None):
    """As the original's scheduler makes them."""
    found = {
        "podName": pod,
        "selectedNode": node,
        "receivedResourceType": "Regular",
        "receivedGPU": {"count": 1, "portion": "1.00"},
        **(spec or {}),
    }
    return {
        "metadata": meta(pod, "default", labels={"selected-node": node}),
        "spec": found,
        "status": status or {},
    }


def a_claim(name):
    """``resource.k8s.io/v1``; one device of class ``gpu``."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    devices = {"requests": [{"name": "one", "exactly": exactly}]}
    labels = {"kai.scheduler/queue": "team"}
    return {"metadata": meta(name, "default", labels=labels), "spec": {"devices": devices}, "status": {}}


def a_slice(node, *, devices=1):
    """``resource.k8s.io/v1``; devices of one node."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    properties = {"attributes": {"model": {"string": "x"}}, "capacity": {"memory": {"value": "40Gi"}}}
    found = [{"name": f"gpu-{number}", **properties} for number in range(devices)]
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": node, "devices": found}
    return {"metadata": meta(node), "spec": spec}


def a_device_class(name="gpu"):
    """All devices of the driver."""
    expression = "device.driver == 'gpu.example.com'"
    return {"metadata": meta(name), "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def an_allocation(node, *, device="gpu-0"):
    """What a bind request or a claim says of one device."""
    result = {
        "request": "one",
        "driver": "gpu.example.com",
        "pool": node,
        "device": device,
        "adminAccess": None,
    }
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }


def as_go(kind, obj):
    """An object of an API server, as Go writes it."""
    obj = {**obj, "metadata": {"creationTimestamp": None, **obj["metadata"]}}
    match kind:
        case "pods":
            phase = obj.get("status", {}).get("phase")
            group = obj["metadata"].get("annotations", {}).get("pod-group-name")
            if phase == "Succeeded" and group:
                return a_succeeded_pod(obj["metadata"]["name"], group=group)
            obj["spec"] = {"containers": None, **obj.get("spec", {})}
        case "podGroups":
            obj["spec"] = {"topologyConstraint": {}, **obj.get("spec", {})}
            obj["status"] = {"resourcesStatus": {}, **(obj.get("status") or {})}
        case "topologies":
            obj["spec"] = {"levels": None, **obj.get("spec", {})}
        case "nodes":
            conditions = [
                {"lastHeartbeatTime": None, "lastTransitionTime": None, **each}
                for each in obj.get("status", {}).get("conditions", [])
            ]
            obj["status"] = {**obj.get("status", {}), "conditions": conditions}
        case "queues":
            obj["status"] = {}
    return obj
