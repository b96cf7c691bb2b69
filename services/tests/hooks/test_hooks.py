"""What helm has run around an installation, against an API server that keeps objects."""

import argparse
import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

import kai_insight.service
import kai_node_scale_adjuster.service
import kai_operator.service
import kai_pod_grouper.service
import kai_podgroup_controller.service
import kai_queue_controller.service
from deadlines import eventually, patience
from kai.kube.client import KubeClient
from kai.kube.errors import Forbidden
from kai.kube.resources import (
    CONFIG_MAPS,
    CONFIGS,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    SCHEDULING_SHARDS,
    SECRETS,
    SERVICE_ACCOUNTS,
    TOPOLOGIES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from kai.model import names
from kai.model.documents import load_written
from kai.operands import OPTIONAL_KINDS
from kai_hooks.__main__ import HOOKS
from kai_hooks.abandoned import tell_abandoned
from kai_hooks.definitions import InvalidDefinition, apply_definitions
from kai_hooks.edits import overwrite_edits
from kai_hooks.handover import KEEP, OURS, handed_over, keep
from kai_hooks.refusals import Refused
from kai_hooks.removal import KINDS, remove_leftovers, remove_scaling_pods
from kai_hooks.topologies import MIGRATED, copy_topologies
from kai_local.apiserver.serving.faults import Rule
from kai_local.apiserver.serving.server import ApiServer

pytestmark = pytest.mark.integration

DEFINITIONS = Path(__file__).parents[3] / "helm" / "kai-scheduler" / "crds"
KUEUE = Resource("kueue.x-k8s.io", "v1beta1", "topologies", "Topology", False)
SPACE = "kai-scheduler"


@pytest.fixture
async def server():
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def client(server, tmp_path):
    path = str(server.write_kubeconfig(tmp_path / "kubeconfig"))
    async with KubeClient.connect(path, user_agent="test") as client:
        await client.create(NAMESPACES, {"metadata": {"name": SPACE}})
        yield client


@pytest.fixture
def said():
    return []


def a_definition(*, group="kai.scheduler", plural="topologies", kind="Topology", version="v1alpha1"):
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def a_deployment(name, **metadata):
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": name, "image": name}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    return {"metadata": {"name": name, "namespace": SPACE, **metadata}, "spec": spec}


async def install(client, definition):
    await client.create(CRDS, definition)
    version = definition["spec"]["versions"][0]["name"]
    api_version = f"{definition['spec']['group']}/{version}"
    await eventually(lambda: client.discover(api_version, definition["spec"]["names"]["kind"], max_age=0))


# --- definitions -------------------------------------------------------------------------------
async def test_definitions_of_an_earlier_release_are_brought_up_to_date(client, said):
    await client.create(CRDS, a_definition())
    await apply_definitions(client, DEFINITIONS, said.append)
    found = {each["metadata"]["name"]: each for each in await client.list(CRDS)}
    expected = {path.stem: load_written(path.read_text()) for path in DEFINITIONS.glob("*.yaml")}
    assert found.keys() == expected.keys()
    topologies = found["topologies.kai.scheduler"]["spec"]["versions"]
    assert topologies[0]["schema"] == expected["topologies.kai.scheduler"]["spec"]["versions"][0]["schema"]
    assert len(said) == len(expected)


async def test_definitions_that_are_in_force_are_not_written_again(client, said):
    await apply_definitions(client, DEFINITIONS, said.append)
    before = versions(await client.list(CRDS))
    await apply_definitions(client, DEFINITIONS, said.append)
    assert versions(await client.list(CRDS)) == before


def versions(objects):
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in objects}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "has no definitions: mount those of the chart there"),
        ("a: [", "cannot be read"),
        ("kind: ConfigMap\n", "is no CustomResourceDefinition"),
    ],
)
async def test_a_folder_that_holds_something_else_is_refused_before_anything_is_applied(
    client, said, tmp_path, content, told
):
    folder = tmp_path / "crds"
    folder.mkdir()
    if content is not None:
        (folder / "a.yaml").write_text(yaml.safe_dump(a_definition()))
        (folder / "b.yaml").write_text(content)
    with pytest.raises(InvalidDefinition, match=told):
        await apply_definitions(client, folder, said.append)
    assert await client.list(CRDS) == []


