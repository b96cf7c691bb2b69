"""The pod-grouper on an API server: what it writes, how often, and what does not stop it."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from deadlines import eventually
from kai.grouping.errors import UnknownKind
from kai.grouping.grouper import group_pod
from kai.grouping.objects.documents import ObjectRef
from kai.grouping.objects.pods import Pod
from kai.kube.client import KubeClient
from kai.kube.events import EventRecorder
from kai.kube.reflector import Upserted
from kai.kube.resources import EVENTS, JOBS, POD_GROUPS, PODS, SERVICES
from kai_pod_grouper.live import reconciler
from kai_pod_grouper.live.cluster import LiveCluster, Watches
from kai_pod_grouper.live.owner_cache import FRESH_SECONDS, IMPATIENT_SECONDS, OwnerCache
from kai_pod_grouper.service import assemble
from kai_pod_grouper.settings import PodGrouperSettings

from .conftest import a_pod_grouper

pytestmark = pytest.mark.integration


def a_pod(name, *, owner=None, labels=None, annotations=None, **spec):
    metadata = {
        "name": name,
        "namespace": "default",
        "labels": labels or {},
        "annotations": annotations or {},
    }
    if owner is not None:
        metadata["ownerReferences"] = [a_reference(owner)]
    container = {"name": "main", "image": "busybox"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "kai-scheduler", "containers": [container], **spec},
    }


def a_reference(owner):
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
    }


def a_job(name="train", **metadata):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"template": template, "parallelism": 4},
    }


def has_members(cluster, *names):
    async def condition():
        return set(names) <= (await cluster.memberships()).keys()

    return condition


async def test_an_ordinary_pod_costs_one_group_and_one_patch(cluster):
    async with a_pod_grouper(cluster) as grouper:
        pod = await cluster.create(a_pod("demo"))
        await eventually(has_members(cluster, "demo"))
        await grouper.join()

    uid = pod["metadata"]["uid"]
    assert await cluster.memberships() == {"demo": f"pg-demo-{uid}"}
    group = (await cluster.groups())[f"pg-demo-{uid}"]
    assert group["spec"] == {
        "minMember": 1,
        "queue": "default-queue",
        "priorityClassName": "train",
        "subGroups": [],
    }
    assert cluster.requests() == Counter({"create podgroups": 1, "patch pods": 1})


async def test_a_gang_costs_one_read_of_its_owner_and_one_group(cluster):
    job = await cluster.create(a_job(annotations={"kai.scheduler/batch-min-member": "64"}))
    names = [f"train-{i}" for i in range(64)]
    async with a_pod_grouper(cluster) as grouper:
        await cluster.create(*(a_pod(name, owner=job) for name in names))
        await eventually(has_members(cluster, *names))
        await grouper.join()

    assert set((await cluster.memberships()).values()) == {f"pg-train-{job['metadata']['uid']}"}
    requests = cluster.requests()
    assert requests["get jobs"] == 1
    assert requests["create podgroups"] == 1
    assert requests["patch podgroups"] == 0
    assert requests["patch pods"] == 64


async def test_pods_of_many_owners_of_one_workload_do_not_conflict(cluster):
    await cluster.install("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
    replicated = [{"name": "w", "replicas": 16, "template": {"spec": {"parallelism": 2}}}]
    job_set = await cluster.create(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "js", "namespace": "default"},
            "spec": {"replicatedJobs": replicated},
        }
    )
    pods = []
    for i in range(16):
        job = await cluster.create(a_job(f"js-w-{i}", ownerReferences=[a_reference(job_set)]))
        labels = {"jobset.sigs.k8s.io/replicatedjob-name": "w", "jobset.sigs.k8s.io/job-index": str(i)}
        pods += [a_pod(f"js-w-{i}-{k}", owner=job, labels=labels) for k in range(2)]
    await cluster.create(*pods)
    async with a_pod_grouper(cluster) as grouper:
        await eventually(has_members(cluster, *(pod["metadata"]["name"] for pod in pods)))
        await grouper.join()

    group = f"pg-js-{job_set['metadata']['uid']}"
    assert (await cluster.memberships())["js-w-7-1"] == f"{group}/w-replica-7"
    assert await cluster.warnings() == {}
    assert cluster.requests() == Counter(
        {"create podgroups": 1, "patch pods": 32, "get jobs": 16, "get jobsets": 1}
    )


async def test_a_restart_changes_nothing(cluster):
    job = await cluster.create(a_job())
    names = [f"train-{i}" for i in range(4)]
    await cluster.create(*(a_pod(name, owner=job) for name in names), a_pod("alone"))
    async with a_pod_grouper(cluster) as grouper:
        await eventually(has_members(cluster, "alone", *names))
        await grouper.join()
    before = await cluster.groups(), await cluster.pods()
    cluster.server.counts.reset()

    async with a_pod_grouper(cluster) as grouper:
        await grouper.join()

    assert (await cluster.groups(), await cluster.pods()) == before
    assert cluster.requests() == Counter({"get jobs": 1})


async def test_a_queue_that_was_changed_on_the_group_stays_and_a_size_does_not(cluster):
    job = await cluster.create(a_job(labels={"kai.scheduler/queue": "a"}))
    await cluster.create(a_pod("one", owner=job))
    name = f"pg-train-{job['metadata']['uid']}"
    async with a_pod_grouper(cluster):
        await eventually(has_members(cluster, "one"))
        patch = {"spec": {"queue": "b", "minMember": 9, "markUnschedulable": False}}
        await cluster.client.patch(POD_GROUPS, name, patch, namespace="default")
        await cluster.create(a_pod("two", owner=job))
        await eventually(has_members(cluster, "two"))

    spec = (await cluster.groups())[name]["spec"]
    assert (spec["queue"], spec["minMember"], spec["markUnschedulable"]) == ("b", 1, False)


async def test_a_vanished_owner_stops_nobody_else_and_is_told_in_an_event(cluster):
    job = await cluster.create(a_job())
    cluster.fail(verb="get", resource="jobs", status=404, count=-1)
    await cluster.create(a_pod("orphan", owner=job), a_pod("fine"))
    async with a_pod_grouper(cluster):
        await eventually(has_members(cluster, "fine"))
        warnings = await eventually(cluster.warnings)

    assert warnings == {"orphan": "Job default/train (batch/v1) does not exist"}
    assert set(await cluster.memberships()) == {"fine"}


async def test_pods_that_are_left_for_a_moment_when_their_owner_has_gone_are_not_told_of_it(
    cluster, monkeypatch
):
    """As while a large workload is deleted: some of its pods are gone, and others not even marked."""
    monkeypatch.setattr(reconciler, "THINNED_SECONDS", 0.0)
    job, clock, registry = await cluster.create(a_job()), Clock(), CollectorRegistry()
    async with a_pod_grouper(cluster, clock=clock, registry=registry) as grouper:
        await cluster.create(a_pod("one", owner=job), a_pod("two", owner=job))
        await eventually(has_members(cluster, "one", "two"))
        await grouper.join()
        cluster.fail(verb="get", resource="jobs", status=404, count=-1)
        clock.now += FRESH_SECONDS + 1
        looks = grouper.looks
        await cluster.client.delete(PODS, "one", namespace="default", grace_seconds=0)
        await eventually(lambda: grouper.looks > looks)
        patch = {"metadata": {"labels": {"changed": "x"}}}
        await cluster.client.patch(PODS, "two", patch, namespace="default")
        await eventually(lambda: grouper.looks > looks + 1)
        assert registry.get_sample_value("kai_podgrouper_pods_total", {"outcome": "failed"}) is None
    assert await cluster.warnings() == {}


async def test_a_pod_that_grouping_fails_over_is_told_so_and_others_of_its_workload_are_grouped(
    cluster, monkeypatch
):
    grouped = reconciler.group_pod

    async def fragile(pod, *args, **more):
        if pod.metadata.name == "odd":
            raise RecursionError("too deep")
        return await grouped(pod, *args, **more)

    monkeypatch.setattr(reconciler, "group_pod", fragile)
    job = await cluster.create(a_job())
    await cluster.create(a_pod("odd", owner=job), a_pod("fine", owner=job))
    async with a_pod_grouper(cluster):
        await eventually(has_members(cluster, "fine"))
        warnings = await eventually(cluster.warnings)
        monkeypatch.undo()
        await eventually(has_members(cluster, "fine", "odd"))

    assert "RecursionError: too deep" in warnings["odd"]


async def test_a_slip_in_what_a_controller_makes_is_told_once_on_the_pod_and_on_its_workload(cluster):
    job = await cluster.create(a_job())
    slips = {"gpu-fractoin": "0.5"}, {"priorityClassName": "trian"}
    for name in ("one", "two"):
        await cluster.create(a_pod(name, owner=job, annotations=slips[0], labels=slips[1]))
    async with a_pod_grouper(cluster):
        await eventually(has_members(cluster, "one", "two"))
        told = await eventually(lambda: four_warnings(cluster))
    key = "annotation gpu-fractoin is not known and ignored; did you mean annotation gpu-fraction?"
    named = 'priority class of label priorityClassName "trian"'
    priority = f'{named} does not exist (did you mean "train"?); it is ignored'
    (pod,) = {name for name, _, _ in told} - {"train"}
    assert told == {
        (pod, "MisspeltKey", key),
        (pod, "UnknownPriorityClass", priority),
        ("train", "MisspeltKey", f"pods: {key}"),
        ("train", "UnknownPriorityClass", f"pods: {priority}"),
    }


async def four_warnings(cluster):
    """Object, reason and text of the warnings, once there are four."""
    events = [each for each in await cluster.client.list(EVENTS) if each["type"] == "Warning"]
    found = {(each["regarding"]["name"], each["reason"], each["note"]) for each in events}
    return found if len(found) == 4 else None


async def test_a_kind_that_is_not_served_is_told_by_name(cluster):
    cache = OwnerCache(cluster.client, asyncio.get_running_loop().time)

    with pytest.raises(UnknownKind, match=r"does not serve Widget of example\.com/v1"):
        await cache.get(ObjectRef("example.com/v1", "Widget", "default", "w"))


async def test_an_owner_is_read_once_by_however_many_and_again_when_it_is_old(cluster):
    await cluster.create(a_job())
    now = 0.0
    cache = OwnerCache(cluster.client, lambda: now)
    ref = ObjectRef("batch/v1", "Job", "default", "train")
    cluster.server.counts.reset()

    await asyncio.gather(*(cache.get(ref) for _ in range(20)))
    now = FRESH_SECONDS
    await cache.get(ref)
    assert cluster.reads_of("jobs") == 1
    now += 0.1
    await cache.get(ref)
    assert cluster.reads_of("jobs") == 2
    await cache.get(ref, max_age=IMPATIENT_SECONDS)
    assert cluster.reads_of("jobs") == 2


async def test_a_mistake_that_is_mended_is_noticed_by_the_next_try(cluster):
    job = await cluster.create(a_job(annotations={"kai.scheduler/batch-min-member": "two"}))
    await cluster.create(a_pod("p", owner=job))
    async with a_pod_grouper(cluster):
        await eventually(cluster.warnings)
        patch = {"metadata": {"annotations": {"kai.scheduler/batch-min-member": "2"}}}
        await cluster.client.patch(JOBS, "train", patch, namespace="default")
        await eventually(has_members(cluster, "p"))

    [group] = (await cluster.groups()).values()
    assert group["spec"]["minMember"] == 2


async def test_what_the_api_refuses_is_told_and_makes_no_group(cluster):
    job = await cluster.create(a_job(annotations={"kai.scheduler/batch-min-member": "-1"}))
    await cluster.create(a_pod("p", owner=job))
    async with a_pod_grouper(cluster):
        warnings = await eventually(cluster.warnings)

    assert "spec.minMember" in warnings["p"]
    assert await cluster.groups() == {}


async def test_pods_of_others_and_external_groups_are_left_alone(cluster):
    await cluster.create(
        a_pod("skipped", annotations={"kai.scheduler/skip-podgrouper": "true"}),
        a_pod("external", annotations={"pod-group-name": "pg-external-u"}),
        a_pod("foreign", schedulerName="default-scheduler"),
        a_pod("ours"),
    )
    async with a_pod_grouper(cluster) as grouper:
        await eventually(has_members(cluster, "ours"))
        await grouper.join()

    assert len(await cluster.groups()) == 1
    assert cluster.requests() == Counter({"create podgroups": 1, "patch pods": 1})


async def test_only_namespaces_and_pods_that_are_selected_are_grouped(cluster):
    await cluster.client.create(
        (await cluster.client.discover("v1", "Namespace")),
        {"metadata": {"name": "in", "labels": {"team": "a"}}},
    )
    inside = a_pod("inside", labels={"app": "x"})
    inside["metadata"]["namespace"] = "in"
    other = a_pod("other", labels={"app": "y"})
    other["metadata"]["namespace"] = "in"
    await cluster.create(inside, other, a_pod("outside", labels={"app": "x"}))
    selectors = {"namespace_label_selector": "team=a", "pod_label_selector": "app=x"}
    async with a_pod_grouper(cluster, **selectors) as grouper:
        await eventually(has_members(cluster, "inside"))
        await grouper.join()

    assert set(await cluster.memberships()) == {"inside"}


async def test_pods_that_were_told_before_the_label_of_their_namespace_are_grouped_once_it_is_there(cluster):
    namespaces = await cluster.client.discover("v1", "Namespace")
    await cluster.client.create(namespaces, {"metadata": {"name": "late"}})
    waiting = a_pod("waiting")
    waiting["metadata"]["namespace"] = "late"
    await cluster.create(waiting)
    async with a_pod_grouper(cluster, namespace_label_selector="team=a") as grouper:
        await grouper.join()
        assert await cluster.memberships() == {}
        await cluster.client.patch(namespaces, "late", {"metadata": {"labels": {"team": "a"}}})
        await eventually(has_members(cluster, "waiting"))
        await grouper.join()
        looked = grouper.looks
        await cluster.client.patch(namespaces, "late", {"metadata": {"labels": {"other": "x"}}})
        await cluster.create({**waiting, "metadata": {**waiting["metadata"], "name": "next"}})
        await eventually(has_members(cluster, "next"))
        await grouper.join()
    assert grouper.looks == looked + 1


async def test_a_leader_that_must_be_ready_first_is_a_group_of_one_until_there_is_a_worker(cluster):
    """Its workers are made minutes after it has a node: it must not be given up for lack of them."""
    await cluster.install("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")
    lws = await cluster.create(
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "vllm", "namespace": "default"},
            "spec": {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 4}},
        }
    )
    index = "leaderworkerset.sigs.k8s.io"

    def member(number):
        labels = {f"{index}/group-index": "0", f"{index}/worker-index": str(number)}
        return a_pod(f"vllm-0-{number}", owner=lws, labels=labels)

    await cluster.create(member(0))
    name = f"pg-vllm-{lws['metadata']['uid']}-group-0"

    async def needs(size):
        return (await cluster.groups())[name]["spec"]["minMember"] == size

    async with a_pod_grouper(cluster) as grouper:
        await eventually(has_members(cluster, "vllm-0-0"))
        assert await needs(1)
        binding = {"target": {"kind": "Node", "name": "n1"}}
        await cluster.client.create_subresource(PODS, "vllm-0-0", "binding", binding, namespace="default")
        # Looked at anew with its node, as after a restart of the pod-grouper.
        patch = {"metadata": {"labels": {"changed": "x"}}}
        before = grouper.looks
        await cluster.client.patch(PODS, "vllm-0-0", patch, namespace="default")
        await eventually(lambda: grouper.looks > before)
        await grouper.join()
        assert await needs(1)
        await cluster.create(member(1))
        await eventually(lambda: needs(4))


def test_the_pods_of_a_replica_are_found_among_those_of_thousands_without_looking_at_all():
    """Else the leaders of a set, each of which asks for its own, take the square of their number."""
    index = "leaderworkerset.sigs.k8s.io"
    watches = Watches(None, PodGrouperSettings())
    for number in range(100):
        labels = {f"{index}/name": "vllm", f"{index}/group-index": str(number)}
        pod = msgspec.convert(a_pod(f"vllm-{number}", labels=labels), Pod)
        watches.pods(Upserted(pod, False))
    cluster = LiveCluster(None, watches, None, existing=lambda key: None)
    looked_at, by_index = [], watches.pods.by_index
    watches.pods.by_index = lambda *asked: looked_at.extend(by_index(*asked)) or looked_at
    found = cluster.pods("default", {f"{index}/name": "vllm", f"{index}/group-index": "7"})
    assert [pod.metadata.name for pod in found] == ["vllm-7"]
    assert len(looked_at) == 1


async def test_a_workload_that_becomes_smaller_needs_fewer_pods_though_none_is_new(cluster):
    """Else what is left of it would be given up as an incomplete gang."""
    await cluster.install("kubeflow.org", "v1", "TFJob", "tfjobs")
    roles = {"Worker": {"replicas": 3}}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "tf"}}
    owner = await cluster.create({**body, "spec": {"tfReplicaSpecs": roles}})
    group = f"pg-tf-{owner['metadata']['uid']}"
    async with a_pod_grouper(cluster) as grouper:
        await cluster.create(*(a_pod(f"tf-{number}", owner=owner) for number in range(3)))
        await eventually(has_members(cluster, "tf-0", "tf-1", "tf-2"))
        await grouper.join()
        before = cluster.reads_of("tfjobs")
        tf_jobs = await cluster.client.discover("kubeflow.org/v1", "TFJob")
        smaller = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}}
        await cluster.client.patch(tf_jobs, "tf", smaller, namespace="default")
        for name in ("tf-1", "tf-2"):
            await cluster.client.delete(PODS, name, namespace="default", grace_seconds=0)
        await eventually(lambda: cluster.groups(), lambda groups: groups[group]["spec"]["minMember"] == 1)
        await grouper.join()
        assert cluster.reads_of("tfjobs") - before <= 2
        await cluster.client.delete(PODS, "tf-0", namespace="default", grace_seconds=0)
        await grouper.join()


async def test_what_is_not_found_for_a_moment_is_read_again_for_pods_that_have_their_group(
    cluster, monkeypatch
):
    """As while an API server begins to serve the kind: the size was never read again."""
    monkeypatch.setattr(reconciler, "THINNED_SECONDS", 0.0)
    monkeypatch.setattr(reconciler, "_FIRST_RETRY_SECONDS", 0.01)
    await cluster.install("kubeflow.org", "v1", "TFJob", "tfjobs")
    body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "tf"}}
    owner = await cluster.create({**body, "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}})
    group, clock, registry = f"pg-tf-{owner['metadata']['uid']}", Clock(), CollectorRegistry()
    async with a_pod_grouper(cluster, clock=clock, registry=registry) as grouper:
        await cluster.create(*(a_pod(f"tf-{number}", owner=owner) for number in range(2)))
        await eventually(has_members(cluster, "tf-0", "tf-1"))
        await grouper.join()
        tf_jobs = await cluster.client.discover("kubeflow.org/v1", "TFJob")
        smaller = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}}
        await cluster.client.patch(tf_jobs, "tf", smaller, namespace="default")
        cluster.fail(verb="get", resource="tfjobs", status=404, count=2)
        clock.now += FRESH_SECONDS + 1
        await cluster.client.delete(PODS, "tf-1", namespace="default", grace_seconds=0)
        await eventually(lambda: cluster.groups(), lambda groups: groups[group]["spec"]["minMember"] == 1)
        assert registry.get_sample_value("kai_podgrouper_pods_total", {"outcome": "failed"}) is None
    assert await cluster.warnings() == {}


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


async def test_a_workload_that_is_scaled_up_right_after_it_was_read_needs_its_new_pods_too(cluster):
    await cluster.install("kubeflow.org", "v1", "TFJob", "tfjobs")
    body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "tf"}}
    owner = await cluster.create({**body, "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}})
    clock = Clock()
    async with a_pod_grouper(cluster, clock=clock) as grouper:
        await cluster.create(a_pod("tf-0", owner=owner))
        await eventually(has_members(cluster, "tf-0"))
        await grouper.join()
        tf_jobs = await cluster.client.discover("kubeflow.org/v1", "TFJob")
        larger = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 4}}}}
        await cluster.client.patch(tf_jobs, "tf", larger, namespace="default")
        clock.now += 2 * IMPATIENT_SECONDS
        await cluster.create(*(a_pod(f"tf-{number}", owner=owner) for number in (1, 2, 3)))
        await eventually(has_members(cluster, "tf-1", "tf-2", "tf-3"))
        await grouper.join()

    assert [group["spec"]["minMember"] for group in (await cluster.groups()).values()] == [4]
    assert cluster.requests()["get tfjobs"] == 2


async def test_pods_of_a_kind_without_a_size_that_come_one_by_one_cost_one_read(cluster):
    job = await cluster.create(a_job())
    clock = Clock()
    async with a_pod_grouper(cluster, clock=clock) as grouper:
        for number in range(4):
            await cluster.create(a_pod(f"train-{number}", owner=job))
            await eventually(has_members(cluster, f"train-{number}"))
            clock.now += 2 * IMPATIENT_SECONDS
        await grouper.join()
    assert cluster.requests()["get jobs"] == 1


async def test_the_first_worker_of_a_ray_group_is_placed_right_after_the_autoscaler_asked_for_it(cluster):
    await cluster.install("ray.io", "v1", "RayCluster", "rayclusters")
    group = {"groupName": "w", "replicas": 0, "minReplicas": 0, "maxReplicas": 4}
    body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"}}
    owner = await cluster.create({**body, "spec": {"headGroupSpec": {}, "workerGroupSpecs": [group]}})
    name = f"pg-ray-{owner['metadata']['uid']}"
    clock = Clock()
    async with a_pod_grouper(cluster, clock=clock):
        await cluster.create(a_pod("head", owner=owner, labels={"ray.io/group": "headgroup"}))
        await eventually(has_members(cluster, "head"))
        # What was read for the head is as good as new by the clock: only a second look finds the group.
        await cluster.create(a_pod("w-0", owner=owner, labels={"ray.io/group": "w"}))
        await eventually(has_members(cluster, "w-0"))
        ray_clusters = await cluster.client.discover("ray.io/v1", "RayCluster")
        scaled = {"spec": {"workerGroupSpecs": [{**group, "replicas": 1}]}}
        await cluster.client.patch(ray_clusters, "ray", scaled, namespace="default")
        clock.now += 2 * IMPATIENT_SECONDS
        await eventually(cluster.memberships, lambda found: found["w-0"] == f"{name}/w")

    parts = (await cluster.groups())[name]["spec"]["subGroups"]
    assert {part["name"]: part["minMember"] for part in parts} == {"headgroup": 1, "w": 1}


async def test_a_worker_of_a_segment_that_was_just_added_is_placed_in_it(cluster):
    await cluster.install("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
    annotations = {"kai.scheduler/segment-size": "2"}
    template = {"metadata": {"annotations": annotations}}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "pt"}}

    def spec(replicas):
        return {"pytorchReplicaSpecs": {"Worker": {"replicas": replicas, "template": template}}}

    def worker(index):
        labels = {
            "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": str(index),
        }
        return a_pod(f"pt-{index}", owner=owner, labels=labels)

    owner = await cluster.create({**body, "spec": spec(2)})
    name = f"pg-pt-{owner['metadata']['uid']}"
    clock = Clock()
    async with a_pod_grouper(cluster, clock=clock) as grouper:
        await cluster.create(worker(0))
        await eventually(has_members(cluster, "pt-0"))
        await grouper.join()
        jobs = await cluster.client.discover("kubeflow.org/v1", "PyTorchJob")
        await cluster.client.patch(jobs, "pt", {"spec": spec(4)}, namespace="default")
        clock.now += 2 * IMPATIENT_SECONDS
        await cluster.create(worker(2))
        await eventually(cluster.memberships, lambda found: found.get("pt-2") == f"{name}/worker-1")


async def test_who_stands_by_gathers_nothing_and_looks_at_all_pods_once_it_leads(cluster):
    job = await cluster.create(a_job())
    async with KubeClient.connect(cluster.kubeconfig, user_agent="kai-pod-grouper") as client:
        recorder, registry = EventRecorder(client, controller="pod-grouper"), CollectorRegistry()
        watches, grouper = assemble(client, PodGrouperSettings(), events=recorder, registry=registry)

        @asynccontextmanager
        async def leading():
            task = asyncio.create_task(grouper.run(workers=2))
            yield
            await grouper.join()
            task.cancel()
            await asyncio.wait([task])

        async def hear_of(name):
            await cluster.create(a_pod(name, owner=job))
            await eventually(lambda: f"default/{name}" in watches.pods)

        def gathered():
            return len(grouper._queue) + len(grouper._dirty) + len(grouper._thinned)

        watching = asyncio.create_task(watches.run())
        await watches.wait_until_synced()
        await hear_of("one")
        assert gathered() == 0
        async with leading():
            await eventually(has_members(cluster, "one"))
        await hear_of("two")
        await cluster.client.delete(PODS, "one", namespace="default", grace_seconds=0)
        await eventually(lambda: "default/one" not in watches.pods)
        assert gathered() == 0
        async with leading():
            await eventually(has_members(cluster, "two"))
        watching.cancel()
        await asyncio.wait([watching])


async def test_an_owner_that_may_not_be_read_ends_the_walk(cluster):
    service = await cluster.client.create(
        SERVICES,
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "vc"},
            "spec": {"ports": [{"port": 80}]},
        },
        namespace="default",
    )
    service |= {"apiVersion": "v1", "kind": "Service"}
    cluster.fail(verb="get", resource="services", status=403, count=-1)
    await cluster.create(*(a_pod(f"web-{i}", owner=service) for i in range(3)))
    async with a_pod_grouper(cluster) as grouper:
        await eventually(has_members(cluster, "web-0", "web-1", "web-2"))
        await grouper.join()

    assert len(await cluster.groups()) == 3
    assert await cluster.warnings() == {}


async def test_trouble_at_the_api_server_delays_and_loses_nothing(cluster):
    job = await cluster.create(a_job())
    cluster.fail(verb="create", resource="podgroups", status=409)
    cluster.fail(verb="patch", resource="pods", status=503, count=3)
    cluster.fail(verb="get", resource="jobs", status=500)
    cluster.fail(verb="create", resource="podgroups", drop=True, after=True)
    names = [f"train-{i}" for i in range(5)]
    await cluster.create(a_pod("alone"), *(a_pod(name, owner=job) for name in names))
    async with a_pod_grouper(cluster) as grouper:
        await eventually(has_members(cluster, "alone", *names))
        await grouper.join()

    assert len(await cluster.groups()) == 2
    assert await cluster.warnings() == {}


async def test_a_pod_that_others_keep_writing_meanwhile_is_written_by_the_next_try(cluster):
    """A server gives a patch up after some tries, though it says of no state that it is meant for."""
    cluster.fail(verb="patch", resource="pods", status=409)
    await cluster.create(a_pod("alone"))
    async with a_pod_grouper(cluster):
        await eventually(has_members(cluster, "alone"))

    assert await cluster.warnings() == {}


async def test_a_mistake_of_ours_delays_a_workload_and_loses_none_of_its_pods(cluster, monkeypatch):
    tries = []

    async def fails_at_first(pod, *others, **more):
        tries.append(pod.key)
        if len(tries) == 1:
            raise RuntimeError("a mistake")
        return await group_pod(pod, *others, **more)

    monkeypatch.setattr(reconciler, "group_pod", fails_at_first)
    job = await cluster.create(a_job())
    await cluster.create(a_pod("one", owner=job), a_pod("two", owner=job))
    async with a_pod_grouper(cluster):
        await eventually(has_members(cluster, "one", "two"))


async def test_a_group_that_was_deleted_is_made_again_for_the_next_pod(cluster):
    job = await cluster.create(a_job())
    name = f"pg-train-{job['metadata']['uid']}"
    await cluster.create(a_pod("one", owner=job))
    async with a_pod_grouper(cluster):
        await eventually(has_members(cluster, "one"))
        await cluster.client.delete(POD_GROUPS, name, namespace="default")
        await cluster.create(a_pod("two", owner=job))
        await eventually(has_members(cluster, "two"))
        await eventually(cluster.groups)

    assert list(await cluster.groups()) == [name]


async def test_a_pod_that_was_replaced_by_another_of_its_name_gets_a_group_of_its_own(cluster):
    async with a_pod_grouper(cluster):
        first = await cluster.create(a_pod("web-0"))
        await eventually(has_members(cluster, "web-0"))
        await cluster.client.delete(PODS, "web-0", namespace="default", grace_seconds=0)
        second = await cluster.create(a_pod("web-0"))
        await eventually(has_members(cluster, "web-0"))

    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert await cluster.memberships() == {"web-0": f"pg-web-0-{second['metadata']['uid']}"}


async def test_a_pod_alone_whose_queue_is_named_late_is_charged_to_it(cluster):
    async with a_pod_grouper(cluster):
        pod = await cluster.create(a_pod("web-0", labels={"kai.scheduler/queue": ""}))
        await eventually(has_members(cluster, "web-0"))
        named = {"metadata": {"labels": {"kai.scheduler/queue": "named"}}}
        await cluster.client.patch(PODS, "web-0", named, namespace="default")

        async def is_charged():
            (group,) = (await cluster.groups()).values()
            return group["spec"].get("queue") == "named"

        await eventually(is_charged)
    assert await cluster.memberships() == {"web-0": f"pg-web-0-{pod['metadata']['uid']}"}


async def test_a_pod_that_others_move_to_another_group_is_brought_back(cluster):
    job = await cluster.create(a_job())
    name = f"pg-train-{job['metadata']['uid']}"
    await cluster.create(a_pod("one", owner=job))
    async with a_pod_grouper(cluster):
        await eventually(has_members(cluster, "one"))
        patch = {"metadata": {"annotations": {"pod-group-name": "elsewhere"}}}
        await cluster.client.patch(PODS, "one", patch, namespace="default")

        async def is_back():
            return (await cluster.memberships())["one"] == name

        await eventually(is_back)


@pytest.mark.parametrize(
    "words",
    [
        {"pod-group-name": "nowhere"},
        {"pod-group-name": "nowhere", "kai.scheduler/skip-podgrouper": "true"},
        {"pod-group-name": "."},
        {"pod-group-name": ".."},
        {"pod-group-name": "{name}/status"},
    ],
    ids=["another group", "and nobody is to group it", "all groups", "the namespace", "a part of its group"],
)
async def test_a_pod_that_runs_cannot_leave_every_group_that_exists(cluster, monkeypatch, words):
    """Its queue would not be charged for it any more."""
    monkeypatch.setattr(reconciler, "ADRIFT_SECONDS", 0.3)
    await cluster.create(a_pod("one", nodeName="n1"), a_pod("waits"))
    pod = (await cluster.pods())["one"]
    name = f"pg-one-{pod['metadata']['uid']}"
    async with a_pod_grouper(cluster):
        await eventually(has_members(cluster, "one", "waits"))
        for each in ("one", "waits"):
            said = {key: value.format(name=name) for key, value in words.items()}
            await cluster.client.patch(PODS, each, {"metadata": {"annotations": said}}, namespace="default")

        async def is_back():
            return (await cluster.memberships())["one"] == name

        await eventually(is_back)
    assert (await cluster.memberships())["waits"] == said["pod-group-name"]


async def test_the_group_of_a_pod_that_runs_is_made_again_when_somebody_deletes_it(cluster, monkeypatch):
    monkeypatch.setattr(reconciler, "ADRIFT_SECONDS", 0.3)
    await cluster.create(a_pod("one", nodeName="n1"))
    async with a_pod_grouper(cluster):
        await eventually(has_members(cluster, "one"))
        ((name, group),) = (await cluster.groups()).items()
        await cluster.client.delete(POD_GROUPS, name, namespace="default")

        async def is_made_again():
            groups = await cluster.groups()
            return name in groups and groups[name]["metadata"]["uid"] != group["metadata"]["uid"]

        await eventually(is_made_again)


async def test_the_group_of_pods_that_wait_is_made_again_when_somebody_deletes_it(cluster, monkeypatch):
    monkeypatch.setattr(reconciler, "ADRIFT_SECONDS", 0.3)
    job = await cluster.create(a_job())
    application = {"spark-app-name": "pi", "spark-app-selector": "spark-1"}
    await cluster.create(a_pod("alone"), a_pod("one", owner=job), a_pod("driver", labels=application))
    async with a_pod_grouper(cluster):
        await eventually(has_members(cluster, "alone", "one", "driver"))
        before = await cluster.groups()
        for name in before:
            await cluster.client.delete(POD_GROUPS, name, namespace="default")
        await eventually(cluster.groups, lambda found: found.keys() == before.keys())

    after = await cluster.groups()
    assert all(after[name]["metadata"]["uid"] != before[name]["metadata"]["uid"] for name in before)


async def test_the_group_of_pods_that_are_only_told_of_it_is_made_again_as_well(cluster, monkeypatch):
    monkeypatch.setattr(reconciler, "ADRIFT_SECONDS", 0.3)
    async with a_pod_grouper(cluster, annotate_after=3600) as grouper:
        listening = grouper.assignments.watch()
        await anext(listening)
        pod = await cluster.create(a_pod("alone"))
        name = f"pg-alone-{pod['metadata']['uid']}"
        await eventually(lambda: grouper.assignments.members(f"default/{name}"))
        group = (await cluster.groups())[name]
        await cluster.client.delete(POD_GROUPS, name, namespace="default")
        await eventually(
            cluster.groups,
            lambda found: name in found and found[name]["metadata"]["uid"] != group["metadata"]["uid"],
        )
        await listening.aclose()


async def test_a_pod_that_waits_in_a_group_of_somebody_else_stays_in_it_when_that_is_deleted(
    cluster, monkeypatch
):
    monkeypatch.setattr(reconciler, "ADRIFT_SECONDS", 0.1)
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "mine", "namespace": "default"},
        "spec": {"queue": "q", "minMember": 1},
    }
    await cluster.create(group, a_pod("one", annotations={"pod-group-name": "mine"}))
    async with a_pod_grouper(cluster) as grouper:
        await grouper.join()
        looked = grouper.looks
        await cluster.client.delete(POD_GROUPS, "mine", namespace="default")
        await eventually(lambda: grouper.looks > looked)
        await grouper.join()
    assert await cluster.memberships() == {"one": "mine"}


async def test_a_group_that_is_replaced_keeps_its_pods(cluster):
    """As when its user applies it anew by force."""
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "mine", "namespace": "default"},
        "spec": {"queue": "q", "minMember": 1},
    }
    await cluster.create(group, a_pod("one", nodeName="n1", annotations={"pod-group-name": "mine"}))
    async with a_pod_grouper(cluster):
        await cluster.client.delete(POD_GROUPS, "mine", namespace="default")
        await cluster.create(group, a_pod("marker"))
        await eventually(has_members(cluster, "marker"))
    assert (await cluster.memberships())["one"] == "mine"


async def test_pods_that_end_are_not_grouped_for_their_last_moments(cluster, monkeypatch):
    monkeypatch.setattr(reconciler, "ADRIFT_SECONDS", 0.1)
    await cluster.create(a_pod("one", nodeName="n1", annotations={"pod-group-name": "nowhere"}))
    done = {"status": {"phase": "Succeeded"}}
    await cluster.client.patch(PODS, "one", done, namespace="default", subresource="status")
    async with a_pod_grouper(cluster) as grouper:
        await grouper.join()
    assert await cluster.groups() == {}


async def test_what_binding_writes_on_a_pod_is_no_reason_to_look_again(cluster):
    job = await cluster.create(a_job())
    await cluster.create(a_pod("one", owner=job))
    async with a_pod_grouper(cluster) as grouper:
        await eventually(has_members(cluster, "one"))
        await grouper.join()
        looked = grouper.looks
        annotations = {"received-resource-type": "Fraction", "runai/shared-gpu-configmap": "x"}
        patch = {"metadata": {"annotations": annotations, "labels": {"runai-gpu-group": "g"}}}
        await cluster.client.patch(PODS, "one", patch, namespace="default")
        await cluster.create(a_pod("other"))
        await eventually(has_members(cluster, "other"))
        await grouper.join()

    assert grouper.looks == looked + 1


async def test_a_jobset_keeps_the_flat_group_of_an_earlier_release(cluster):
    await cluster.install("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js", "namespace": "default"},
        "spec": {"replicatedJobs": [{"name": "workers"}]},
    }
    owner = await cluster.create(body)
    name = f"pg-js-{owner['metadata']['uid']}"
    flat = {"metadata": {"name": f"{name}-driver"}, "spec": {"minMember": 1, "queue": "q"}}
    await cluster.client.create(POD_GROUPS, flat, namespace="default")
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "workers", "jobset.sigs.k8s.io/job-index": "0"}
    async with a_pod_grouper(cluster):
        await cluster.create(a_pod("w", owner=owner, labels=labels))
        await eventually(has_members(cluster, "w"))

    assert await cluster.memberships() == {"w": name}
    assert (await cluster.groups())[name]["spec"]["subGroups"] == []


async def test_a_pod_that_its_gang_names_only_later_gets_its_subgroup_then(cluster):
    await cluster.install("grove.io", "v1alpha1", "PodCliqueSet", "podcliquesets")
    await cluster.install("scheduler.grove.io", "v1alpha1", "PodGang", "podgangs")
    meta = {"name": "pcs", "namespace": "default"}
    owner = await cluster.create(
        {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": meta}
    )
    clique = {"name": "prefill", "minReplicas": 1, "podReferences": []}
    gang = await cluster.create(
        {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {"name": "pcs-0", "namespace": "default"},
            "spec": {"podgroups": [clique]},
        }
    )
    gate = [{"name": "grove.io/podgang-pending-creation"}]
    pod = a_pod("prefill-0", owner=owner, labels={"grove.io/podgang": "pcs-0"}, schedulingGates=gate)
    await cluster.create(pod)
    group = f"pg-pcs-0-{gang['metadata']['uid']}"
    async with a_pod_grouper(cluster):
        await eventually(has_members(cluster, "prefill-0"))
        assert await cluster.memberships() == {"prefill-0": group}
        clique["podReferences"] = [{"namespace": "default", "name": "prefill-0"}]
        resource = await cluster.client.discover("scheduler.grove.io/v1alpha1", "PodGang")
        patch = {"spec": {"podgroups": [clique]}}
        await cluster.client.patch(resource, "pcs-0", patch, namespace="default")
        await cluster.client.patch(PODS, "prefill-0", {"spec": {"schedulingGates": []}}, namespace="default")

        async def is_in_its_subgroup():
            return await cluster.memberships() == {"prefill-0": f"{group}/prefill"}

        await eventually(is_in_its_subgroup)


async def test_a_definition_in_the_cluster_groups_a_kind_that_no_code_knows(cluster):
    await cluster.install("jobs.example.com", "v1", "PyFlow", "pyflows")
    await cluster.install("run.ai", "v1alpha1", "Karta", "kartas")
    kind = {"group": "jobs.example.com", "version": "v1", "kind": "PyFlow"}
    worker = {
        "name": "worker",
        "ownerRef": "pyflow",
        "scaleDefinition": {"replicasPath": ".spec.workers"},
        "podSelector": {"componentTypeSelector": {"keyPath": ".spec.containers[0].name", "value": "main"}},
    }
    root = {"name": "pyflow", "kind": kind, "statusDefinition": {}}
    pod_group = {"name": "all", "subGroups": [{"componentName": "worker"}]}
    await cluster.create(
        {
            "apiVersion": "run.ai/v1alpha1",
            "kind": "Karta",
            "metadata": {
                "name": "pyflow",
                "namespace": "default",
                "labels": {f"run.ai/karta-{key}": value for key, value in kind.items()},
            },
            "spec": {
                "structureDefinition": {"rootComponent": root, "childComponents": [worker]},
                "optimizationInstructions": {"gangScheduling": {"podGroup": pod_group}},
            },
        }
    )
    flow = await cluster.create(
        {
            "apiVersion": "jobs.example.com/v1",
            "kind": "PyFlow",
            "metadata": {"name": "flow", "namespace": "default"},
            "spec": {"workers": 3},
        }
    )
    await cluster.create(a_pod("flow-0", owner=flow))
    async with a_pod_grouper(cluster):
        await eventually(has_members(cluster, "flow-0"))

    group = f"pg-{flow['metadata']['uid']}-all"
    assert await cluster.memberships() == {"flow-0": f"{group}/worker"}
    assert (await cluster.groups())[group]["spec"]["subGroups"] == [{"name": "worker", "minMember": 3}]
