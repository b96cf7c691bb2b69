"""Workloads of other projects: from the owner, and the pods that its operator makes, to gangs that run."""

import asyncio

import pytest

from e2e.harness import Cluster
from e2e.manifests import a_group, a_pod, a_template, as_yaml
from e2e.test_queues import kubectl
from e2e.third_party import cases, definitions
from e2e.third_party.cases import Case
from kai.grouping.rules import known_kinds
from kai.kube.client import KubeClient
from kai.kube.resources import CRDS, EVENTS, POD_GROUPS, Resource
from kai.model import names
from kai.model.objects import PodGroup

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
OUR_ACCOUNT = "system:serviceaccount:kai-scheduler:pod-grouper"
BUILT_IN = ("v1", "apps/v1", "batch/v1")


@pytest.fixture(scope="module")
def kinds(embedded):
    """The cluster serves the kinds of all cases; those that it did not know are gone afterwards."""
    name, kubeconfig = embedded
    made = asyncio.run(define(name, kubeconfig))
    yield
    asyncio.run(take_away(kubeconfig, made))


async def define(name, kubeconfig) -> list[str]:
    async with KubeClient.connect(str(kubeconfig), user_agent="e2e") as client:
        cluster = Cluster(kubeconfig=kubeconfig, client=client, name=name)
        await definitions.let_the_pod_grouper_read(cluster, *cases.RIGHTS)
        return await definitions.install(cluster, cases.DEFINITIONS)


async def take_away(kubeconfig, made) -> None:
    async with KubeClient.connect(str(kubeconfig), user_agent="e2e") as client:
        for definition in made:
            await client.delete(CRDS, definition)


async def roles_are_in_force(cluster) -> bool:
    """Whether our pod-grouper is kept from what nobody has granted it."""
    attributes = {"verb": "get", "group": "workload.codeflare.dev", "resource": "appwrappers"}
    review = {"spec": {"user": OUR_ACCOUNT, "resourceAttributes": attributes}}
    answer = await cluster.client.create(ACCESS_REVIEWS, review)
    return not answer["status"]["allowed"]


def memberships(pods, members) -> list[tuple[str, str, str]]:
    """Of each pod: as whose part it was made, its group and its subgroup."""
    made_as = sorted((member.name for member in members), key=len, reverse=True)
    return sorted(
        (
            next((name for name in made_as if pod.metadata.name.startswith(name)), pod.metadata.name),
            pod.annotations.get(names.POD_GROUP_ANNOTATION, ""),
            pod.labels.get(names.SUBGROUP_LABEL, ""),
        )
        for pod in pods
    )


async def told(cluster, namespace, reason, *objects) -> None:
    """Wait until events say this of one of these objects."""

    async def look() -> set[tuple[str, str]]:
        events = await cluster.client.list(EVENTS, namespace=namespace)
        return {(event["regarding"]["name"], event["reason"]) for event in events}

    await cluster.eventually(
        look,
        lambda seen: any((name, reason) in seen for name in objects),
        what=f"an event {reason} of one of {', '.join(objects)}",
    )


async def check(cluster, case: Case, members, groups) -> None:
    """Wait until these groups, and no others, are there as told, and see that the pods belong to them."""
    needed = {case.named(group): needs for group, needs in groups.items()}
    found = await cluster.eventually(
        lambda: cluster.client.list(POD_GROUPS, namespace=case.namespace, type=PodGroup),
        lambda found: {group.metadata.name: cases.tree(group) for group in found} == needed,
        what=f"the groups are {needed}",
    )
    assert {group.spec.queue for group in found} == {case.queue}
    assert {group.spec.priority_class_name for group in found} == {case.priority}
    expected = [(member.name, case.named(member.group), member.part) for member in members]
    assert memberships(await cluster.pods(case.namespace), members) == sorted(expected)


@pytest.mark.parametrize("name", cases.NAMES)
async def test_a_workload_becomes_the_groups_that_it_needs_and_runs(cluster, queue, namespace, kinds, name):
    case = Case.load(name, namespace=namespace, queue="")
    if case.body.get("needs-roles") and not await roles_are_in_force(cluster):
        pytest.skip("this cluster lets everybody read everything")
    case = Case.load(name, namespace=namespace, queue=await queue(limit=case.body.get("limit", -1)))
    await case.submit(cluster)
    *first, last = members = case.members
    await case.add(cluster, *first)
    if case.waits_for_all:
        await told(cluster, namespace, "NotReady", case.named(last.group))
        bound = {pod.metadata.name for pod in await cluster.pods(namespace) if pod.spec.node_name}
        assert not bound & {member.name for member in first if member.group == last.group}
    await case.add(cluster, last)

    if len(case.running) < len(members):
        await told(cluster, namespace, "Unschedulable", *(member.name for member in members))
    running = await cluster.running(namespace, count=len(case.running))
    assert sorted(pod.labels.get(names.SUBGROUP_LABEL, "") for pod in running) == case.running
    await check(cluster, case, members, case.body["groups"])

    for added, groups in case.later:
        members += added
        await case.add(cluster, *added)
        await cluster.running(namespace, count=len(members))
        await check(cluster, case, members, groups)


