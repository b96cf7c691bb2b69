"""What the cluster is like, and what the product becomes there: the real one, made by the service."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from deadlines import eventually
from e2e.third_party.definitions import a_definition
from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.resources import (
    CONFIGS,
    CRDS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
    PVCS,
    SCHEDULING_SHARDS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from kai.model import names
from kai.model.rules.priorities import CLASSES
from kai_local.apiserver.serving.faults import Rule
from kai_local.apiserver.serving.server import ApiServer
from kai_local.installation.bootstrap import definitions
from kai_operator.accounts import ACCOUNT
from kai_operator.bodies import RETIRED
from kai_operator.kinds import CLUSTER_POLICIES, PROMETHEUSES, SERVICE_MONITORS
from services.tests.operator.serving import operator

pytestmark = pytest.mark.integration

HOME = names.NAMESPACE
OURS = (HOME, names.RESERVATION_NAMESPACE, names.SCALE_ADJUST_NAMESPACE)
POLICY = {"metadata": {"name": "gpu"}, "spec": {"cdi": {"enabled": True, "default": True}}}


@pytest.fixture
async def api():
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def admin(api, tmp_path):
    """Of a cluster with a Config and a shard that say nothing."""
    async with KubeClient.connect(str(api.write_kubeconfig(tmp_path / "config"))) as found:
        for definition in definitions():
            await found.create(CRDS, definition)
        for name in OURS:
            await found.create(NAMESPACES, {"metadata": {"name": name}})
        await found.create(CONFIGS, {"metadata": {"name": "kai-config"}, "spec": {}})
        await found.create(SCHEDULING_SHARDS, {"metadata": {"name": "default"}, "spec": {}})
        yield found


@pytest.fixture
async def client(admin, tmp_path):
    """The same, with the operator at work."""
    async with operator(str(tmp_path / "config")):
        yield admin


async def told(client, accept, *, name="binder"):
    """Wait until the arguments of a Deployment are accepted."""

    async def look():
        try:
            found = await client.get(DEPLOYMENTS, name, namespace=HOME)
        except NotFound:
            return []
        (container,) = found["spec"]["template"]["spec"]["containers"]
        return container["args"]

    return await eventually(look, accept, what=f"{name} is told so")


def cdi(arguments):
    """What the binder's plugin is told; None before there is a binder."""
    if not arguments:
        return None
    plugins = [arg.partition("=")[2] for arg in arguments if arg.startswith("--plugins=")]
    sharing = (json.loads(plugins[0]) if plugins else {}).get("gpusharing", {})
    return sharing.get("arguments", {}).get("cdiEnabled", "false")


async def have_policy(client):
    definition = a_definition(
        "nvidia.com", "ClusterPolicy", ["v1"], scope="Cluster", plural="clusterpolicies"
    )
    await client.create(CRDS, definition)
    await eventually(lambda: client.discover("nvidia.com/v1", "ClusterPolicy", max_age=0))
    await client.create(CLUSTER_POLICIES, POLICY)


async def test_cdi_is_what_nvidias_policy_says_from_when_there_is_one_unless_config_says_more(client):
    await told(client, lambda args: cdi(args) == "false")
    await have_policy(client)
    await told(client, lambda args: cdi(args) == "true")
    await client.patch(CONFIGS, "kai-config", {"spec": {"binder": {"cdiEnabled": False}}})
    await told(client, lambda args: cdi(args) == "false")
    await client.patch(CONFIGS, "kai-config", {"spec": {"binder": {"cdiEnabled": None}}})
    await told(client, lambda args: cdi(args) == "true")
    await client.delete(CLUSTER_POLICIES, "gpu")
    await told(client, lambda args: cdi(args) == "false")


async def test_a_new_process_of_ours_replaces_no_binder_before_it_knows_nvidias_policy(api, admin, tmp_path):
    await have_policy(admin)
    path = str(tmp_path / "config")
    async with operator(path):
        await told(admin, lambda args: cdi(args) == "true")
    before = await admin.get(DEPLOYMENTS, "binder", namespace=HOME)
    api.faults.rules.append(Rule(resource="clusterpolicies", delay=1.0))
    async with operator(path):
        await admin.patch(CONFIGS, "kai-config", {"spec": {"global": {"jsonLog": True}}})
        after = await told(admin, lambda args: "--log-json=true" in args)
    assert cdi(after) == "true"
    now = await admin.get(DEPLOYMENTS, "binder", namespace=HOME)
    assert now["metadata"]["generation"] == before["metadata"]["generation"] + 1


async def test_what_belongs_to_an_optional_kind_comes_back_with_its_definition(client):
    definition = a_definition(
        "monitoring.coreos.com", "ServiceMonitor", ["v1"], scope="Namespaced", plural="servicemonitors"
    )
    spec = {"enabled": True, "externalPrometheusUrl": "http://127.0.0.1:1"}
    await client.patch(CONFIGS, "kai-config", {"spec": {"prometheus": spec}})

    async def monitors():
        try:
            return await client.list(SERVICE_MONITORS, namespace=HOME)
        except NotFound:
            return []

    for _ in range(2):
        await client.create(CRDS, definition)
        await eventually(monitors, lambda found: len(found) == 3)
        await client.delete(CRDS, definition["metadata"]["name"])
        await eventually(monitors, lambda found: not found)


