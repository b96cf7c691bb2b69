"""Who may say in which NUMA zones pods are."""

import pytest

from e2e.accounts.acting import acting_as
from kai.kube.errors import Forbidden
from kai.kube.resources import PODS
from kai.model import names

EXPORTER = "numa-placement-exporter"


async def test_an_exporter_tells_of_the_pods_of_its_own_node(cluster, world, tmp_path):
    own = await cluster.client.get(PODS, "own", namespace=world.namespace)
    waits = await cluster.client.get(PODS, "waits", namespace=world.namespace)
    here = own["spec"]["nodeName"]
    (elsewhere,) = set(await cluster.worker_nodes()) - {here}
    made = []
    async with acting_as(cluster, tmp_path, EXPORTER):  # makes the account
        pass
    for node in (here, elsewhere):
        spec = {"serviceAccountName": EXPORTER, "nodeName": node, "containers": [{"name": "x", "image": "x"}]}
        body = {"metadata": {"name": f"exporter-{node}"}, "spec": spec}
        made.append(await cluster.client.create(PODS, body, namespace=names.NAMESPACE))
    seen = {"metadata": {"annotations": {names.NUMA_OBSERVED: "[]"}}}
    try:
        async with acting_as(cluster, tmp_path, EXPORTER, pod=made[0]) as client:
            await client.patch(PODS, own["metadata"]["name"], seen, namespace=world.namespace)
            with pytest.raises(Forbidden, match="only of the pods of its own node"):
                await client.patch(PODS, waits["metadata"]["name"], seen, namespace=world.namespace)
        async with acting_as(cluster, tmp_path, EXPORTER, pod=made[1]) as client:
            gone = {"metadata": {"annotations": {names.NUMA_OBSERVED: None}}}
            with pytest.raises(Forbidden, match="only of the pods of its own node"):
                await client.patch(PODS, own["metadata"]["name"], gone, namespace=world.namespace)
    finally:
        for pod in made:
            name = pod["metadata"]["name"]
            await cluster.client.delete(PODS, name, namespace=names.NAMESPACE, grace_seconds=0)
