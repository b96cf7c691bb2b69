"""What tenants try who want more than they were given."""

import contextlib
import uuid
from functools import partial
from typing import Any

import pytest
import yaml

from e2e.harness import REAL, ROOT, Cluster, kai, local_cluster
from e2e.manifests import a_group, a_job, a_pod, as_yaml, members, on
from e2e.troubles import restart
from kai.kube.client import KubeClient, PatchKind
from kai.kube.errors import ApiError, Forbidden
from kai.kube.resources import DEPLOYMENTS, EVENTS, NAMESPACES, PODS, Resource
from kai.model import names
from kai_local.kubelet.nodes import NodeShape


@pytest.mark.parametrize(
    "change",
    [
        {"annotations": {names.GPU_FRACTION: "0.01"}},
        {"annotations": {names.GPU_FRACTION: None}},
        {"labels": {names.GPU_GROUP_LABEL: "somewhere-else"}},
    ],
    ids=["less of a GPU", "no part of one", "another device"],
)
async def test_a_pod_that_runs_on_a_part_of_a_gpu_cannot_be_told_to_hold_something_else(
    cluster, queue, namespace, change
):
    name = await queue()
    await cluster.apply(as_yaml(a_pod("p", namespace, name, annotations={names.GPU_FRACTION: "0.9"})))
    [pod] = await cluster.running(namespace, count=1)
    with pytest.raises(ApiError, match="by which the pod was given its place") as refused:
        await cluster.client.patch(PODS, "p", {"metadata": change}, namespace=namespace)
    assert pod.spec.node_name in str(refused.value)
    await cluster.client.patch(PODS, "p", {"metadata": {"labels": {"app": "mine"}}}, namespace=namespace)


async def test_a_pod_that_takes_long_to_end_keeps_no_other_team_from_an_idle_gpu(
    cluster, queue, node, namespace
):
    his, ours = await queue(), await queue()
    place = on(await node(NodeShape(gpus=2)))
    long = {names.GPU_FRACTION: "0.5", "kai.local/terminate-seconds": "600"}
    stays = a_pod("stays", namespace, his, spec=place, annotations={names.GPU_FRACTION: "0.3"})
    leaves = a_pod(
        "leaves", namespace, his, spec={**place, "terminationGracePeriodSeconds": 600}, annotations=long
    )
    for pod in (stays, leaves):
        await cluster.apply(as_yaml(pod))
        await cluster.running(namespace, pod["metadata"]["name"], count=1)
    pods = await cluster.pods(namespace)
    [device] = {pod.labels[names.GPU_GROUP_LABEL] for pod in pods}
    await cluster.client.delete(PODS, "leaves", namespace=namespace)
    try:
        mine = a_pod("mine", namespace, ours, spec=place, annotations={names.GPU_FRACTION: "0.5"})
        await cluster.apply(as_yaml(mine))
        [placed] = await cluster.running(namespace, "mine", count=1)
        assert placed.labels[names.GPU_GROUP_LABEL] != device
    finally:
        await cluster.client.delete(PODS, "leaves", namespace=namespace, grace_seconds=0)


# --- queues and priorities of others -----------------------------------------------------------
CRITICAL = "system-node-critical"
_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)


@pytest.fixture
async def foreign(cluster):
    """Another team's namespace."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    await cluster.apply(f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}")
    yield name
    await cluster.end_namespace(name)


@pytest.fixture
async def no_operator(cluster):
    """Where an operator keeps an installation as it is asked for, it is away."""
    operators = {"namespace": names.NAMESPACE, "label_selector": "app=kai-operator"}
    found = await cluster.client.list(DEPLOYMENTS, **operators)
    for each in found:
        await _scale(cluster, each, 0)
    await cluster.eventually(
        lambda: cluster.client.list(PODS, **operators), lambda pods: not pods, what="the operator is away"
    )
    yield
    for each in found:
        await _scale(cluster, each, each["spec"]["replicas"])


async def _scale(cluster, deployment, replicas) -> None:
    name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
    await cluster.client.patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}}, namespace=namespace)


@pytest.fixture
async def nobody_warns(cluster, no_operator):
    """The API server does not ask who tells users at once."""
    body = await cluster.client.get(_WEBHOOKS, "kai-warnings")
    await cluster.client.delete(_WEBHOOKS, "kai-warnings")
    yield
    for field in ("resourceVersion", "uid", "managedFields"):
        body["metadata"].pop(field, None)
    await cluster.client.create(_WEBHOOKS, body)


async def refused(cluster, body) -> str:
    """What a user is told who applies this; admission may not have seen yet what was made a moment ago."""

    async def look() -> str:
        try:
            await cluster.apply(as_yaml(body))
        except ApiError as error:
            return str(error)
        await cluster.delete(
            body["apiVersion"],
            body["kind"],
            body["metadata"]["name"],
            namespace=body["metadata"]["namespace"],
        )
        return ""

    told: str = await cluster.eventually(look, bool, what=f"{body['kind']} is refused")
    return told


async def its_pod_runs(cluster, namespace, name, node) -> str:
    """The uid of a team's pod that has the only GPU of a node."""
    await cluster.apply(as_yaml(a_pod("mine", namespace, name, gpus=1, spec=on(node))))
    [pod] = await cluster.running(namespace, "mine", count=1)
    return pod.metadata.uid


