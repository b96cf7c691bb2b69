"""What administrators write and do, and what becomes of it: the operator of an installation by the chart."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import uuid

import pytest

from deadlines import patience
from e2e import healing
from e2e.harness import REAL, ROOT
from e2e.installation import HOME, SOON, an_installation, change, changed, leader, ready, there, until_ready
from e2e.manifests import a_pod, as_yaml
from e2e.page import Page
from e2e.troubles import process_id
from kai.kube.errors import Forbidden
from kai.kube.resources import (
    CONFIG_MAPS,
    CONFIGS,
    DEPLOYMENTS,
    LEASES,
    NODES,
    SCHEDULING_SHARDS,
    SECRETS,
    SERVICES,
)
from kai.model import names

DEPLOYED = {
    "admission",
    "binder",
    "kai-operator",
    "kai-scheduler-default",
    "pod-grouper",
    "podgroup-controller",
    "queue-controller",
}


@pytest.fixture(scope="module")
def embedded(request):
    """Instead of the suite's cluster, one in which the chart is installed."""
    with an_installation(request, "operator") as made:
        yield made


async def test_an_installation_is_ready_and_says_so(cluster):
    await until_ready(cluster)
    await until_ready(cluster, SCHEDULING_SHARDS, "default")
    deployments = await cluster.client.list(DEPLOYMENTS, namespace=HOME)
    able = {one["metadata"]["name"] for one in deployments if one["status"].get("readyReplicas")}
    assert able >= DEPLOYED
    for deployment in deployments:
        if deployment["metadata"]["name"] != "kai-operator":
            [owner] = deployment["metadata"]["ownerReferences"]
            assert owner["controller"]


async def placed(cluster, namespace, queue, prefix):
    """The nodes of two pods, one after the other."""
    for number in range(2):
        await cluster.apply(as_yaml(a_pod(f"{prefix}-{number}", namespace, queue, gpus=1)))
        pods = await cluster.running(namespace, prefix, count=number + 1)
    return {pod.spec.node_name for pod in pods}


async def test_a_strategy_decides_where_the_next_pods_go(cluster, queue, namespace):
    own, back = await queue(), {"placementStrategy": {"gpu": "binpack", "cpu": "binpack"}}
    assert len(await placed(cluster, namespace, own, "packed")) == 1
    before, spread = await leader(cluster), {"gpu": "spread", "cpu": "spread"}
    async with changed(cluster, SCHEDULING_SHARDS, "default", back=back, placementStrategy=spread):
        await cluster.eventually(
            lambda: leader(cluster), lambda now: now != before, what="the new scheduler leads"
        )
        for pod in await cluster.running(namespace, "packed", count=2):
            await cluster.delete("v1", "Pod", pod.metadata.name, namespace=namespace)
        assert len(await placed(cluster, namespace, own, "spread")) == 2


async def test_what_config_says_of_admission_holds_for_the_next_pod(cluster, queue, namespace):
    own = await queue()
    shared = {"annotations": {names.GPU_FRACTION: "0.5"}}
    await cluster.apply(as_yaml(a_pod("before", namespace, own, **shared)))
    async with changed(
        cluster,
        CONFIGS,
        "kai-config",
        back={"admission": {"gpuSharing": True}},
        admission={"gpuSharing": False},
    ):

        async def refusal():
            try:
                await cluster.apply(as_yaml(a_pod(f"x-{uuid.uuid4().hex[:6]}", namespace, own, **shared)))
            except Forbidden as error:
                return str(error)
            return ""

        await cluster.eventually(
            refusal, lambda told: "GPU sharing is disabled" in told, what="it is refused"
        )
    await cluster.running(namespace, "before", count=1)


