"""Objects that their schemas admit, and values that nobody expects."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

from kai.model.documents import load_written
from kai.workloads.making import OF_OPERATORS as OF_OPERATORS_BY_GROUP
from kai_local.apiserver.schemas.schema import Node, builtin, structural

CRDS = Path(__file__).resolve().parents[3] / "helm" / "kai-scheduler" / "crds"
Json = Any

#: What looks like a number, and what one makes of it if one is not careful.
NUMBERS = (
    0, 1, -1, 2, 3, 7, 100, 2**31 - 1, 2**31, -(2**31), 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63),
    10**30,
    0.5, -0.5, 1e-12, 1e300, 1e17, 0.1 + 0.2,
)  # fmt: skip
NUMBER_TEXTS = (
    "0", "1", "-1", "0.5", "0.999999", "1.0", "1.5", "2", "8", "NaN", "nan", "Infinity", "-inf", "1e400",
    "1e-400", "0x1p-1",
    "1_0", "٣", "½", "1e1", ".5", "5.", "+0.5", " 0.5", "0.5 ", "", "0,5", "9" * 30, "9" * 5000, "1" + "0" *
    400,
    "18446744073709551615", "18446744073709551616", "2147483648", "1e999999999", "-0", "0.0", "--1", "1e",
    "1E3",
)  # fmt: skip
QUANTITIES = (
    "0", "1", "8", "500m", "1Gi", "64Gi", "1Ei", "9Ei", "9223372036854775807", "9223372036854775808",
    "1e30", "0.1",
    "100n", "-1", "1e-30", "1E", "999999999999999999999999", "1e999999999", "0.000000000000000001", "16",
    "1k",
)  # fmt: skip
DURATIONS = (
    "5m",
    "1h30m",
    "60s",
    "-1s",
    "0",
    "",
    "5",
    "soon",
    "1d",
    "1e9h",
    "292y",
    "999999999h",
    "5µs",
    "9" * 400 + "s",
    ".s",
    "-",
)
TEXTS = (
    "", "a", "main", "team-a", "org", "nowhere", "default-queue", "kai-scheduler", "x" * 64, "x" * 254, "ü",
    "日本語", "a b",
    "../../etc", "a/b", "%00", "\u0000", "\ud7ff", "🦊", "a\nb", '"', "\\", "{{.Values}}", "${jndi}", "true",
    "null", "A" * 70_000,
    "-", ".", "true", "false", "train", "build", "kai.scheduler/queue", "nvidia.com/gpu", "\u202eabc", "é",
)  # fmt: skip
LABELS = (
    "kai.scheduler/queue", "kai.scheduler/node-pool", "priorityClassName", "kai.scheduler/preemptibility",
    "project", "user",
    "kai.scheduler/subgroup-name", "kai.scheduler/task-priority", "app", "runai-gpu-group", "gpu-fractoin",
    "kai.scheduler/quue",
)  # fmt: skip
ANNOTATIONS = (
    "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "gpu-fraction-container-name", "mps",
    "pod-group-name",
    "kai.scheduler/preemption-delay", "kai.scheduler/staleness-grace-period",
    "kai.scheduler/batch-min-member",
    "kai.scheduler/topology", "kai.scheduler/topology-required-placement", "kai.scheduler/segment-size",
    "kai.scheduler/skip-podgrouper", "received-resource-type", "kai.scheduler/numa-placement-predicted",
    "kai.scheduler/numa-placement-observed", "kai.scheduler/last-start-timestamp",
    "runai/shared-gpu-configmap",
    "kai.scheduler/stale-podgroup-timestamp", "kai.scheduler/last-eviction-timestamp", "gpu-fractoin",
    "GPU-Memory",
)  # fmt: skip
TIMES = (
    "2026-01-01T00:00:00Z",
    "",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "yesterday",
    "2026-13-45T99:99:99Z",
    "1e9",
)
RESOURCES = (
    "cpu", "memory", "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-7g.80gb", "amd.com/gpu",
    "pods", "ephemeral-storage",
    "nvidia.com/mig-", "nvidia.com/mig-x", "nvidia.com/mig-99999999999g.1gb", "example.com/thing",
    "run.ai/gpu.memory",
    "hugepages-2Mi", "",
)  # fmt: skip
GVKS = {
    "Pod": ("", "v1"),
    "Node": ("", "v1"),
    "Job": ("batch", "v1"),
    "CronJob": ("batch", "v1"),
    "Deployment": ("apps", "v1"),
    "StatefulSet": ("apps", "v1"),
    "DaemonSet": ("apps", "v1"),
    "ReplicaSet": ("apps", "v1"),
    "PriorityClass": ("scheduling.k8s.io", "v1"),
    "ResourceClaim": ("resource.k8s.io", "v1"),
    "Queue": ("scheduling.run.ai", "v2"),
    "PodGroup": ("scheduling.run.ai", "v2alpha2"),
    "Topology": ("kai.scheduler", "v1alpha1"),
}
#: Kinds of operators, of which nobody has a schema here.
OF_OPERATORS = {kind: (group, "v1") for group, kind in sorted(OF_OPERATORS_BY_GROUP)}
_TEMPLATE, _COUNT, _TEXT = "template", "count", "text"
_ROLE = {"replicas": _COUNT, "template": _TEMPLATE}
_POLICY = {"suspend": _TEXT, "schedulingPolicy": {"minAvailable": _COUNT}}
_RAY = {
    "suspend": _TEXT,
    "headGroupSpec": {"template": _TEMPLATE},
    "workerGroupSpecs": [
        {"groupName": _TEXT, "minReplicas": _COUNT, "numOfHosts": _COUNT, "suspend": _TEXT, **_ROLE}
    ],
}
_JOB = {"parallelism": _COUNT, "completions": _COUNT, "suspend": _TEXT, "template": _TEMPLATE}
_CLIQUES = {
    "replicas": _COUNT,
    "template": {
        "priorityClassName": _TEXT,
        "cliques": [
            {"name": "a", "spec": {"replicas": _COUNT, "minAvailable": _COUNT, "podSpec": {"containers": []}}}
        ],
        "podCliqueScalingGroups": [
            {"name": _TEXT, "cliqueNames": ["a"], "replicas": _COUNT, "minAvailable": _COUNT}
        ],
    },
}
#: What they say, where they say it.
_SHAPES: Json = {
    "JAXJob": {"jaxReplicaSpecs": {"Worker": _ROLE}, "runPolicy": _POLICY},
    "JobSet": {
        "startupPolicy": {"startupPolicyOrder": "InOrder"},
        "replicatedJobs": [{"name": _TEXT, "replicas": _COUNT, "template": {"spec": _JOB}}],
    },
    "LeaderWorkerSet": {
        "replicas": _COUNT,
        "startupPolicy": "LeaderReady",
        "leaderWorkerTemplate": {
            "size": _COUNT,
            "leaderTemplate": _TEMPLATE,
            "workerTemplate": _TEMPLATE,
            "subGroupPolicy": {"subGroupSize": _COUNT},
        },
    },
    "MPIJob": {
        "mpiReplicaSpecs": {"Launcher": _ROLE, "Worker": _ROLE},
        "launcherCreationPolicy": "WaitForWorkersReady",
    },
    "PodCliqueSet": _CLIQUES,
    "PodGangSet": _CLIQUES,
    "PyTorchJob": {
        "pytorchReplicaSpecs": {"Master": _ROLE, "Worker": _ROLE},
        "elasticPolicy": {"minReplicas": _COUNT},
        "runPolicy": _POLICY,
    },
    "RayCluster": _RAY,
    "RayJob": {"rayClusterSpec": _RAY},
    "RayService": {"rayClusterConfig": _RAY},
    "SeldonDeployment": {"predictors": [{"replicas": _COUNT, "componentSpecs": [_TEMPLATE]}]},
    "TFJob": {"tfReplicaSpecs": {"PS": _ROLE, "Worker": _ROLE}, "runPolicy": _POLICY},
    "XGBoostJob": {"xgbReplicaSpecs": {"Master": _ROLE, "Worker": _ROLE}},
    "DynamoGraphDeployment": {
        "services": {
            "Decode": {
                "replicas": _COUNT,
                "multinode": {"nodeCount": _COUNT},
                "resources": {"limits": {"gpu": _COUNT, "custom": {"a": _COUNT}}},
                "extraPodSpec": {"mainContainer": {"image": _TEXT}, "containers": []},
            }
        }
    },
    "Workflow": {"entrypoint": "a", "templates": [{"name": "a", "container": {"image": _TEXT}}]},
    "TaskRun": {"taskSpec": {"steps": [{"name": _TEXT, "image": _TEXT}]}, "podTemplate": _TEMPLATE},
    "PipelineRun": {"pipelineSpec": {"tasks": [{"name": _TEXT, "taskSpec": {"steps": [{"image": _TEXT}]}}]}},
}
_COUNTS = (0, 1, 2, 2, 3, 8, 60, 999, 5001, 20_001, 2**31, -1, "2", None)
CUSTOM = {
    "Queue": "queues.scheduling.run.ai",
    "PodGroup": "podgroups.scheduling.run.ai",
    "Topology": "topologies.kai.scheduler",
}


def api_version(kind: str) -> str:
    group, version = GVKS.get(kind) or OF_OPERATORS[kind]
    return f"{group}/{version}" if group else version


def _custom(kind: str) -> Node:
    definition = load_written((CRDS / f"{CUSTOM[kind]}.yaml").read_text())
    versions = definition["spec"]["versions"]
    schema = next(v["schema"]["openAPIV3Schema"] for v in versions if v["name"] == GVKS[kind][1])
    return structural(schema)


SCHEMAS = {kind: _custom(kind) if kind in CUSTOM else builtin(*GVKS[kind], kind) for kind in GVKS}


class Maker:
    """Values drawn from one source of chance."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def of(self, node: Node, key: str = "", depth: int = 0) -> Json:
        """A value of the type; fewer members the deeper it is."""
        chance = self.chance
        if node.quantity:
            return chance.choice(QUANTITIES)
        if node.int_or_string:
            return chance.choice((chance.choice(QUANTITIES), chance.choice((0, 1, 8, 2**31 - 1))))
        if node.time:
            return chance.choice(TIMES[:1] + TIMES[2:4])
        enumerated = node.checks.get("enum")
        if enumerated:
            return chance.choice(enumerated)
        match node.type:
            case "object":
                return self._object(node, key, depth)
            case "array":
                return (
                    [self.of(node.items, key, depth + 1) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
                    if node.items
                    else []
                )
            case "integer":
                least = node.checks.get("minimum", -(2**31))
                return max(least, chance.choice((0, 1, 2, 5, 100, 2**31 - 1, -1)))
            case "number":
                return chance.choice((0, 1, -1, 2.5, 64, 8000, 68719476736, 1e300, -7, 0.1))
            case "boolean":
                return chance.random() < 0.5
            case "string":
                return self.text(key, node)
        return chance.choice(({}, "x", 1))

    def text(self, key: str, node: Node | None = None) -> str:
        chance = self.chance
        lower = key.lower()
        if "time" in lower and "runtime" not in lower:
            return chance.choice(TIMES)
        if any(word in lower for word in ("delay", "runtime", "grace", "period")):
            return chance.choice(DURATIONS)
        if node is not None and "pattern" in node.checks:
            return chance.choice(("a", "b", "c", "leader", "w-1"))
        return chance.choice(TEXTS[:20] if chance.random() < 0.8 else TEXTS)

    def _object(self, node: Node, key: str, depth: int) -> Json:
        chance = self.chance
        if node.additional is not None and node.properties is None:
            if key in ("labels", "annotations", "matchLabels", "nodeSelector"):
                return self.told(LABELS if key != "annotations" else ANNOTATIONS)
            keys = (
                RESOURCES
                if key
                in ("requests", "limits", "allocatable", "capacity", "overhead", "allocated", "requested")
                else TEXTS[:12]
            )
            return {
                chance.choice(keys): self.of(node.additional, key, depth + 1)
                for _ in range(chance.choice((0, 1, 2, 3)))
            }
        share = (0.9, 0.6, 0.35, 0.25, 0.15, 0.1)[min(depth, 5)] if depth < 12 else 0.0
        return {
            name: self.of(child, name, depth + 1)
            for name, child in (node.properties or {}).items()
            if name in node.required or chance.random() < share
        }

    def told(self, keys: tuple[str, ...]) -> dict[str, str]:
        """Labels or annotations."""
        chance = self.chance
        found = {}
        for _ in range(chance.choice((0, 1, 2, 3, 5))):
            key = chance.choice(keys)
            pool = (
                DURATIONS
                if "delay" in key or "period" in key
                else NUMBER_TEXTS
                if chance.random() < 0.7
                else TEXTS
            )
            found[key] = chance.choice(pool)
        return found

    # --- objects ------------------------------------------------------------------------------
    def object(self, kind: str) -> Json:
        """An object that its schema admits, of a kind that we look at, mostly one of ours."""
        chance = self.chance
        if kind in OF_OPERATORS:
            body = {"spec": self.of_operators(_SHAPES.get(kind, {"template": _TEMPLATE}))}
        else:
            body = self.of(SCHEMAS[kind])
        body["apiVersion"], body["kind"] = api_version(kind), kind
        metadata = body.get("metadata")
        body["metadata"] = metadata = metadata if isinstance(metadata, dict) else {}
        metadata.pop("deletionTimestamp", None)
        metadata["name"] = chance.choice(("a", "b", "c", "org", "team-a", "team-b", "p", "g"))
        if kind not in ("Queue", "Topology", "Node", "PriorityClass"):
            metadata["namespace"] = chance.choice(("ns", "other"))
        metadata["uid"] = f"{kind}-{metadata['name']}-{chance.randrange(3)}"
        metadata["resourceVersion"] = str(chance.randrange(1000))
        if chance.random() < 0.8:
            metadata["labels"] = self.told(LABELS)
            metadata["annotations"] = self.told(ANNOTATIONS)
        if chance.random() < 0.85:
            self._make_ours(kind, body)
        return body

    def of_operators(self, shape: Json) -> Json:
        """What may stand in the spec of an object of theirs: most of the fields, lists of any length."""
        chance = self.chance
        match shape:
            case "template":
                pod = self.object("Pod")
                return {"metadata": pod["metadata"], "spec": pod.get("spec", {})}
            case "count":
                return chance.choice(_COUNTS)
            case "text":
                return chance.choice(("a", "b", True, False, chance.choice(TEXTS[:20])))
            case dict():
                return {key: self.of_operators(each) for key, each in shape.items() if chance.random() < 0.85}
            case [one]:
                return [self.of_operators(one) for _ in range(chance.choice((0, 1, 1, 2, 3, 40)))]
        return shape

    def _make_ours(self, kind: str, body: Json) -> None:
        chance = self.chance
        spec = body.get("spec")
        body["spec"] = spec = spec if isinstance(spec, dict) else {}
        if kind == "Pod":
            spec["schedulerName"] = "kai-scheduler"
            spec["containers"] = [
                self.container(name) for name in ("main", "side")[: chance.choice((1, 1, 2))]
            ]
            if chance.random() < 0.5:
                body["metadata"].setdefault("annotations", {})["pod-group-name"] = chance.choice(("a", "g"))
        elif kind in ("Job", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"):
            template = self.object("Pod")
            spec["template"] = {"metadata": template["metadata"], "spec": template.get("spec", {})}
        elif kind == "CronJob":
            job = self.object("Job")
            spec["jobTemplate"] = {"metadata": job["metadata"], "spec": job.get("spec", {})}
        elif kind == "PodGroup":
            spec["queue"] = chance.choice(("team-a", "team-b", "org", "nowhere"))
        elif kind == "Queue":
            spec["parentQueue"] = chance.choice(("", "org", "team-a", "a", "b"))
            resources = spec.get("resources")
            spec["resources"] = resources if isinstance(resources, dict) else {}

    def container(self, name: str) -> Json:
        """A container that asks for something."""
        chance = self.chance

        def amounts() -> dict[str, str]:
            return {
                chance.choice(RESOURCES[:9]): chance.choice(QUANTITIES)
                for _ in range(chance.choice((0, 1, 2)))
            }

        return {"name": name, "image": "x", "resources": {"limits": amounts(), "requests": amounts()}}

    # --- hostility ----------------------------------------------------------------------------
    def wreck(self, body: Json, times: int) -> Json:
        """A copy with values that its schema does not admit, at random places."""
        body = copy.deepcopy(body)
        for _ in range(times):
            found = list(places(body))
            if not found:
                break
            holder, key = self.chance.choice(found)
            self._wreck(holder, key)
        return body

    def _wreck(self, holder: Any, key: Any) -> None:
        chance = self.chance
        match chance.randrange(9):
            case 0:
                holder[key] = None
            case 1:
                del holder[key]
            case 2:
                holder[key] = chance.choice(NUMBERS)
            case 3:
                holder[key] = chance.choice(NUMBER_TEXTS)
            case 4:
                holder[key] = chance.choice(TEXTS)
            case 5:
                holder[key] = [holder[key], None, {}]
            case 6:
                holder[key] = {"": holder[key], "x": None}
            case 7:
                holder[key] = nested(chance.choice((2, 20, 200)), chance.random() < 0.5)
            case _:
                holder[key] = chance.choice((True, False, [], {}, "", 0))


def nested(depth: int, lists: bool) -> Json:
    """Brackets in brackets."""
    value: Json = "core"
    for _ in range(depth):
        value = [value] if lists else {"spec": value}
    return value


#: A list is made so long at most, and so that an API server would still take the object.
_LONGEST_LIST = 3000
_MOST_BYTES = 1_000_000


def lengthened(chance: random.Random, body: Json) -> Json:
    """A copy in which one list says what it says thousands of times, each time with other names."""
    body = copy.deepcopy(body)
    lists = [holder[key] for holder, key in places(body) if isinstance(holder[key], list) and holder[key]]
    if lists:
        chosen = chance.choice(lists)
        pattern = chance.choice(chosen)
        size = len(repr(pattern).encode(errors="replace")) + 8
        chosen[:] = [_numbered(pattern, number) for number in range(min(_LONGEST_LIST, _MOST_BYTES // size))]
    return body


def _numbered(pattern: Json, number: int) -> Json:
    """What is like the pattern, and of another name, as lists are merged by names."""
    if isinstance(pattern, str):
        return f"{pattern[:50]}{number}"
    if not isinstance(pattern, dict):
        return copy.deepcopy(pattern)
    return {
        key: f"{value[:50]}{number}" if key in ("name", "key", "uid") and isinstance(value, str) else value
        for key, value in copy.deepcopy(pattern).items()
    }


def places(value: Json, depth: int = 0) -> Any:
    """Each place in a document, as what holds it and by which key."""
    if depth > 12:
        return
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in list(items):
        yield value, key
        yield from places(child, depth + 1)
