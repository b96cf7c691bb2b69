"""What clients match by type, reason or words, each in its situation. The table is in ``docs/status.md``."""

import re
import shutil
import subprocess

import pytest

from e2e.manifests import a_group, a_pod, as_yaml, members
from kai.kube.resources import CORE_EVENTS, LEASES, PODS
from kai.model import names
from kai.model.objects import Pod
from kai_local.kubelet.nodes import NodeShape

NOT_READY = re.compile(
    r"Job is not ready for scheduling. Waiting for \d+ pods( for SubGroup \S+)?, "
    r"currently \d+ exist, \d+ are gated"
)


async def event(cluster, namespace, *, about: str, kind: str, reason: str, text: str = "") -> dict:
    """Wait for an event as clients of the core API see it: about an object, with these words."""

    async def look() -> list[dict]:
        return await cluster.client.list(CORE_EVENTS, namespace=namespace)

    def wanted(found: list[dict]) -> list[dict]:
        return [
            each
            for each in found
            if (each["involvedObject"]["kind"], each["involvedObject"]["name"]) == tuple(about.split("/"))
            and (each["type"], each["reason"]) == (kind, reason)
            and re.search(text, each["message"])
        ]

    found = await cluster.eventually(look, wanted, what=f"{about} has the event {kind} {reason} {text}")
    return wanted(found)[0]


async def scheduled_condition(cluster, namespace, name, *, status: str, reason: str = "") -> None:
    async def look() -> list[tuple[str, str]]:
        pod = await cluster.client.get(PODS, name, namespace=namespace, type=Pod)
        return [(c.status, c.reason) for c in pod.status.conditions or () if c.type == "PodScheduled"]

    def says(found: list[tuple[str, str]]) -> bool:
        return any(found_status == status and reason in found_reason for found_status, found_reason in found)

    await cluster.eventually(look, says, what=f"pod {name} says PodScheduled={status} {reason}")


# --- not ready -----------------------------------------------------------------------------------
async def test_a_group_that_lacks_pods_has_the_event_not_ready(cluster, queue, namespace):
    name = await queue()
    await cluster.apply(as_yaml(a_group("job", namespace, name, minMember=2)))
    await cluster.apply(as_yaml(*members("job", namespace, name, "", 1)))
    found = await event(cluster, namespace, about="PodGroup/job", kind="Normal", reason="NotReady")
    assert NOT_READY.search(found["message"])


async def test_a_subgroup_that_lacks_pods_is_named_in_the_event_though_its_pods_came_first(
    cluster, queue, namespace
):
    name = await queue()
    await cluster.apply(as_yaml(*members("job", namespace, name, "sub-1", 3)))
    await cluster.apply(as_yaml(*members("job", namespace, name, "sub-2", 3)))
    parts = [{"name": "sub-1", "minMember": 2}, {"name": "sub-2", "minMember": 5}]
    await cluster.apply(as_yaml(a_group("job", namespace, name, minMember=7, subGroups=parts)))
    text = "Waiting for 5 pods for SubGroup sub-2, currently 3 exist, 0 are gated"
    found = await event(cluster, namespace, about="PodGroup/job", kind="Normal", reason="NotReady", text=text)
    assert NOT_READY.search(found["message"])


# --- unschedulable, and why ----------------------------------------------------------------------
async def test_a_pod_without_room_says_so_by_condition_and_event_until_it_is_scheduled(
    cluster, queue, namespace
):
    name = await queue(limit=1)
    await cluster.apply(as_yaml(a_pod("first", namespace, name, gpus=1)))
    await cluster.running(namespace, "first", count=1)
    await cluster.apply(as_yaml(a_pod("second", namespace, name, gpus=1)))
    await scheduled_condition(cluster, namespace, "second", status="False", reason="Unschedulable")
    await event(cluster, namespace, about="Pod/second", kind="Warning", reason="Unschedulable")
    pod = await cluster.client.get(PODS, "second", namespace=namespace, type=Pod)
    group = pod.annotations[names.POD_GROUP_ANNOTATION]
    await event(cluster, namespace, about=f"PodGroup/{group}", kind="Normal", reason="Unschedulable")

    await cluster.delete("v1", "Pod", "first", namespace=namespace)
    await scheduled_condition(cluster, namespace, "second", status="True")
    text = rf"Successfully assigned pod {namespace}/second to node \S+ at node-pool default"
    await event(cluster, namespace, about="Pod/second", kind="Normal", reason="Scheduled", text=text)


@pytest.mark.parametrize(
    ("places", "annotations"),
    [("2", {}), ("3", {names.GPU_FRACTION: "0.5"})],
    ids=["of its own", "and for the reservation of its device"],
)
async def test_a_pod_without_a_place_on_its_node_has_that_in_its_event(
    cluster, queue, node, namespace, places, annotations
):
    name = await queue()
    where = await node(NodeShape(gpus=1, resources={"pods": places}))
    there = {"nodeSelector": {"kubernetes.io/hostname": where}}
    await cluster.apply(as_yaml(*(a_pod(f"first-{i}", namespace, name, spec=there) for i in range(2))))
    await cluster.running(namespace, "first", count=2)
    await cluster.apply(as_yaml(a_pod("second", namespace, name, annotations=annotations, spec=there)))
    await scheduled_condition(cluster, namespace, "second", status="False", reason="Unschedulable")
    text = r"node\(s\) pod number exceeded"
    await event(cluster, namespace, about="Pod/second", kind="Warning", reason="Unschedulable", text=text)


