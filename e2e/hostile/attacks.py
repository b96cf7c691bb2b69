"""What a tenant can write in his own namespaces that no well-meaning person would; as plain data."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from e2e.hostile import site
from e2e.manifests import a_group, a_job, a_pod, members
from kai.model import names

Json = dict[str, Any]
_BEYOND: Final = (str(2**31), str(2**53), str(2**63 - 1), str(2**64 - 1), "9" * 5000, "1e308", "-1", "0")
_ODD: Final = (
    "",
    "NaN",
    "inf",
    "-inf",
    "0x10",
    "1_000",
    "½",
    "²",
    "\u202e5",
    "٣",
    "1" + "0" * 300,
    "null",
    "{}",
    "0.0000001",
)
_FAR: Final = (
    "9999-12-31T23:59:59Z",
    "2099-01-01T00:00:00Z",
    "0000-00-00T00:00:00Z",
    "-292277022657-01-27T08:29:52Z",
)
_TIMES: Final = (names.LAST_START_TIMESTAMP, names.STALE_TIMESTAMP, names.LAST_EVICTION_TIMESTAMP)
_GPU_GROUPS: Final = tuple(f"{names.MULTI_GPU_GROUP_PREFIX}{number}" for number in range(8))
_SYSTEM: Final = ("system-node-critical", "system-cluster-critical")
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Patched:
    """What is changed so many seconds after an object was put."""

    after: float
    manifest: Json
    patch: Json


@dataclass(frozen=True, slots=True)
class Attack:
    """Objects to put, in order, and what is done to them later. ``lasts``: seconds, for what goes at once."""

    manifests: tuple[Json, ...]
    later: tuple[Patched, ...] = ()
    lasts: float | None = None


@dataclass(slots=True)
class Tenant:
    """Draws attacks: how they are called, where they are, and what of their kind there is."""

    rng: random.Random
    namespaces: tuple[str, ...]
    count: int = 0

    def draw(self, form: Form | None = None) -> tuple[str, Attack]:
        """One attack, of a form if that is said, and what it is in words."""
        self.count += 1
        form = form or self.rng.choice(FORMS)
        return form.__name__.replace("_", " "), form(
            self, f"h-{self.count}", self.rng.choice(self.namespaces)
        )

    def pod(self, name: str, namespace: str, **more: Any) -> Json:
        """A pod of his queue."""
        return a_pod(name, namespace, site.TENANT_QUEUE, **more)

    def group(self, name: str, namespace: str, **spec: Any) -> Json:
        """A pod group of his queue."""
        return a_group(name, namespace, site.TENANT_QUEUE, **spec)

    def grouped(self, name: str, namespace: str, group: Json, count: int = 1, **more: Any) -> Attack:
        """A pod group with pods in it."""
        return Attack((group, *members(name, namespace, site.TENANT_QUEUE, "", count, **more)))

    def absurd(self) -> str:
        """A text where a number should be, or one that is too large."""
        return self.rng.choice((*_BEYOND, *_ODD))


def _gated(pod: Json) -> Json:
    pod["spec"]["schedulingGates"] = [{"name": "hostile.example.com/never"}]
    return pod


def _requests(pod: Json, amounts: Json) -> Json:
    resources = pod["spec"]["containers"][0]["resources"]
    resources["requests"] = {"cpu": "100m", **amounts}
    resources["limits"] = dict(amounts)
    return pod


def _claimed(tenant: Tenant, name: str, namespace: str, devices: Json) -> tuple[Json, ...]:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": {names.QUEUE_LABEL: site.TENANT_QUEUE}},
        "spec": {"devices": devices},
    }
    pod = tenant.pod(name, namespace)
    pod["spec"]["resourceClaims"] = [{"name": "devices", "resourceClaimName": name}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "devices"}]
    return (claim, pod)


def _selected(*expressions: str) -> Json:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {"deviceClassName": site.DEVICE_CLASS, "selectors": selectors}


# --- groups --------------------------------------------------------------------------------------
def subgroups_nested_deep(tenant: Tenant, name: str, namespace: str) -> Attack:
    depth = tenant.rng.choice((15, 16, 17, 200, 1500))
    parts = [
        {"name": f"s{number}", **({"parent": f"s{number - 1}"} if number else {}), "minMember": 1}
        for number in range(depth)
    ]
    labels = {names.SUBGROUP_LABEL: f"s{depth - 1}"}
    return tenant.grouped(name, namespace, tenant.group(name, namespace, subGroups=parts), labels=labels)


def subgroups_without_number(tenant: Tenant, name: str, namespace: str) -> Attack:
    count = tenant.rng.choice((999, 1000, 1001, 5000))
    parts = [{"name": f"s{number}", "minMember": 1} for number in range(count)]
    labels = {names.SUBGROUP_LABEL: "s0"}
    return tenant.grouped(name, namespace, tenant.group(name, namespace, subGroups=parts), 3, labels=labels)


def subgroups_in_a_circle(tenant: Tenant, name: str, namespace: str) -> Attack:
    size = tenant.rng.choice((1, 2, 15))
    parts = [{"name": f"s{n}", "parent": f"s{(n + 1) % size}", "minMember": 1} for n in range(size)]
    labels = {names.SUBGROUP_LABEL: "s0"}
    return tenant.grouped(name, namespace, tenant.group(name, namespace, subGroups=parts), labels=labels)


def a_gang_without_end(tenant: Tenant, name: str, namespace: str) -> Attack:
    needed = tenant.rng.choice((1000, 10**6, 2**31 - 1))
    return tenant.grouped(name, namespace, tenant.group(name, namespace, minMember=needed), 30, gpus=1)


def a_gang_that_cannot_be_packed(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Many pods, each of another size, together a little more than fits."""
    group = tenant.group(name, namespace, minMember=40)
    pods = [
        tenant.pod(
            f"{name}-{number}",
            namespace,
            annotations={names.POD_GROUP_ANNOTATION: name, names.GPU_FRACTION: f"0.{51 + number}"},
        )
        for number in range(40)
    ]
    return Attack((group, *pods))


