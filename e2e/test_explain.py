"""The commands that `kai explain` tells do what it says of them, copied as they are."""

import asyncio
import json
import os
import signal
import subprocess

import pytest

from deadlines import patience
from e2e.harness import kai
from e2e.manifests import a_group, a_job, a_pod, as_yaml, on
from e2e.troubles import process_id
from kai.kube.resources import NODES
from kai.model import names
from kai_local.kubelet.nodes import NodeShape


async def answered(cluster, namespace, name, *, code, verdict=""):
    """The whole answer, once its reason is ``code``, and its verdict what is wanted."""

    async def answer():
        return json.loads(
            await asyncio.to_thread(
                kai, "explain", name, "-n", namespace, "--output=json", kubeconfig=cluster.kubeconfig
            )
        )

    return await cluster.eventually(
        answer,
        lambda said: (said["reason"] or {}).get("code") == code and verdict in ("", said["verdict"]),
        what=f"{name} waits for {code} {verdict}",
    )


async def told(cluster, namespace, name, *, code):
    """The changes that an answer tells, once its reason is ``code``."""
    return (await answered(cluster, namespace, name, code=code))["changes"]


def numbers(said, *wanted):
    """The verdict and what the reason counts."""
    return said["verdict"], *(said["reason"]["amounts"][each] for each in wanted)


def texts(said):
    return [change["text"] for change in said["changes"]]


def copied(cluster, changes, start):
    """Run the command of the change that begins so, in a shell."""
    (command,) = (change["command"] for change in changes if change["text"].startswith(start))
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    subprocess.run(["sh", "-c", command], env=environment, check=True, timeout=patience())


@pytest.mark.kubectl
async def test_a_pod_whose_queue_was_misspelt_is_submitted_to_another(cluster, queue, namespace):
    own = await queue(gpus=1)
    await cluster.apply(as_yaml(a_pod("typo", namespace, f"{own}x", gpus=1)))
    changes = await told(cluster, namespace, "pod/typo", code="QueueMissing")
    copied(cluster, changes, f"submit {namespace}/")
    await cluster.running(namespace, "typo", count=1)


@pytest.mark.kubectl
async def test_work_over_quota_that_may_not_be_preempted_is_made_preemptible(cluster, queue, namespace):
    own = await queue(gpus=0, limit=-1)
    await cluster.apply(as_yaml(a_job("kept", namespace, own, pods=1, gpus=1, priority="build")))
    changes = await told(cluster, namespace, "job/kept", code="NonPreemptibleOverQuota")
    copied(cluster, changes, "make ")
    await cluster.running(namespace, "kept", count=1)


# --- within limits --------------------------------------------------------------------------------
@pytest.mark.kubectl
async def test_a_limit_is_told_with_the_one_that_would_do(cluster, queue, namespace):
    own = await queue(limit=1)
    await cluster.apply(as_yaml(a_pod("two", namespace, own, gpus=2)))
    said = await answered(cluster, namespace, "pod/two", code="OverLimit")
    assert numbers(said, "gpuAsked", "gpuHeld", "gpuLimit") == ("ESCALATE", 2, 0, 1)
    copied(cluster, said["changes"], f"set the limit of queue '{own}' to 2 GPUs")
    await cluster.running(namespace, "two", count=1)


@pytest.mark.kubectl
async def test_of_work_that_runs_in_part_the_rest_is_explained_wherever_one_looks(cluster, queue, namespace):
    own = await queue(limit=4)
    await cluster.apply(as_yaml(a_job("part", namespace, own, pods=8, gpus=1)))
    await cluster.running(namespace, "part", count=4)
    said = await answered(cluster, namespace, "job/part", code="OverLimit")
    assert numbers(said, "placed", "of", "gpuAsked", "gpuHeld", "gpuLimit") == ("ESCALATE", 4, 8, 1, 4, 4)
    asked = ("get", "podgroups", "-n", namespace)
    # Pods are marked a moment after the decision, which explain knows at once.
    [group] = await cluster.eventually(
        lambda: json.loads(kai(*asked, "--output=json", kubeconfig=cluster.kubeconfig)),
        lambda groups: groups[0]["reason"] == "Unschedulable",
        what="the rest of the group has its reason in the list",
    )
    assert group["message"].startswith("OverLimit: ")
    assert "Unschedulable" in kai(*asked, "--output=wide", kubeconfig=cluster.kubeconfig)
    copied(cluster, said["changes"], f"set the limit of queue '{own}' to 5 GPUs")
    await cluster.running(namespace, "part", count=5)


