"""What a user's manifest becomes when there is room, when there is none, and when a rule forbids it."""

import uuid
from collections import Counter

import pytest

from e2e.manifests import a_group, a_job, a_pod, as_yaml, members, on
from kai.kube.client import PatchKind
from kai.kube.resources import NODES
from kai.model.rules.gpu_groups import gpu_groups
from kai_local.kubelet.nodes import NodeShape


async def nodes_of(cluster) -> list[str]:
    return await cluster.worker_nodes()


# --- resources -----------------------------------------------------------------------------------
async def test_four_quarters_fill_one_device(cluster, queue, namespace):
    name = await queue()
    parts = [a_pod(f"p{i}", namespace, name, annotations={"gpu-fraction": "0.25"}) for i in range(4)]
    await cluster.apply(as_yaml(*parts))
    pods = await cluster.running(namespace, count=4)
    assert len({group for pod in pods for group in gpu_groups(pod.labels)}) == 1


async def test_memory_of_a_device_is_shared_until_it_is_used_up(cluster, queue, namespace):
    name = await queue()
    halves = [a_pod(f"p{i}", namespace, name, annotations={"gpu-memory": "40000"}) for i in range(3)]
    await cluster.apply(as_yaml(*halves))
    pods = await cluster.running(namespace, count=3)
    devices = Counter(group for pod in pods for group in gpu_groups(pod.labels))
    assert sorted(devices.values()) == [1, 2]


NOWHERE = {"matchExpressions": [{"key": "e2e.example.com/nowhere", "operator": "Exists"}]}
MATES = {"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": "kubernetes.io/hostname"}


def required(kind, terms):
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize(
    ("annotations", "gpus", "spec"),
    [
        ({"gpu-memory": "900000"}, 0, {}),
        ({}, 9, {}),
        ({}, 1, {"nodeSelector": {"e2e.example.com/nowhere": "yes"}}),
        ({}, 1, required("nodeAffinity", {"nodeSelectorTerms": [NOWHERE]})),
        ({}, 1, required("podAffinity", [MATES])),
    ],
    ids=["memory of a device", "devices of a node", "node selector", "node affinity", "pod affinity"],
)
async def test_what_no_node_has_waits_and_says_so(cluster, queue, namespace, annotations, gpus, spec):
    pod = a_pod("p", namespace, await queue(), annotations=annotations, gpus=gpus, spec=spec)
    await cluster.apply(as_yaml(pod))
    await cluster.waits(namespace, "p")
    [pod] = await cluster.pods(namespace)
    assert not pod.spec.node_name


@pytest.mark.parametrize(
    ("resource", "amount", "told"),
    [
        ("cpu", "1000", "1000 cores"),
        ("memory", "100Ti", "100 TiB"),
        ("e2e.example.com/widget", "1", "e2e.example.com/widget"),
    ],
)
async def test_other_resources_that_no_node_has_are_told(cluster, queue, namespace, resource, amount, told):
    pod = a_pod("p", namespace, await queue())
    pod["spec"]["containers"][0]["resources"] = {part: {resource: amount} for part in ("limits", "requests")}
    await cluster.apply(as_yaml(pod))
    await cluster.waits(namespace, "p", saying=told)


async def test_a_pod_that_asks_for_nothing_runs(cluster, queue, namespace):
    pod = a_pod("p", namespace, await queue())
    pod["spec"]["containers"][0]["resources"] = {}
    await cluster.apply(as_yaml(pod))
    await cluster.running(namespace, count=1)


async def test_other_resources_are_given_until_there_are_none(cluster, queue, node, namespace):
    there = on(await node(NodeShape(gpus=0, resources={"e2e.example.com/widget": "1"})))
    name = await queue()
    for number in range(2):
        pod = a_pod(f"p{number}", namespace, name, spec=there)
        pod["spec"]["containers"][0]["resources"] = {"limits": {"e2e.example.com/widget": "1"}}
        await cluster.apply(as_yaml(pod))
        if number == 0:
            await cluster.running(namespace, "p0", count=1)
    await cluster.waits(namespace, "p1", saying="e2e.example.com/widget")


async def test_fractions_fill_a_node_to_the_last_part(cluster, queue, node, namespace):
    there, name = on(await node(NodeShape(gpus=2))), await queue()
    half = {"annotations": {"gpu-fraction": "0.5"}, "spec": there}
    await cluster.apply(as_yaml(*(a_pod(f"p{i}", namespace, name, **half) for i in range(4))))
    await cluster.running(namespace, count=4)
    await cluster.apply(as_yaml(a_pod("late", namespace, name, **half)))
    await cluster.waits(namespace, "late")


