"""What the end-to-end suites of the KAI Scheduler do to an installation, and what they wait for there."""

import uuid

import pytest

from e2e.harness import REAL
from e2e.installation import AWAITED, HOME, an_installation, change, settled, there
from e2e.manifests import a_pod, as_yaml
from kai.kube.client import PatchKind
from kai.kube.resources import (
    CONFIGS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    QUEUES,
    SCHEDULING_SHARDS,
    Resource,
)
from kai.model import names

SCHEDULER = "kai-scheduler-default"
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
TOPOLOGIES = Resource("kai.scheduler", "v1alpha1", "topologies", "Topology", False)


@pytest.fixture(scope="module")
def embedded(request):
    """Instead of the suite's cluster, one in which the chart is installed."""
    with an_installation(request, "suites") as made:
        yield made


async def arguments(cluster, deployment):
    found = await cluster.client.get(DEPLOYMENTS, deployment, namespace=HOME)
    return found["spec"]["template"]["spec"]["containers"][0]["args"]


async def pods_of(cluster, app):
    """Pods of a component, as they are found: by their label."""
    found = await cluster.client.list(PODS, namespace=HOME, label_selector=f"app={app}")
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


async def one_runs(cluster, app):
    await cluster.eventually(
        lambda: pods_of(cluster, app),
        lambda pods: [pod["status"]["phase"] for pod in pods] == ["Running"],
        what=f"one pod of {app} runs",
    )


async def test_config_and_the_default_shard_say_all_that_clients_wait_for(cluster):
    await settled(cluster)
    await settled(cluster, SCHEDULING_SHARDS, "default")
    for app in (SCHEDULER, "pod-grouper", "admission"):
        await one_runs(cluster, app)
    # The suite's own cluster has two of them.
    assert await pods_of(cluster, "binder")


async def test_config_and_the_default_shard_have_the_parts_that_clients_change(cluster):
    config = await cluster.client.get(CONFIGS, "kai-config")
    for section in ("scheduler", "binder", "admission", "podGrouper", "queueController"):
        assert config["spec"][section]["service"]["enabled"] is True
    assert config["spec"]["global"]
    assert config["spec"]["prometheus"]["enabled"] is False
    assert config["spec"]["namespace"] == HOME
    shard = await cluster.client.get(SCHEDULING_SHARDS, "default")
    assert shard["spec"]["placementStrategy"] == {"gpu": "binpack", "cpu": "binpack"}


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("restrict-node-scheduling", "false"),
        ("default-staleness-grace-period", "1s"),
        ("full-hierarchy-fairness", "false"),
        ("max-consolidation-preemptees", "20"),
    ],
)
async def test_a_flag_of_the_default_shard_is_set_and_taken_back(cluster, flag, value):
    # Their status goes with it; as it is a subresource, it stays as it is.
    await cluster.client.patch(
        SCHEDULING_SHARDS, "default", {"spec": {"args": {flag: value}}, "status": None}
    )
    try:
        await settled(cluster, SCHEDULING_SHARDS, "default")
        assert f"--{flag}={value}" in await arguments(cluster, SCHEDULER)
    finally:
        await change(cluster, SCHEDULING_SHARDS, "default", args={flag: None})
    await settled(cluster, SCHEDULING_SHARDS, "default")
    assert f"--{flag}={value}" not in await arguments(cluster, SCHEDULER)
    await one_runs(cluster, SCHEDULER)


async def test_plugins_are_switched_and_left_to_the_default_again(cluster):
    plugins = {"gpupack": {"enabled": True}, "gpuspread": {"enabled": False}, "numa": {"enabled": True}}
    await change(cluster, SCHEDULING_SHARDS, "default", plugins=plugins)
    try:
        await settled(cluster, SCHEDULING_SHARDS, "default")
    finally:
        await change(cluster, SCHEDULING_SHARDS, "default", plugins=dict.fromkeys(plugins))
    await settled(cluster, SCHEDULING_SHARDS, "default")


async def test_the_admission_of_devices_is_an_argument_of_its_pods(cluster):
    flag = "--block-nvidia-visible-devices=true"
    assert flag not in await arguments(cluster, "admission")
    await change(cluster, CONFIGS, "kai-config", admission={"blockNvidiaVisibleDevices": True})
    try:
        await settled(cluster)
        assert flag in await arguments(cluster, "admission")
    finally:
        await change(cluster, CONFIGS, "kai-config", admission={"blockNvidiaVisibleDevices": False})
    await settled(cluster)
    assert flag not in await arguments(cluster, "admission")


