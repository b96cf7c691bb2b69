"""What tenants try who want more than they were given."""

import pytest

from e2e.manifests import a_pod, as_yaml
from kai.kube.errors import ApiError
from kai.kube.resources import PODS
from kai.model import names


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