async def test_what_is_left_of_a_group_that_runs_in_part_is_marked_too(cluster, queue, namespace):
    name = await queue(limit=2)
    await cluster.apply(as_yaml(a_group("job", namespace, name, minMember=1)))
    await cluster.apply(as_yaml(*members("job", namespace, name, "", 3, gpus=1)))
    running = {pod.metadata.name for pod in await cluster.running(namespace, count=2)}
    [left] = {f"job-{i}" for i in range(3)} - running
    await scheduled_condition(cluster, namespace, left, status="False", reason="Unschedulable")


@pytest.mark.kubectl
async def test_kubectl_lists_of_groups_their_queue_what_they_hold_and_why_they_wait(
    cluster, queue, namespace
):
    name = await queue(limit=2)
    for group, pods in (("runs", 2), ("waits", 1)):
        await cluster.apply(as_yaml(a_group(group, namespace, name, minMember=pods)))
        await cluster.apply(as_yaml(*members(group, namespace, name, "", pods, gpus=1)))
        await cluster.running(namespace, count=2)
    command = ["kubectl", f"--kubeconfig={cluster.kubeconfig}", "get", "podgroups", f"-n={namespace}"]

    def rows() -> list[list[str]]:
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return [line.split()[:-1] for line in lines]

    wanted = [
        ["NAME", "QUEUE", "MIN", "GPUS", "REASON"],
        ["runs", name, "2", "2"],
        ["waits", name, "1", "OverLimit"],
    ]
    await cluster.eventually(rows, lambda seen: seen == wanted, what=f"kubectl lists {wanted}")


@pytest.mark.parametrize("priority", ["train", "build"])
async def test_over_the_limit_is_the_reason_whether_it_may_be_preempted_or_not(
    cluster, queue, namespace, priority
):
    pod = a_pod("p", namespace, await queue(limit=0), gpus=1, labels={"priorityClassName": priority})
    await cluster.apply(as_yaml(pod))
    await cluster.waits(namespace, "p", reason="OverLimit")


async def test_over_the_quota_is_the_reason_of_what_may_not_be_preempted(cluster, queue, namespace):
    pod = a_pod("p", namespace, await queue(gpus=0), gpus=1, labels={"priorityClassName": "build"})
    await cluster.apply(as_yaml(pod))
    await cluster.waits(namespace, "p", reason="NonPreemptibleOverQuota")


# --- evicted -------------------------------------------------------------------------------------
async def test_an_eviction_is_an_event_of_the_victims_group_that_names_the_evictor(cluster, queue, namespace):
    name = await queue(limit=1)
    await cluster.apply(as_yaml(a_group("low", namespace, name, minMember=1, priorityClassName="train")))
    await cluster.apply(as_yaml(*members("low", namespace, name, "", 1, gpus=1)))
    await cluster.running(namespace, "low", count=1)
    await cluster.apply(as_yaml(a_group("high", namespace, name, minMember=1, priorityClassName="build")))
    await cluster.apply(as_yaml(*members("high", namespace, name, "", 1, gpus=1)))
    found = await event(cluster, namespace, about="PodGroup/low", kind="Normal", reason="Evict")
    assert found["metadata"]["annotations"] == {
        "num-evicted-pods": "1",
        "evictor-action-type": "preempt",
        "evictor-pod-group-namespace": namespace,
        "evictor-pod-group-name": "high",
    }


# --- admission -----------------------------------------------------------------------------------
def create(cluster, body) -> str:
    """What kubectl says on its standard error when it creates this."""
    command = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "create", "-f", "-"]
    return subprocess.run(command, input=as_yaml(body), capture_output=True, text=True, check=True).stderr


@pytest.mark.kubectl
async def test_more_subgroups_needed_than_there_are_is_one_warning_and_no_refusal(cluster, queue, namespace):
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on the PATH")
    parts = [{"name": f"prefill-{i}", "minMember": 8} for i in range(4)]
    group = a_group("job", namespace, await queue(), minSubGroup=5, subGroups=parts)
    warnings = [line for line in create(cluster, group).splitlines() if line.startswith("Warning:")]
    assert len(warnings) == 1
    assert "minSubGroup (5) exceeds the number of direct child SubGroups (4)" in warnings[0]


# --- who leads -----------------------------------------------------------------------------------
async def test_the_holder_of_the_schedulers_lease_begins_with_the_name_of_its_pod(cluster):
    lease = await cluster.client.get(LEASES, names.SCHEDULER_NAME, namespace=names.NAMESPACE)
    assert re.fullmatch(r"[^_]+_[^_]+", lease["spec"]["holderIdentity"])