def a_foreign_queue(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Somebody else's queue, and a priority that is the system's."""
    queue = tenant.rng.choice((site.TEAM_QUEUE, site.TEAM_QUEUE, names.DEFAULT_PARENT_QUEUE))
    group = a_group(name, namespace, queue, minMember=1, priorityClassName=tenant.rng.choice(_SYSTEM))
    group["metadata"]["labels"] = {names.QUEUE_LABEL: queue}
    return Attack((group, *members(name, namespace, queue, "", 2, gpus=1)))


def a_priority_of_the_system(tenant: Tenant, name: str, namespace: str) -> Attack:
    priority = tenant.rng.choice(_SYSTEM)
    job = a_job(name, namespace, site.TENANT_QUEUE, pods=2, priority=priority, gpus=1)
    pod = tenant.pod(f"{name}-pod", namespace, gpus=1, spec={"priorityClassName": priority})
    return Attack((job, pod))


def times_that_are_far_ahead(tenant: Tenant, name: str, namespace: str) -> Attack:
    group = tenant.group(name, namespace, minMember=1)
    far = {key: tenant.rng.choice((*_FAR, tenant.absurd())) for key in _TIMES}
    group["metadata"]["annotations"] = far
    again = {"metadata": {"annotations": dict.fromkeys(_TIMES, _FAR[0])}}
    return Attack(
        (group, *members(name, namespace, site.TENANT_QUEUE, "", 2, gpus=1)),
        tuple(Patched(float(after), group, again) for after in (3, 6, 9)),
    )


def delays_that_never_end(tenant: Tenant, name: str, namespace: str) -> Attack:
    group = tenant.group(name, namespace, minMember=1)
    group["metadata"]["annotations"] = {
        names.PREEMPTION_DELAY: tenant.rng.choice(("1000000h", "-1h", "9" * 60 + "h", "9" * 400 + "h")),
        names.STALENESS_GRACE_PERIOD: tenant.rng.choice(("1000000h", "-1s", "1ns")),
    }
    return tenant.grouped(name, namespace, group, gpus=1)


def a_group_changed_all_the_time(tenant: Tenant, name: str, namespace: str) -> Attack:
    group = tenant.group(name, namespace, minMember=1)
    attack = tenant.grouped(name, namespace, group, 3)
    changes = [
        Patched(0.5 * number, group, {"spec": {"minMember": 1 + number % 5}}) for number in range(1, 20)
    ]
    return Attack(attack.manifests, tuple(changes))


def a_topology_that_is_not_there(tenant: Tenant, name: str, namespace: str) -> Attack:
    job = a_job(name, namespace, site.TENANT_QUEUE, pods=4, gang=4)
    job["metadata"]["annotations"] |= {names.TOPOLOGY: tenant.absurd(), names.TOPOLOGY_REQUIRED: "x" * 300}
    return Attack((job,))


# --- numbers -------------------------------------------------------------------------------------
def annotations_that_are_absurd(tenant: Tenant, name: str, namespace: str) -> Attack:
    keys = (
        names.GPU_FRACTION,
        names.GPU_MEMORY,
        names.GPU_FRACTION_NUM_DEVICES,
        names.GPU_FRACTION_CONTAINER,
        names.BATCH_MIN_MEMBER,
        names.SEGMENT_SIZE,
        names.NUMA_OBSERVED,
        names.NUMA_PREDICTED,
        names.RECEIVED_RESOURCE_TYPE,
        names.SHARED_GPU_CONFIGMAP,
    )
    pods = []
    for number in range(6):
        chosen = tenant.rng.sample(keys, tenant.rng.randint(1, 4))
        told = {key: tenant.absurd() for key in chosen}
        pods.append(tenant.pod(f"{name}-{number}", namespace, annotations=told))
    return Attack(tuple(pods))


def amounts_that_are_absurd(tenant: Tenant, name: str, namespace: str) -> Attack:
    amounts = ("9223372036854775807", "9E", "1e18", "1" + "0" * 40, "1n", "0.0000001", "9007199254740993")
    kinds = ("memory", "ephemeral-storage", names.NVIDIA_GPU, "hugepages-2Mi", "nvidia.com/mig-1g.10gb")
    return Attack(
        tuple(
            _requests(
                tenant.pod(f"{name}-{n}", namespace), {tenant.rng.choice(kinds): tenant.rng.choice(amounts)}
            )
            for n in range(5)
        )
    )


def resources_that_are_made_up(tenant: Tenant, name: str, namespace: str) -> Attack:
    many = tenant.rng.choice((60, 64, 2000))
    return Attack(
        tuple(
            _requests(
                tenant.pod(f"{name}-{pod}", namespace),
                {f"{name}.example.com/r-{pod}-{number}": "1" for number in range(many)},
            )
            for pod in range(4 if many < 100 else 1)
        )
    )


# --- size and number -----------------------------------------------------------------------------
def gated_pods_of_200_kilobytes(tenant: Tenant, name: str, namespace: str) -> Attack:
    pods = []
    for number in range(20):
        pod = _gated(tenant.pod(f"{name}-{number}", namespace, labels={"unlike": f"{name}-{number}"}))
        pod["spec"]["containers"][0]["env"] = [{"name": f"E{n}", "value": "x" * _KIB} for n in range(200)]
        pod["metadata"]["annotations"]["large"] = "y" * (50 * _KIB)
        pods.append(pod)
    return Attack(tuple(pods))


def pods_that_are_all_unlike(tenant: Tenant, name: str, namespace: str) -> Attack:
    """No two of a scheduling class."""
    pods = []
    for number in range(40):
        own = f"{name}-{number}"
        pod = tenant.pod(
            own, namespace, labels={"of": own}, spec={"nodeSelector": {f"x.example.com/{own}": "y"}}
        )
        pod["spec"]["tolerations"] = [{"key": own, "operator": "Exists"}]
        pods.append(pod)
    return Attack(tuple(pods))


def lists_without_end(tenant: Tenant, name: str, namespace: str) -> Attack:
    long = tenant.rng.choice((500, 513, 3000))
    pods = [tenant.pod(f"{name}-{number}", namespace) for number in range(4)]
    pods[0]["spec"]["tolerations"] = [{"key": f"k{n}", "operator": "Exists"} for n in range(long)]
    pods[1]["spec"]["nodeSelector"] = {f"k{n}.example.com/x": "y" for n in range(long // 2)}
    expressions = [{"key": f"k{n}", "operator": "NotIn", "values": ["a", "b"]} for n in range(long)]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    pods[2]["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    pods[3]["spec"]["containers"] = [
        {"name": f"c{n}", "image": "x", "resources": {"requests": {"cpu": "1m"}}} for n in range(long)
    ]
    return Attack(tuple(pods))


def terms_about_other_pods(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Each of many pods wants to be near and far from all others, by hundreds of terms."""
    kind = tenant.rng.choice(("podAffinity", "podAntiAffinity"))
    preferred = tenant.rng.random() < 0.5
    pods = []
    for number in range(10):
        found = [
            {
                "topologyKey": tenant.rng.choice(("kubernetes.io/hostname", f"k{n}.example.com/zone")),
                "namespaceSelector": {},
                "labelSelector": {"matchExpressions": [{"key": f"k{n}", "operator": "DoesNotExist"}]},
            }
            for n in range(tenant.rng.choice((50, 400)))
        ]
        wished: list[Json] = (
            [{"weight": 100, "podAffinityTerm": term} for term in found] if preferred else found
        )
        when = "preferred" if preferred else "required"
        affinity = {kind: {f"{when}DuringSchedulingIgnoredDuringExecution": wished}}
        pods.append(tenant.pod(f"{name}-{number}", namespace, spec={"affinity": affinity}))
    return Attack(tuple(pods))


def pods_that_keep_everybody_away(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Anti-affinity against all pods of all namespaces, from a pod that may run."""
    term = {"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}, "labelSelector": {}}
    avoid = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    never = {"nodeSelector": {"hostile.example.com/nowhere": "x"}}
    return Attack((tenant.pod(name, namespace, spec={"affinity": avoid, **never}),))


def spread_in_many_ways(tenant: Tenant, name: str, namespace: str) -> Attack:
    wishes = [
        {
            "maxSkew": tenant.rng.choice((1, 2**31 - 1)),
            "topologyKey": f"k{n}.example.com/zone",
            "whenUnsatisfiable": tenant.rng.choice(("DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": {"matchLabels": {"of": name}},
        }
        for n in range(tenant.rng.choice((64, 65)))
    ]
    spec = {"topologySpreadConstraints": wishes}
    return Attack(
        tuple(tenant.pod(f"{name}-{n}", namespace, labels={"of": name}, spec=spec) for n in range(8))
    )


def a_flood(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Pods that are deleted as soon as they are there."""
    return Attack(
        tuple(tenant.pod(f"{name}-{n}", namespace) for n in range(40)), lasts=tenant.rng.uniform(0.5, 3)
    )


def a_flood_of_parts(tenant: Tenant, name: str, namespace: str) -> Attack:
    """The same with pods for which devices have to be reserved."""
    parts = {names.GPU_FRACTION: "0.1"}
    pods = tuple(tenant.pod(f"{name}-{n}", namespace, annotations=parts) for n in range(15))
    return Attack(pods, lasts=tenant.rng.uniform(0.5, 4))


def a_large_job(tenant: Tenant, name: str, namespace: str) -> Attack:
    job = a_job(name, namespace, site.TENANT_QUEUE, pods=60, gang=tenant.rng.choice((0, 60)))
    return Attack((job,))


# --- claims --------------------------------------------------------------------------------------
def selectors_that_are_expensive(tenant: Tenant, name: str, namespace: str) -> Attack:
    ones = ",".join(["1"] * 900)
    long = "a" * 2000
    expressions = (
        f"[{ones}].all(a,[{ones}].all(b,[{ones}].all(c,[{ones}].all(d,a+b+c+d<10))))",
        f"cel.bind(s,'{long}',s.replace('a',s).replace('a',s).size()>0)",
        f"[{ones}].all(a,'{long}'.matches('(a|aa|a?)*b'))",
        f"'{long}'.split('').map(a,'{long}'.split('')).size()>0",
        " && ".join(["device.driver.size() > 0"] * 300),
        "(" * 400 + "true" + ")" * 400,
        "device.attributes['x'].y.z > 3",
    )
    chosen = tenant.rng.choice(expressions)
    requests = [
        {"name": f"r{n}", "exactly": _selected(*[chosen] * tenant.rng.choice((1, 30)))}
        for n in range(tenant.rng.choice((1, 30)))
    ]
    return Attack(_claimed(tenant, name, namespace, {"requests": requests}))


def selectors_that_are_all_unlike(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Each is to be evaluated for each device, and none is used again."""
    requests = [
        {"name": f"r{n}", "exactly": _selected(*(f"device.driver != '{name}-{n}-{m}'" for m in range(30)))}
        for n in range(30)
    ]
    return Attack(_claimed(tenant, name, namespace, {"requests": requests}))


def claims_without_a_way_out(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Requests that can each be had, and together only after all choices were tried, in vain."""
    requests = [{"name": f"r{n}", "exactly": {"deviceClassName": site.DEVICE_CLASS}} for n in range(8)]
    constraint = {tenant.rng.choice(("matchAttribute", "distinctAttribute")): f"{site.DRIVER}/index"}
    return Attack(_claimed(tenant, name, namespace, {"requests": requests, "constraints": [constraint]}))


def a_claim_of_many_pods(tenant: Tenant, name: str, namespace: str) -> Attack:
    claim, pod = _claimed(
        tenant, name, namespace, {"requests": [{"name": "r", "exactly": _selected("true")}]}
    )
    pods = [{**pod, "metadata": {**pod["metadata"], "name": f"{name}-{number}"}} for number in range(30)]
    return Attack((claim, *pods))


# --- what was granted ----------------------------------------------------------------------------
def annotations_rewritten_after_the_bind(tenant: Tenant, name: str, namespace: str) -> Attack:
    pods = [
        tenant.pod(f"{name}-{number}", namespace, annotations={names.GPU_FRACTION: "0.9"})
        for number in range(2)
    ]
    lies: list[Json] = [
        {"annotations": {names.GPU_FRACTION: "0.01"}},
        {"annotations": {names.GPU_FRACTION: None}},
        {"annotations": {names.GPU_MEMORY: "1"}},
        {"annotations": {names.RECEIVED_RESOURCE_TYPE: "Regular"}},
        {"annotations": {names.POD_GROUP_ANNOTATION: "another"}},
        {"labels": {names.GPU_GROUP_LABEL: "somewhere-else"}},
        {"labels": {names.GPU_GROUP_LABEL: None}},
        {"labels": {names.QUEUE_LABEL: site.TEAM_QUEUE}},
        {"labels": {names.APP_LABEL: names.RESERVATION_APP}},
    ]
    later = [
        Patched(after, pod, {"metadata": tenant.rng.choice(lies)})
        for pod in pods
        for after in (0.2, 2.0, 6.0, 12.0)
    ]
    return Attack(tuple(pods), tuple(later))


def reservations_of_his_own(tenant: Tenant, name: str, namespace: str) -> Attack:
    """As if these pods held devices for others."""
    labels = {names.APP_LABEL: names.RESERVATION_APP, names.GPU_GROUP_LABEL: f"{name}-group"}
    labels |= {key: f"{name}-{number}" for number, key in enumerate(_GPU_GROUPS)}
    pods = [tenant.pod(f"{name}-{n}", namespace, labels=labels, gpus=n) for n in range(3)]
    pods[2]["metadata"]["annotations"] = {names.RESERVED_GPU: "0"}
    pods[1]["spec"]["schedulerName"] = tenant.rng.choice(("default-scheduler", names.SCHEDULER_NAME))
    return Attack(tuple(pods))


def groups_of_devices_named_beforehand(tenant: Tenant, name: str, namespace: str) -> Attack:
    labels = {key: f"{site.NODES[0]}-{number}" for number, key in enumerate(_GPU_GROUPS)}
    told = {names.GPU_FRACTION: "0.1", names.GPU_FRACTION_NUM_DEVICES: "2"}
    pods = [tenant.pod(f"{name}-{n}", namespace, labels=labels, annotations=told) for n in range(3)]
    return Attack(tuple(pods))


def a_node_named_beforehand(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Past every scheduler, with labels as if ours had placed it."""
    labels = {names.GPU_GROUP_LABEL: f"{name}-group"}
    pod = tenant.pod(name, namespace, labels=labels, annotations={names.GPU_FRACTION: "0.5"})
    pod["spec"]["nodeName"] = tenant.rng.choice(site.NODES)
    return Attack((pod,))


# --- binds that fail -----------------------------------------------------------------------------
def binds_that_always_fail(tenant: Tenant, name: str, namespace: str) -> Attack:
    """The ConfigMap for the devices is another's, volumes are not there, ports are taken."""
    map_ = f"{name}-gpu"
    taken = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": map_, "namespace": namespace}}
    told = {names.GPU_FRACTION: "0.1", names.SHARED_GPU_CONFIGMAP: map_}
    part = tenant.pod(f"{name}-part", namespace, annotations=told)
    volume = tenant.pod(f"{name}-volume", namespace)
    volume["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": f"{name}-none"}}]
    ports = [tenant.pod(f"{name}-port-{number}", namespace) for number in range(6)]
    for pod in ports:
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 4242}]
    return Attack(({**taken, "data": {"x": "y"}}, part, volume, *ports))


