"""Who makes a slip is told by kubectl, or where a controller made the pods by an event; nobody is refused."""

import copy
import uuid

from e2e.manifests import a_job, a_pod, a_queue, as_yaml
from e2e.test_queues import kubectl
from kai.kube.resources import EVENTS

SLIP = {"gpu-fractoin": "0.5"}


async def test_kubectl_prints_a_warning_and_makes_the_pod(cluster, namespace, queue):
    pod = a_pod("p", namespace, await queue(), annotations=SLIP)
    made, warned = kubectl(cluster, "apply", "-f", "-", stdin=as_yaml(pod))
    assert "pod/p created" in made
    assert f"Warning: pod {namespace}/p: annotation gpu-fractoin is not known" in warned
    assert "did you mean annotation gpu-fraction? [MisspeltKey]" in warned


async def test_a_scheduler_that_is_nearly_ours_is_told(cluster, namespace):
    pod = a_pod("p", namespace, "default-queue")
    pod["spec"]["schedulerName"] = "kai-schedular"
    _, warned = kubectl(cluster, "apply", "-f", "-", stdin=as_yaml(pod))
    assert 'did you mean "kai-scheduler"? [MisspeltScheduler]' in warned


async def test_a_priority_class_that_does_not_exist_is_told(cluster, namespace, queue):
    pod = a_pod("p", namespace, await queue(), labels={"priorityClassName": "no-such-class"})
    _, warned = kubectl(cluster, "apply", "-f", "-", stdin=as_yaml(pod))
    assert "no-such-class" in warned
    assert "[UnknownPriorityClass]" in warned


async def test_a_queue_of_the_same_manifest_is_no_unknown_one(cluster, namespace):
    name = f"q-{uuid.uuid4().hex[:8]}"
    both = as_yaml(a_queue(name), a_pod("p", namespace, name))
    _, warned = kubectl(cluster, "apply", "-f", "-", stdin=both)
    assert warned == ""
    await cluster.running(namespace, count=1)
    kubectl(cluster, "delete", "pod", "p", f"--namespace={namespace}")
    kubectl(cluster, "delete", "queue", name)


async def test_what_a_job_makes_is_told_to_its_author_and_in_events(cluster, namespace):
    job = a_job("slips", namespace, "no-such-queue", pods=1, annotations=copy.copy(SLIP))
    _, warned = kubectl(cluster, "apply", "-f", "-", stdin=as_yaml(job))
    assert f"Warning: job {namespace}/slips: annotation gpu-fractoin is not known" in warned
    assert 'queue "no-such-queue" does not exist' in warned

    async def told():
        events = await cluster.client.list(EVENTS, namespace=namespace)
        return {each["regarding"]["kind"] for each in events if each["reason"] == "MisspeltKey"}

    await cluster.eventually(told, lambda kinds: kinds >= {"Pod", "Job"}, what="pod and Job are told of")


async def test_memory_of_a_queue_in_bytes_is_told(cluster):
    wrong = a_queue(f"q-{uuid.uuid4().hex[:8]}")
    wrong["spec"]["resources"]["memory"] = {"quota": 68719476736, "limit": -1, "overQuotaWeight": 1}
    _, warned = kubectl(cluster, "apply", "--dry-run=server", "-f", "-", stdin=as_yaml(wrong))
    assert "spec.resources.memory.quota is in MB, so 68719476736 is 68.72 PB" in warned