# --- handover ----------------------------------------------------------------------------------
async def test_what_the_release_made_is_kept_and_what_others_made_is_not_touched(client, said):
    ours, theirs = ({"meta.helm.sh/release-name": name} for name in ("kai", "other"))
    await client.create(DEPLOYMENTS, a_deployment("binder", annotations=ours), namespace=SPACE)
    await client.create(DEPLOYMENTS, a_deployment("admission", annotations=theirs), namespace=SPACE)
    await client.create(DEPLOYMENTS, a_deployment("pod-grouper"), namespace=SPACE)
    await client.create(DEPLOYMENTS, a_deployment("kai-operator", annotations=ours), namespace=SPACE)
    secret = {"metadata": {"name": "kai-redis", "namespace": SPACE, "annotations": ours}}
    await client.create(SECRETS, secret, namespace=SPACE)
    for name, annotations in (("train", ours), ("build", theirs), ("urgent", ours)):
        a_class = {"metadata": {"name": name, "annotations": annotations}, "value": 50}
        await client.create(PRIORITY_CLASSES, a_class)
    await keep(client, namespace=SPACE, release="kai", say=said.append)
    kept = {
        each["metadata"]["name"]
        for kind, place in ((DEPLOYMENTS, SPACE), (SECRETS, SPACE), (PRIORITY_CLASSES, ""))
        for each in await client.list(kind, namespace=place)
        if KEEP.items() <= (each["metadata"].get("annotations") or {}).items()
        and OURS.items() <= (each["metadata"].get("labels") or {}).items()
    }
    assert kept == {"binder", "kai-redis", "train"}
    assert said == [
        f"{each} is kept for the operator"
        for each in ("deployment binder", "secret kai-redis", "priorityclass train")
    ]
    said.clear()
    await keep(client, namespace=SPACE, release="kai", say=said.append)
    assert said == []


async def test_the_account_of_pods_that_hold_devices_is_kept_in_its_namespace(client, said):
    place, name = names.RESERVATION_NAMESPACE, names.RESERVATION_SERVICE_ACCOUNT
    await client.create(NAMESPACES, {"metadata": {"name": place}})
    made = {"name": name, "annotations": {"meta.helm.sh/release-name": "kai"}}
    before = await client.create(SERVICE_ACCOUNTS, {"metadata": made}, namespace=place)
    await keep(client, namespace=SPACE, release="kai", say=said.append, account=(place, name))
    now = await client.get(SERVICE_ACCOUNTS, name, namespace=place)
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert KEEP.items() <= now["metadata"]["annotations"].items()
    assert OURS.items() <= now["metadata"]["labels"].items()


def test_each_object_is_named_once():
    listed = list(handed_over())
    assert len(listed) == len(set(listed))


# --- removal -----------------------------------------------------------------------------------
async def test_what_the_operator_made_goes_and_what_others_made_stays(client, said):
    made = {"labels": {"app.kubernetes.io/managed-by": "kai-operator"}}
    await client.create(DEPLOYMENTS, a_deployment("kai-scheduler-default", **made), namespace=SPACE)
    await client.create(DEPLOYMENTS, a_deployment("somebody"), namespace=SPACE)
    for name, more in (("kai-scheduler-default", made), ("somebody", {})):
        config_map = {"metadata": {"name": name, "namespace": SPACE, **more}}
        await client.create(CONFIG_MAPS, config_map, namespace=SPACE)
    await remove_leftovers(client, namespace=SPACE, scheduler_name="ours", say=said.append)
    for kind in (DEPLOYMENTS, CONFIG_MAPS):
        left = [each["metadata"]["name"] for each in await client.list(kind, namespace=SPACE)]
        assert left == ["somebody"]


