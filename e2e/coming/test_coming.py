"""Whoever exchanges the original for this loses nothing, and can go back; by the commands of the page."""

import asyncio
import os
import re
import shutil
import uuid
from collections import Counter
from pathlib import Path

import pytest

from e2e.coming.original import RESERVATIONS, SYSTEM, Original, configuration
from e2e.coming.release import a_chart, of_its_operator
from e2e.harness import ROOT, Cluster, local_cluster
from e2e.manifests import a_pod, a_queue, as_yaml
from kai.kube.client import KubeClient
from kai.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    QUEUES,
    SCHEDULING_SHARDS,
    SERVICE_ACCOUNTS,
)
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
LOST_GROUP = "c7e1b3a4-52d8-4f6e-b0c9-1a2d3e4f5a03"
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
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on the PATH")
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
    await run(cluster, helm, COMMANDS[step])


async def run(cluster, helm: str, commands: str) -> None:
    """Run commands of a shell, with this helm, on this cluster."""
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    environment["PATH"] = f"{Path(helm).parent}{os.pathsep}{environment['PATH']}"
    process = await asyncio.create_subprocess_exec(
        "bash", "-eux", "-c", commands, cwd=ROOT, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, f"{commands}\n{output.decode()}\n{await cluster.report()}"


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
    # Or what is applied now would be our account, which goes a moment after the Config that it is of.
    await cluster.eventually(
        lambda: accounts(cluster), lambda found: not found, what="our account of reservation pods is gone"
    )
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
    await original.share("half", portion="0.5", node=two, groups=[GROUP])
    await original.share("third", portion="0.3", node=two, groups=[GROUP])
    await original.share("wide", portion="0.1", node=two, groups=[GROUP, SECOND_GROUP])
    await original.share("other", portion="0.6", node=two, groups=[SECOND_GROUP])
    await original.leave_waiting("waits", gpus=4)
    await original.leave_half_bound("decided", node=one)
    await original.leave_half_shared("torn", portion="0.9", node=one, group=LOST_GROUP)
    running = ("gang", "half", "third", "wide", "other")
    for prefix, count in zip(running, (4, 1, 1, 1, 1), strict=True):
        await cluster.running(where, prefix, count=count)
    await original.leave_itself()
    before, held = await settled(cluster, where, running), await devices(cluster)
    account = await reservation_account(cluster)
    assert held.keys() == {GROUP, SECOND_GROUP, LOST_GROUP}
    others = await finalizers(cluster)

    # We come.
    await follow(cluster, "leave", helm_program)
    await follow(cluster, "account", helm_program)
    await follow(cluster, "install", helm_program)
    await follow(cluster, "look", helm_program)
    await cluster.running(where, "waits", count=1)
    await cluster.running(where, "decided", count=1)
    [torn] = await cluster.running(where, "torn", count=1)
    await recorded(cluster, [1, 1, 1, 1, 2])  # half, third, other, torn, wide
    after = await seen(cluster, where)
    assert {name: after[name] for name in before} == before
    assert await reservation_account(cluster) == account
    there = await devices(cluster)
    assert {group: there[group] for group in (GROUP, SECOND_GROUP)} == {
        group: held[group] for group in (GROUP, SECOND_GROUP)
    }
    assert there.keys() == {GROUP, SECOND_GROUP, torn.labels[names.GPU_GROUP_LABEL]}
    await charged(cluster, "came-department", 4 + 0.5 + 0.3 + 2 * 0.1 + 0.6 + 4 + 1 + 0.9)

    # A newcomer joins a device that the original has given out, and is told the same one.
    newcomer = a_pod("newcomer", where, "came-team", annotations={names.GPU_FRACTION: "0.2"})
    newcomer["spec"]["nodeSelector"] = {"kubernetes.io/hostname": two}
    await cluster.apply(as_yaml(newcomer))
    [joined] = await cluster.running(where, "newcomer", count=1)
    assert joined.labels[names.GPU_GROUP_LABEL] in (GROUP, SECOND_GROUP)
    assert (await devices(cluster)).keys() == there.keys()

    # We go.
    before, reserved = await settled(cluster, where, ("",)), await seen(cluster, RESERVATIONS)
    await follow(cluster, "back", helm_program)
    await cluster.eventually(lambda: left(cluster), lambda found: not found, what="nothing of ours is left")
    assert await finalizers(cluster) <= others
    assert await seen(cluster, where) == before
    assert await seen(cluster, RESERVATIONS) == reserved
    for pod in await original.reservations():
        assert pod.labels[names.APP_LABEL] == names.RESERVATION_APP
        assert pod.labels[names.GPU_GROUP_LABEL] in there
        assert pod.annotations[names.RESERVED_GPU]
    assert [e for e in await cluster.client.list(EVENTS, namespace=where) if e.get("reason") == "Evict"] == []


@pytest.mark.kubectl
@pytest.mark.skipif(
    bool(os.environ.get("KAI_E2E_KUBECONFIG")), reason="takes an installation of its own away"
)
async def test_what_runs_goes_on_where_its_release_is_upgraded_to_ours(cluster, helm_program, tmp_path):
    # The original is there as a release, with its Config and what its operator makes of that.
    await bare(cluster, helm_program)
    chart = a_chart(tmp_path / "chart")
    await run(cluster, helm_program, f"helm install kai-scheduler {chart} -n {SYSTEM} --create-namespace")
    where = f"t-{uuid.uuid4().hex[:8]}"
    await cluster.apply(as_yaml(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}},
        a_queue("over-department"),
        a_queue("over-team", parent="over-department"),
    ))  # fmt: skip
    [config] = await cluster.apply(as_yaml(configuration()[0]))
    shard = await cluster.client.get(SCHEDULING_SHARDS, names.DEFAULT_SHARD)
    await cluster.apply(as_yaml(*of_its_operator(config, shard)))
    one, two = (await cluster.worker_nodes())[:2]
    original = Original(cluster, where, "over-team")
    await original.run_gang("gang", pods=4, node=one)
    await original.share("half", portion="0.5", node=two, groups=[GROUP])
    await original.share("third", portion="0.3", node=two, groups=[GROUP])
    await original.leave_waiting("waits", gpus=4)
    for prefix, count in (("gang", 4), ("half", 1), ("third", 1)):
        await cluster.running(where, prefix, count=count)
    before, held = await settled(cluster, where, ("gang", "half", "third")), await devices(cluster)
    account, theirs = await reservation_account(cluster), await programs(cluster)
    assert held.keys() == {GROUP}

    # helm does nothing as long as the Config is not given to it; then all of it is replaced.
    with pytest.raises(
        AssertionError, match='Config "kai-config" in namespace "" exists and cannot be imported'
    ):
        await follow(cluster, "install", helm_program)
    assert await programs(cluster) == theirs
    await follow(cluster, "over", helm_program)
    await follow(cluster, "install", helm_program)
    await follow(cluster, "look", helm_program)
    await cluster.running(where, "waits", count=1)
    assert not set((await programs(cluster)).values()) & set(theirs.values())
    after = await seen(cluster, where)
    assert {name: after[name] for name in before} == before
    assert await reservation_account(cluster) == account
    assert await devices(cluster) == held
    await charged(cluster, "over-department", 4 + 0.5 + 0.3 + 4)
    await follow(cluster, "back", helm_program)
    await cluster.eventually(lambda: left(cluster), lambda found: not found, what="nothing of ours is left")


