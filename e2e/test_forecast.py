"""While insight keeps the past: when what waits starts, and why it waits, told without asking."""

import json
import uuid

import pytest

from e2e.harness import REAL, Cluster, kai, local_cluster
from e2e.manifests import a_job, a_queue, as_yaml
from kai.kube.client import KubeClient
from kai.kube.resources import EVENTS, POD_GROUPS
from kai.model.objects import PodGroup

NAMESPACE, QUEUE = "default", "team"
LASTS_SECONDS = 30


@pytest.fixture
async def with_history(tmp_path):
    """A cluster of eight GPUs that keeps its past."""
    name, kubeconfig = f"e2e-{uuid.uuid4().hex[:8]}", tmp_path / "kubeconfig"
    with local_cluster(name, kubeconfig, "--nodes=1", "--gpus-per-node=8", "--history"):
        async with KubeClient.connect(str(kubeconfig), user_agent="e2e") as client:
            yield Cluster(kubeconfig=kubeconfig, client=client, name=name)


def a_training(number, *, gpus, seconds):
    job = a_job(f"train-{number}", NAMESPACE, QUEUE, pods=1, gpus=gpus)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["command"] = ["sleep", str(seconds)]
    return job


@pytest.mark.skipif(REAL, reason="what is foretold rests on what insight keeps, whatever the control plane")
async def test_what_waits_starts_when_those_like_it_were_over(with_history):
    cluster = with_history
    await cluster.apply(as_yaml(a_queue(QUEUE)))
    for number in range(1, 7):
        await cluster.apply(as_yaml(a_training(number, gpus=1, seconds=LASTS_SECONDS)))

    def printed(*arguments):
        return json.loads(kai(*arguments, "-o", "json", kubeconfig=cluster.kubeconfig))

    async def past():
        return printed("history", "pod")

    await cluster.eventually(
        past,
        lambda runs: len(runs) == 6 and all(run["ended"] for run in runs),
        what="six trainings are over",
    )
    await cluster.apply(as_yaml(a_training(7, gpus=8, seconds="infinity")))
    await cluster.running(NAMESPACE, "train-7", count=1)
    await cluster.eventually(past, lambda runs: len(runs) == 7, what="insight has the run that goes on")
    await cluster.apply(as_yaml(a_training(8, gpus=8, seconds=1)))

    async def forecast():
        return printed("explain", "job/train-8", "-n", NAMESPACE)["forecast"]

    told = await cluster.eventually(forecast, lambda said: said is not None, what="there is a forecast")
    assert told["basis"]["runs"] == 7
    assert told["basis"]["workloads"]["pattern"] == 1
    assert told["basis"]["coverage"]["p50"] == {"held": 0, "of": 0}
    assert 0 <= told["p50"] <= told["p90"] <= LASTS_SECONDS + 10
    answer = printed("explain", "job/train-8", "-n", NAMESPACE)
    behind = f"; verdict {answer['verdict']} ({answer['reason']['code']}): "
    name = answer["podGroup"]

    async def shown():
        group = await cluster.client.get(POD_GROUPS, name, namespace=NAMESPACE, type=PodGroup)
        conditions = (group.status and group.status.scheduling_conditions) or []
        events = await cluster.client.list(EVENTS, namespace=NAMESPACE)
        about = [event["note"] for event in events if event["regarding"]["name"] == name]
        return [conditions[-1].message if conditions else "", *about]

    await cluster.eventually(
        shown,
        lambda texts: behind in texts[0] and any(behind in text for text in texts[1:]),
        what="condition and event say so as well",
    )
