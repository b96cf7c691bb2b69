"""Releases that come and go: as people install and remove it, and from a release without an operator to one
with, with work running.
"""

import base64
import os
import subprocess
import time
from dataclasses import dataclass

import pytest
import yaml

from e2e.harness import ROOT, chart_cluster, kai
from e2e.installation import ready
from e2e.manifests import a_deployment, a_pod, as_yaml
from e2e.page import bodies
from kai.kube.errors import NotFound
from kai.kube.resources import (
    CONFIGS,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    PODS,
    QUEUES,
    SCHEDULING_SHARDS,
    SECRETS,
    SERVICES,
)
from kai.model import names
from kai.operands import CONFIG_NAME
from kai.snapshot.times import seconds

HOME, RELEASE = names.NAMESPACE, "kai-scheduler"
CHART = ROOT / "helm" / "kai-scheduler"
#: What plays the nodes has heard by then that a pod of it runs.
PLAYED_SECONDS = 3.0
#: What an operator makes belongs to one of these.
OWNERS = (CONFIGS.kind, SCHEDULING_SHARDS.kind)
#: Deployments that every release has.
COMPONENTS = {
    "admission",
    "binder",
    "kai-scheduler-default",
    "pod-grouper",
    "podgroup-controller",
    "queue-controller",
}
#: Kinds by which an installation runs, or that hold others up. Leases belong to processes. The first are in
#: the namespace of reservation pods, too.
BESIDE = (
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
)
WITHIN = (
    *BESIDE,
    ("apps/v1", "Deployment"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("v1", "Service"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("policy/v1", "PodDisruptionBudget"),
)
WIDE = (
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
)


@dataclass(frozen=True)
class Former:
    """A release from before there was an operator: the commit of its chart, and the Secrets that are kept."""

    commit: str
    kept: frozenset[str]
    #: Those of its Deployments whose program is none of ours, so that nothing here runs it.
    foreign: frozenset[str] = frozenset()
    #: Values by which today's programs, which are all that there is, do what its own did.
    values: tuple[str, ...] = ()


#: One of the first, with a Redis of the image's own, and one certificate for all processes: today each shows
#: its role by its own, so these talk without; and the last.
FORMERS = (
    Former(
        "39354f8",
        kept=frozenset({"kai-redis", "kai-admission-webhook-tls-secret"}),
        foreign=frozenset({"kai-redis"}),
        values=("--set=global.tls.enabled=false,podgrouper.args.grpc-listen=127.0.0.1:9090",),
    ),
    Former(
        "3a2477e",
        kept=frozenset(
            {
                "kai-redis",
                "kai-admission-webhook-tls-secret",
                "scheduler-grpc-tls-secret",
                "kai-redis-tls-secret",
            }
        ),
    ),
)


@pytest.fixture(params=FORMERS, ids=lambda former: former.commit)
def former(request):
    return request.param


@pytest.fixture
def former_chart(former, tmp_path):
    """The chart as it was then, from the history."""
    archive = tmp_path / "chart.tar"
    found = subprocess.run(
        ["git", "archive", f"--output={archive}", former.commit, "helm/kai-scheduler"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if found.returncode:
        pytest.skip(f"needs the history back to {former.commit}")
    subprocess.run(["tar", "-xf", archive], cwd=tmp_path, check=True)
    return tmp_path / "helm" / "kai-scheduler"


@pytest.fixture(scope="module")
def embedded(helm_program, tmp_path_factory):
    """A cluster of its own, in which releases come and go."""
    if os.environ.get("KAI_E2E_KUBECONFIG"):
        pytest.skip("installs and removes releases")
    with chart_cluster("upgrade", tmp_path_factory.mktemp("upgrade"), helm_program) as made:
        yield made


@pytest.fixture
def helm(helm_program, embedded):
    def run(*arguments):
        command = [helm_program, f"--kubeconfig={embedded[1]}", f"--namespace={HOME}", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


async def deployed(cluster):
    found = await cluster.client.list(DEPLOYMENTS, namespace=HOME)
    return {one["metadata"]["name"]: one for one in found}


def is_ready(deployment):
    status = deployment.get("status") or {}
    observed = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    return observed and status.get("readyReplicas", 0) >= deployment["spec"]["replicas"]


async def secrets(cluster, kept):
    found = {name: await cluster.client.get(SECRETS, name, namespace=HOME) for name in kept}
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


async def settled_lives(cluster, namespace):
    """The same, once what plays the nodes has had its last word: if it is late, it starts a pod twice."""
    return await cluster.eventually(
        lambda: lives(cluster, namespace),
        lambda found: all(
            seconds(state.get("running", {}).get("startedAt")) < time.time() - PLAYED_SECONDS
            for _, _, states in found.values()
            for state in states
        ),
        what=f"what runs in {namespace} began a while ago",
    )


async def inventory(cluster):
    """By kind and name, what an installation may consist of, each with the owner that controls it."""
    found = {}
    places = (
        *((one, HOME) for one in WITHIN),
        *((one, names.RESERVATION_NAMESPACE) for one in BESIDE),
        *((one, "") for one in WIDE),
    )
    for (api_version, kind), where in places:
        resource = await cluster.client.discover(api_version, kind)
        for each in await cluster.client.list(resource, namespace=where):
            owners = each["metadata"].get("ownerReferences") or ()
            controller = next((one["kind"] for one in owners if one.get("controller")), "")
            found[kind, where, each["metadata"]["name"]] = controller
    return found


def of_release(helm):
    """What helm holds to be parts of the release now, as :func:`inventory` names them."""
    parts = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for each in yaml.safe_load_all(helm("get", "manifest", RELEASE))
        if each
    }
    secrets = yaml.safe_load(helm("history", RELEASE, "--output=json"))
    own = {("Secret", HOME, f"sh.helm.release.v1.{RELEASE}.v{one['revision']}") for one in secrets}
    return parts | own


async def forget(cluster, helm):
    """Have nothing of us in the cluster, nor what we define."""
    if yaml.safe_load(helm("list", "--all", "--output=json")):
        helm("uninstall", RELEASE, "--wait")

    async def owned():  # helm does not wait for what goes with an owner
        there = await inventory(cluster)
        return [key for key, owner in there.items() if owner in OWNERS or key[0] == DEPLOYMENTS.kind]

    await cluster.eventually(owned, lambda left: not left, what="the release is gone")

    async def definitions():
        found = [each["metadata"]["name"] for each in await cluster.client.list(CRDS)]
        return [name for name in found if name.endswith((".scheduling.run.ai", ".kai.scheduler"))]

    for name in await definitions():
        await cluster.client.delete(CRDS, name)
    await cluster.eventually(definitions, lambda left: not left, what="our definitions are gone")


async def installed(cluster, helm, former, chart):
    """Install the former release; return when all works that can."""
    await forget(cluster, helm)
    helm("install", RELEASE, chart, "--set=global.gpuSharing=true", *former.values)
    found = await cluster.eventually(
        lambda: deployed(cluster),
        lambda found: all(is_ready(one) for name, one in found.items() if name not in former.foreign),
        what="the former release is ready",
        times=2,
    )
    assert found.keys() == COMPONENTS | {"kai-redis"}
    return found


async def test_an_upgrade_touches_nothing_that_runs_and_leaves_nothing(
    cluster, queue, namespace, helm, former, former_chart
):
    before = await installed(cluster, helm, former, former_chart)
    untouched = (await inventory(cluster)).keys() - of_release(helm)
    own = await queue(limit=2)
    await cluster.apply(as_yaml(a_pod("whole", namespace, own, gpus=1)))
    await cluster.apply(
        as_yaml(a_deployment("part", namespace, own, annotations={names.GPU_FRACTION: "0.5"}))
    )
    await cluster.running(namespace, count=2)
    running = await settled_lives(cluster, namespace)
    reservations = await settled_lives(cluster, names.RESERVATION_NAMESPACE)
    assert len(reservations) == 1
    await cluster.apply(as_yaml(a_pod("later", namespace, own, gpus=1)))
    await cluster.waits(namespace, "later")
    held = await secrets(cluster, former.kept)

    helm("upgrade", RELEASE, CHART, "--set=global.gpuSharing=true")
    await until_all_is_ready(cluster)

    # Work is where it was, and what it depends on is what it was.
    now = await lives(cluster, namespace)
    assert {name: now[name] for name in running} == running
    assert await lives(cluster, names.RESERVATION_NAMESPACE) == reservations
    assert await secrets(cluster, former.kept) == held
    after = await deployed(cluster)
    for name, deployment in before.items():
        assert after[name]["metadata"]["uid"] == deployment["metadata"]["uid"], name
        assert after[name]["metadata"]["ownerReferences"][0]["controller"], name
        assert is_ready(after[name]), name

    # All that there is belongs to the release, or to Config or a shard.
    async def stray():
        there = await inventory(cluster)
        owned = {key for key, owner in there.items() if owner in OWNERS}
        return there.keys() - untouched - owned - of_release(helm)

    await cluster.eventually(stray, lambda found: not found, what="nothing is left of the former release")

    # And what waited is placed, as is what comes.
    await cluster.waits(namespace, "later")
    await cluster.change_queue(own, resources={"gpu": {"limit": 3}})
    await cluster.running(namespace, "later", count=1)
    await cluster.apply(as_yaml(a_pod("next", namespace, own, annotations={names.GPU_FRACTION: "0.5"})))
    [joined] = await cluster.running(namespace, "next", count=1)
    [part] = await cluster.running(namespace, "part", count=1)
    assert joined.labels[names.GPU_GROUP_LABEL] == part.labels[names.GPU_GROUP_LABEL]


async def test_what_people_install_works_and_leaves_nothing_when_it_is_removed(cluster, namespace, helm):
    await forget(cluster, helm)
    before = await inventory(cluster)
    helm(
        *("install", RELEASE, CHART, "--create-namespace", "--set", "global.gpuSharing=true"),
        *("--set", "global.resourceReservation.runtimeClassName=nvidia"),
    )
    await until_all_is_ready(cluster)
    found = await deployed(cluster)
    assert found.keys() == COMPONENTS | {"kai-operator", "kai-redis"}
    assert [name for name, deployment in found.items() if not is_ready(deployment)] == []

    half = a_pod("half", namespace, names.DEFAULT_QUEUE, annotations={names.GPU_FRACTION: "0.5"})
    await cluster.apply(as_yaml(half))
    await cluster.running(namespace, "half", count=1)
    [reservation] = await reserving(cluster)
    assert reservation["spec"]["runtimeClassName"] == "nvidia"
    await cluster.delete("v1", "Pod", "half", namespace=namespace)
    await cluster.eventually(
        lambda: reserving(cluster), lambda pods: not pods, what="no device is reserved any more"
    )

    # A value that is given to an upgrade counts, whatever was edited by hand.
    await cluster.client.patch(CONFIGS, CONFIG_NAME, {"spec": {"admission": {"gpuSharing": False}}})
    helm("upgrade", RELEASE, CHART, "--reuse-values", "--set", "global.gpuSharing=true")
    config = await cluster.client.get(CONFIGS, CONFIG_NAME)
    assert config["spec"]["admission"]["gpuSharing"] is True

    helm("uninstall", RELEASE, "--wait")

    async def left():
        leases = {each["metadata"]["name"] for each in await cluster.client.list(LEASES, namespace=HOME)}
        return (await inventory(cluster)).keys() - before.keys() | leases

    await cluster.eventually(left, lambda found: not found, what="nothing is left")
    # But for what users have: who installs it again finds that as it was.
    queues = {each["metadata"]["name"] for each in await cluster.client.list(QUEUES)}
    assert queues == {names.DEFAULT_PARENT_QUEUE, names.DEFAULT_QUEUE}


async def test_what_the_page_of_fips_says_is_installed_with_images_of_that_kind(
    cluster, namespace, helm, tmp_path
):
    await forget(cluster, helm)
    files = []
    for number, values in enumerate(bodies("fips.md")):
        files += ["--values", tmp_path / f"{number}.yaml"]
        files[-1].write_text(yaml.safe_dump(values))
    assert len(files) == 4
    helm("install", RELEASE, CHART, "--set", "global.gpuSharing=true", *files)
    await until_all_is_ready(cluster)
    half = a_pod("half", namespace, names.DEFAULT_QUEUE, annotations={names.GPU_FRACTION: "0.5"})
    await cluster.apply(as_yaml(half))
    await cluster.running(namespace, "half", count=1)
    pods = [*await cluster.client.list(PODS, namespace=HOME), *await reserving(cluster)]
    assert len(pods) == len(COMPONENTS | {"kai-operator", "kai-redis"}) + 1
    for pod in pods:
        [container] = pod["spec"]["containers"]
        assert container["image"].startswith("registry.example.com/kai/")
        assert container["image"].endswith("-fips")


async def reserving(cluster):
    return await cluster.client.list(PODS, namespace=names.RESERVATION_NAMESPACE)


async def until_all_is_ready(cluster):
    for resource, name in ((CONFIGS, "kai-config"), (SCHEDULING_SHARDS, "default")):
        await cluster.eventually(
            lambda resource=resource, name=name: found_ready(cluster, resource, name),
            lambda told: told is not None and told[0] == "True",
            what=f"{name} is ready",
            times=2,
        )


async def found_ready(cluster, resource, name):
    try:
        return await ready(cluster, resource, name)
    except NotFound:
        return None


async def test_without_an_operator_what_is_rendered_schedules_pods(cluster, queue, namespace, helm):
    await forget(cluster, helm)
    helm(
        *("install", RELEASE, CHART, "--create-namespace"),
        *("--set", "operator.enabled=false", "--set", "scheduler.replicas=2"),
    )
    assert await deployed(cluster) == {}
    rendered = kai("render", "-f", "-", "--with-certificates", given=helm("get", "manifest", RELEASE))
    await cluster.apply(rendered)
    try:
        found = await cluster.eventually(
            lambda: deployed(cluster),
            lambda found: all(map(is_ready, found.values())),
            what="all that was rendered is ready",
            times=2,
        )
        assert found.keys() == COMPONENTS | {"kai-redis"}
        service = await cluster.client.get(SERVICES, "kai-scheduler-default", namespace=HOME)
        assert service["spec"]["selector"] == {"app": "kai-scheduler-default"}
        own = await queue(limit=2)
        await cluster.apply(as_yaml(a_pod("whole", namespace, own, gpus=1)))
        await cluster.running(namespace, "whole", count=1)
    finally:
        for each in yaml.safe_load_all(rendered):
            resource = await cluster.client.discover(each["apiVersion"], each["kind"])
            where = each["metadata"].get("namespace", "")
            await cluster.client.delete(resource, each["metadata"]["name"], namespace=where)