async def bare(cluster, helm) -> None:
    """Have no release and no work there, and nothing that one before may have left for good."""
    there = f"helm status kai-scheduler --namespace {SYSTEM}"
    await run(cluster, helm, f"if {there}; then helm uninstall kai-scheduler --namespace {SYSTEM} --wait; fi")
    await cluster.delete("v1", "Namespace", SYSTEM)
    for each in await cluster.client.list(NAMESPACES):
        if each["metadata"]["name"].startswith("t-"):
            await cluster.end_namespace(each["metadata"]["name"])
    for kind in ("Config", "SchedulingShard"):
        resource = await cluster.client.discover(names.CONFIG_API_VERSION, kind)
        for each in await cluster.client.list(resource):
            await cluster.delete(names.CONFIG_API_VERSION, kind, each["metadata"]["name"])
    await cluster.delete("v1", "Namespace", RESERVATIONS)

    async def namespaces():
        return {each["metadata"]["name"] for each in await cluster.client.list(NAMESPACES)}

    await cluster.eventually(
        namespaces, lambda found: not found & {SYSTEM, RESERVATIONS}, what="their namespaces are gone"
    )


async def programs(cluster) -> dict[str, str]:
    """Uid of each Deployment of an installation, but for the operator, which helm itself replaces."""
    return {
        each["metadata"]["name"]: each["metadata"]["uid"]
        for each in await cluster.client.list(DEPLOYMENTS, namespace=SYSTEM)
        if each["metadata"]["name"] != "kai-operator"
    }