def maps_as_ours_are_called(tenant: Tenant, name: str, namespace: str) -> Attack:
    pod = tenant.pod(name, namespace, annotations={names.GPU_FRACTION: "0.2"})
    maps = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{name}-shared-gpu-{n}", "namespace": namespace},
            "data": {names.NVIDIA_VISIBLE_DEVICES: "z" * (300 * _KIB)},
        }
        for n in range(3)
    ]
    return Attack((*maps, pod))


# --- owners, names, ends -------------------------------------------------------------------------
def owners_in_a_circle(tenant: Tenant, name: str, namespace: str) -> Attack:
    return _owners(tenant, name, namespace, tenant.rng.choice((1, 2, 5)), circle=True)


def a_long_line_of_owners(tenant: Tenant, name: str, namespace: str) -> Attack:
    return _owners(tenant, name, namespace, 60, circle=False)


def _owners(tenant: Tenant, name: str, namespace: str, length: int, *, circle: bool) -> Attack:
    def job(number: int, owner: int | None) -> Json:
        found = a_job(f"{name}-{number}", namespace, site.TENANT_QUEUE, pods=1)
        found["spec"]["suspend"] = True
        return _owned(found, None if owner is None else f"{name}-{owner}")

    line = [job(number, number - 1 if number else None) for number in range(length)]
    pod = _owned(tenant.pod(name, namespace), f"{name}-{length - 1}")
    return Attack((*line, *((job(0, length - 1),) if circle else ()), pod))


