"""What pods would rather have, as users write it, with the configuration that every installation has."""

from collections import Counter

from e2e.manifests import a_pod, as_yaml

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"


def mates(app):
    return {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}


async def test_pods_that_prefer_to_keep_apart_do_so(cluster, queue, namespace):
    name, nodes = await queue(), await cluster.worker_nodes()
    apart = {"podAntiAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": mates("web")}]}}
    pods = [
        a_pod(f"web-{number}", namespace, name, labels={"app": "web"}, spec={"affinity": apart})
        for number in range(len(nodes))
    ]
    await cluster.apply(as_yaml(*pods))
    running = await cluster.running(namespace, count=len(nodes))
    assert Counter(pod.spec.node_name for pod in running) == dict.fromkeys(nodes, 1)


async def test_a_pod_goes_to_the_node_that_it_prefers(cluster, queue, namespace):
    name, nodes = await queue(), await cluster.worker_nodes()
    for number, node in enumerate(nodes):
        named = {"key": HOSTNAME, "operator": "In", "values": [node]}
        term = {"weight": 1, "preference": {"matchExpressions": [named]}}
        spec = {"affinity": {"nodeAffinity": {PREFERRED: [term]}}}
        parts = {"gpu-fraction": "0.5"} if number % 2 else {}
        await cluster.apply(as_yaml(a_pod(f"p{number}", namespace, name, annotations=parts, spec=spec)))
    running = await cluster.running(namespace, count=len(nodes))
    assert {pod.metadata.name: pod.spec.node_name for pod in running} == {
        f"p{n}": node for n, node in enumerate(nodes)
    }