# --- nodes ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("asks", "resource", "asked", "largest"),
    [
        pytest.param({"nvidia.com/gpu": "9"}, "nvidia.com/gpu", 9, 8, id="GPUs"),
        pytest.param({"cpu": "200"}, "cpu", 200, 64, id="cores"),
    ],
)
async def test_what_no_node_has_is_never_to_be_had(cluster, queue, namespace, asks, resource, asked, largest):
    own = await queue()
    body = a_pod("vast", namespace, own)
    body["spec"]["containers"][0]["resources"] = {"limits": asks, "requests": asks}
    await cluster.apply(as_yaml(body))
    said = await answered(cluster, namespace, "pod/vast", code="TooLarge")
    assert numbers(said, "asked") == ("NEVER", asked)
    if cluster.name:
        assert said["reason"]["amounts"]["largest"] == largest
    [first, *_] = texts(said)
    assert first.startswith(f"let each pod of {namespace}/"), said["changes"]


async def test_more_memory_than_any_gpu_has_is_never_to_be_had(cluster, queue, namespace):
    own = await queue()
    await cluster.apply(as_yaml(a_pod("vast", namespace, own, annotations={"gpu-memory": "200000"})))
    said = await answered(cluster, namespace, "pod/vast", code="TooLarge")
    assert numbers(said, "resource", "asked") == ("NEVER", "gpu-memory", 200_000)
    assert said["reason"]["amounts"]["largest"] < 200_000


async def test_a_taint_is_told_before_the_selector_with_the_toleration_that_places_the_pod(
    cluster, node, queue, namespace
):
    own = await queue()
    tainted = await node(NodeShape(gpus=1))
    taint = {"key": "for", "value": namespace, "effect": "NoSchedule"}
    await cluster.client.patch(NODES, tainted, {"spec": {"taints": [taint]}})
    await cluster.apply(as_yaml(a_pod("shy", namespace, own, gpus=1, spec=on(tainted))))
    said = await answered(cluster, namespace, "pod/shy", code="Tainted")
    assert numbers(said, "taints", "wouldDo") == ("CHANGE", [f"for={namespace}:NoSchedule"], [tainted])
    assert any(f"tolerate the taint for={namespace}:NoSchedule" in text for text in texts(said))
    bold = a_pod("bold", namespace, own, gpus=1, spec=on(tainted) | {"tolerations": [taint]})
    await cluster.apply(as_yaml(bold))
    await cluster.running(namespace, "bold", count=1)


@pytest.mark.kubectl
async def test_a_topology_that_is_not_there_is_named_and_let_go(cluster, queue, namespace):
    own = await queue()
    wishes = {names.TOPOLOGY: "nowhere", names.TOPOLOGY_REQUIRED: "rack"}
    await cluster.apply(as_yaml(a_pod("lost", namespace, own, gpus=1, annotations=wishes)))
    said = await answered(cluster, namespace, "pod/lost", code="TopologyMissing")
    assert numbers(said, "topology") == ("CHANGE", "nowhere")
    copied(cluster, said["changes"], "require no topology level of")
    await cluster.running(namespace, "lost", count=1)