async def test_a_pull_secret_of_all_is_one_of_all_deployments_once_config_is_settled(cluster):
    await change(cluster, CONFIGS, "kai-config", **{"global": {"additionalImagePullSecrets": ["theirs"]}})
    try:
        await settled(cluster)
        found = await cluster.client.list(DEPLOYMENTS, namespace=HOME)
        kept = {
            one["metadata"]["name"]: one["spec"]["template"]["spec"].get("imagePullSecrets", [])
            for one in found
            if "app" in one["metadata"].get("labels", {}) and one["metadata"]["name"] != "kai-operator"
        }
        assert SCHEDULER in kept
        assert [name for name, secrets in kept.items() if {"name": "theirs"} not in secrets] == []
    finally:
        await change(cluster, CONFIGS, "kai-config", **{"global": {"additionalImagePullSecrets": None}})
    await settled(cluster)


@pytest.mark.parametrize("said_by", ["labels", "spec"])
async def test_while_there_is_no_scheduler_work_gathers_and_then_goes_by_priority(
    cluster, queue, namespace, said_by
):
    name = await queue(gpus=1, limit=1)

    def pod(which, priority):
        said = (
            {"labels": {"priorityClassName": priority}}
            if said_by == "label"
            else {"spec": {"priorityClassName": priority}}
        )
        return a_pod(which, namespace, name, gpus=1, **said)

    await change(cluster, CONFIGS, "kai-config", scheduler={"service": {"enabled": False}})
    try:
        await cluster.eventually(
            lambda: cluster.client.list(PODS, namespace=HOME, label_selector=f"app={SCHEDULER}"),
            lambda pods: not pods,
            what="no scheduler is left",
        )
        await cluster.apply(as_yaml(pod("low", "train")))
        await cluster.apply(as_yaml(pod("high", "build-preemptible")))

        async def grouped():
            return [
                pod for pod in await cluster.pods(namespace) if names.POD_GROUP_ANNOTATION in pod.annotations
            ]

        await cluster.eventually(grouped, lambda pods: len(pods) == 2, what="both pods have a group")
    finally:
        await change(cluster, CONFIGS, "kai-config", scheduler={"service": {"enabled": True}})
    await one_runs(cluster, SCHEDULER)
    await settled(cluster)
    await cluster.running(namespace, "high", count=1)
    await cluster.waits(namespace, "low")


async def leading_address(cluster):
    """Where the Service of the scheduler leads, whoever says so: addresses that are ready."""
    label = f"kubernetes.io/service-name={SCHEDULER}"
    slices = await cluster.client.list(ENDPOINT_SLICES, namespace=HOME, label_selector=label)
    return [
        address
        for found in slices
        for each in found.get("endpoints") or ()
        if each["conditions"]["ready"]
        for address in each["addresses"]
    ]


async def test_of_two_schedulers_the_service_leads_to_the_one_that_holds_the_lease(cluster):
    await change(cluster, CONFIGS, "kai-config", scheduler={"replicas": 2})
    try:
        await settled(cluster)
        await settled(cluster, SCHEDULING_SHARDS, "default")

        async def led():
            lease = await cluster.client.get(LEASES, names.SCHEDULER_NAME, namespace=HOME)
            holder = (lease["spec"].get("holderIdentity") or "").partition("_")[0]
            pods = await pods_of(cluster, SCHEDULER)
            addresses = {pod["metadata"]["name"]: pod["status"].get("podIP") for pod in pods}
            return holder, addresses, await leading_address(cluster)

        # On a cluster whose controllers keep endpoints there is what they kept of the one before, too.
        holder, addresses, [before] = await cluster.eventually(
            led,
            lambda seen: len(seen[1]) == 2 and seen[2] == [seen[1].get(seen[0])] != [None],
            what="the Service leads to the holder of the Lease",
        )
        await cluster.client.delete(PODS, holder, namespace=HOME, grace_seconds=0)
        await cluster.eventually(
            lambda: leading_address(cluster),
            lambda now: len(now) == 1 and now != [before],
            what="the Service leads to the one that is left",
        )
        assert len(set(addresses.values())) == 2
    finally:
        await change(cluster, CONFIGS, "kai-config", scheduler={"replicas": None})
    await settled(cluster)
    await settled(cluster, SCHEDULING_SHARDS, "default")
    await one_runs(cluster, SCHEDULER)
    assert await there(cluster, ENDPOINT_SLICES, f"{SCHEDULER}-leader") is None
    await leads_to_its_pods(cluster)