async def test_init_containers_count_by_their_maximum(cluster, queue, namespace):
    pod = a_pod("p", namespace, await queue(limit=4), gpus=2)
    pod["spec"]["initContainers"] = [
        {"name": f"init-{n}", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(n)}}}
        for n in (3, 4)
    ]
    await cluster.apply(as_yaml(pod))
    await cluster.running(namespace, count=1)


# --- quota ---------------------------------------------------------------------------------------
async def test_a_limit_stops_what_is_beyond_it(cluster, queue, namespace):
    name = await queue(limit=2)
    await cluster.apply(as_yaml(*(a_pod(f"p{i}", namespace, name, gpus=1) for i in range(3))))
    await cluster.running(namespace, count=2)
    await cluster.waits(namespace, "p", reason="OverLimit")


async def test_a_limit_of_a_queue_further_up_counts(cluster, queue, namespace):
    top = await queue(limit=2)
    middle = await queue(parent=top)
    leaves = [await queue(parent=middle) for _ in range(2)]
    for leaf in leaves:
        await cluster.apply(as_yaml(a_pod(f"{leaf}-a", namespace, leaf, gpus=1)))
    await cluster.running(namespace, count=2)
    await cluster.apply(as_yaml(a_pod("late", namespace, leaves[0], gpus=1)))
    await cluster.waits(namespace, "late", reason="OverLimit")


async def test_equal_queues_get_equal_shares(cluster, queue, namespace):
    top = await queue(limit=4)
    plug = await queue(parent=top, priority=200)
    leaves = [await queue(parent=top, gpus=0) for _ in range(2)]
    await cluster.apply(as_yaml(a_pod("plug", namespace, plug, gpus=4)))
    await cluster.running(namespace, "plug", count=1)
    for number, leaf in enumerate(leaves):
        await cluster.apply(as_yaml(*(a_pod(f"q{number}-{i}", namespace, leaf, gpus=1) for i in range(4))))
        await cluster.waits(namespace, f"q{number}")
    await cluster.delete("v1", "Pod", "plug", namespace=namespace)
    for number in range(2):
        await cluster.running(namespace, f"q{number}", count=2)


@pytest.mark.parametrize("depth", [1, 2, 4])
async def test_queues_may_be_nested_as_deep_as_one_likes(cluster, queue, namespace, depth):
    name = ""
    for _ in range(depth):
        name = await queue(parent=name, gpus=2, limit=2)
    await cluster.apply(as_yaml(*(a_pod(f"p{i}", namespace, name, gpus=1) for i in range(3))))
    await cluster.running(namespace, count=2)
    await cluster.waits(namespace, "p", reason="OverLimit")


async def test_work_that_cannot_be_preempted_stays_within_the_quota(cluster, queue, namespace):
    name = await queue(gpus=1)
    build = {"priorityClassName": "build"}
    await cluster.apply(as_yaml(a_pod("first", namespace, name, gpus=1, labels=build)))
    await cluster.running(namespace, "first", count=1)
    await cluster.apply(as_yaml(a_pod("second", namespace, name, gpus=1, labels=build)))
    await cluster.waits(namespace, "second", reason="NonPreemptibleOverQuota")
    await cluster.apply(as_yaml(a_pod("third", namespace, name, gpus=1)))
    await cluster.running(namespace, "third", count=1)


# --- elastic and gangs ---------------------------------------------------------------------------
async def test_an_elastic_job_takes_what_there_is_and_more_when_it_comes(cluster, queue, namespace):
    name = await queue(limit=2)
    await cluster.apply(as_yaml(a_job("elastic", namespace, name, pods=4, gang=1, gpus=1)))
    await cluster.running(namespace, count=2)
    resource = await cluster.client.discover("scheduling.run.ai/v2", "Queue")
    patch = {"spec": {"resources": {"gpu": {"limit": 4}}}}
    await cluster.client.patch(resource, name, patch, kind=PatchKind.MERGE)
    await cluster.running(namespace, count=4)


async def test_a_gang_without_room_for_all_does_not_start(cluster, queue, namespace):
    name = await queue(limit=3)
    await cluster.apply(as_yaml(a_job("gang", namespace, name, pods=4, gang=4, gpus=1)))
    await cluster.waits(namespace, "gang")
    assert not [pod for pod in await cluster.pods(namespace) if pod.spec.node_name]


