"""What says what a pod was given: rewritten, made up, or there before anybody decided."""

from __future__ import annotations

from typing import Final

from e2e.hostile import site
from e2e.hostile.attacks.tenant import Attack, Form, Json, Patched, Tenant
from kai.model import names

_GPU_GROUPS: Final = tuple(f"{names.MULTI_GPU_GROUP_PREFIX}{number}" for number in range(8))


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


def pods_that_become_reservations(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Ordinary pods that run, and afterwards have the labels by which somebody holds devices for others."""
    pods = [tenant.pod(f"{name}-{n}", namespace, annotations={names.GPU_FRACTION: "0.3"}) for n in range(3)]
    labels = {names.APP_LABEL: names.RESERVATION_APP, names.GPU_GROUP_LABEL: f"{name}-group"}
    claim = {f"{names.RESERVATION_CLAIM_PREFIX}{name}": f"9999999999 {site.TEAM_NAMESPACE}/probe-1 8x1.00"}
    lies = ({"labels": labels}, {"annotations": claim}, {"annotations": {names.RESERVED_GPU: "GPU-0"}})
    later = [Patched(3.0 + 2.0 * n, pod, {"metadata": lie}) for pod in pods for n, lie in enumerate(lies)]
    return Attack(tuple(pods), tuple(later))


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


def parts_of_gpus_beside_every_scheduler_of_ours(tenant: Tenant, name: str, namespace: str) -> Attack:
    """Pods that cost nothing, on nodes of their choice, and say that they have most of a device each."""
    pods = []
    for number in range(4):
        labels = {names.GPU_GROUP_LABEL: f"{name}-{number}"}
        pod = tenant.pod(
            f"{name}-{number}", namespace, labels=labels, annotations={names.GPU_FRACTION: "0.9"}
        )
        pod["spec"] |= {"schedulerName": "default-scheduler", "nodeName": tenant.rng.choice(site.NODES)}
        pods.append(pod)
    return Attack(tuple(pods))


def devices_seen_by_a_variable(tenant: Tenant, name: str, namespace: str) -> Attack:
    """All devices of a node, or others than one was given, by the variable that container runtimes read."""
    all_ = {"name": names.NVIDIA_VISIBLE_DEVICES, "value": "all"}
    map_ = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {names.NVIDIA_VISIBLE_DEVICES: "all"},
    }
    by_map = {
        "name": names.NVIDIA_VISIBLE_DEVICES,
        "valueFrom": {"configMapKeyRef": {"name": name, "key": names.NVIDIA_VISIBLE_DEVICES}},
    }
    pods = []
    for number, env in enumerate(([all_], [by_map], [{**all_, "value": "void"}, all_], [all_] * 200)):
        told = {names.GPU_FRACTION: "0.1"} if number % 2 else {}
        pod = tenant.pod(f"{name}-{number}", namespace, annotations=told)
        pod["spec"]["containers"][0]["env"] = env
        pod["spec"]["initContainers"] = [{"name": "first", "image": "none", "env": env}]
        pods.append(pod)
    pods[0]["spec"]["schedulerName"] = tenant.rng.choice(("default-scheduler", names.SCHEDULER_NAME))
    debugger = {"name": "debugger", "image": "none", "env": [all_]}
    later = [Patched(3.0, pod, {"spec": {"ephemeralContainers": [debugger]}}) for pod in pods]
    return Attack((map_, *pods), tuple(later))


FORMS: Final[tuple[Form, ...]] = (
    annotations_rewritten_after_the_bind,
    reservations_of_his_own,
    pods_that_become_reservations,
    groups_of_devices_named_beforehand,
    a_node_named_beforehand,
    parts_of_gpus_beside_every_scheduler_of_ours,
    devices_seen_by_a_variable,
)