# --- room -----------------------------------------------------------------------------------------
async def test_free_gpus_in_pieces_are_told_with_the_largest_hole_and_who_is_in_the_way(
    cluster, node, queue, namespace
):
    own = await queue(gpus=8)
    nodes = [await node(NodeShape(gpus=4, labels={"e2e": namespace})) for _ in range(2)]
    for number, name in enumerate(nodes):
        firm = {"labels": {names.PRIORITY_CLASS_LABEL: "build"}, "spec": on(name)}
        await cluster.apply(as_yaml(a_pod(f"firm-{number}", namespace, own, gpus=1, **firm)))
    await cluster.running(namespace, "firm", count=2)
    there = {"nodeSelector": {"e2e": namespace}}
    await cluster.apply(as_yaml(a_pod("four", namespace, own, gpus=4, spec=there)))
    said = await answered(cluster, namespace, "pod/four", code="Fragmented")
    assert numbers(said, "asked", "free", "freeNodes", "largestHole") == ("WAIT", 4, 6, 2, 3)
    assert f"{namespace}/firm-" in said["reason"]["text"]
    assert any(text.endswith("ask for 3 nvidia.com/gpu") for text in texts(said))
    await cluster.apply(as_yaml(a_pod("three", namespace, own, gpus=3, spec=there)))
    await cluster.running(namespace, "three", count=1)


async def test_parts_of_gpus_that_are_too_small_are_told_with_the_largest(cluster, node, queue, namespace):
    own = await queue(gpus=8)
    only = on(await node(NodeShape(gpus=1)))
    firm = {"labels": {names.PRIORITY_CLASS_LABEL: "build"}, "spec": only}
    await cluster.apply(as_yaml(a_pod("most", namespace, own, annotations={"gpu-fraction": "0.7"}, **firm)))
    await cluster.running(namespace, "most", count=1)
    await cluster.apply(
        as_yaml(a_pod("more", namespace, own, annotations={"gpu-fraction": "0.4"}, spec=only))
    )
    said = await answered(cluster, namespace, "pod/more", code="NotEnoughFree")
    assert numbers(said, "asked", "largestHole") == ("WAIT", 0.4, 0.3)
    assert any(text.endswith("ask for 0.3 of a GPU") for text in texts(said))
    await cluster.apply(
        as_yaml(a_pod("less", namespace, own, annotations={"gpu-fraction": "0.3"}, spec=only))
    )
    await cluster.running(namespace, "less", count=1)


# --- victims --------------------------------------------------------------------------------------
async def test_victims_protected_by_minimum_runtime_are_named_with_the_moment_of_its_turn(
    cluster, queue, namespace
):
    parent = await queue(gpus=1, limit=1)
    other = await queue(parent=parent, gpus=0, reclaimMinRuntime="1h")
    own = await queue(parent=parent, gpus=1)
    await cluster.apply(as_yaml(a_pod("theirs", namespace, other, gpus=1)))
    await cluster.running(namespace, "theirs", count=1)
    await cluster.apply(as_yaml(a_pod("ours", namespace, own, gpus=1)))
    said = await answered(cluster, namespace, "pod/ours", code="Protected")
    assert numbers(said, "gpuHeld", "gpuFairShare") == ("WAIT", 0, 1)
    [protected] = said["reason"]["amounts"]["protected"]
    assert protected.startswith(f"{namespace}/pg-theirs-")
    assert said["reason"]["amounts"]["until"] in said["reason"]["text"]
    await cluster.change_queue(other, reclaimMinRuntime="0s")
    await cluster.running(namespace, "ours", count=1)


# --- before the engine ----------------------------------------------------------------------------
@pytest.mark.kubectl
async def test_a_queue_with_queues_below_it_is_told_with_these(cluster, queue, namespace):
    parent = await queue()
    leaf = await queue(parent=parent)
    await cluster.apply(as_yaml(a_pod("high", namespace, parent, gpus=1)))
    said = await answered(cluster, namespace, "pod/high", code="QueueNotLeaf")
    assert numbers(said, "leaves") == ("CHANGE", [leaf])
    copied(cluster, said["changes"], f"submit {namespace}/")
    await cluster.running(namespace, "high", count=1)


