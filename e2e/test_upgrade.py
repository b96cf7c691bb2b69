"""From a release whose chart rendered every Deployment to one with an operator, with work running."""

import base64
import os
import subprocess

import pytest

from e2e.harness import REAL, ROOT, chart_cluster
from e2e.installation import ready
from e2e.manifests import a_deployment, a_pod, as_yaml
from kai.kube.resources import CONFIGS, DEPLOYMENTS, PODS, SECRETS
from kai.model import names

HOME, RELEASE = names.NAMESPACE, "kai-scheduler"
#: The last one without an operator.
BEFORE = "3a2477e"
KEPT = ("kai-redis", "kai-admission-webhook-tls-secret", "scheduler-grpc-tls-secret", "kai-redis-tls-secret")


@pytest.fixture(scope="module")
def former_chart(tmp_path_factory):
    """The chart as it was then, from the history."""
    folder = tmp_path_factory.mktemp("former")
    archive = folder / "chart.tar"
    found = subprocess.run(
        ["git", "archive", f"--output={archive}", BEFORE, "helm/kai-scheduler"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if found.returncode:
        pytest.skip(f"needs the history back to {BEFORE}")
    subprocess.run(["tar", "-xf", archive], cwd=folder, check=True)
    return folder / "helm" / "kai-scheduler"


@pytest.fixture(scope="module")
def embedded(helm_program, tmp_path_factory):
    """A cluster of its own, in which releases come and go."""
    if REAL or os.environ.get("KAI_E2E_KUBECONFIG"):
        pytest.skip("installs and removes releases")
    with chart_cluster("upgrade", tmp_path_factory.mktemp("upgrade"), helm_program) as made:
        yield made


@pytest.fixture
def helm(helm_program, embedded):
    def run(*arguments):
        command = [helm_program, f"--kubeconfig={embedded[1]}", f"--namespace={HOME}", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return run


async def deployed(cluster):
    found = await cluster.client.list(DEPLOYMENTS, namespace=HOME)
    return {one["metadata"]["name"]: one for one in found}


def is_ready(deployment):
    status = deployment.get("status") or {}
    observed = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    return observed and status.get("readyReplicas", 0) >= deployment["spec"]["replicas"]


async def secrets(cluster):
    found = {name: await cluster.client.get(SECRETS, name, namespace=HOME) for name in KEPT}
    return {name: decoded(secret) for name, secret in found.items()}


def decoded(secret):
    data = {key: base64.b64decode(value) for key, value in secret["data"].items()}
    return data.get("tls.crt"), data.get("tls.key"), data.get("password")


async def lives(cluster, namespace):
    """Who each pod is, where, and when its container began."""
    pods = await cluster.client.list(PODS, namespace=namespace)
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            pod["spec"].get("nodeName"),
            [container["state"] for container in pod["status"].get("containerStatuses") or ()],
        )
        for pod in pods
    }


async def test_an_upgrade_touches_nothing_that_runs(cluster, queue, namespace, helm, former_chart):
    helm("uninstall", RELEASE, "--wait")
    await cluster.eventually(lambda: deployed(cluster), lambda left: not left, what="the release is gone")
    helm("install", RELEASE, former_chart, "--set=global.gpuSharing=true")
    await cluster.eventually(
        lambda: deployed(cluster),
        lambda found: len(found) == 7 and all(map(is_ready, found.values())),
        what="the former release is ready",
        times=2,
    )
    own = await queue()
    await cluster.apply(as_yaml(a_pod("whole", namespace, own, gpus=1)))
    await cluster.apply(
        as_yaml(a_deployment("part", namespace, own, annotations={names.GPU_FRACTION: "0.5"}))
    )
    await cluster.running(namespace, count=2)
    running = await lives(cluster, namespace)
    reservations = await lives(cluster, names.RESERVATION_NAMESPACE)
    before, held = await deployed(cluster), await secrets(cluster)

    helm("upgrade", RELEASE, ROOT / "helm" / "kai-scheduler", "--set=global.gpuSharing=true")
    await cluster.eventually(
        lambda: ready(cluster, CONFIGS), lambda told: told and told[0] == "True", what="it is ready", times=2
    )

    assert await lives(cluster, namespace) == running
    assert await lives(cluster, names.RESERVATION_NAMESPACE) == reservations
    assert await secrets(cluster) == held
    after = await deployed(cluster)
    for name, deployment in before.items():
        assert after[name]["metadata"]["uid"] == deployment["metadata"]["uid"], name
        assert after[name]["metadata"]["ownerReferences"][0]["controller"], name
    await cluster.apply(as_yaml(a_pod("next", namespace, own, annotations={names.GPU_FRACTION: "0.5"})))
    await cluster.running(namespace, "next", count=1)
