"""Queues come and go as an administrator likes, and work in them is never the worse for it unknowingly."""

import subprocess

from e2e.manifests import a_pod, a_queue, as_yaml
from kai.kube.resources import EVENTS, QUEUES


def kubectl(cluster, *arguments, stdin=""):
    """Run kubectl; what it printed on standard output and on standard error."""
    command = ["kubectl", f"--kubeconfig={cluster.kubeconfig}", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


async def test_a_tree_is_deleted_from_above_with_a_warning(cluster):
    manifests = as_yaml(a_queue("above"), a_queue("below", parent="above"))
    kubectl(cluster, "apply", "-f", "-", stdin=manifests)
    deleted, warned = kubectl(cluster, "delete", "queue", "above", "below")
    assert deleted.count("deleted") == 2
    assert "Warning: queue above: it is the parent of below" in warned


async def test_work_whose_queue_is_deleted_keeps_running_and_its_group_says_so(cluster, namespace, queue):
    name = await queue()
    kubectl(cluster, "apply", "-f", "-", stdin=as_yaml(a_pod("runs", namespace, name, gpus=1)))
    await cluster.running(namespace, count=1)
    await cluster.eventually(
        lambda: status_of(cluster, name), lambda status: "allocated" in status, what="the queue counts it"
    )
    _, warned = kubectl(cluster, "delete", "queue", name)
    assert f"Warning: queue {name}: work in it holds" in warned
    await cluster.eventually(
        lambda: cluster.client.list(EVENTS, namespace=namespace),
        lambda events: any(
            event["reason"] == "QueueDoesNotExist" and "keep running" in event["note"] for event in events
        ),
        what="the group says that its queue is gone",
    )
    await cluster.apply(as_yaml(a_pod("waits", namespace, name)))
    await cluster.waits(namespace, "waits", reason="QueueDoesNotExist", saying=name)
    await cluster.running(namespace, "runs", count=1)
    await cluster.apply(as_yaml(a_queue(name)))
    await cluster.running(namespace, count=2)


async def status_of(cluster, name):
    return (await cluster.client.get(QUEUES, name)).get("status") or {}
