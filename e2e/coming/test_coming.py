"""Whoever exchanges the original for this loses nothing, and can go back; by the commands of the page."""

import asyncio
import os
import re
import uuid
from pathlib import Path

import pytest

from e2e.coming.original import RESERVATIONS, SYSTEM, Original
from e2e.harness import ROOT, Cluster, local_cluster
from e2e.manifests import a_pod, a_queue, as_yaml
from kai.kube.client import KubeClient
from kai.kube.resources import CONFIG_MAPS, EVENTS, POD_GROUPS, PODS, QUEUES
from kai.model import names
from kai.model.claims import claims_of
from kai.model.objects import Queue

PAGE = (ROOT / "docs" / "coming-from-kai.md").read_text()
BLOCK = re.compile(
    r'^<!-- not run: e2e/coming runs it as "(\w+)" -->\n```sh\n(.*?)^```', re.MULTILINE | re.DOTALL
)
COMMANDS = dict(BLOCK.findall(PAGE))
#: By which a shared device is known to the original, as it makes them itself.
GROUP, SECOND_GROUP = "5f0c1a52-6a55-4d9c-9a5e-3d2b8e1f7a01", "9b2d7c10-0f4e-4d0a-8a57-6e0c5b7d4f02"
#: Kinds of which nothing of ours may be left: with whose help we ran, or that hold others up.
OURS = (
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
)
WITHIN = (
    ("apps/v1", "Deployment"),
    ("v1", "Service"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("coordination.k8s.io/v1", "Lease"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
)
#: What Kubernetes puts into every namespace by itself.
_EVERYWHERE = {"kube-root-ca.crt"}


@pytest.fixture(scope="module")
def empty(tmp_path_factory, helm_program):
    """A cluster whose node agent runs what the chart installs; name and kubeconfig."""
    name, kubeconfig = f"coming-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("coming") / "kubeconfig"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{Path(helm_program).parent}{os.pathsep}{os.environ['PATH']}")
        with local_cluster(name, kubeconfig, "--chart", "--nodes=2"):
            yield name, kubeconfig


@pytest.fixture
async def cluster(empty):
    name, kubeconfig = empty
    async with KubeClient.connect(str(kubeconfig), user_agent="e2e") as client:
        yield Cluster(kubeconfig=kubeconfig, client=client, name=name)


async def follow(cluster, step: str, helm: str) -> None:
    """Do what the page says, as a reader would."""
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    environment["PATH"] = f"{Path(helm).parent}{os.pathsep}{environment['PATH']}"
    process = await asyncio.create_subprocess_exec(
        "bash", "-eux", "-c", COMMANDS[step], cwd=ROOT, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, f"{step}\n{output.decode()}\n{await cluster.report()}"


async def seen(cluster, namespace) -> dict[str, tuple[str, str, int]]:
    """Of each pod: uid, version, restarts."""
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            pod["metadata"]["resourceVersion"],
            sum(one["restartCount"] for one in pod["status"].get("containerStatuses") or ()),
        )
        for pod in await cluster.client.list(PODS, namespace=namespace)
    }


async def left(cluster) -> list[str]:
    """What of ours is still there; Kubernetes' own things bear other names."""
    found = []
    for kinds, namespace in ((OURS, ""), (WITHIN, SYSTEM)):
        for api_version, kind in kinds:
            resource = await cluster.client.discover(api_version, kind)
            for each in await cluster.client.list(resource, namespace=namespace):
                name, labels = each["metadata"]["name"], each["metadata"].get("labels") or {}
                ours = namespace or "kai" in name or "kai" in labels.get("app.kubernetes.io/part-of", "")
                if ours and name not in _EVERYWHERE and not name.startswith("system:"):
                    found.append(f"{kind} {name}")
    return sorted(found)


async def finalizers(cluster) -> set[str]:
    """For whom the deletion of objects waits. Whoever plays nodes may be among them."""
    return {
        finalizer
        for kind in (QUEUES, POD_GROUPS, PODS, CONFIG_MAPS)
        for each in await cluster.client.list(kind)
        for finalizer in each["metadata"].get("finalizers") or ()
    }