async def settled(cluster, namespace, prefixes) -> dict[str, tuple[str, str, int]]:
    """The pods whose names begin so, once nobody has written to any for a second."""
    clock = asyncio.get_running_loop().time
    last, since = {}, clock()

    async def at_rest():
        nonlocal last, since
        found = await seen(cluster, namespace)
        if found != last:
            last, since = found, clock()
        return clock() - since > 1.0

    await cluster.eventually(at_rest, bool, what="pods are at rest")
    return {name: one for name, one in last.items() if name.startswith(prefixes)}


async def devices(cluster) -> dict[str, tuple[str, int, str]]:
    """Of the pod that holds each shared device, by group: uid, restarts, and which device it is."""
    return {
        pod["metadata"]["labels"][names.GPU_GROUP_LABEL]: (
            pod["metadata"]["uid"],
            sum(one["restartCount"] for one in pod["status"].get("containerStatuses") or ()),
            pod["metadata"]["annotations"].get(names.RESERVED_GPU, ""),
        )
        for pod in await cluster.client.list(PODS, namespace=RESERVATIONS)
    }


async def accounts(cluster) -> list[str]:
    """Names of the accounts of reservation pods."""
    found = await cluster.client.list(SERVICE_ACCOUNTS, namespace=RESERVATIONS)
    names_there = (each["metadata"]["name"] for each in found)
    return [name for name in names_there if name == names.RESERVATION_SERVICE_ACCOUNT]


async def reservation_account(cluster) -> str:
    """Uid of the account of reservation pods: their tokens are good as long as it stays."""
    name = names.RESERVATION_SERVICE_ACCOUNT
    return (await cluster.client.get(SERVICE_ACCOUNTS, name, namespace=RESERVATIONS))["metadata"]["uid"]


async def recorded(cluster, wanted) -> None:
    """Wait until it is recorded what pods hold of so many devices each."""

    async def claims():
        there = await cluster.client.list(PODS, namespace=RESERVATIONS)
        granted = [claim for pod in there for claim in claims_of(pod["metadata"]["annotations"]).values()]
        return Counter(claim.pod for claim in granted if claim.grant is not None)

    await cluster.eventually(claims, lambda found: sorted(found.values()) == wanted, what="all is recorded")


async def charged(cluster, name, gpus) -> None:
    """Wait until a queue's status says that so many GPUs are allocated."""

    async def told():
        queue = await cluster.client.get(QUEUES, name, type=Queue)
        return ((queue.status and queue.status.allocated) or {}).get(names.NVIDIA_GPU)

    wanted = f"{round(gpus * 1000)}m" if gpus % 1 else str(int(gpus))
    await cluster.eventually(told, lambda found: found == wanted, what=f"{name} is charged {wanted} GPUs")
