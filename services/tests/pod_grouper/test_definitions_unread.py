"""Where Karta definitions cannot be had, kinds that no code knows are grouped by the default rule."""

import pytest

from deadlines import eventually
from kai.kube.client import KubeClient
from kai.kube.resources import CRDS

from .conftest import a_pod_grouper

pytestmark = pytest.mark.integration

GROUP = "jobs.example.com"
#: An API group has up to 253 characters, the value of a label 63.
LONG_GROUP = f"jobs.{'department.' * 6}example.com"


@pytest.fixture
async def definitions(cluster):
    await cluster.install("run.ai", "v1alpha1", "Karta", "kartas")


async def a_pod_of_a_flow(cluster, name, group=GROUP):
    meta = {"name": name, "namespace": "default"}
    flow = await cluster.create({"apiVersion": f"{group}/v1", "kind": "PyFlow", "metadata": meta})
    reference = {key: flow[key] for key in ("apiVersion", "kind")}
    reference |= {key: flow["metadata"][key] for key in ("name", "uid")}
    await cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta | {"ownerReferences": [reference]},
            "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "busybox"}]},
        }
    )
    return f"pg-{name}-{flow['metadata']['uid']}"


async def test_a_definition_goes_with_its_kind_and_groups_nobody_from_then_on(cluster, definitions):
    await cluster.install(GROUP, "v1", "PyFlow", "pyflows")
    async with a_pod_grouper(cluster):
        before = await a_pod_of_a_flow(cluster, "before")
        await eventually(cluster.memberships, lambda found: found == {"before": before})
        await cluster.client.delete(CRDS, "kartas.run.ai")

        async def is_gone():
            async with KubeClient.connect(cluster.kubeconfig) as client:
                return await client.discover("run.ai/v1alpha1", "Karta") is None

        await eventually(is_gone)
        # Of another kind, for which nobody has looked yet.
        await cluster.install(f"more.{GROUP}", "v1", "PyFlow", "pyflows")
        after = await a_pod_of_a_flow(cluster, "after", f"more.{GROUP}")
        await eventually(cluster.memberships, lambda found: found == {"before": before, "after": after})
    assert await cluster.warnings() == {}


async def test_definitions_that_may_not_be_read_keep_no_pod_waiting(cluster, definitions):
    await cluster.install(GROUP, "v1", "PyFlow", "pyflows")
    cluster.fail(verb="list", resource="kartas", status=403, count=-1)
    group = await a_pod_of_a_flow(cluster, "flow")
    async with a_pod_grouper(cluster):
        await eventually(cluster.memberships, lambda found: found == {"flow": group})
    assert await cluster.warnings() == {}


async def test_a_kind_whose_group_no_label_can_name_has_no_definition(cluster, definitions):
    await cluster.install(LONG_GROUP, "v1", "PyFlow", "pyflows")
    # So Kubernetes answers who looks for such a value.
    cluster.fail(verb="list", resource="kartas", status=400, count=-1)
    group = await a_pod_of_a_flow(cluster, "flow", LONG_GROUP)
    async with a_pod_grouper(cluster):
        await eventually(cluster.memberships, lambda found: found == {"flow": group})
    assert await cluster.warnings() == {}