async def leads_to_its_pods(cluster):
    """Where controllers keep the endpoints of Services with a selector, as a real control plane does."""
    if not REAL:
        return

    async def led():
        pods = await pods_of(cluster, SCHEDULER)
        return await leading_address(cluster), [pod["status"].get("podIP") for pod in pods]

    await cluster.eventually(
        led, lambda seen: seen[0] == seen[1] != [None], what="the Service leads to its pod again"
    )


UNLIMITED = {"quota": -1, "overQuotaWeight": 1, "limit": -1}


def of_go(name, *, namespace=""):
    """Metadata as clients in Go write it, with what is not set as well."""
    own = {"name": name, "creationTimestamp": None, "labels": {"app": "engine-e2e"}}
    return {**own, "namespace": namespace} if namespace else own


async def test_objects_as_clients_in_go_write_them_are_taken(cluster):
    unique = uuid.uuid4().hex[:6]
    child, parent, home = f"child-{unique}", f"parent-{unique}", f"kai-{unique}"
    client, made = cluster.client, []

    async def create(resource, body, **where):
        made.append((resource, body["metadata"]["name"], where))
        return await client.create(resource, body, **where)

    try:
        for name, above in ((child, parent), (parent, "")):
            resources = {"gpu": UNLIMITED, "cpu": UNLIMITED, "memory": UNLIMITED}
            spec = {"resources": resources, **({"parentQueue": above} if above else {})}
            await create(QUEUES, {"metadata": of_go(name), "spec": spec, "status": {}})
        await create(NAMESPACES, {"metadata": of_go(home), "spec": {}, "status": {}})
        levels = [
            {"nodeLabel": "e2e-topology-label/zone"},
            {"nodeLabel": "e2e-topology-label/rack", "alias": "rack"},
            {"nodeLabel": "kubernetes.io/hostname"},
        ]
        await create(
            TOPOLOGIES, {"metadata": of_go(f"tree-{unique}"), "spec": {"levels": levels}, "status": {}}
        )
        spec = {"minMember": 2, "queue": child, "topologyConstraint": {}}
        status = {"resourcesStatus": {}}
        group = {"metadata": of_go("group", namespace=home), "spec": spec, "status": status}
        await create(POD_GROUPS, group, namespace=home)
        for number in range(2):
            pod = a_pod(f"pod-{number}", home, child, labels={"pod-group-name": "group"})
            pod["metadata"] |= {"creationTimestamp": None}
            pod["metadata"]["annotations"] = {names.POD_GROUP_ANNOTATION: "group"}
            await client.create(PODS, {**pod, "status": {}}, namespace=home)
        await cluster.running(home, count=2)
        patch = [{"op": "replace", "path": "/spec/minMember", "value": 1}]
        await client.patch(POD_GROUPS, "group", patch, namespace=home, kind=PatchKind.JSON)
    finally:
        await cluster.end_namespace(home)
        for resource, name, where in reversed(made):
            if resource not in (NAMESPACES, POD_GROUPS):
                await client.delete(resource, name, **where)


async def test_usage_over_time_is_asked_for_as_clients_write_it(cluster):
    """Where no Prometheus operator is there, what is asked for is said to be missing, and nothing breaks."""
    usage = {
        "clientType": "prometheus",
        "usageParams": {
            "halfLifePeriod": "15s",
            "windowSize": "30s",
            "windowType": "sliding",
            "fetchInterval": "5s",
        },
    }
    monitored = {"enabled": True, "interval": "5s", "scrapeTimeout": "4s"}
    await change(cluster, CONFIGS, "kai-config", prometheus={"enabled": True, "serviceMonitor": monitored})
    try:
        await change(cluster, SCHEDULING_SHARDS, "default", usageDBConfig=usage, kValue=10000)
        await settled(cluster, SCHEDULING_SHARDS, "default")

        async def missing():
            found = await cluster.client.get(CONFIGS, "kai-config")
            conditions = {one["type"]: one for one in found["status"]["conditions"]}
            assert set(AWAITED) <= set(conditions)
            return conditions["DependenciesFulfilled"]["message"]

        await cluster.eventually(
            missing, lambda told: "is not served" in told, what="what is missing is told"
        )
    finally:
        await change(cluster, SCHEDULING_SHARDS, "default", usageDBConfig=None, kValue=None)
        await change(cluster, CONFIGS, "kai-config", prometheus={"enabled": False, "serviceMonitor": None})
    await settled(cluster)
    await settled(cluster, SCHEDULING_SHARDS, "default")