def _owned(manifest: Json, by: str | None) -> Json:
    if by is not None:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": by, "uid": "", "controller": True}
        manifest["metadata"]["ownerReferences"] = [owner]
    return manifest


def owners_that_are_not_there(tenant: Tenant, name: str, namespace: str) -> Attack:
    kinds = (
        ("v1", "Node"),
        ("v1", "Pod"),
        ("nothing.example.com/v1", "Thing"),
        ("v1", "Secret"),
        ("a/b", "C"),
    )
    version, kind = tenant.rng.choice(kinds)
    pods = []
    for number in range(5):
        owner = {"apiVersion": version, "kind": kind, "name": f"{name}-{number}", "uid": f"{name}-{number}"}
        pod = tenant.pod(f"{name}-{number}", namespace)
        pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        pods.append(pod)
    return Attack(tuple(pods))


def names_that_are_odd(tenant: Tenant, name: str, namespace: str) -> Attack:
    long = f"{name}-" + "n" * (250 - len(name))
    group = tenant.group(f"{name}.{'x' * 60}.{'y' * 60}", namespace, minMember=1)
    odd = (
        "../../etc",
        "a/b",
        "\u0000",
        "\u202e\U0001f4a3",
        "x" * (200 * _KIB),
        f"{site.TEAM_NAMESPACE}/probe-1",
        "{}",
    )
    pods = [
        tenant.pod(f"{name}-{n}", namespace, annotations={names.POD_GROUP_ANNOTATION: value})
        for n, value in enumerate(odd)
    ]
    tale = {names.TOP_OWNER_METADATA: "\u202e{{" * 1000, "é" * 30: "x"}
    pods.append(tenant.pod(f"{name}-owner", namespace, annotations=tale))
    return Attack((tenant.pod(long, namespace), group, *pods))