async def attack(cluster, foreign, name, node, **spec) -> None:
    """A pod group of another namespace wants the place."""
    group = a_group("grab", foreign, name, minMember=1, **spec)
    await cluster.apply(as_yaml(group, *members("grab", foreign, name, "", 1, gpus=1, spec=on(node))))


async def test_who_names_a_foreign_queue_is_told_whom_to_ask(cluster, queue, namespace, foreign):
    name = await queue(access={"namespaces": [namespace]})
    for body in (
        a_group("grab", foreign, name, minMember=1),
        a_pod("grab", foreign, name),
        a_job("grab", foreign, name, pods=1),
    ):
        told = await refused(cluster, body)
        assert f'queue "{name}" is not open to namespace "{foreign}"' in told
        assert f"it admits namespaces {namespace}" in told
        assert f'ask who administers queue "{name}"' in told
    await cluster.apply(as_yaml(a_pod("mine", namespace, name)))
    await cluster.running(namespace, "mine", count=1)


async def test_who_names_a_priority_of_the_system_is_refused(cluster, queue, foreign):
    name = await queue()
    for body in (
        a_group("grab", foreign, name, priorityClassName=CRITICAL),
        a_job("grab", foreign, name, pods=1, priority=CRITICAL),
    ):
        assert f'"{CRITICAL}" is of the system' in await refused(cluster, body)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [({"priorityClassName": CRITICAL}, "PriorityClassDenied"), ({}, "QueueAccessDenied")],
    ids=["with a priority of the system", "with none"],
)
async def test_a_foreign_queue_is_of_no_use_while_nobody_warns(
    cluster, queue, node, namespace, foreign, nobody_warns, spec, reason
):
    name, where = await queue(access={"namespaces": [namespace]}), await node(NodeShape(gpus=1))
    mine = await its_pod_runs(cluster, namespace, name, where)
    await attack(cluster, foreign, name, where, **spec)
    told = await cluster.waits(foreign, "grab", reason=reason)
    assert told.startswith(f"{reason}: ")
    assert f'namespace "{foreign}"' in told

    async def events() -> list[str]:
        found = await cluster.client.list(EVENTS, namespace=foreign)
        return [each["note"] for each in found if each["regarding"]["kind"] == "PodGroup"]

    await cluster.eventually(
        events, lambda notes: any(told in note for note in notes), what="an event says why"
    )
    said = " ".join(kai("explain", "pod", "grab-0", "-n", foreign, kubeconfig=cluster.kubeconfig).split())
    assert told.partition(": ")[2] in said
    [pod] = await cluster.running(namespace, "mine", count=1)
    assert pod.metadata.uid == mine


async def test_a_priority_of_the_system_evicts_nobody_where_the_queue_is_open(
    cluster, queue, node, namespace, foreign, nobody_warns
):
    name, where = await queue(), await node(NodeShape(gpus=1))
    mine = await its_pod_runs(cluster, namespace, name, where)
    await attack(cluster, foreign, name, where, priorityClassName=CRITICAL)
    await cluster.waits(foreign, "grab", reason="PriorityClassDenied")
    [pod] = await cluster.running(namespace, "mine", count=1)
    assert pod.metadata.uid == mine


async def test_a_pod_group_that_claims_an_owner_is_not_looked_at_and_gets_no_place(
    cluster, queue, namespace, foreign
):
    name = await queue(access={"namespaces": [namespace]})
    [owner] = await cluster.apply(
        f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: owner, namespace: {foreign}}}}}"
    )
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    bodies = [a_group("grab", foreign, name, minMember=1), *members("grab", foreign, name, "", 1)]
    for body in bodies:
        body["metadata"]["ownerReferences"] = [reference]
    await cluster.apply(as_yaml(*bodies))
    await cluster.waits(foreign, "grab", reason="QueueAccessDenied")


async def test_labels_of_a_namespace_open_a_queue_and_close_it_again(cluster, queue, namespace, nobody_warns):
    async def label(team):
        body = {"metadata": {"labels": {"team": team}}}
        await cluster.client.patch(NAMESPACES, namespace, body, kind=PatchKind.MERGE)

    name = await queue(access={"namespaceSelector": {"matchLabels": {"team": namespace}}})
    await cluster.apply(as_yaml(a_pod("first", namespace, name)))
    await cluster.waits(namespace, "first", reason="QueueAccessDenied", saying=f"labels team={namespace}")
    await label(namespace)
    await cluster.running(namespace, "first", count=1)
    await label(None)
    await cluster.apply(as_yaml(a_pod("second", namespace, name)))
    await cluster.waits(namespace, "second", reason="QueueAccessDenied")
    await cluster.running(namespace, "first", count=1)