async def test_reservation_pods_ask_no_driver_while_a_node_only_plays_its_devices(client):
    flag = "--fake-gpu-nodes=true"
    await told(client, lambda args: args and flag not in args)
    await client.create(NODES, {"metadata": {"name": "fake", "labels": {names.FAKE_GPU_LABEL: "true"}}})
    await told(client, lambda args: flag in args)
    await client.delete(NODES, "fake")
    await told(client, lambda args: flag not in args)


async def test_zones_are_told_of_while_a_shard_looks_at_them(client):
    async def exporters():
        return await client.list(DAEMON_SETS, namespace=HOME)

    await told(client, bool)
    assert await exporters() == []
    for enabled in (True, False):
        plugins = {"spec": {"plugins": {"numa": {"enabled": enabled}}}}
        await client.patch(SCHEDULING_SHARDS, "default", plugins)
        await eventually(exporters, lambda found, there=enabled: bool(found) is there)


async def prometheuses(client):
    return {each["metadata"]["name"]: each for each in await client.list(PROMETHEUSES, namespace=HOME)}


async def switch_prometheus(client, **spec):
    await client.patch(CONFIGS, "kai-config", {"spec": {"prometheus": spec}})


async def deployed(client):
    """What Config says of all objects being there."""
    status = (await client.get(CONFIGS, "kai-config")).get("status") or {}
    told = [each for each in status.get("conditions") or () if each["type"] == "Deployed"]
    return (told[0]["status"], told[0]["message"]) if told else (None, "")


async def test_a_prometheus_that_is_switched_off_is_kept_for_as_long_as_what_it_scraped(client):
    definition = a_definition("monitoring.coreos.com", "Prometheus", ["v1"], plural="prometheuses")
    await client.create(CRDS, definition)
    await eventually(lambda: client.discover("monitoring.coreos.com/v1", "Prometheus", max_age=0))
    await switch_prometheus(client, enabled=True)
    found = await eventually(lambda: prometheuses(client), what="a Prometheus")
    as_it_was = found["prometheus"]["spec"]

    await switch_prometheus(client, enabled=False)
    status, told = await eventually(lambda: deployed(client), lambda seen: seen[1], what="that is told")
    assert status == "True"
    assert f"Prometheus {HOME}/prometheus is switched off, and kept with what it scraped until 2" in told
    retired = (await prometheuses(client))["prometheus"]
    assert RETIRED in retired["metadata"]["annotations"]
    assert retired["spec"] == as_it_was
    assert (await client.get(SERVICE_ACCOUNTS, "prometheus", namespace=HOME))["metadata"]["ownerReferences"]
    assert (await client.get(SERVICES, "usage-prometheus", namespace=HOME))["spec"]["selector"]

    await switch_prometheus(client, enabled=True)
    await eventually(
        lambda: prometheuses(client),
        lambda found: RETIRED not in (found["prometheus"]["metadata"].get("annotations") or {}),
        what="it is as if it had never been switched off",
    )
    await eventually(lambda: deployed(client), lambda seen: seen == ("True", ""), what="nothing to tell")

    await switch_prometheus(client, retentionPeriod="2s")
    await eventually(
        lambda: prometheuses(client), lambda found: found["prometheus"]["spec"]["retention"] == "2s"
    )
    await switch_prometheus(client, enabled=False)
    await eventually(lambda: prometheuses(client), lambda found: not found, what="it goes")
    accounts = await client.list(SERVICE_ACCOUNTS, namespace=HOME)
    assert "prometheus" not in {each["metadata"]["name"] for each in accounts}


async def test_insight_that_is_switched_off_leaves_its_volume_for_a_while_and_nothing_else(client):
    async def volumes():
        return {each["metadata"]["name"]: each for each in await client.list(PVCS, namespace=HOME)}

    async def switch_insight(**spec):
        await client.patch(CONFIGS, "kai-config", {"spec": {"insight": spec}})

    await switch_insight(service={"enabled": True})
    before = (await eventually(volumes, lambda found: "kai-insight" in found, what="a volume"))["kai-insight"]
    certificate = "insight-grpc-tls-secret"
    await eventually(
        lambda: names_of(client, SECRETS), lambda found: certificate in found, what="a certificate"
    )

    await switch_insight(service={"enabled": False})
    _, told = await eventually(lambda: deployed(client), lambda seen: seen[1], what="that is told")
    assert f"PersistentVolumeClaim {HOME}/kai-insight is switched off, and kept with what is on it" in told
    await eventually(
        lambda: names_of(client, SECRETS), lambda found: certificate not in found, what="it goes"
    )
    assert "insight" not in await names_of(client, SERVICE_ACCOUNTS)

    await switch_insight(service={"enabled": True})
    await eventually(lambda: deployed(client), lambda seen: seen == ("True", ""), what="nothing to tell")
    now = (await volumes())["kai-insight"]
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert RETIRED not in now["metadata"]["annotations"]