async def test_what_is_of_a_kind_that_others_define_goes_too(client, said):
    """Of shards of the user's own, and of a Config of his own, the owner stays."""
    kinds = {
        each.kind: each for each in KINDS if each.group in ("monitoring.coreos.com", "autoscaling.k8s.io")
    }
    assert kinds.keys() == {kind.rpartition("/")[2] for kind in OPTIONAL_KINDS}
    for kind in kinds.values():
        definition = a_definition(group=kind.group, plural=kind.plural, kind=kind.kind, version=kind.version)
        definition["spec"]["scope"] = "Namespaced"
        definition["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
        await install(client, definition)
        for name, labels in (("ours", {"app.kubernetes.io/managed-by": "kai-operator"}), ("theirs", {})):
            made = {"metadata": {"name": name, "namespace": SPACE, "labels": labels}}
            await client.create(kind, made, namespace=SPACE)
    await remove_leftovers(client, namespace=SPACE, scheduler_name="ours", say=said.append)
    for kind in kinds.values():
        assert [each["metadata"]["name"] for each in await client.list(kind, namespace=SPACE)] == ["theirs"]


def a_webhook(name, *, labels=OURS, namespace=SPACE):
    service = {"name": "admission", "namespace": namespace}
    webhook = {
        "name": "a.example.com",
        "clientConfig": {"service": service},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": name, "labels": labels}, "webhooks": [webhook]}


async def test_webhooks_that_nobody_answers_for_go_and_those_of_others_stay(client, said):
    """A Config of the user's own stays, so that nothing else would take them along."""
    await client.create(MUTATING_WEBHOOKS, a_webhook("mutating-kai-admission"))
    for webhook in (
        a_webhook("kai-queue-validation-v2"),
        a_webhook("validating-kai-admission", labels={"app": "admission"}),
        a_webhook("kai-warnings", namespace="elsewhere"),
        a_webhook("somebody"),
    ):
        await client.create(VALIDATING_WEBHOOKS, webhook)
    await remove_leftovers(client, namespace=SPACE, scheduler_name="ours", say=said.append)
    assert await client.list(MUTATING_WEBHOOKS) == []
    left = {each["metadata"]["name"] for each in await client.list(VALIDATING_WEBHOOKS)}
    assert left == {"validating-kai-admission", "kai-warnings", "somebody"}


async def test_an_operator_that_still_runs_is_waited_for_and_not_for_ever(client, said):
    pod = {
        "metadata": {"name": "kai-operator-1", "namespace": SPACE, "labels": {"app": "kai-operator"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await client.create(PODS, pod, namespace=SPACE)
    times = iter([0.0, 10.0, 61.0])
    await remove_leftovers(
        client, namespace=SPACE, scheduler_name="ours", say=said.append, clock=lambda: next(times)
    )
    with pytest.raises(StopIteration):
        next(times)


async def test_the_leases_of_our_processes_go_once_they_have_ended(client, said):
    made = {"labels": {"app.kubernetes.io/managed-by": "kai-operator"}}
    pod = {
        "metadata": {"name": "binder-1", "namespace": SPACE, **made},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await client.create(PODS, pod, namespace=SPACE)
    ours = {*names.LEASES.values(), "ours", "ours-red"}
    for name in (*ours, "theirs", "oursnot"):
        await client.create(LEASES, {"metadata": {"name": name, "namespace": SPACE}}, namespace=SPACE)

    async def leases():
        return {each["metadata"]["name"] for each in await client.list(LEASES, namespace=SPACE)}

    removal = asyncio.create_task(
        remove_leftovers(client, namespace=SPACE, scheduler_name="ours", say=said.append, patience=patience())
    )
    assert await leases() >= ours
    await client.delete(PODS, "binder-1", namespace=SPACE, grace_seconds=0)
    await removal
    assert await leases() == {"theirs", "oursnot"}


@pytest.mark.parametrize(
    ("place", "goes"),
    [(names.SCALE_ADJUST_NAMESPACE, {"scaling"}), (SPACE, set())],
    ids=["in a namespace of their own", "in that of the installation"],
)
async def test_scaling_pods_go_with_what_was_made_for_them_and_others_stay(client, said, place, goes):
    """The accounts of the installation are beside theirs where both have one namespace."""
    if place != SPACE:
        await client.create(NAMESPACES, {"metadata": {"name": place}})
    for name, labels in (("default-half", {"app": "scaling-pod"}), ("somebody", {"app": "x"})):
        meta = {"name": name, "namespace": place, "labels": labels}
        containers = [{"name": "c", "image": "i"}]
        await client.create(PODS, {"metadata": meta, "spec": {"containers": containers}}, namespace=place)
    for name, labels in (("scaling", {"app.kubernetes.io/managed-by": "kai-operator"}), ("somebody", {})):
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name, "labels": labels}}, namespace=place)
    await remove_scaling_pods(client, namespace=place, installation=SPACE, say=said.append)
    accounts = {"scaling", "somebody", "default"} - goes
    for kind, others in ((PODS, {"somebody"}), (SERVICE_ACCOUNTS, accounts)):
        assert {each["metadata"]["name"] for each in await client.list(kind, namespace=place)} == others
    assert said == ["pod default-half is deleted", *(f"serviceaccount {name} is deleted" for name in goes)]


async def test_what_may_not_be_deleted_keeps_nothing_else_back(server, client, said):
    made = {"labels": {"app.kubernetes.io/managed-by": "kai-operator"}}
    for name in ("admission", "binder"):
        await client.create(DEPLOYMENTS, a_deployment(name, **made), namespace=SPACE)
    config_map = {"metadata": {"name": "kai-scheduler-default", "namespace": SPACE, **made}}
    await client.create(CONFIG_MAPS, config_map, namespace=SPACE)
    await client.create(MUTATING_WEBHOOKS, a_webhook("mutating-kai-admission"))
    await client.create(LEASES, {"metadata": {"name": "ours", "namespace": SPACE}}, namespace=SPACE)
    for resource in ("mutatingwebhookconfigurations", "deployments"):
        server.faults.rules.append(Rule(user_agent="test", verb="delete", resource=resource, status=403))
    server.faults.rules.append(Rule(user_agent="test", verb="list", resource="daemonsets", status=403))
    with pytest.raises(Refused) as caught:
        await remove_leftovers(client, namespace=SPACE, scheduler_name="ours", say=said.append)
    assert [each.partition(":")[0] for each in str(caught.value).split("; ")] == [
        "mutatingwebhookconfiguration mutating-kai-admission", "deployment admission", "daemonsets",
    ]  # fmt: skip
    assert [each["metadata"]["name"] for each in await client.list(DEPLOYMENTS, namespace=SPACE)] == [
        "admission"
    ]
    for kind in (CONFIG_MAPS, LEASES):
        assert await client.list(kind, namespace=SPACE) == []
    await remove_leftovers(client, namespace=SPACE, scheduler_name="ours", say=said.append)
    assert await client.list(DEPLOYMENTS, namespace=SPACE) == []


async def test_a_scaling_pod_that_may_not_be_deleted_keeps_no_other_back(server, client, said):
    for name in ("a", "b"):
        meta = {"name": name, "namespace": SPACE, "labels": {"app": "scaling-pod"}}
        body = {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await client.create(PODS, body, namespace=SPACE)
    server.faults.rules.append(Rule(user_agent="test", verb="delete", status=403))
    with pytest.raises(Refused, match="pod a: "):
        await remove_scaling_pods(client, namespace=SPACE, installation=SPACE, say=said.append)
    assert said == ["pod b is deleted"]


def test_leases_are_those_by_which_processes_lead():
    services = (
        kai_operator.service,
        kai_pod_grouper.service,
        kai_podgroup_controller.service,
        kai_queue_controller.service,
        kai_node_scale_adjuster.service,
        kai_insight.service,
    )
    assert sorted(service.LEASE for service in services) == sorted(names.LEASES.values())


async def test_a_config_and_shards_that_stay_say_that_nobody_serves_them(client, said):
    await install_ours(client, "schedulingshards", "configs")
    await client.create(SCHEDULING_SHARDS, {"metadata": {"name": "lab"}, "spec": {}})
    await client.create(CONFIGS, {"metadata": {"name": "kai-config"}, "spec": {}})
    was = {"status": "True", "reason": "x", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    told = [{"type": kind, **was} for kind in ("Available", "Audited", "Ready")]
    await client.patch(SCHEDULING_SHARDS, "lab", {"status": {"conditions": told}}, subresource="status")
    await tell_abandoned(client, said.append, namespace=SPACE)
    first = await conditions_of(client, "lab")
    assert {kind: each["status"] for kind, each in first.items()} == {
        "Available": "False", "Deployed": "False", "Ready": "False", "Audited": "True",
    }  # fmt: skip
    assert "nobody serves this shard" in first["Ready"]["message"]
    assert first["Ready"]["lastTransitionTime"] > was["lastTransitionTime"]
    of_config = await conditions_of(client, "kai-config", CONFIGS)
    assert {each["status"] for each in of_config.values()} == {"False"}
    assert "nobody serves this Config" in of_config["Ready"]["message"]
    assert said == [
        "config kai-config is kept, and served by nobody",
        "schedulingshard lab is kept, and served by nobody",
    ]
    later = datetime(2050, 1, 1, tzinfo=UTC)
    await tell_abandoned(client, said.append, namespace=SPACE, now=lambda: later)
    assert await conditions_of(client, "lab") == first


async def test_shards_of_an_installation_that_is_there_are_left_to_it(client, said):
    await install_ours(client, "schedulingshards", "configs")
    await client.create(CONFIGS, {"metadata": {"name": "kai-config"}, "spec": {"namespace": "elsewhere"}})
    await client.create(SCHEDULING_SHARDS, {"metadata": {"name": "lab"}, "spec": {}})
    await tell_abandoned(client, said.append, namespace=SPACE)
    assert said == []
    assert await conditions_of(client, "lab") == {}


async def test_one_that_its_definition_does_not_allow_any_more_keeps_no_other_back(client, said):
    await install(client, a_definition(plural="configs", kind="Config", version="v1"))
    await client.create(CONFIGS, {"metadata": {"name": "kai-config"}, "spec": {"global": "of old"}})
    await install_ours(client, "schedulingshards")
    await client.create(SCHEDULING_SHARDS, {"metadata": {"name": "lab"}, "spec": {}})
    await apply_definitions(client, DEFINITIONS, said.append)
    said.clear()
    await tell_abandoned(client, said.append, namespace=SPACE)
    refused, told = said
    assert refused.startswith("config kai-config is kept, and cannot say that nobody serves it: ")
    assert "spec.global" in refused
    assert told == "schedulingshard lab is kept, and served by nobody"
    assert (await conditions_of(client, "lab"))["Ready"]["status"] == "False"


async def test_one_that_may_not_be_written_keeps_no_other_from_being_told(server, client, said):
    await install_ours(client, "schedulingshards", "configs")
    for name in ("a", "b"):
        await client.create(SCHEDULING_SHARDS, {"metadata": {"name": name}, "spec": {}})
    server.faults.rules.append(Rule(user_agent="test", verb="patch", status=403))
    with pytest.raises(Refused, match="schedulingshard a: "):
        await tell_abandoned(client, said.append, namespace=SPACE)
    assert said == ["schedulingshard b is kept, and served by nobody"]


async def test_without_their_definitions_there_are_no_shards_to_tell_of(client, said):
    await tell_abandoned(client, said.append, namespace=SPACE)
    assert said == []


async def remove(client, said):
    options = argparse.Namespace(namespace=SPACE, scheduler_name="ours")
    await HOOKS["removal"](client, options, said.append)


async def test_what_may_neither_go_nor_be_told_is_both_said(server, client, said):
    await install_ours(client, "configs", "schedulingshards")
    await client.create(SCHEDULING_SHARDS, {"metadata": {"name": "lab"}, "spec": {}})
    made = {"labels": {"app.kubernetes.io/managed-by": "kai-operator"}}
    await client.create(DEPLOYMENTS, a_deployment("binder", **made), namespace=SPACE)
    for verb in ("delete", "patch"):
        server.faults.rules.append(Rule(user_agent="test", verb=verb, status=403))
    with pytest.raises(Refused) as caught:
        await remove(client, said)
    assert [each.partition(":")[0] for each in str(caught.value).split("; ")] == [
        "deployment binder", "schedulingshard lab",
    ]  # fmt: skip
    await remove(client, said)
    assert said == ["deployment binder is deleted", "schedulingshard lab is kept, and served by nobody"]


OF_A_RELEASE = {"helm.sh/chart": "kai-scheduler-1.0.0", "app.kubernetes.io/managed-by": "Helm"}


async def test_nothing_goes_while_the_config_of_a_release_is_there(client, said):
    """Somebody has applied all that `helm template` prints, what is to run after a removal too."""
    await install_ours(client, "configs", "schedulingshards")
    await client.create(CONFIGS, {"metadata": {"name": "kai-config", "labels": OF_A_RELEASE}, "spec": {}})
    made = {"labels": {"app.kubernetes.io/managed-by": "kai-operator"}}
    await client.create(DEPLOYMENTS, a_deployment("binder", **made), namespace=SPACE)
    with pytest.raises(Refused, match="kai-config is of a release that is not removed"):
        await remove(client, said)
    assert said == []
    assert len(await client.list(DEPLOYMENTS, namespace=SPACE)) == 1
    assert await conditions_of(client, "kai-config", CONFIGS) == {}
    await client.patch(CONFIGS, "kai-config", {"metadata": {"annotations": KEEP}})
    await remove(client, said)
    assert said == ["deployment binder is deleted", "config kai-config is kept, and served by nobody"]


async def install_ours(client, *plurals):
    for plural in plurals:
        await install(client, load_written((DEFINITIONS / f"{plural}.kai.scheduler.yaml").read_text()))


async def conditions_of(client, name, resource=SCHEDULING_SHARDS):
    found = await client.get(resource, name)
    return {each["type"]: each for each in (found.get("status") or {}).get("conditions") or ()}


# --- edits -------------------------------------------------------------------------------------
async def test_a_config_that_is_refused_keeps_the_shard_from_nothing(server, client, said, tmp_path):
    await install_ours(client, "schedulingshards", "configs")
    for name, kind, called in (
        ("config", "Config", "kai-config"), ("shard", "SchedulingShard", "default"),
    ):  # fmt: skip
        manifest = {"apiVersion": "kai.scheduler/v1", "kind": kind, "metadata": {"name": called}, "spec": {}}
        (tmp_path / f"{name}.json").write_text(json.dumps(manifest))
    server.faults.rules.append(Rule(user_agent="test", verb="patch", resource="configs", status=403))
    with pytest.raises(Refused, match="Config kai-config: "):
        await overwrite_edits(client, tmp_path, said.append)
    assert said == ["SchedulingShard default is as the release says"]


# --- topologies --------------------------------------------------------------------------------
async def test_topologies_of_kueue_are_copied_where_there_is_none_of_the_name(client, said):
    await install(client, a_definition(group="kueue.x-k8s.io", version="v1beta1"))
    await install(client, load_written((DEFINITIONS / "topologies.kai.scheduler.yaml").read_text()))
    for name in ("racks", "blocks"):
        levels = [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
        await client.create(KUEUE, {"metadata": {"name": name}, "spec": {"levels": levels}})
    mine = {"metadata": {"name": "blocks"}, "spec": {"levels": [{"nodeLabel": "example.com/block"}]}}
    await client.create(TOPOLOGIES, mine)
    await copy_topologies(client, said.append)
    found = {each["metadata"]["name"]: each for each in await client.list(TOPOLOGIES)}
    assert [level["nodeLabel"] for level in found["racks"]["spec"]["levels"]] == [
        "example.com/rack",
        "kubernetes.io/hostname",
    ]
    assert found["racks"]["metadata"]["annotations"] == {MIGRATED: "kueue.x-k8s.io/racks"}
    assert found["blocks"]["spec"]["levels"] == [{"nodeLabel": "example.com/block"}]


async def test_one_that_ours_cannot_be_like_keeps_no_other_back(client, said):
    await install(client, a_definition(group="kueue.x-k8s.io", version="v1beta1"))
    await install(client, load_written((DEFINITIONS / "topologies.kai.scheduler.yaml").read_text()))
    twice = [{"nodeLabel": "example.com/rack"}] * 2
    for name, spec in (("a", {"levels": twice}), ("b", {}), ("c", {"levels": twice[:1]})):
        await client.create(KUEUE, {"metadata": {"name": name}, "spec": spec})
    await copy_topologies(client, said.append)
    assert [each["metadata"]["name"] for each in await client.list(TOPOLOGIES)] == ["c"]
    assert [line.partition(":")[0] for line in said] == [
        "topology a of Kueue is not copied",
        "topology b of Kueue is not copied",
        "topology c is copied from Kueue",
    ]


async def test_one_that_may_not_be_made_keeps_no_other_back(server, client, said):
    await install(client, a_definition(group="kueue.x-k8s.io", version="v1beta1"))
    await install(client, load_written((DEFINITIONS / "topologies.kai.scheduler.yaml").read_text()))
    for name in ("a", "b"):
        levels = [{"nodeLabel": "kubernetes.io/hostname"}]
        await client.create(KUEUE, {"metadata": {"name": name}, "spec": {"levels": levels}})
    server.faults.rules.append(Rule(user_agent="test", verb="create", status=403))
    with pytest.raises(Refused, match="topology a: "):
        await copy_topologies(client, said.append)
    assert said == ["topology b is copied from Kueue"]


async def test_without_kueue_nothing_is_copied(client, said):
    await copy_topologies(client, said.append)
    assert said == []


# --- the command -------------------------------------------------------------------------------
async def test_a_hook_that_is_refused_ends_with_an_error_that_may_be_tried_again(server, client, said):
    server.faults.rules.append(Rule(user_agent="test", verb="patch", status=403))
    with pytest.raises(Forbidden):
        await apply_definitions(client, DEFINITIONS, said.append)
    server.faults.rules.clear()
    await apply_definitions(client, DEFINITIONS, said.append)


def test_an_api_server_that_is_not_there_is_told_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("kai_hooks.__main__._WAIT_SECONDS", 0.0)
    monkeypatch.setattr(
        sys, "argv", ["hooks", "removal", "--namespace", "x", "--kubeconfig", str(tmp_path / "none")]
    )
    from kai_hooks.__main__ import main

    with pytest.raises(SystemExit, match="error: "):
        main()