async def test_a_service_account_may_use_what_its_namespace_may_not(cluster, queue, namespace):
    name = await queue(access={"serviceAccounts": [f"{namespace}/trainer"]})
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    await cluster.apply(as_yaml(account | {"metadata": {"name": "trainer", "namespace": namespace}}))
    pod = a_pod("guest", namespace, name, spec={"serviceAccountName": "trainer"})
    await cluster.apply(as_yaml(pod))
    await cluster.running(namespace, "guest", count=1)
    assert 'service account "default"' in await refused(cluster, a_pod("other", namespace, name))


async def test_the_example_admits_whom_it_says(cluster):
    queues = (ROOT / "docs" / "examples" / "queue-access.yaml").read_text()
    namespaces = {"robotics-arms": {"department": "robotics"}, "robotics-ci": {}, "robotics-legs": {}}
    for name, labels in namespaces.items():
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        await cluster.apply(as_yaml(body))
    await cluster.apply(queues)
    try:
        await cluster.apply(as_yaml(a_pod("arm", "robotics-arms", "arms")))
        await cluster.running("robotics-arms", "arm", count=1)
        for queue in ("arms", "nightly"):
            told = await refused(cluster, a_pod("leg", "robotics-legs", queue))
            assert f'queue "{queue}" is not open to namespace "robotics-legs"' in told
        # Its account is named, and its namespace is none of the department's.
        guest = a_group("guest", "robotics-ci", "nightly", minMember=1)
        assert 'queue "robotics", above queue "nightly",' in await refused(cluster, guest)
    finally:
        for name in namespaces:
            await cluster.end_namespace(name)
        for body in reversed(list(yaml.safe_load_all(queues))):
            await cluster.delete(body["apiVersion"], "Queue", body["metadata"]["name"])


# --- what is held, where nobody refuses anything ------------------------------------------------
#: Pods that each hold most of a device, and what their owner makes them say afterwards.
REWRITTEN = {
    "less": {"annotations": {names.GPU_FRACTION: "0.01"}},
    "nothing": {"annotations": {names.GPU_FRACTION: None}, "labels": {names.GPU_GROUP_LABEL: None}},
    "elsewhere": {"labels": {names.GPU_GROUP_LABEL: "somewhere-else"}},
}


@pytest.fixture
async def unguarded(tmp_path):
    """A cluster of its own, with just the devices that these pods hold."""
    name, kubeconfig = f"tenants-{uuid.uuid4().hex[:8]}", tmp_path / "kubeconfig"
    with local_cluster(name, kubeconfig, "--nodes=1", f"--gpus-per-node={len(REWRITTEN)}"):
        async with KubeClient.connect(str(kubeconfig), user_agent="e2e") as client:
            yield Cluster(kubeconfig=kubeconfig, client=client, name=name)


@pytest.mark.skipif(REAL, reason="what is held rests on what our services keep, whatever the control plane")
async def test_what_pods_say_later_frees_no_device_where_no_webhook_is_asked(unguarded):
    cluster, size = unguarded, {names.GPU_FRACTION: "0.9"}

    async def restarts() -> int:
        [scheduler] = [each for each in cluster.status()["processes"] if each["name"] == "scheduler"]
        return int(scheduler["restarts"])

    async def ask_for_more(name: str) -> None:
        await cluster.apply(as_yaml(a_pod(name, "default", "default-queue", annotations=size)))
        await cluster.waits("default", name)

    async def rewritten(name: str, change: dict[str, Any]) -> bool:
        with contextlib.suppress(Forbidden):
            await cluster.client.patch(PODS, name, {"metadata": change}, namespace="default")
            return True
        return False

    await cluster.apply(as_yaml(*(a_pod(n, "default", "default-queue", annotations=size) for n in REWRITTEN)))
    before = await cluster.running("default", count=len(REWRITTEN))
    for each in await cluster.client.list(_WEBHOOKS):
        await cluster.client.delete(_WEBHOOKS, each["metadata"]["name"])
    for name, change in REWRITTEN.items():
        what = f"the API server asks no webhook any more, about {name}"
        await cluster.eventually(partial(rewritten, name, change), bool, what=what)
    await ask_for_more("greedy")
    await restart(cluster, "scheduler")
    await cluster.eventually(restarts, lambda count: count == 1, what="the scheduler was started anew")
    await ask_for_more("later")

    async def told() -> set[str]:
        """Whose owners were told."""
        events = await cluster.client.list(EVENTS)
        return {each["regarding"]["name"] for each in events if each["reason"] == "NotAsGranted"}

    await cluster.eventually(told, lambda found: found == {*REWRITTEN}, what="the owner is told")
    pods = await cluster.running("default", count=len(REWRITTEN))
    assert {pod.metadata.uid for pod in pods} == {pod.metadata.uid for pod in before}
    assert len(await cluster.pods(names.RESERVATION_NAMESPACE)) == len(REWRITTEN)
    for name in (*REWRITTEN, "greedy", "later"):
        await cluster.delete("v1", "Pod", name, namespace="default")
    await cluster.eventually(
        lambda: cluster.pods(names.RESERVATION_NAMESPACE),
        lambda left: not left,
        what="no reservation is left",
    )