async def test_two_elastic_jobs_get_their_minimum_before_either_gets_more(cluster, queue, namespace):
    name = await queue(limit=4)
    await cluster.apply(
        as_yaml(a_pod("plug", namespace, name, gpus=4, labels={"priorityClassName": "build"}))
    )
    await cluster.running(namespace, "plug", count=1)
    for job in ("first", "second"):
        await cluster.apply(as_yaml(a_job(job, namespace, name, pods=4, gang=2, gpus=1)))
        await cluster.waits(namespace, job)
    await cluster.delete("v1", "Pod", "plug", namespace=namespace)
    for job in ("first", "second"):
        await cluster.running(namespace, job, count=2)


async def test_an_elastic_job_gets_all_before_a_less_urgent_one_gets_any(cluster, queue, namespace):
    name = await queue(limit=4)
    await cluster.apply(
        as_yaml(a_pod("plug", namespace, name, gpus=4, labels={"priorityClassName": "build"}))
    )
    await cluster.running(namespace, "plug", count=1)
    await cluster.apply(as_yaml(a_job("low", namespace, name, pods=4, gang=1, gpus=1)))
    await cluster.waits(namespace, "low")
    urgent = a_job("high", namespace, name, pods=4, gang=1, gpus=1, priority="build-preemptible")
    await cluster.apply(as_yaml(urgent))
    await cluster.waits(namespace, "high")
    await cluster.delete("v1", "Pod", "plug", namespace=namespace)
    await cluster.running(namespace, "high", count=4)
    assert not [pod for pod in await cluster.pods(namespace, "low") if pod.spec.node_name]


async def test_pods_of_a_group_go_in_the_order_that_they_say(cluster, queue, namespace):
    """The greater number first; a pod without one counts as 0."""
    name = await queue(limit=2)
    await cluster.apply(
        as_yaml(a_pod("plug", namespace, name, gpus=2, labels={"priorityClassName": "build"}))
    )
    await cluster.running(namespace, "plug", count=1)
    await cluster.apply(as_yaml(a_group("order", namespace, name, minMember=1)))
    pods = members("order", namespace, name, "", 4, gpus=1)
    for pod, order in zip(pods, ("", "1", "0", "2"), strict=True):
        if order:
            pod["metadata"]["labels"] |= {"kai.scheduler/task-priority": order}
    await cluster.apply(as_yaml(*pods))
    await cluster.waits(namespace, "order")
    await cluster.delete("v1", "Pod", "plug", namespace=namespace)
    running = await cluster.running(namespace, "order", count=2)
    assert {pod.metadata.name for pod in running} == {"order-1", "order-3"}


async def test_the_priority_class_of_the_pod_counts_where_no_label_says_one(cluster, queue, namespace):
    name = await queue(limit=1)
    await cluster.apply(as_yaml(a_pod("now", namespace, name, gpus=1, labels={"priorityClassName": "build"})))
    await cluster.running(namespace, "now", count=1)
    await cluster.apply(as_yaml(a_pod("low", namespace, name, gpus=1)))
    await cluster.waits(namespace, "low")
    spec = {"priorityClassName": "build-preemptible"}
    await cluster.apply(as_yaml(a_pod("high", namespace, name, gpus=1, spec=spec)))
    await cluster.waits(namespace, "high")
    await cluster.delete("v1", "Pod", "now", namespace=namespace)
    await cluster.running(namespace, "high", count=1)
    assert not (await cluster.pods(namespace, "low"))[0].spec.node_name


async def test_the_more_urgent_of_two_that_wait_goes_first(cluster, queue, namespace):
    name = await queue(limit=1)
    await cluster.apply(as_yaml(a_pod("now", namespace, name, gpus=1, labels={"priorityClassName": "build"})))
    await cluster.running(namespace, "now", count=1)
    await cluster.apply(as_yaml(a_pod("low", namespace, name, gpus=1)))
    await cluster.waits(namespace, "low")
    await cluster.apply(
        as_yaml(a_pod("high", namespace, name, gpus=1, labels={"priorityClassName": "build-preemptible"}))
    )
    await cluster.waits(namespace, "high")
    await cluster.delete("v1", "Pod", "now", namespace=namespace)
    await cluster.running(namespace, "high", count=1)
    assert not (await cluster.pods(namespace, "low"))[0].spec.node_name


