"""While admission is away nothing new that it guards is let in, and what exists goes on."""

import pytest

from kai.kube import errors
from kai.kube.resources import MUTATING_WEBHOOKS, POD_GROUPS, PODS, QUEUES, TOPOLOGIES, VALIDATING_WEBHOOKS
from kai.model import names
from kai.validation.registration import PodScope, webhook_configurations

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("devices")]

#: Refuses connections: nobody may listen there.
NOWHERE = "https://127.0.0.1:1"


async def all_away(cluster, **scope):
    """The API server is told of the webhooks of an installation, none of which answers."""
    kinds = {each.kind: each for each in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)}
    for each in webhook_configurations(
        lambda component, path: {"url": NOWHERE + path}, PodScope(**scope), refuse_queue_deletion=True
    ):
        await cluster.client.create(kinds[each["kind"]], each)


@pytest.mark.parametrize("all_pods", [False, True], ids=["some pods", "all pods"])
async def test_a_part_of_a_gpu_that_is_waited_for_is_bound(cluster, all_pods):
    await cluster.pod("demo", fraction=0.5)
    await cluster.pod("wide", fraction=0.5, devices=2)
    await all_away(cluster, all_pods=all_pods)
    async with cluster.scheduler(), cluster.binder():
        await cluster.node("n1")
        assert await cluster.bound("demo", "wide") == ["n1", "n1"]
    with pytest.raises(errors.KubeError, match="failed calling webhook"):
        await cluster.pod("another", fraction=0.5)


async def test_finalizers_of_a_part_of_a_gpu_that_is_deleted_can_be_taken_off(cluster):
    await cluster.pod("demo", fraction=0.5)
    patch = {"metadata": {"finalizers": ["example.com/kept"]}}
    await cluster.client.patch(PODS, "demo", patch, namespace="default")
    await all_away(cluster)
    await cluster.client.delete(PODS, "demo", namespace="default", grace_seconds=0)
    none = {"metadata": {"finalizers": None}}
    await cluster.client.patch(PODS, "demo", none, namespace="default")
    with pytest.raises(errors.NotFound):
        await cluster.get("demo")


async def test_what_was_granted_stays_guarded(cluster):
    await cluster.node("n1")
    async with cluster.scheduler(), cluster.binder():
        await cluster.pod("demo", fraction=0.5)
        await cluster.bound("demo")
    await all_away(cluster)
    for changed in (
        {"annotations": {names.GPU_FRACTION: "0.1"}},
        {"annotations": {names.GPU_FRACTION: None}},
        {"annotations": {names.RECEIVED_RESOURCE_TYPE: "Regular"}},
        {"labels": {names.GPU_GROUP_LABEL: None}},
        {"labels": {names.MULTI_GPU_GROUP_PREFIX + "x": "x"}},
    ):
        with pytest.raises(errors.KubeError, match="failed calling webhook"):
            await cluster.client.patch(PODS, "demo", {"metadata": changed}, namespace="default")


async def test_labels_of_what_exists_can_be_written(cluster):
    topology = {"metadata": {"name": "fabric"}, "spec": {"levels": [{"nodeLabel": "rack"}]}}
    group = {"metadata": {"name": "parts"}, "spec": {"queue": "test", "subGroups": [{"name": "a"}]}}
    of_group = {"namespace": "default"}
    await cluster.client.create(TOPOLOGIES, topology)
    await cluster.client.create(POD_GROUPS, group, **of_group)
    await all_away(cluster)
    labelled = {"metadata": {"labels": {"team": "ml"}}}
    await cluster.client.patch(TOPOLOGIES, "fabric", labelled)
    await cluster.client.patch(QUEUES, "test", labelled)
    await cluster.client.patch(POD_GROUPS, "parts", labelled, **of_group)
    with pytest.raises(errors.KubeError, match="failed calling webhook"):
        await cluster.client.create(TOPOLOGIES, {**topology, "metadata": {"name": "another"}})
    with pytest.raises(errors.KubeError, match="failed calling webhook"):
        await cluster.client.patch(QUEUES, "test", {"spec": {"displayName": "another"}})
    with pytest.raises(errors.KubeError, match="failed calling webhook"):
        await cluster.client.patch(POD_GROUPS, "parts", {"spec": {"queue": "top"}}, **of_group)