async def names_of(client, resource):
    return {each["metadata"]["name"] for each in await client.list(resource, namespace=HOME)}


async def test_a_prometheus_that_is_told_of_while_a_pass_goes_on_is_kept_too(
    api, admin, tmp_path, monkeypatch
):
    """By a process that has not waited for it any longer, and finds it switched off."""
    monkeypatch.setattr("kai_operator.watching.OPTIONAL_SECONDS", 0.1)
    definition = a_definition("monitoring.coreos.com", "Prometheus", ["v1"], plural="prometheuses")
    await admin.create(CRDS, definition)
    await eventually(lambda: admin.discover("monitoring.coreos.com/v1", "Prometheus", max_age=0))
    await switch_prometheus(admin, enabled=True)
    path = str(tmp_path / "config")
    async with operator(path):
        [before] = (await eventually(lambda: prometheuses(admin), what="a Prometheus")).values()
    await switch_prometheus(admin, enabled=False)
    slow = Rule(resource="deployments", verb="update", delay=3.0, count=-1)
    api.faults.rules += [Rule(resource="prometheuses", delay=1.0), slow]
    async with operator(path):
        _, told = await eventually(lambda: deployed(admin), lambda seen: seen[1], what="that is told")
    assert "is switched off, and kept" in told
    [now] = (await prometheuses(admin)).values()
    assert now["metadata"]["uid"] == before["metadata"]["uid"]


async def test_pods_are_replaced_with_their_account_as_its_tokens_are_good_no_longer(client):
    async def deployment():
        return await client.get(DEPLOYMENTS, "binder", namespace=HOME)

    async def said():
        return (await deployment())["spec"]["template"]["metadata"].get("annotations", {}).get(ACCOUNT)

    await told(client, bool)
    made = datetime.fromisoformat((await deployment())["metadata"]["creationTimestamp"])
    await eventually(lambda: datetime.now(UTC) - made, lambda age: age > timedelta(seconds=1))
    assert await said() is None
    before = await client.get(SERVICE_ACCOUNTS, "binder", namespace=HOME)
    await client.delete(SERVICE_ACCOUNTS, "binder", namespace=HOME)
    uid = await eventually(said, what="the pods are replaced")
    assert uid != before["metadata"]["uid"]
    assert uid == (await client.get(SERVICE_ACCOUNTS, "binder", namespace=HOME))["metadata"]["uid"]
    others = await client.get(DEPLOYMENTS, "pod-grouper", namespace=HOME)
    assert ACCOUNT not in others["spec"]["template"]["metadata"].get("annotations", {})


async def test_the_node_scale_adjuster_comes_and_goes_with_its_switch(client):
    accounts = {"namespace": names.SCALE_ADJUST_NAMESPACE}

    async def scalers():
        found = await client.list(SERVICE_ACCOUNTS, **accounts)
        return [each["metadata"]["name"] for each in found if each["metadata"]["name"] != "default"]

    await told(client, bool)
    for enabled in (True, False):
        spec = {"nodeScaleAdjuster": {"service": {"enabled": enabled}}}
        await client.patch(CONFIGS, "kai-config", {"spec": spec})
        await told(client, lambda args, there=enabled: bool(args) is there, name="node-scale-adjuster")
        await eventually(scalers, lambda found, there=enabled: bool(found) is there)


async def test_priority_classes_come_back_when_they_are_deleted_and_go_with_their_switch(client):
    async def classes():
        return {each["metadata"]["name"]: each["value"] for each in await client.list(PRIORITY_CLASSES)}

    system = {name for name in await classes() if name.startswith("system-")}

    async def ours():
        return {name: value for name, value in (await classes()).items() if name not in system}

    await eventually(ours, lambda found: found == CLASSES, what="all are there")
    await client.delete(PRIORITY_CLASSES, "train")
    await eventually(ours, lambda found: found == CLASSES, what="train is there again")
    await client.patch(CONFIGS, "kai-config", {"spec": {"defaultPriorityClasses": {"enabled": False}}})
    await eventually(ours, lambda found: not found, what="none is there")


async def test_a_priority_class_of_somebody_else_is_left_alone_and_told_of(admin, tmp_path):
    theirs = {"metadata": {"name": "build"}, "value": 1000}
    await admin.create(PRIORITY_CLASSES, theirs)
    async with operator(str(tmp_path / "config")):

        async def said():
            config = await admin.get(CONFIGS, "kai-config")
            conditions = config.get("status", {}).get("conditions") or ()
            return {each["type"]: each["message"] for each in conditions}

        await eventually(said, lambda found: "PriorityClass build belongs to" in found.get("Deployed", ""))
        assert (await admin.get(PRIORITY_CLASSES, "train"))["value"] == CLASSES["train"]
    assert (await admin.get(PRIORITY_CLASSES, "build"))["value"] == 1000