# --- nodes ---------------------------------------------------------------------------------------
async def test_small_work_is_packed_on_one_node(cluster, queue, namespace):
    name = await queue()
    await cluster.apply(as_yaml(*(a_pod(f"p{i}", namespace, name, gpus=1) for i in range(4))))
    pods = await cluster.running(namespace, count=4)
    assert len({pod.spec.node_name for pod in pods}) == 1


async def test_pods_that_avoid_each_other_go_to_different_nodes(cluster, queue, namespace):
    term = {"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    name = await queue()
    pods = [
        a_pod(f"p{i}", namespace, name, gpus=1, labels={"app": "apart"}, spec=apart)
        for i, _ in enumerate(await nodes_of(cluster))
    ]
    await cluster.apply(as_yaml(*pods))
    found = await cluster.running(namespace, count=len(pods))
    assert len({pod.spec.node_name for pod in found}) == len(pods)


async def test_pods_that_want_each_others_company_go_to_one_node(cluster, queue, namespace):
    mate = {"labelSelector": {"matchLabels": {"app": "mate"}}, "topologyKey": "kubernetes.io/hostname"}
    name, last = await queue(), (await nodes_of(cluster))[-1]
    there = a_pod("first", namespace, name, labels={"app": "mate"}, spec=on(last))
    await cluster.apply(as_yaml(there))
    await cluster.running(namespace, "first", count=1)
    await cluster.apply(
        as_yaml(a_pod("second", namespace, name, gpus=1, spec=required("podAffinity", [mate])))
    )
    [second] = await cluster.running(namespace, "second", count=1)
    assert second.spec.node_name == last


async def test_pods_are_spread_as_their_constraint_says(cluster, queue, namespace):
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    name, nodes = await queue(), await nodes_of(cluster)
    spec = {"topologySpreadConstraints": [constraint]}
    pods = [
        a_pod(f"p{i}", namespace, name, gpus=1, labels={"app": "spread"}, spec=spec)
        for i in range(len(nodes) + 1)
    ]
    await cluster.apply(as_yaml(*pods))
    found = Counter(pod.spec.node_name for pod in await cluster.running(namespace, count=len(pods)))
    assert sorted(found.values()) == [1] * (len(nodes) - 1) + [2]


async def test_work_without_gpus_goes_to_nodes_without_gpus(cluster, queue, node, namespace):
    label = f"e2e.example.com/{namespace}"
    await node(NodeShape(gpus=2, labels={label: "yes"}))
    plain = await node(NodeShape(gpus=0, labels={label: "yes"}))
    spec = {"nodeSelector": {label: "yes"}}
    await cluster.apply(as_yaml(a_pod("p", namespace, await queue(), spec=spec)))
    [pod] = await cluster.running(namespace, count=1)
    assert pod.spec.node_name == plain


async def test_a_taint_keeps_pods_away_that_do_not_tolerate_it(cluster, queue, namespace):
    node = (await nodes_of(cluster))[-1]
    key = f"e2e.example.com/{uuid.uuid4().hex[:8]}"
    here = {"nodeSelector": {"kubernetes.io/hostname": node}}
    name = await queue()
    taint = {"key": key, "value": "yes", "effect": "NoSchedule"}
    await cluster.client.patch(NODES, node, {"spec": {"taints": [taint]}})
    try:
        await cluster.apply(as_yaml(a_pod("kept-away", namespace, name, gpus=1, spec=here)))
        await cluster.waits(namespace, "kept-away")
        tolerations = [{"key": key, "operator": "Exists", "effect": "NoSchedule"}]
        tolerant = a_pod("tolerant", namespace, name, gpus=1, spec=here | {"tolerations": tolerations})
        await cluster.apply(as_yaml(tolerant))
        await cluster.running(namespace, "tolerant", count=1)
    finally:
        await cluster.client.patch(NODES, node, {"spec": {"taints": None}})
    await cluster.running(namespace, "kept-away", count=1)


async def test_a_pod_waits_for_its_config_map(cluster, queue, namespace):
    volumes = {"volumes": [{"name": "settings", "configMap": {"name": "settings"}}]}
    await cluster.apply(as_yaml(a_pod("p", namespace, await queue(), gpus=1, spec=volumes)))
    await cluster.waits(namespace, "p", saying="settings")
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": namespace}}
    await cluster.apply(as_yaml(made | {"data": {"a": "1"}}))
    await cluster.running(namespace, "p", count=1)