def sentence_commands(page):
    """What stands within sentences, as far as it only looks."""
    return re.findall(r"`(kubectl (?:get|explain) [^`]+)`", page)


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")
async def test_the_commands_of_the_page_do_what_it_says(cluster):
    page = (ROOT / "docs" / "operator.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert blocks
    looks = sentence_commands(page)
    assert len(looks) >= 4
    script = "\n".join(["set -eux -o pipefail", *blocks, *looks])
    script = re.sub(r"--timeout=\w+", f"--timeout={patience(2):.0f}s", script)
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    try:
        done = await asyncio.to_thread(
            lambda: subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        binder = await there(cluster, DEPLOYMENTS, "binder")
        assert (binder["spec"]["replicas"], binder["status"]["readyReplicas"]) == (2, 2)
        file = (await there(cluster, CONFIG_MAPS, "kai-scheduler-default"))["data"]["config.yaml"]
        assert "gpuspread" in file
    finally:
        back = {"gpu": "binpack", "cpu": "binpack"}
        await change(cluster, SCHEDULING_SHARDS, "default", placementStrategy=back)
        await change(cluster, CONFIGS, "kai-config", binder={"replicas": None})
        await until_ready(cluster)
        await until_ready(cluster, SCHEDULING_SHARDS, "default")


async def test_a_slip_is_told_with_its_field_and_changes_nothing(cluster):
    before = await cluster.client.get(DEPLOYMENTS, "binder", namespace=HOME)
    await change(cluster, CONFIGS, "kai-config", certificates={"lifetime": "1d", "renewBefore": "2d"})
    try:
        told = await cluster.eventually(
            lambda: ready(cluster), lambda told: told is not None and told[0] == "False", what="told"
        )
        assert told[1] == "invalid_spec"
        assert "spec.certificates.renewBefore is 2d; it must be below lifetime, 1d" in told[2]
    finally:
        await change(cluster, CONFIGS, "kai-config", certificates={"lifetime": None, "renewBefore": None})
    await until_ready(cluster)
    after = await cluster.client.get(DEPLOYMENTS, "binder", namespace=HOME)
    assert after["spec"] == before["spec"]


async def healed(cluster, resource, before, *, anew):
    """Wait until what was spoilt is as it was before: another object, or the same."""
    namespace, name = healing.place(before)

    def accept(now):
        if now is None or (now["metadata"]["uid"] != before["metadata"]["uid"]) is not anew:
            return False
        return healing.decided({**now, "kind": resource.kind}) == healing.decided(before)

    await cluster.eventually(
        lambda: there(cluster, resource, name, namespace=namespace),
        accept,
        what=f"{resource.kind} {name} is as it was",
        times=SOON,
    )


@pytest.fixture
async def made(cluster, api_version, kind):
    """Where objects of a kind are, and all of them that the operator has made; afterwards they are there."""
    await until_ready(cluster)
    resource = await healing.resource_of(cluster, api_version, kind)
    found = await healing.there(cluster, resource)
    assert found.keys() == await healing.asked_for(cluster, kind)
    yield resource, list(found.values())
    await until_ready(cluster)
    assert (await healing.there(cluster, resource)).keys() == found.keys()


def of_each_kind(manifests):
    return pytest.mark.parametrize(("api_version", "kind"), healing.kinds(manifests))


def of_any_name(manifest):
    """Whether the operator has rights to more than what it makes: elsewhere, and of Secrets, it has not."""
    return healing.place(manifest)[0] == HOME and manifest["kind"] != SECRETS.kind


@of_each_kind(healing.usual())
async def test_what_is_changed_by_hand_is_put_right(cluster, kind, made):
    resource, objects = made
    for before in objects:
        namespace, name = healing.place(before)
        changed = await cluster.client.patch(resource, name, healing.by_hand(kind), namespace=namespace)
        assert healing.decided({**changed, "kind": kind}) != healing.decided(before)
        await healed(cluster, resource, before, anew=False)


@of_each_kind(filter(of_any_name, healing.usual()))
async def test_what_nobody_asked_for_is_removed(cluster, kind, made):
    resource, objects = made
    stray = healing.stray(next(filter(of_any_name, objects)))
    namespace, name = healing.place(stray)
    await cluster.client.create(resource, stray, namespace=namespace)
    await cluster.eventually(
        lambda: there(cluster, resource, name, namespace=namespace),
        lambda left: left is None,
        what=f"{kind} {name} is gone",
        times=SOON,
    )


@of_each_kind(healing.usual())
async def test_what_is_deleted_comes_back(cluster, made):
    resource, objects = made
    for before in objects:
        namespace, name = healing.place(before)
        await cluster.client.delete(resource, name, namespace=namespace, propagation="Background")
        await healed(cluster, resource, before, anew=True)


async def test_after_all_that_work_is_placed(cluster, queue, namespace):
    part = {names.GPU_FRACTION: "0.5"}
    await cluster.apply(as_yaml(a_pod("part", namespace, await queue(), annotations=part)))
    await cluster.running(namespace, "part", count=1)


async def test_another_shard_schedules_its_own_and_leaves_nothing(cluster, namespace):
    page, pool = Page(cluster, namespace), "page-lab"
    node = (await cluster.worker_nodes())[-1]
    await cluster.client.patch(NODES, node, {"metadata": {"labels": {names.NODE_POOL_LABEL: pool}}})
    try:
        await page.apply("shards.md")
        await until_ready(cluster, SCHEDULING_SHARDS, pool)
        pods = await page.running("page-in-lab", 2)
        assert {pod.spec.node_name for pod in pods} == {node}
        file = (await there(cluster, CONFIG_MAPS, f"{names.SCHEDULER_NAME}-{pool}"))["data"]["config.yaml"]
        assert ("gpuspread" in file, "defaultReclaimMinRuntime: 5m" in file) == (True, True)
        lease = f"{names.SCHEDULER_NAME}-{pool}"
        assert (await there(cluster, LEASES, lease))["spec"]["holderIdentity"]
    finally:
        await page.clear()
        await cluster.client.patch(NODES, node, {"metadata": {"labels": {names.NODE_POOL_LABEL: None}}})

    async def left():
        name = f"{names.SCHEDULER_NAME}-{pool}"
        kinds = (DEPLOYMENTS, SERVICES, CONFIG_MAPS, LEASES)
        return [resource.kind for resource in kinds if await there(cluster, resource, name)]

    await cluster.eventually(left, lambda found: not found, what="nothing is left of the shard")
    now = await cluster.running(namespace, "page-in-lab", count=2)
    assert {pod.metadata.uid for pod in now} == {pod.metadata.uid for pod in pods}


@pytest.mark.skipif(REAL, reason="processes of the embedded cluster are ours to kill")
async def test_an_operator_that_is_killed_at_any_moment_loses_nothing(cluster):
    pools = [f"killed-{number}" for number in range(3)]
    try:
        for number, pool in enumerate(pools):
            spec = {"partitionLabelValue": pool}
            await cluster.client.create(SCHEDULING_SHARDS, {"metadata": {"name": pool}, "spec": spec})
            await change(cluster, CONFIGS, "kai-config", binder={"maxConcurrentReconciles": 20 + number})
            await asyncio.sleep(0.15 * number)  # before, amid and after its work
            os.kill(await process_id(cluster, "kai-operator"), signal.SIGKILL)
        for pool in pools:
            await until_ready(cluster, SCHEDULING_SHARDS, pool)
        await until_ready(cluster)
        binder = await there(cluster, DEPLOYMENTS, "binder")
        assert "--max-concurrent-reconciles=22" in binder["spec"]["template"]["spec"]["containers"][0]["args"]
    finally:
        for pool in pools:
            await cluster.delete("kai.scheduler/v1", "SchedulingShard", pool)
        await change(cluster, CONFIGS, "kai-config", binder={"maxConcurrentReconciles": None})
    await until_ready(cluster)
