"""What our processes write now and then: the policies let them, each by its own account."""

from e2e.manifests import a_pod, as_yaml
from kai.kube.resources import PODS
from kai.model import names


async def test_a_pod_whose_queue_is_named_late_is_charged_to_it(cluster, queue, namespace):
    own = await queue()
    await cluster.apply(as_yaml(a_pod("late", namespace, "")))
    await cluster.waits(namespace, "late")
    named = {"metadata": {"labels": {names.QUEUE_LABEL: own}}}
    await cluster.client.patch(PODS, "late", named, namespace=namespace)
    await cluster.running(namespace, "late", count=1)