@pytest.mark.kubectl
@pytest.mark.skipif(
    bool(os.environ.get("KAI_E2E_KUBECONFIG")), reason="takes an installation of its own away"
)
async def test_what_runs_goes_on_while_one_is_exchanged_for_the_other_and_back(cluster, helm_program):
    # A cluster without us, on which the original has placed work.
    await follow(cluster, "back", helm_program)
    await cluster.eventually(lambda: left(cluster), lambda found: not found, what="nothing of ours is left")
    where = f"t-{uuid.uuid4().hex[:8]}"
    await cluster.apply(as_yaml(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}},
        a_queue("came-department"),
        a_queue("came-team", parent="came-department"),
    ))  # fmt: skip
    one, two = (await cluster.worker_nodes())[:2]
    original = Original(cluster, where, "came-team")
    await original.install()
    await original.run_gang("gang", pods=4, node=one)
    await original.share("half", portion="0.5", node=two, group=GROUP)
    await original.share("third", portion="0.3", node=two, group=GROUP)
    await original.share("other", portion="0.6", node=two, group=SECOND_GROUP)
    await original.leave_waiting("waits", gpus=4)
    await original.leave_half_bound("decided", node=one)
    running = ("gang", "half", "third", "other")
    for prefix, count in zip(running, (4, 1, 1, 1), strict=True):
        await cluster.running(where, prefix, count=count)
    await original.leave_itself()
    before, held = await settled(cluster, where, running), await seen(cluster, RESERVATIONS)
    assert len(held) == 2
    others = await finalizers(cluster)

    # We come.
    await follow(cluster, "leave", helm_program)
    await follow(cluster, "install", helm_program)
    await follow(cluster, "look", helm_program)
    await cluster.running(where, "waits", count=1)
    await cluster.running(where, "decided", count=1)
    await recorded(cluster, 3)
    after = await seen(cluster, where)
    assert {name: after[name] for name in before} == before
    assert {name: one[0::2] for name, one in (await seen(cluster, RESERVATIONS)).items()} == {
        name: one[0::2] for name, one in held.items()
    }
    await charged(cluster, "came-department", 4 + 0.5 + 0.3 + 0.6 + 4 + 1)

    # A newcomer joins a device that the original has given out, and is told the same one.
    newcomer = a_pod("newcomer", where, "came-team", annotations={names.GPU_FRACTION: "0.2"})
    newcomer["spec"]["nodeSelector"] = {"kubernetes.io/hostname": two}
    await cluster.apply(as_yaml(newcomer))
    [joined] = await cluster.running(where, "newcomer", count=1)
    assert joined.labels[names.GPU_GROUP_LABEL] in (GROUP, SECOND_GROUP)
    assert len(await original.reservations()) == 2

    # We go.
    before, held = await settled(cluster, where, ("",)), await seen(cluster, RESERVATIONS)
    await follow(cluster, "back", helm_program)
    await cluster.eventually(lambda: left(cluster), lambda found: not found, what="nothing of ours is left")
    assert await finalizers(cluster) <= others
    assert await seen(cluster, where) == before
    assert await seen(cluster, RESERVATIONS) == held
    for pod in await original.reservations():
        assert pod.labels[names.APP_LABEL] == names.RESERVATION_APP
        assert pod.labels[names.GPU_GROUP_LABEL] in (GROUP, SECOND_GROUP)
        assert pod.annotations[names.RESERVED_GPU]
    assert [e for e in await cluster.client.list(EVENTS, namespace=where) if e.get("reason") == "Evict"] == []


async def settled(cluster, namespace, prefixes) -> dict[str, tuple[str, str, int]]:
    """The pods whose names begin so, once nobody writes to them any more."""

    async def twice():
        first = await seen(cluster, namespace)
        await asyncio.sleep(1.0)
        return first if first == await seen(cluster, namespace) else None

    found = await cluster.eventually(twice, lambda same: same is not None, what="pods are at rest")
    return {name: one for name, one in found.items() if name.startswith(prefixes)}


async def recorded(cluster, pods) -> None:
    """Wait until so many pods are recorded on the devices that they share."""

    async def claims():
        there = await cluster.client.list(PODS, namespace=RESERVATIONS)
        return [claim for pod in there for claim in claims_of(pod["metadata"]["annotations"]).values()]

    await cluster.eventually(claims, lambda found: len(found) == pods, what=f"{pods} pods are recorded")


async def charged(cluster, name, gpus) -> None:
    """Wait until a queue's status says that so many GPUs are allocated."""

    async def told():
        queue = await cluster.client.get(QUEUES, name, type=Queue)
        return ((queue.status and queue.status.allocated) or {}).get(names.NVIDIA_GPU)

    wanted = f"{round(gpus * 1000)}m" if gpus % 1 else str(int(gpus))
    await cluster.eventually(told, lambda found: found == wanted, what=f"{name} is charged {wanted} GPUs")
