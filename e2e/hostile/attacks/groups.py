"""Pod groups: trees, gangs, queues, priorities and times."""

from __future__ import annotations

from typing import Final

from e2e.hostile import site
from e2e.hostile.attacks.tenant import Attack, Form, Json, Patched, Tenant
from e2e.manifests import a_group, a_job, members
from kai.model import names

_FAR: Final = (
    "9999-12-31T23:59:59Z",
    "2099-01-01T00:00:00Z",
    "0000-00-00T00:00:00Z",
    "-292277022657-01-27T08:29:52Z",
)
_TIMES: Final = (names.LAST_START_TIMESTAMP, names.STALE_TIMESTAMP, names.LAST_EVICTION_TIMESTAMP)
_SYSTEM: Final = ("system-node-critical", "system-cluster-critical")


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


def a_group_that_a_crowd_joins(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Far more pods than it needs name one group; most never start, and some leave it and come again."""
    pods = members(name, namespace, site.TENANT_QUEUE, "", 100)
    for pod in pods[:90]:  # each node has room for 110, and others shall have some
        pod["spec"]["schedulingGates"] = [{"name": "hostile.example.com/never"}]
    elsewhere = f"{name}-elsewhere"
    later = [
        Patched(after, pod, {"metadata": {"annotations": {names.POD_GROUP_ANNOTATION: group}}})
        for pod in pods[:90:9]
        for after, group in ((3.0, elsewhere), (6.0, name), (9.0, elsewhere))
    ]
    return Attack((tenant.group(name, namespace, minMember=1), *pods), tuple(later))


def pods_that_are_of_no_part(tenant: Tenant, name: str, namespace: str) -> Attack:
    """They run as a part of their group; then a label names none of its parts, or another pool."""
    group = tenant.group(name, namespace, subGroups=[{"name": "a", "minMember": 1}])
    group["spec"].pop("minMember", None)
    pods = members(name, namespace, site.TENANT_QUEUE, "", 2, labels={names.SUBGROUP_LABEL: "a"}, gpus=1)
    others: Json = {"spec": {"subGroups": [{"name": "b", "minMember": 1}]}}
    lie: Json = {"metadata": {"labels": {names.SUBGROUP_LABEL: "nonsense"}}}
    pool: Json = {"metadata": {"labels": {names.NODE_POOL_LABEL: "hostile"}}}
    changes = ((3.0, pods[0], lie), (8.0, group, others), (12.0, pods[1], lie), (16.0, group, pool))
    return Attack((group, *pods), tuple(Patched(*change) for change in changes))


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


def a_group_rewritten_under_running_pods(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Pods run; then their group is another: of parts that they are not in, of another queue, too large."""
    group = tenant.group(name, namespace, minMember=1)
    attack = tenant.grouped(name, namespace, group, 3, gpus=tenant.rng.choice((0, 1)))
    parts = [{"name": f"s{number}", "minMember": 2**31 - 1} for number in range(20)]
    lies: list[Json] = [
        {"subGroups": parts},
        {"subGroups": [{"name": "s0", "parent": "s1"}, {"name": "s1", "parent": "s0"}]},
        {"subGroups": [{"name": "\u202e", "minMember": 0}], "minMember": None},
        {"minMember": 10**6},
        {"queue": tenant.rng.choice((site.TEAM_QUEUE, "", "x" * 300))},
        {"priorityClassName": tenant.rng.choice(_SYSTEM)},
        {"topologyConstraint": {"topology": tenant.absurd(), "requiredTopologyLevel": "x"}},
    ]
    chosen = tenant.rng.sample(lies, 3)
    later = [Patched(4.0 + 3.0 * number, group, {"spec": lie}) for number, lie in enumerate(chosen)]
    return Attack(attack.manifests, tuple(later))


def a_topology_that_is_not_there(tenant: Tenant, name: str, namespace: str) -> Attack:
    job = a_job(name, namespace, site.TENANT_QUEUE, pods=4, gang=4)
    job["metadata"]["annotations"] |= {names.TOPOLOGY: tenant.absurd(), names.TOPOLOGY_REQUIRED: "x" * 300}
    return Attack((job,))


FORMS: Final[tuple[Form, ...]] = (
    subgroups_nested_deep,
    subgroups_without_number,
    subgroups_in_a_circle,
    a_gang_without_end,
    a_group_that_a_crowd_joins,
    pods_that_are_of_no_part,
    a_gang_that_cannot_be_packed,
    a_foreign_queue,
    a_priority_of_the_system,
    times_that_are_far_ahead,
    delays_that_never_end,
    a_group_changed_all_the_time,
    a_group_rewritten_under_running_pods,
    a_topology_that_is_not_there,
)
