"""The commands that `kai explain` tells do what it says of them, copied as they are."""

import json
import os
import subprocess

import pytest

from deadlines import patience
from e2e.harness import kai
from e2e.manifests import a_job, a_pod, as_yaml


async def told(cluster, namespace, name, *, code):
    """The changes that an answer tells, once its reason is ``code``."""

    async def answer():
        return json.loads(
            kai("explain", name, "-n", namespace, "--output=json", kubeconfig=cluster.kubeconfig)
        )

    found = await cluster.eventually(
        answer, lambda said: (said["reason"] or {}).get("code") == code, what=f"{name} waits for {code}"
    )
    return found["changes"]


def copied(cluster, changes, start):
    """Run the command of the change that begins so, in a shell."""
    (command,) = (change["command"] for change in changes if change["text"].startswith(start))
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    subprocess.run(["sh", "-c", command], env=environment, check=True, timeout=patience())


@pytest.mark.kubectl
async def test_a_pod_whose_queue_was_misspelt_is_submitted_to_another(cluster, queue, namespace):
    own = await queue(gpus=1)
    await cluster.apply(as_yaml(a_pod("typo", namespace, f"{own}x", gpus=1)))
    changes = await told(cluster, namespace, "pod/typo", code="QueueMissing")
    copied(cluster, changes, f"submit {namespace}/")
    await cluster.running(namespace, "typo", count=1)


@pytest.mark.kubectl
async def test_work_over_quota_that_may_not_be_preempted_is_made_preemptible(cluster, queue, namespace):
    own = await queue(gpus=0, limit=-1)
    await cluster.apply(as_yaml(a_job("kept", namespace, own, pods=1, gpus=1, priority="build")))
    changes = await told(cluster, namespace, "job/kept", code="NonPreemptibleOverQuota")
    copied(cluster, changes, "make ")
    await cluster.running(namespace, "kept", count=1)
