"""What `kai what-if` says is what happens when kubectl makes the change."""

import json
import os
import shlex
import subprocess

import pytest

from deadlines import patience
from e2e.harness import kai
from e2e.manifests import a_pod, as_yaml

JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: coming
  namespace: {namespace}
  labels:
    kai.scheduler/queue: {queue}
  annotations:
    kai.scheduler/batch-min-member: "2"
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers:
      - name: main
        image: busybox
        resources:
          limits:
            nvidia.com/gpu: 1
"""


@pytest.fixture
def asked(cluster):
    """Asks `kai what-if`; the answer as JSON."""
    if not cluster.name:
        pytest.skip("asks the scheduler of a cluster of the suite's own")

    def ask(*arguments):
        return json.loads(kai("what-if", *arguments, f"--name={cluster.name}", "--output=json"))

    return ask


def shell(cluster, command):
    """Run a command as somebody would who copies it."""
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    subprocess.run(shlex.split(command), env=environment, check=True, capture_output=True, timeout=patience())


@pytest.mark.kubectl
async def test_a_quota_takes_from_whom_it_was_said(cluster, queue, namespace, asked):
    parent = await queue(gpus=4, limit=4)
    other, own = await queue(parent=parent, gpus=4), await queue(parent=parent, gpus=2)
    await cluster.apply(as_yaml(*(a_pod(f"theirs-{n}", namespace, other, gpus=1) for n in range(4))))
    await cluster.running(namespace, "theirs", count=4)
    await cluster.apply(as_yaml(*(a_pod(f"ours-{n}", namespace, own, gpus=1) for n in range(3))))
    for number in range(3):
        await cluster.waits(namespace, f"ours-{number}")

    told = asked("quota", other, "2")
    there = {pod.key for pod in await cluster.pods(namespace)}
    assert {pod.key for pod in await cluster.pods(namespace) if pod.spec.node_name} == {
        f"{namespace}/theirs-{n}" for n in range(4)
    }, "nothing is touched"

    [change] = told["changes"]
    shell(cluster, change["command"])
    # What the test before left may still be going.
    evicted, started = (
        [pod for pod in told[what] if pod.startswith(f"{namespace}/")] for what in ("evicted", "started")
    )
    assert len(evicted) == len(started) == 2

    async def seen():
        pods = {pod.key: bool(pod.spec.node_name) for pod in await cluster.pods(namespace)}
        return sorted(there - set(pods)), sorted(
            key for key, bound in pods.items() if bound and "ours" in key
        )

    await cluster.eventually(seen, lambda found: found == (evicted, started), what="just those go and start")


@pytest.mark.kubectl
async def test_a_manifest_runs_where_and_when_it_was_said(cluster, queue, namespace, asked, tmp_path):
    name = await queue(gpus=2)
    file = tmp_path / "job.yaml"
    file.write_text(JOB.format(namespace=namespace, queue=name))
    told = asked("-f", str(file))
    [workload] = told["workloads"]
    assert (workload["workload"], workload["queue"]) == (f"{namespace}/job/coming", name)
    assert workload["after"] == {"running": 2, "waiting": 0}
    assert not await cluster.pods(namespace), "nothing is touched"
    shell(cluster, told["changes"][0]["command"])
    await cluster.running(namespace, "coming", count=2)


async def test_a_slip_is_told_with_the_name_that_was_meant(cluster, queue, asked):
    name = await queue(gpus=2)
    with pytest.raises(AssertionError, match=f"there is no queue '{name}x'; did you mean '{name}'"):
        asked("quota", f"{name}x", "2")