def objects_that_do_not_end(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Deleted, and held by finalizers."""
    group = tenant.group(name, namespace, minMember=1)
    pods = members(name, namespace, site.TENANT_QUEUE, "", 4, annotations={names.GPU_FRACTION: "0.1"})
    for manifest in (group, *pods):
        manifest["metadata"]["finalizers"] = ["hostile.example.com/never"]
    return Attack((group, *pods), lasts=8.0)


def labels_changed_all_the_time(tenant: Tenant, name: str, namespace: str) -> Attack:
    pods = [tenant.pod(f"{name}-{n}", namespace, spec={"nodeSelector": {"x": "y"}}) for n in range(4)]
    later = [
        Patched(0.4 * turn, pod, {"metadata": {"labels": {f"l{turn}": f"{name}-{turn}", "of": f"v{turn}"}}})
        for pod in pods
        for turn in range(1, 12)
    ]
    return Attack(tuple(pods), tuple(later))


Form = Callable[[Tenant, str, str], Attack]
FORMS: Final[tuple[Form, ...]] = (
    subgroups_nested_deep,
    subgroups_without_number,
    subgroups_in_a_circle,
    a_gang_without_end,
    a_gang_that_cannot_be_packed,
    a_foreign_queue,
    a_priority_of_the_system,
    times_that_are_far_ahead,
    delays_that_never_end,
    a_group_changed_all_the_time,
    a_topology_that_is_not_there,
    annotations_that_are_absurd,
    amounts_that_are_absurd,
    resources_that_are_made_up,
    gated_pods_of_200_kilobytes,
    pods_that_are_all_unlike,
    lists_without_end,
    terms_about_other_pods,
    pods_that_keep_everybody_away,
    spread_in_many_ways,
    a_flood,
    a_flood_of_parts,
    a_large_job,
    selectors_that_are_expensive,
    selectors_that_are_all_unlike,
    claims_without_a_way_out,
    a_claim_of_many_pods,
    annotations_rewritten_after_the_bind,
    reservations_of_his_own,
    groups_of_devices_named_beforehand,
    a_node_named_beforehand,
    binds_that_always_fail,
    maps_as_ours_are_called,
    owners_in_a_circle,
    a_long_line_of_owners,
    owners_that_are_not_there,
    names_that_are_odd,
    objects_that_do_not_end,
    labels_changed_all_the_time,
)