async def test_a_knative_revision_that_was_scaled_to_nothing_comes_back_as_the_same_group(
    cluster, queue, namespace, kinds
):
    case = Case.load("Knative Service, without a least scale", namespace=namespace, queue=await queue())
    await case.submit(cluster)
    before = {
        pod.annotations[names.POD_GROUP_ANNOTATION] for pod in await cluster.running(namespace, count=2)
    }
    for replicas in (0, 1):
        patch = {"spec": {"replicas": replicas}}
        await cluster.client.patch(DEPLOYMENTS, "hello-00001-deployment", patch, namespace=namespace)
        await cluster.running(namespace, count=replicas)
    [pod] = await cluster.running(namespace, count=1)
    assert {pod.annotations[names.POD_GROUP_ANNOTATION]} == before


async def test_a_knative_revision_whose_pods_were_grouped_alone_goes_on_so(cluster, queue, namespace, kinds):
    """They came when a revision was no gang yet: one of their groups, which belongs to a pod, is left."""
    case = Case.load("Knative Service, without a least scale", namespace=namespace, queue=await queue())
    del case.body["objects"]["deployment"]
    await case.submit(cluster)
    [keeper] = await cluster.apply(
        as_yaml(a_pod("keeper", namespace, case.queue, spec={"schedulerName": "somebody-else"}))
    )
    group = a_group("alone", namespace, case.queue, minMember=1)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "keeper", "uid": keeper["metadata"]["uid"]}
    await cluster.apply(as_yaml(group | {"metadata": group["metadata"] | {"ownerReferences": [owner]}}))
    revision = {"apiVersion": "serving.knative.dev/v1", "kind": "Revision", "name": "hello-00001"}
    labels = {"serving.knative.dev/revision": "hello-00001"}
    for name, annotations in (("old", {names.POD_GROUP_ANNOTATION: "alone"}), ("new", {})):
        pod = a_pod(name, namespace, case.queue, labels=labels, annotations=annotations)
        pod["metadata"]["ownerReferences"] = [revision | {"uid": case.uids["revision"], "controller": True}]
        await cluster.apply(as_yaml(pod))
    pods = await cluster.running(namespace, count=2)
    assert {pod.annotations[names.POD_GROUP_ANNOTATION] for pod in pods} == {
        f"pg-{pod.metadata.name}-{pod.metadata.uid}" for pod in pods
    }


def a_pytorch_job(namespace, queue, *, workers):
    template = a_template(queue, gpus=8)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": namespace, "labels": {names.QUEUE_LABEL: queue}},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": workers, "template": template}}},
    }


async def test_a_gang_that_the_cluster_never_had_room_for_is_told_to_its_author(
    cluster, queue, namespace, kinds
):
    leaf = await queue()
    fits = a_pytorch_job(namespace, leaf, workers=1)
    assert kubectl(cluster, "apply", "-f", "-", stdin=as_yaml(fits))[1] == ""
    too_large = a_pytorch_job(namespace, leaf, workers=999)
    made, warned = kubectl(cluster, "apply", "-f", "-", stdin=as_yaml(too_large))
    assert "pytorchjob.kubeflow.org/train configured" in made
    assert f"Warning: pytorchjob {namespace}/train: 999 pods that start together ask for 7992 " in warned
    assert "[GangTooLarge]" in warned


async def test_a_status_that_an_operator_writes_is_told_nothing(cluster, queue, namespace, kinds):
    job = a_pytorch_job(namespace, "no-such-queue", workers=1)
    _, warned = kubectl(cluster, "apply", "-f", "-", stdin=as_yaml(job))
    assert 'queue "no-such-queue" does not exist' in warned
    patch = '{"status": {"conditions": []}}'
    patched, warned = kubectl(
        cluster, "patch", "pytorchjob", "train", "-n", namespace, "--type=merge", "-p", patch
    )
    assert "train patched" in patched
    assert warned == ""


def test_every_kind_that_we_know_of_others_has_a_case():
    seen = set()
    for name in cases.NAMES:
        for entry in Case.load(name, namespace="n", queue="q").body["objects"].values():
            api_version, kind = entry["kind"].split()
            seen |= {(api_version, kind), (f"{api_version.partition('/')[0]}/*", kind)}
    known = {kind for kind in known_kinds() if kind[0] not in BUILT_IN}
    assert known - seen == set()
