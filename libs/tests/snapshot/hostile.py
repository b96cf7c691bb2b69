"""Objects that nobody can take in, each with the field and the bound that its owner must be told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from kai.bench.objects import a_node, a_pod, a_priority_class, a_queue
from kai.model.objects import Node, Pod, PodGroup, Queue, Taint, Topology
from kai.snapshot.state import Kind

_LONG = "9" * 5000
_MOST = str(2**63 - 1)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Hostile:
    """An object, and what must be said of it."""

    name: str
    kind: Kind
    obj: Any
    field: str
    bound: str


def a_hostile_pod(name: str, *, group: str = "", node: str = "", **changes: Any) -> Pod:
    """A pod with parts replaced: ``annotations``, ``labels``, ``requests``, anything of its ``spec``."""
    pod = msgspec.to_builtins(a_pod(name, group=group, gpus=0, node=node))
    pod["metadata"].setdefault("annotations", {}).update(changes.pop("annotations", {}))
    pod["metadata"].setdefault("labels", {}).update(changes.pop("labels", {}))
    if (requests := changes.pop("requests", None)) is not None:
        pod["spec"]["containers"][0]["resources"] = {"requests": requests}
    pod["spec"].update(changes)
    return msgspec.convert(pod, Pod)


def _pods() -> Iterator[tuple[str, dict[str, Any], str, str]]:
    def annotated(key: str, value: str, **more: str) -> dict[str, Any]:
        return {"annotations": {key: value, **more}}

    memory, devices = "metadata.annotations[gpu-memory]", "metadata.annotations[gpu-fraction-num-devices]"
    fraction = "metadata.annotations[gpu-fraction]"
    yield "memory of 2^64", annotated("gpu-memory", str(2**64 - 1)), memory, "from 1 to 2147483648 MiB"
    yield "memory of 5000 digits", annotated("gpu-memory", _LONG), memory, "MiB"
    yield "memory below nothing", annotated("gpu-memory", "-1"), memory, "MiB"
    yield "memory in words", annotated("gpu-memory", "much"), memory, "MiB"
    yield (
        "a million devices",
        annotated("gpu-fraction-num-devices", "1000000", **{"gpu-fraction": "0.5"}),
        (devices),
        "1024 devices",
    )
    for value in ("nan", "inf", "-0.5", "0", "1.5", "1e400", _LONG, "half"):
        yield f"fraction {value[:5]}", annotated("gpu-fraction", value), fraction, "above 0"
    mig = "nvidia.com/mig-1g.5gb"
    yield "MIG devices", annotated(mig, _MOST), f"metadata.annotations[{mig}]", "1024 devices"
    yield (
        "task priority",
        {"labels": {"kai.scheduler/task-priority": "9" * 60}},
        "task-priority",
        "2147483647",
    )
    groups = {f"runai-gpu-group/{i}": "x" for i in range(1025)}
    yield "shared devices", {"labels": groups}, "metadata.labels[runai-gpu-group/*]", "1024 labels"
    for name in ("cpu", "memory", "example.com/thing"):
        where = f"resources.requests[{name}]"
        yield (
            f"endless {name}",
            {"requests": {name: _MOST if name == "memory" else "9e15"}},
            where,
            "at most 9007",
        )
        yield f"{name} below nothing", {"requests": {name: "-1"}}, where, "at most"
        yield f"unreadable {name}", {"requests": {name: "1e99999999"}}, where, "at most"
    yield (
        "GPUs",
        {"requests": {"nvidia.com/gpu": "9000000000"}},
        "resources.requests[nvidia.com/gpu]",
        "devices",
    )
    many = [{"name": f"c{i}", "resources": {"requests": {"memory": "8000000000000000"}}} for i in range(3)]
    yield "memory in all", {"containers": many}, "requests of memory in all", "at most"
    names = {f"example.com/{i}": "1" for i in range(8000)}
    yield "names", {"requests": names}, "resources.requests", "64 resources"
    yield (
        "containers",
        {"containers": [{"name": f"c{i}"} for i in range(600)]},
        "spec.containers",
        "at most 512",
    )
    yield "tolerations", {"tolerations": [{"key": f"k{i}"} for i in range(600)]}, "spec.tolerations", "512"
    yield "selector", {"nodeSelector": {f"k{i}": "v" for i in range(300)}}, "spec.nodeSelector", "256 labels"
    ports = [{"containerPort": 1, "hostPort": port} for port in range(1, 1026)]
    listening = [{"name": "some", "ports": ports[:500]}, {"name": "others", "ports": ports[500:]}]
    yield (
        "host ports",
        {"containers": listening},
        "spec.containers[].ports is '1025'",
        "1024 ports of the host",
    )
    yield "volumes", {"volumes": [{"name": f"v{i}"} for i in range(2000)]}, "spec.volumes", "1024"
    read = [{"name": f"v{i}", "configMap": {"name": f"m{i}"}} for i in range(500)]
    told = [{"valueFrom": {"configMapKeyRef": {"name": f"n{i}", "key": "k"}}} for i in range(500)]
    more = [{"configMapRef": {"name": f"o{i}"}} for i in range(25)]
    naming = [{"name": "some", "env": told}, {"name": "others", "envFrom": more, "env": told}]
    where = "spec.volumes[].configMap, spec.containers[].env, spec.containers[].envFrom is '1025'"
    yield "config maps", {"volumes": read, "containers": naming}, where, "1024 config maps that must exist"
    claims = [{"name": f"c{i}", "resourceClaimName": "x"} for i in range(300)]
    yield "claims", {"resourceClaims": claims}, "spec.resourceClaims", "256"
    yield "priority", {"priority": 2**40}, "spec.priority", "2147483647"
    yield "a priority of 200 bits", {"priority": 2**200}, "spec.priority", "2147483647"
    spread = {"topologyKey": "zone", "maxSkew": 1, "labelSelector": {}}
    yield (
        "spread constraints",
        {"topologySpreadConstraints": [spread] * 100},
        "topologySpreadConstraints",
        "64",
    )
    yield "skew", {"topologySpreadConstraints": [{**spread, "maxSkew": 2**70}]}, "[0].maxSkew", "2147483647"
    term = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"] * 20_000}]}
    node = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [term]}}}
    yield "values", {"affinity": node}, "nodeSelectorTerms[0].matchExpressions[0].values", "16384 items"
    node = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{}] * 1000}}}
    yield "node terms", {"affinity": node}, "nodeSelectorTerms", "512 items"
    term = {"matchExpressions": [{"key": "k"}] * 10, "matchFields": [{"key": "k"}] * 6}
    nodes = {
        _REQUIRED: {"nodeSelectorTerms": [term] * 15 + [{"matchFields": [{"key": "k"}]}]},
        _PREFERRED: [{"weight": 1, "preference": term}],
    }
    yield (
        "requirements of nodes",
        {"affinity": {"nodeAffinity": nodes}},
        "spec.affinity.nodeAffinity is '257'",
        "at most 256 expressions",
    )
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    pods = {"podAntiAffinity": {_REQUIRED: [term] * 65}}
    yield "pod terms", {"affinity": pods}, f"spec.affinity.podAntiAffinity.{_REQUIRED}", "64 items"
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "k"}] * 600}}
    pods = {"podAffinity": {_REQUIRED: [term]}}
    yield "expressions", {"affinity": pods}, "[0].labelSelector.matchExpressions", "512 items"
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "k"}] * 32}}
    pods = {
        "podAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": term}] * 3},
        "podAntiAffinity": {_REQUIRED: [{**term, "namespaceSelector": {"matchLabels": {"a": "b"}}}] * 3},
    }
    spread = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["c"]}]
    yield (
        "requirements of terms",
        {"affinity": pods, "topologySpreadConstraints": spread * 31},
        "spec.affinity: podAffinity, podAntiAffinity; spec.topologySpreadConstraints is '257'",
        "at most 256 labels and expressions",
    )
    pods = {"podAntiAffinity": {_PREFERRED: [{"weight": 2**80, "podAffinityTerm": {}}]}}
    yield "weight", {"affinity": pods}, f"spec.affinity.podAntiAffinity.{_PREFERRED}[0].weight", "at most 100"
    yield (
        "affinity of another type",
        {"affinity": {"nodeAffinity": "here"}},
        "spec.affinity.nodeAffinity",
        "type",
    )
    for source, key in (("configMap", "name"), ("persistentVolumeClaim", "claimName")):
        volumes = [{"name": "v", source: {key: "there"}}]
        where = f"spec.volumes[1].{source}"
        yield f"{source} of another type", {"volumes": [*volumes, {source: "here"}]}, where, "type"
        yield f"name of {source}", {"volumes": [*volumes, {source: {key: {}}}]}, f"{where}.{key}", "type str"
    for field, reference in (("env", {"valueFrom": "here"}), ("envFrom", {"configMapRef": ["here"]})):
        where = f"spec.containers[1].{field}[0].{next(iter(reference))}"
        containers = [{"name": "a"}, {"name": "b", field: [reference]}]
        yield f"{field} of another type", {"containers": containers}, where, "type"


def a_deep_group(name: str, *, levels: int, queue: str = "right") -> PodGroup:
    """A pod group with subgroups in each other; its last one takes the pods."""
    subs = [{"name": "s0"}] + [{"name": f"s{i}", "parent": f"s{i - 1}"} for i in range(1, levels)]
    subs[-1]["minMember"] = 1
    return a_hostile_group(name, queue=queue, subGroups=subs)


def a_hostile_group(name: str, *, queue: str = "right", **spec: Any) -> PodGroup:
    """A pod group with anything in its ``spec``."""
    meta = {"name": name, "namespace": "default", "uid": name}
    return msgspec.convert({"metadata": meta, "spec": {"queue": queue, **spec}}, PodGroup)


def _groups() -> Iterator[tuple[str, PodGroup, str, str]]:
    yield "depth", a_deep_group("bad", levels=1500), "spec.subGroups", "1000 subgroups"
    yield "depth alone", a_deep_group("bad", levels=17), "spec.subGroups[].parent", "16 levels"
    flat = [{"name": f"s{i}", "minMember": 1} for i in range(5000)]
    yield "subgroups", a_hostile_group("bad", subGroups=flat), "spec.subGroups", "1000 subgroups"
    for field in ("minMember", "minSubGroup"):
        yield field, a_hostile_group("bad", **{field: 2**62}), f"spec.{field}", "at most 1000000"
        yield f"negative {field}", a_hostile_group("bad", **{field: -1}), f"spec.{field}", "at most 1000000"
    sub = [{"name": "s", "minMember": 2**31}]
    yield "minMember of a part", a_hostile_group("bad", subGroups=sub), "spec.subGroups[0].minMember", "pods"


def _queue(**spec: Any) -> Queue:
    queue = msgspec.to_builtins(a_queue("left", parent="top", gpu=4))
    queue["spec"].update(spec)
    return msgspec.convert(queue, Queue)


def _queues() -> Iterator[tuple[str, Queue, str, str]]:
    for kind in ("gpu", "cpu", "memory"):
        for field in ("quota", "limit"):
            obj = _queue(resources={kind: {field: 1e308}})
            yield f"{kind} {field}", obj, f"spec.resources.{kind}.{field}", "at most 4.61169e+1"
        obj = _queue(resources={kind: {"overQuotaWeight": 1e300}})
        yield f"{kind} weight", obj, f"spec.resources.{kind}.overQuotaWeight", "at most 2147483648"
    yield "NaN", _queue(resources={"gpu": {"quota": float("nan")}}), "spec.resources.gpu.quota", "at most"
    yield "priority", _queue(priority=2**80), "spec.priority", "2147483647"
    for field, many, unit in (
        ("namespaces", [f"n{i}" for i in range(1100)], "namespaces"),
        ("serviceAccounts", [f"team/n{i}" for i in range(1100)], "service accounts"),
        ("groups", [f"system:serviceaccounts:n{i}" for i in range(1100)], "groups"),
    ):
        yield f"users by {field}", _queue(access={field: many}), f"spec.access.{field}", f"1024 {unit}"
    exists = {"key": "k", "operator": "Exists"}
    among = {"key": "k", "operator": "In", "values": [f"v{i}" for i in range(1100)]}
    for name, selector, field, bound in (
        ("labels", {"matchLabels": {f"k{i}": "v" for i in range(70)}}, "matchLabels", "64 labels"),
        ("expressions", {"matchExpressions": [exists] * 70}, "matchExpressions", "64 expressions"),
        ("values", {"matchExpressions": [among]}, "matchExpressions[].values", "1024 values"),
    ):
        where = f"spec.access.namespaceSelector.{field}"
        yield f"users by {name}", _queue(access={"namespaceSelector": selector}), where, bound


def _node(allocatable: dict[str, str], labels: dict[str, str] | None = None) -> Node:
    return a_node("node-0", gpus=4, gpu_memory_mib=16_000, extra=allocatable, labels=labels)


def _nodes() -> Iterator[tuple[str, Node, str, str]]:
    for name in ("cpu", "memory", "example.com/x"):
        yield f"endless {name}", _node({name: "1e300"}), f"status.allocatable[{name}]", "at most 9007"
        yield f"{name} below nothing", _node({name: "-4"}), f"status.allocatable[{name}]", "at most"
    yield "GPUs", _node({"amd.com/gpu": "1e15"}), "status.allocatable[amd.com/gpu]", "devices"
    names = {f"example.com/{i}": "1" for i in range(2000)}
    yield "names", _node(names), "status.allocatable", "1024 resources"
    huge = a_node("node-0", gpus=4, labels={"nvidia.com/gpu.memory": "9" * 60})
    yield "GPU memory", huge, "metadata.labels[nvidia.com/gpu.memory]", "MiB"


def _meta(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": "default", "uid": name}


def raw_claim(name: str, **exactly: Any) -> dict[str, Any]:
    """A resource claim with one request."""
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com", **exactly}}]
    return {"metadata": _meta(name), "spec": {"devices": {"requests": requests}}}


def _claims() -> Iterator[tuple[str, dict[str, Any], str, str]]:
    def asking(status: dict[str, Any] | None = None, **devices: Any) -> dict[str, Any]:
        claim = raw_claim("bad")
        claim["spec"]["devices"] |= devices
        return claim | ({"status": status} if status else {})

    def selected(*expressions: str) -> dict[str, Any]:
        return raw_claim("bad", selectors=[{"cel": {"expression": each}} for each in expressions])

    requests, exactly = "spec.devices.requests[0]", "spec.devices.requests[0].exactly"
    alternatives = [{"name": f"s{i}", "deviceClassName": "c"} for i in range(9)]
    either = asking(requests=[{"name": "r", "firstAvailable": alternatives}])
    yield "alternatives", either, f"{requests}.firstAvailable", "8 alternatives"
    many = asking(
        requests=[{"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "c", "count": 2**40}]}]
    )
    yield "count of an alternative", many, f"{requests}.firstAvailable[0].count", "1024 devices"
    alike = asking(constraints=[{"matchAttribute": "a/b"}] * 33)
    yield "constraints", alike, "spec.devices.constraints", "at most 32"
    yield "configurations", asking(config=[{}] * 33), "spec.devices.config", "at most 32"
    yield (
        "tolerations",
        raw_claim("bad", tolerations=[{"key": "a"}] * 17),
        f"{exactly}.tolerations",
        "most 16",
    )
    results = [{"request": "r", "driver": "d", "pool": "p", "device": f"d{i}"} for i in range(33)]
    given = asking({"allocation": {"devices": {"results": results}}})
    yield "results", given, "status.allocation.devices.results", "32 devices"
    users = [{"resource": "pods", "name": f"p{i}", "uid": f"{i}"} for i in range(257)]
    yield "users", asking({"reservedFor": users}), "status.reservedFor", "256 pods"
    long = "'" + "x" * 9000 + "' != ''"
    yield "expressions", selected(*[long] * 4), f"{exactly}.selectors[3].cel.expression", "32768 characters"
    costly = "true"
    for name in "dcba":
        costly = f"device.attributes.all({name}, {costly})"
    yield "cost", selected(costly), f"{exactly}.selectors[0].cel.expression", "units of estimated cost"


def _slices() -> Iterator[tuple[str, dict[str, Any], str, str]]:
    def offering(**spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": "bad"}, "spec": spec}

    def a_device(**more: Any) -> dict[str, Any]:
        return offering(devices=[{"name": "d", **more}])

    attributes = {f"a{i}": {"int": 1} for i in range(33)}
    yield "attributes", a_device(attributes=attributes), "spec.devices[0].attributes", "at most 32"
    capacity = {f"a{i}": {"value": "1"} for i in range(33)}
    yield "capacity", a_device(capacity=capacity), "spec.devices[0].capacity", "at most 32"
    taints = [{"key": "a", "effect": "NoSchedule"}] * 17
    yield "taints", a_device(taints=taints), "spec.devices[0].taints", "at most 16"
    for field in ("bindingConditions", "bindingFailureConditions"):
        yield field, a_device(**{field: ["a"] * 5}), f"spec.devices[0].{field}", "at most 4"
    sets = [{"name": f"c{i}", "counters": {"m": {"value": "1"}}} for i in range(33)]
    yield "sets of counters", offering(sharedCounters=sets), "spec.sharedCounters", "at most 32"
    counters = [{"name": "c", "counters": {f"m{i}": {"value": "1"} for i in range(300)}}]
    yield "counters", offering(sharedCounters=counters), "spec.sharedCounters[0].counters", "256 counters"


def _json() -> Iterator[tuple[str, Kind, Any, str, str]]:
    claim, slice_, zones = Kind.RESOURCE_CLAIM, Kind.RESOURCE_SLICE, Kind.NODE_RESOURCE_TOPOLOGY
    exactly = "spec.devices.requests[0].exactly"
    yield "count", claim, raw_claim("bad", count=2**63 - 1), f"{exactly}.count", "at most 1024 devices"
    yield "count below nothing", claim, raw_claim("bad", count=-5), f"{exactly}.count", "at most 1024 devices"
    yield "count in words", claim, raw_claim("bad", count="all"), f"{exactly}.count", "of type int"
    selectors = [{"cel": {"expression": "true"}}] * 100
    yield "selectors", claim, raw_claim("bad", selectors=selectors), f"{exactly}.selectors", "32 selectors"
    long = [{"cel": {"expression": "x" * 20_000}}]
    yield (
        "expression",
        claim,
        raw_claim("bad", selectors=long),
        "selectors[0].cel.expression",
        "10240 characters",
    )
    loops = [{"cel": {"expression": ".all(x, device.attributes" * 9 + ")" * 9}}]
    yield "loops", claim, raw_claim("bad", selectors=loops), "selectors[0].cel.expression", "4 loops"
    requests = {"metadata": _meta("bad"), "spec": {"devices": {"requests": [{"name": "r"}] * 100}}}
    yield "requests", claim, requests, "spec.devices.requests", "32 requests"
    yield "another type", claim, {"metadata": _meta("bad"), "spec": ["x"]}, "spec", "of type object"
    devices = [{"name": f"d{i}"} for i in range(1000)]
    yield (
        "devices",
        slice_,
        {"metadata": {"name": "bad"}, "spec": {"devices": devices}},
        "spec.devices",
        "128",
    )
    counters = [{"name": "c", "counters": {"m": {"value": "1e999"}}}]
    spec = {"sharedCounters": counters}
    yield (
        "counter",
        slice_,
        {"metadata": {"name": "bad"}, "spec": spec},
        "sharedCounters[0].counters[m]",
        "most",
    )
    many = [{"name": f"node-{i}", "type": "Node"} for i in range(64)]
    yield "zones", zones, {"metadata": {"name": "node-0"}, "zones": many}, "zones", "16 zones"
    zone = [{"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "allocatable": "lots"}]}]
    bad = {"metadata": {"name": "node-0"}, "zones": zone}
    yield "zone", zones, bad, "zones[0].resources[0].allocatable", "at most"
    resources = [{"name": f"r{i}", "allocatable": "1"} for i in range(300)]
    bad = {
        "metadata": {"name": "node-0"},
        "zones": [{"name": "node-0", "type": "Node", "resources": resources}],
    }
    yield "resources of a zone", zones, bad, "zones[0].resources", "256 resources"
    budget = {"metadata": _meta("bad"), "status": {"disruptionsAllowed": 2**70}}
    yield "budget", Kind.POD_DISRUPTION_BUDGET, budget, "status.disruptionsAllowed", "2147483647 pods"
    volume = {"metadata": {"name": "bad"}, "spec": {"capacity": {"storage": "1e900"}}}
    yield "volume", Kind.PERSISTENT_VOLUME, volume, "spec.capacity[storage]", "bytes"
    driver = {"name": "d", "allocatable": {"count": 2**80}}
    csi = {"metadata": {"name": "node-0"}, "spec": {"drivers": [driver]}}
    yield "volume slots", Kind.CSI_NODE, csi, "spec.drivers[0].allocatable.count", "2147483647 volumes"
    for name, obj, field, bound in _claims():
        yield name, claim, obj, field, bound
    for name, obj, field, bound in _slices():
        yield name, slice_, obj, field, bound
    levels = [{"nodeLabel": f"l{i}"} for i in range(40)]
    topology = msgspec.convert({"metadata": {"name": "bad"}, "spec": {"levels": levels}}, Topology)
    yield "levels", Kind.TOPOLOGY, topology, "spec.levels", "16 levels"


def _of_budgets() -> Iterator[tuple[str, Kind, Any, str, str]]:
    def budget(selector: Any) -> tuple[Kind, Any]:
        return Kind.POD_DISRUPTION_BUDGET, {"metadata": _meta("bad"), "spec": {"selector": selector}}

    labels, expressions = "spec.selector.matchLabels", "spec.selector.matchExpressions"
    unwanted = [{"key": f"k{i}", "operator": "NotIn", "values": ["x"]} for i in range(33)]
    many = [{"key": "k", "operator": "In", "values": [f"v{i}" for i in range(2000)]}]
    yield "labels", *budget({"matchLabels": {f"k{i}": "x" for i in range(33)}}), labels, "at most 32"
    yield "expressions", *budget({"matchExpressions": unwanted}), expressions, "at most 32"
    yield "values", *budget({"matchExpressions": many}), f"{expressions}[0].values", "at most 1024"
    yield "selector that is a list", *budget([1]), "spec.selector", "of type object"
    yield "labels that are a number", *budget({"matchLabels": 3}), labels, "of type object"
    number = [{"key": "k", "operator": "In", "values": 7}]
    yield (
        "values that are a number",
        *budget({"matchExpressions": number}),
        f"{expressions}[0].values",
        "array",
    )


def _of_storage() -> Iterator[tuple[str, Kind, Any, str, str]]:
    meta = {"metadata": {"name": "bad"}}

    def requirements(count: int, values: int = 1) -> list[Any]:
        found = [f"v{i}" for i in range(values)]
        return [{"key": f"k{i}", "operator": "In", "values": found} for i in range(count)]

    def volume(affinity: Any) -> tuple[Kind, Any]:
        return Kind.PERSISTENT_VOLUME, meta | {"spec": {"nodeAffinity": affinity}}

    def terms(found: Any) -> tuple[Kind, Any]:
        return volume({"required": {"nodeSelectorTerms": found}})

    where = "spec.nodeAffinity.required.nodeSelectorTerms"
    one = requirements(1)
    yield "terms", *terms([{"matchExpressions": one}] * 257), where, "at most 256 terms"
    many = requirements(33)
    yield "expressions", *terms([{"matchExpressions": many}]), f"{where}[0].matchExpressions", "at most 32"
    yield "fields", *terms([{"matchFields": many}]), f"{where}[0].matchFields", "at most 32 expressions"
    long = requirements(1, values=17_000)
    yield "values", *terms([{"matchExpressions": long}]), f"{where}[0].matchExpressions[0].values", "16384"
    yield "terms in words", *terms("abc"), where, "of type array"
    yield "affinity that is a list", *volume({"required": [1, 2]}), "spec.nodeAffinity.required", "object"

    def storage_class(**fields: Any) -> tuple[Kind, Any]:
        return Kind.STORAGE_CLASS, meta | {"provisioner": "p"} | fields

    def allowed(found: Any) -> tuple[Kind, Any]:
        return storage_class(allowedTopologies=[{"matchLabelExpressions": found}])

    where = "allowedTopologies[0].matchLabelExpressions"
    yield "topologies", *storage_class(allowedTopologies=[{}] * 257), "allowedTopologies", "256 terms"
    yield "topologies in number", *storage_class(allowedTopologies=7), "allowedTopologies", "of type array"
    yield "allowed expressions", *allowed(many), where, "at most 32 expressions"
    yield "allowed values", *allowed(long), f"{where}[0].values", "at most 16384 values"
    yield "expressions in number", *allowed(5), where, "of type array"
    yield "provisioner", *storage_class(provisioner=7), "provisioner", "of type str"
    yield "mode", *storage_class(volumeBindingMode=[]), "volumeBindingMode", "of type str"

    driver = Kind.CSI_DRIVER
    yield "driver that is a list", driver, meta | {"spec": [1]}, "spec", "of type object"
    yield "driver's word", driver, meta | {"spec": {"storageCapacity": "x"}}, "spec.storageCapacity", "bool"

    def claim(selector: Any) -> tuple[Kind, Any]:
        return Kind.PERSISTENT_VOLUME_CLAIM, {"metadata": _meta("bad"), "spec": {"selector": selector}}

    def capacity(topology: Any) -> tuple[Kind, Any]:
        return Kind.CSI_STORAGE_CAPACITY, {"metadata": _meta("bad"), "nodeTopology": topology}

    for of, where in ((claim, "spec.selector"), (capacity, "nodeTopology")):
        yield "selected labels", *of({"matchLabels": {f"k{i}": "x" for i in range(33)}}), where, "32 labels"
        yield "selected expressions", *of({"matchExpressions": many}), where, "32 expressions"
        values = f"{where}.matchExpressions[0].values"
        yield "selected values", *of({"matchExpressions": requirements(1, values=1025)}), values, "1024"
        yield "selector in words", *of("x"), where, "of type object"
        yield "expression in number", *of({"matchExpressions": [5]}), f"{where}.matchExpressions[0]", "object"


def _of_administrators() -> Iterator[tuple[str, Kind, Any, str, str]]:
    for name, value, bound in (
        ("bad", 10**30, "1000000000 for classes of users"),
        ("bad", 1_000_000_001, "1000000000 for classes of users"),
        ("bad", -(2**31) - 1, "from -2147483648"),
        ("system-bad", 2**31, "2000001000 for those whose name begins with system-"),
    ):
        yield f"{name} {value}", Kind.PRIORITY_CLASS, a_priority_class(name, value), "value", bound
    node = a_node("node-0", gpus=4)
    node.spec.taints = [Taint(key=f"k{i}", effect="NoSchedule") for i in range(513)]
    yield "taints", Kind.NODE, node, "spec.taints", "at most 512 taints"


HOSTILE = [
    *(
        Hostile(
            f"pod: {name}", Kind.POD, a_hostile_pod(f"bad-{number}", group="parts", **changes), field, bound
        )
        for number, (name, changes, field, bound) in enumerate(_pods())
    ),
    *(Hostile(f"group: {name}", Kind.POD_GROUP, obj, field, bound) for name, obj, field, bound in _groups()),
    *(Hostile(f"queue: {name}", Kind.QUEUE, obj, field, bound) for name, obj, field, bound in _queues()),
    *(Hostile(f"node: {name}", Kind.NODE, obj, field, bound) for name, obj, field, bound in _nodes()),
    *(Hostile(f"{kind.value}: {name}", kind, *rest) for name, kind, *rest in _json()),
    *(
        Hostile(f"{kind.value}: {name}", kind, *rest)
        for found in (_of_budgets, _of_storage, _of_administrators)
        for name, kind, *rest in found()
    ),
]

#: By row of the table of limits, the case that is beyond it.
PLAYED = {
    "CONTAINERS": "pod: containers",
    "RESOURCES": "pod: names",
    "AMOUNT": "pod: endless cpu",
    "WHOLE_GPUS": "pod: GPUs",
    "GPU_MEMORY": "pod: memory of 2^64",
    "GPU_FRACTION": "pod: fraction 1.5",
    "SHARED_DEVICES": "pod: a million devices",
    "MIG_DEVICES": "pod: MIG devices",
    "GPU_GROUPS": "pod: shared devices",
    "TASK_PRIORITY": "pod: task priority",
    "SELECTOR": "pod: selector",
    "TOLERATIONS": "pod: tolerations",
    "NODE_TERMS": "pod: node terms",
    "NODE_REQUIREMENTS": "pod: requirements of nodes",
    "POD_TERMS": "pod: pod terms",
    "TERM_REQUIREMENTS": "pod: requirements of terms",
    "EXPRESSIONS": "pod: expressions",
    "VALUES": "pod: values",
    "SPREAD": "pod: spread constraints",
    "SKEW": "pod: skew",
    "WEIGHT": "pod: weight",
    "HOST_PORTS": "pod: host ports",
    "VOLUMES": "pod: volumes",
    "CONFIG_MAPS": "pod: config maps",
    "POD_CLAIMS": "pod: claims",
    "POD_PRIORITY": "pod: priority",
    "SUBGROUPS": "group: subgroups",
    "SUBGROUP_DEPTH": "group: depth alone",
    "MIN_MEMBER": "group: minMember",
    "MIN_SUBGROUP": "group: minSubGroup",
    "QUEUE_AMOUNT": "queue: gpu quota",
    "QUEUE_WEIGHT": "queue: gpu weight",
    "QUEUE_PRIORITY": "queue: priority",
    "ACCESS_NAMESPACES": "queue: users by namespaces",
    "ACCESS_ACCOUNTS": "queue: users by serviceAccounts",
    "ACCESS_GROUPS": "queue: users by groups",
    "ACCESS_LABELS": "queue: users by labels",
    "ACCESS_EXPRESSIONS": "queue: users by expressions",
    "ACCESS_VALUES": "queue: users by values",
    "LEVELS": "topologies: levels",
    "ALLOCATABLE": "node: endless cpu",
    "NODE_GPUS": "node: GPUs",
    "NODE_GPU_MEMORY": "node: GPU memory",
    "NODE_RESOURCES": "node: names",
    "ZONES": "nodeResourceTopologies: zones",
    "ZONE_RESOURCES": "nodeResourceTopologies: resources of a zone",
    "ZONE_AMOUNT": "nodeResourceTopologies: zone",
    "CLAIM_COUNT": "resourceClaims: count",
    "CLAIM_REQUESTS": "resourceClaims: requests",
    "ALTERNATIVES": "resourceClaims: alternatives",
    "CONSTRAINTS": "resourceClaims: constraints",
    "CONFIGURATIONS": "resourceClaims: configurations",
    "SELECTORS": "resourceClaims: selectors",
    "DEVICE_TOLERATIONS": "resourceClaims: tolerations",
    "RESULTS": "resourceClaims: results",
    "CONSUMERS": "resourceClaims: users",
    "EXPRESSION_LENGTH": "resourceClaims: expression",
    "EXPRESSION_LOOPS": "resourceClaims: loops",
    "EXPRESSIONS_LENGTH": "resourceClaims: expressions",
    "EXPRESSION_COST": "resourceClaims: cost",
    "DEVICES": "resourceSlices: devices",
    "ATTRIBUTES": "resourceSlices: attributes",
    "CAPACITIES": "resourceSlices: capacity",
    "COUNTER_SETS": "resourceSlices: sets of counters",
    "COUNTERS": "resourceSlices: counters",
    "DEVICE_TAINTS": "resourceSlices: taints",
    "BINDING_CONDITIONS": "resourceSlices: bindingConditions",
    "DEVICE_AMOUNT": "resourceSlices: counter",
    "STORAGE": "persistentVolumes: volume",
    "SLOTS": "csiNodes: volume slots",
    "DISRUPTIONS": "podDisruptionBudgets: budget",
    "VOLUME_TERMS": "persistentVolumes: terms",
    "VOLUME_EXPRESSIONS": "persistentVolumes: expressions",
    "VOLUME_VALUES": "persistentVolumes: values",
    "ALLOWED_TERMS": "storageClasses: topologies",
    "ALLOWED_EXPRESSIONS": "storageClasses: allowed expressions",
    "ALLOWED_VALUES": "storageClasses: allowed values",
    "PRIORITY": "priorityClasses: bad 1000000001",
    "SYSTEM_PRIORITY": "priorityClasses: system-bad 2147483648",
    "TAINTS": "nodes: taints",
}
#: Rows that no object is beyond by itself.
TOGETHER = {"GROUP_PODS", "QUEUE_DEPTH"}
