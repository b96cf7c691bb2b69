"""Workloads of Kubernetes itself: their pods are grouped, run, and leave nothing behind."""

import pytest

from e2e.manifests import a_group, a_job, a_pod, a_template, as_yaml, on
from e2e.metrics import total
from kai.kube.resources import CONFIG_MAPS, POD_GROUPS, QUEUES, Resource
from kai.model import names
from kai.model.objects import PodGroup
from kai_local.kubelet.nodes import NodeShape

JOBS = Resource("batch", "v1", "jobs", "Job")
HALF = {"gpu-fraction": "0.5"}


def a_workload(kind, name, namespace, queue, *, replicas=2, more=None, **template):
    body = a_template(queue, labels={"app": name}, **template)
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {"kai.scheduler/queue": queue}},
        "spec": {"replicas": replicas, "selector": selector, "template": body, **(more or {})},
    }


async def groups_of(cluster, namespace) -> list[PodGroup]:
    return await cluster.client.list(POD_GROUPS, namespace=namespace, type=PodGroup)


async def gone(cluster, look, what) -> None:
    await cluster.eventually(look, lambda found: not found, what=f"{what} are gone")


@pytest.mark.parametrize(
    ("kind", "more", "groups", "priority"),
    [
        ("ReplicaSet", {}, 1, "train"),
        ("Deployment", {}, 2, "inference"),
        ("StatefulSet", {"serviceName": "web"}, 1, "train"),
    ],
)
async def test_a_workload_runs_and_goes_with_its_groups(
    cluster, queue, namespace, kind, more, groups, priority
):
    name = await queue()
    await cluster.apply(as_yaml(a_workload(kind, "web", namespace, name, gpus=1, more=more)))
    await cluster.running(namespace, "web", count=2)
    found = await groups_of(cluster, namespace)
    assert [group.spec.queue for group in found] == [name] * groups
    assert {group.spec.priority_class_name for group in found} == {priority}
    await cluster.delete("apps/v1", kind, "web", namespace=namespace)
    await gone(cluster, lambda: groups_of(cluster, namespace), "the pod groups")


async def test_parts_of_devices_of_a_deployment_leave_no_config_maps(cluster, queue, namespace):
    async def config_maps():
        found = await cluster.client.list(CONFIG_MAPS, namespace=namespace)
        return [one["metadata"]["name"] for one in found if one["metadata"]["name"] != "kube-root-ca.crt"]

    await cluster.apply(as_yaml(a_workload("Deployment", "web", namespace, await queue(), annotations=HALF)))
    await cluster.running(namespace, "web", count=2)
    assert await config_maps()
    await cluster.delete("apps/v1", "Deployment", "web", namespace=namespace)
    await gone(cluster, lambda: cluster.pods(namespace), "the pods")
    await gone(cluster, config_maps, "their ConfigMaps")


async def test_a_job_that_has_finished_frees_its_queue(cluster, queue, namespace):
    name = await queue(limit=1)
    annotations = {"kai.local/run-seconds": "1"}
    for job in ("first", "second"):
        await cluster.apply(as_yaml(a_job(job, namespace, name, pods=1, gpus=1, annotations=annotations)))

    async def completed() -> set[str]:
        jobs = await cluster.client.list(JOBS, namespace=namespace)
        return {job["metadata"]["name"] for job in jobs if job.get("status", {}).get("succeeded")}

    await cluster.eventually(completed, lambda found: found == {"first", "second"}, what="both Jobs succeed")


async def test_pods_of_a_job_may_belong_to_a_group_that_the_user_made(cluster, queue, namespace):
    name = await queue()
    job = a_job("job", namespace, name, pods=2, gpus=1, annotations={names.POD_GROUP_ANNOTATION: "mine"})
    job["metadata"]["annotations"] |= {"kai.scheduler/skip-podgrouper": "true"}
    await cluster.apply(as_yaml(a_group("mine", namespace, name, minMember=2), job))
    await cluster.running(namespace, "job", count=2)
    assert [group.metadata.name for group in await groups_of(cluster, namespace)] == ["mine"]


async def test_each_job_of_a_cron_job_is_a_group_of_its_own(cluster, queue, namespace):
    name = await queue()
    job = a_job("tick", namespace, name, pods=1)
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": namespace},
        "spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": job["spec"]}},
    }
    [made] = await cluster.apply(as_yaml(cron))
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "controller": True}
    for number in range(2):  # as `kubectl create job --from=cronjob/tick` does
        job["metadata"] = {
            "name": f"tick-{number}",
            "namespace": namespace,
            "ownerReferences": [owner | {"uid": made["metadata"]["uid"]}],
        }
        await cluster.apply(as_yaml(job))
    await cluster.running(namespace, "tick", count=2)
    found = await groups_of(cluster, namespace)
    assert len(found) == 2
    assert {group.spec.queue for group in found} == {name}


async def test_the_overhead_of_a_runtime_class_counts(cluster, queue, node, namespace):
    """Four CPUs have room for one pod of two and an overhead of one, and not for two of them."""
    overhead = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": namespace},
        "handler": "heavy",
        "overhead": {"podFixed": {"cpu": "1"}},
    }
    await cluster.apply(as_yaml(overhead))
    there = on(await node(NodeShape(gpus=0, cpus=4))) | {"runtimeClassName": namespace}
    name = await queue()
    try:
        for number in range(2):
            pod = a_pod(f"p{number}", namespace, name, spec=there)
            pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
            await cluster.apply(as_yaml(pod))
            if number == 0:
                await cluster.running(namespace, "p0", count=1)
        await cluster.waits(namespace, "p1")
    finally:
        await cluster.delete("node.k8s.io/v1", "RuntimeClass", namespace)


async def test_what_runs_is_told_on_group_and_queue(cluster, queue, namespace):
    top = await queue()
    name = await queue(parent=top)
    await cluster.apply(as_yaml(a_job("job", namespace, name, pods=2, gang=2, gpus=1)))
    await cluster.running(namespace, "job", count=2)

    async def allocated() -> list[str]:
        [group] = await cluster.client.list(POD_GROUPS, namespace=namespace)
        told = [group.get("status", {}).get("resourcesStatus", {}).get("allocated", {})]
        for each in (name, top):
            body = await cluster.client.get(QUEUES, each)
            told.append(body.get("status", {}).get("allocated", {}))
        return [one.get(names.NVIDIA_GPU, "") for one in told]

    await cluster.eventually(
        allocated, lambda told: told == ["2", "2", "2"], what="group, queue and its parent say 2 GPUs"
    )


async def test_metrics_say_what_a_queue_has_and_uses(cluster, queue, namespace):
    if not cluster.name:
        pytest.skip("needs the addresses of the services")
    name = await queue(gpus=3)
    addresses = [process["address"] for process in cluster.status()["processes"] if process["address"]]

    async def told() -> tuple[float, float]:
        return (
            await total(addresses, "kai_queue_deserved_gpus", queue_name=name),
            await total(addresses, "kai_queue_allocated_gpus", queue_name=name),
        )

    await cluster.eventually(told, lambda found: found == (3, 0), what="the queue has 3 GPUs and uses none")
    await cluster.apply(as_yaml(a_pod("whole", namespace, name, gpus=1)))
    await cluster.apply(as_yaml(a_pod("half", namespace, name, annotations=HALF)))
    await cluster.running(namespace, count=2)
    await cluster.eventually(told, lambda found: found == (3, 1.5), what="the queue uses 1.5 of 3 GPUs")