@pytest.mark.kubectl
async def test_a_scheduling_gate_is_named_and_lifted(cluster, queue, namespace):
    own = await queue()
    gates = {"schedulingGates": [{"name": "example.com/later"}]}
    await cluster.apply(as_yaml(a_pod("held", namespace, own, gpus=1, spec=gates)))
    said = await answered(cluster, namespace, "pod/held", code="Gated")
    assert numbers(said, "gates") == ("CHANGE", ["example.com/later"])
    copied(cluster, said["changes"], "take the scheduling gates")
    await cluster.running(namespace, "held", count=1)


@pytest.mark.kubectl
async def test_a_suspended_job_is_said_to_be_suspended_and_resumed(cluster, queue, namespace):
    own = await queue()
    job = a_job("still", namespace, own, pods=1, gpus=1)
    job["spec"]["suspend"] = True
    await cluster.apply(as_yaml(job))
    said = await answered(cluster, namespace, "job/still", code="Suspended")
    assert said["verdict"] == "CHANGE"
    copied(cluster, said["changes"], "resume Job still")
    await cluster.running(namespace, "still", count=1)


async def test_a_group_that_does_not_exist_is_named_until_it_does(cluster, queue, namespace):
    own = await queue()
    ghost = {names.POD_GROUP_ANNOTATION: "ghost"}
    await cluster.apply(as_yaml(a_pod("haunted", namespace, own, gpus=1, annotations=ghost)))
    said = await answered(cluster, namespace, "pod/haunted", code="PodGroupMissing")
    assert numbers(said, "podGroup") == ("CHANGE", "ghost")
    assert any(text.startswith(f"take the annotation {names.POD_GROUP_ANNOTATION}") for text in texts(said))
    await cluster.apply(as_yaml(a_group("ghost", namespace, own, minMember=1)))
    await cluster.running(namespace, "haunted", count=1)


@pytest.mark.kubectl
async def test_a_pod_that_the_pod_grouper_is_kept_from_says_so_and_is_grouped(cluster, queue, namespace):
    own = await queue()
    skipped = {names.SKIP_POD_GROUPER: "true"}
    await cluster.apply(as_yaml(a_pod("alone", namespace, own, gpus=1, annotations=skipped)))
    said = await answered(cluster, namespace, "pod/alone", code="NotGrouped")
    assert said["verdict"] == "CHANGE"
    assert names.SKIP_POD_GROUPER in said["reason"]["text"]
    copied(cluster, said["changes"], f"take the annotation {names.SKIP_POD_GROUPER}")
    await cluster.running(namespace, "alone", count=1)


async def test_a_pod_grouper_that_is_silent_is_told_until_it_speaks_again(cluster, queue, namespace):
    own = await queue()
    pid = await process_id(cluster, "pod-grouper")
    os.kill(pid, signal.SIGSTOP)
    try:
        await cluster.apply(as_yaml(a_pod("unheard", namespace, own, gpus=1)))
        said = await answered(cluster, namespace, "pod/unheard", code="NotGrouped", verdict="ESCALATE")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "pod-grouper is" in said["reason"]["text"]
    await cluster.running(namespace, "unheard", count=1)


async def test_a_misspelt_scheduler_is_told_with_the_one_that_is_meant(cluster, queue, namespace):
    own = await queue()
    body = a_pod("misled", namespace, own, gpus=1, spec={"schedulerName": "kai-schedular"})
    await cluster.apply(as_yaml(body))
    said = await answered(cluster, namespace, "pod/misled", code="MisspeltScheduler")
    assert numbers(said, "schedulerName", "expected") == ("CHANGE", "kai-schedular", "kai-scheduler")
    assert texts(said) == ["let Pod misled have schedulerName 'kai-scheduler', made anew"]
    await cluster.delete("v1", "Pod", "misled", namespace=namespace)
    await cluster.apply(as_yaml(a_pod("right", namespace, own, gpus=1)))
    await cluster.running(namespace, "right", count=1)
