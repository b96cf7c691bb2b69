"""What is told to somebody who may not see everything."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from e2e.api_server import serving
from kai.kube.client import KubeClient
from kai.kube.errors import Forbidden, Unanswered
from kai.kube.resources import CRDS, LEASES, POD_GROUPS, PODS, Resource
from kai_cli.__main__ import app
from kai_local.installation.bootstrap import definitions

pytestmark = pytest.mark.integration

WHY = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node has 9 GPUs"}
RAY_JOB = Resource("ray.io", "v1", "rayjobs", "RayJob")
A_POD = {
    "metadata": {"name": "p", "annotations": {"pod-group-name": "g"}},
    "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i"}]},
}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("server")) as server:
        asyncio.run(fill(server.kubeconfig))
        yield str(server.kubeconfig)


async def fill(path):
    async with KubeClient.connect(str(path), user_agent="test") as client:
        for definition in definitions():
            await client.create(CRDS, definition)
        await client.create(CRDS, a_definition())
        await client.create(RAY_JOB, {"metadata": {"name": "x"}}, namespace="default")
        await client.create(PODS, A_POD, namespace="default")
        status = {"status": {"conditions": [WHY]}}
        await client.patch(PODS, "p", status, namespace="default", subresource="status")


def a_definition():
    called = {"plural": "rayjobs", "singular": "rayjob", "kind": "RayJob", "shortNames": ["rj"]}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": RAY_JOB.group, "names": called, "scope": "Namespaced", "versions": [version]}
    return {"metadata": {"name": "rayjobs.ray.io"}, "spec": spec}


@pytest.fixture
def kai(kubeconfig, monkeypatch):
    """Runs the command of somebody to whom the server refuses some kinds."""

    def run(*arguments, refused):
        for verb, real in (("get", KubeClient.get), ("list", KubeClient.list)):

            async def read(self, res, *args, real=real, verb=verb, **more):
                if res in refused:
                    text = f"{res.plural} is forbidden: you may not {verb} them"
                    raise Forbidden(text, status=403, reason="Forbidden", request=f"{verb} {res.plural}")
                return await real(self, res, *args, **more)

            monkeypatch.setattr(KubeClient, verb, read)
        return CliRunner().invoke(app, ["--kubeconfig", kubeconfig, *arguments])

    return run


@pytest.mark.parametrize(
    ("refused", "said"),
    [([POD_GROUPS], "no node has 9 GPUs"), ([POD_GROUPS, LEASES], "leases is forbidden")],
    ids=["pod groups", "and Leases"],
)
def test_a_pod_is_explained_though_its_group_may_not_be_seen(kai, refused, said):
    done = kai("explain", "pod/p", refused=refused)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("pod default/p: ESCALATE (SchedulerSilent)")
    assert said in done.stdout


def test_the_version_of_the_cluster_is_told_though_leases_may_not_be_seen(kai):
    done = kai("version", "-o", "json", refused=[LEASES])
    assert done.exit_code == 1
    assert [each["what"] for each in json.loads(done.stdout)] == ["kai", "kubernetes"]
    assert done.stderr == "kai: list leases: leases is forbidden: you may not list them\n"


@pytest.mark.parametrize("kind", ["rayjob", "rayjobs", "RayJob", "rj", "rayjobs.ray.io", "rj.v1.ray.io"])
def test_a_kind_is_known_though_definitions_may_not_be_seen(kai, kind):
    done = kai("explain", f"{kind}/x", refused=[CRDS])
    assert done.exit_code == 0, done.stderr
    assert "RayJob x has no pods: its controller has made none yet" in done.stdout


def test_where_kinds_may_not_be_seen_none_is_called_unknown(kai, monkeypatch):
    async def called(self, word):
        raise Forbidden("you may not get path /apis", status=403)

    monkeypatch.setattr(KubeClient, "resource_called", called)
    done = kai("explain", "rayjob/x", refused=[CRDS])
    assert done.exit_code == 1
    assert done.stderr == (
        "kai: whether 'rayjob' is a kind of object here cannot be seen: you may not get path /apis\n"
    )


def test_a_kind_is_not_called_unknown_where_who_may_have_it_does_not_answer(kai, monkeypatch):
    async def called(self, word):
        raise Unanswered("ray.io/v1 gave no answer (get discovery ray.io/v1: too many requests)")

    monkeypatch.setattr(KubeClient, "resource_called", called)
    done = kai("explain", "rayjob/x", refused=[])
    assert done.exit_code == 1
    assert done.stderr == (
        "kai: whether 'rayjob' is a kind of object here cannot be seen: "
        "ray.io/v1 gave no answer (get discovery ray.io/v1: too many requests)\n"
    )
