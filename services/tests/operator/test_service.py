"""The service against an API server that keeps objects."""

import asyncio
import base64
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from deadlines import eventually
from kai.kube import errors
from kai.kube.client import KubeClient
from kai.kube.resources import (
    CONFIG_MAPS,
    CONFIGS,
    CRDS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    PODS,
    QUEUES,
    SCHEDULING_SHARDS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VALIDATING_WEBHOOKS,
)
from kai.runtime import Host, certificates
from kai_local.apiserver.serving.faults import Rule
from kai_local.apiserver.serving.server import ApiServer
from kai_local.installation.bootstrap import definitions
from kai_operator.former_endpoints import ENDPOINTS
from kai_operator.kinds import ENDPOINT_SLICES
from kai_operator.ownership import owner_reference
from kai_operator.service import OperatorService
from kai_operator.settings import OperatorSettings
from kai_operator.writer import CORRECTIONS

pytestmark = pytest.mark.integration

NAMESPACE = "kai-scheduler"
AGENT = "operator-under-test"


@pytest.fixture
async def api():
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def admin(api, tmp_path):
    async with KubeClient.connect(str(api.write_kubeconfig(tmp_path / "config"))) as client:
        for definition in definitions(CONFIGS, SCHEDULING_SHARDS, QUEUES):
            for version in definition["spec"]["versions"]:  # the product is made up
                version["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                }
            await client.create(CRDS, definition)
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        yield client


@pytest.fixture
def operator(tmp_path, build):
    """Starts the service; within the block it runs."""

    @asynccontextmanager
    async def run(product=None, *arguments):
        settings = OperatorSettings.parse(list(arguments))
        service = OperatorService(settings, product or build.product())
        host = Host(name=service.name, settings=settings, metrics=CollectorRegistry())
        async with (
            KubeClient.connect(
                str(tmp_path / "config"), user_agent=AGENT, registry=host.metrics
            ) as host.client,
            asyncio.TaskGroup() as host.tasks,
        ):
            work = host.tasks.create_task(service.run(host))
            await eventually(
                host.health.ask, lambda checks: not checks.get("synced", "no check yet"), what="synced"
            )
            try:
                yield host
            finally:
                host.stopping.set()
                await asyncio.wait([work])
                host.stop_background()

    return run


async def configure(client, **spec):
    body = {"metadata": {"name": "kai-config"}, "spec": spec}
    return await client.create(CONFIGS, body)


async def change(client, **spec):
    return await client.patch(CONFIGS, "kai-config", {"spec": spec})


async def a_shard(client, name, value=""):
    spec = {"partitionLabelValue": value}
    return await client.create(SCHEDULING_SHARDS, {"metadata": {"name": name}, "spec": spec})


async def found(client, resource, name, *, namespace=NAMESPACE):
    try:
        return await client.get(resource, name, namespace=namespace)
    except errors.NotFound:
        return None


async def there(client, resource, name, accept=bool, *, namespace=NAMESPACE):
    return await eventually(
        lambda: found(client, resource, name, namespace=namespace), accept, what=f"{resource.kind} {name}"
    )


async def condition(client, kind, *, of=CONFIGS, name="kai-config"):
    manifest = await client.get(of, name)
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    told = next((one for one in conditions if one["type"] == kind), {})
    current = told.get("observedGeneration") == manifest["metadata"]["generation"]
    return (told.get("status"), told.get("reason"), told.get("message")) if current else None


async def until(client, kind, status, *, of=CONFIGS, name="kai-config"):
    return await eventually(
        lambda: condition(client, kind, of=of, name=name),
        lambda told: told is not None and told[0] == status,
        what=f"{kind} of {name} is {status}",
    )


def requests(api):
    return {
        (entry["verb"], entry["resource"]): entry["count"]
        for entry in api.counts.report()
        if entry["userAgent"] == AGENT and entry["verb"] not in ("watch", "list")
    }


async def scale(client, name, replicas):
    await client.patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}}, namespace=NAMESPACE)


async def run_pods(client, name):
    """Say of a Deployment what its controller would say when all pods are ready."""
    deployment = await client.get(DEPLOYMENTS, name, namespace=NAMESPACE)
    replicas = deployment["spec"]["replicas"]
    status = {
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": replicas,
        "updatedReplicas": replicas,
        "readyReplicas": replicas,
        "availableReplicas": replicas,
        "conditions": [{"type": "Available", "status": "True"}],
    }
    await client.patch(DEPLOYMENTS, name, {"status": status}, namespace=NAMESPACE, subresource="status")


# --- from specifications to objects ------------------------------------------------------------
async def test_what_config_says_is_made_and_belongs_to_it(admin, operator):
    config = await configure(admin, deployment={"replicas": 2}, maps={"settings": {"a": "1"}})
    async with operator():
        deployment = await there(admin, DEPLOYMENTS, "binder")
        assert deployment["spec"]["replicas"] == 2
        assert await there(admin, CONFIG_MAPS, "settings")
        assert await there(admin, SERVICE_ACCOUNTS, "binder")
        [owner] = deployment["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == (
            "Config",
            config["metadata"]["uid"],
            True,
        )
        assert deployment["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "kai-operator"


async def test_it_is_ready_when_all_pods_are(admin, operator):
    await configure(admin, deployment={})
    async with operator():
        _, reason, message = await until(admin, "Ready", "False")
        assert (reason, message) == ("not_ready", "Deployment kai-scheduler/binder: 0 of 1 pods")
        assert (await condition(admin, "Reconciling"))[:2] == ("False", "reconciled")
        assert (await condition(admin, "Deployed"))[:2] == ("True", "deployed")
        await run_pods(admin, "binder")
        assert (await until(admin, "Ready", "True"))[1] == "ready"
        assert (await condition(admin, "Available"))[:2] == ("True", "available")


async def test_what_keeps_the_new_pod_of_a_rollout_is_told(admin, operator):
    await configure(admin, deployment={"name": "binder"})
    async with operator():
        binder = await there(admin, DEPLOYMENTS, "binder")
        template = binder["spec"]["template"]
        meta = {"name": "binder-2", "labels": template["metadata"]["labels"]}
        await admin.create(PODS, {"metadata": meta, "spec": template["spec"]}, namespace=NAMESPACE)
        crashing = {"waiting": {"reason": "CrashLoopBackOff"}}
        over = {"terminated": {"exitCode": 2, "reason": "Error"}}
        container = {"name": "binder", "ready": False, "restartCount": 1, "image": "", "imageID": ""}
        status = {"containerStatuses": [{**container, "state": crashing, "lastState": over}]}
        await admin.patch(PODS, "binder-2", {"status": status}, namespace=NAMESPACE, subresource="status")
        # Its controller counts it, and the one before that still works.
        counted = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1}
        await admin.patch(
            DEPLOYMENTS, "binder", {"status": counted}, namespace=NAMESPACE, subresource="status"
        )
        told = await eventually(
            lambda: condition(admin, "Available"), lambda told: told and "1 older" in told[2]
        )
        assert told[2] == (
            "Deployment kai-scheduler/binder: 0 of 1 pods, 1 older "
            "(pod binder-2: CrashLoopBackOff, ended with status 2 (Error))"
        )


async def test_a_change_of_config_changes_what_there_is(admin, operator):
    await configure(admin, deployment={"args": ["--a"]}, maps={"one": {}, "two": {}})
    async with operator():
        await there(admin, CONFIG_MAPS, "two")
        await change(admin, deployment={"args": ["--b"]}, maps={"two": None, "three": {}})
        await there(admin, CONFIG_MAPS, "three")
        await there(admin, CONFIG_MAPS, "two", lambda gone: gone is None)
        assert await found(admin, CONFIG_MAPS, "one")
        await there(
            admin,
            DEPLOYMENTS,
            "binder",
            lambda now: now["spec"]["template"]["spec"]["containers"][0]["args"] == ["--b"],
        )
        await change(admin, deployment=None)
        await there(admin, DEPLOYMENTS, "binder", lambda gone: gone is None)


async def test_only_the_config_of_the_right_name_counts(admin, operator):
    await admin.create(CONFIGS, {"metadata": {"name": "another"}, "spec": {"maps": {"x": {}}}})
    async with operator():
        await configure(admin, maps={"y": {}})
        await there(admin, CONFIG_MAPS, "y")
        assert await found(admin, CONFIG_MAPS, "x") is None


@pytest.mark.parametrize(
    "edit",
    [
        {"spec": {"replicas": 5}},
        {"spec": {"template": {"spec": {"nodeSelector": {"by": "hand"}}}}},
        {"metadata": {"labels": {"app.kubernetes.io/part-of": "mine"}}},
        {"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}},
        {"metadata": {"ownerReferences": None}},
    ],
    ids=["changed", "added", "label", "label of the watch", "owner"],
)
async def test_what_is_edited_by_hand_is_put_right(admin, operator, edit):
    await configure(admin, deployment={})
    async with operator():
        await until(admin, "Deployed", "True")
        before = await admin.get(DEPLOYMENTS, "binder", namespace=NAMESPACE)
        await admin.patch(DEPLOYMENTS, "binder", edit, namespace=NAMESPACE)
        after = await there(
            admin,
            DEPLOYMENTS,
            "binder",
            lambda now: now["spec"] == before["spec"] and ours(now) == ours(before),
        )
        assert after["metadata"]["uid"] == before["metadata"]["uid"]


def ours(manifest):
    return manifest["metadata"].get("ownerReferences"), manifest["metadata"]["labels"]


async def test_who_changes_an_object_all_the_time_does_not_keep_us_at_it(api, admin, operator):
    await configure(admin, deployment={})
    async with operator():
        await until(admin, "Deployed", "True")
        api.counts.reset()

        async def corrected():
            return requests(api).get(("update", "deployments"), 0)

        for count in range(CORRECTIONS):
            await scale(admin, "binder", 2 + count)
            await eventually(corrected, lambda now, count=count: now == count + 1, what="it is put right")
        await scale(admin, "binder", 99)
        told = await until(admin, "Deployed", "False")
        assert "Deployment kai-scheduler/binder is changed by somebody else again and again" in told[2]
        assert requests(api)["update", "deployments"] == CORRECTIONS


async def test_what_is_deleted_by_hand_comes_back(admin, operator):
    await configure(admin, deployment={})
    async with operator():
        await until(admin, "Deployed", "True")
        before = await admin.get(DEPLOYMENTS, "binder", namespace=NAMESPACE)
        await admin.delete(DEPLOYMENTS, "binder", namespace=NAMESPACE)
        await there(
            admin,
            DEPLOYMENTS,
            "binder",
            lambda now: now is not None and now["metadata"]["uid"] != before["metadata"]["uid"],
        )


async def test_nothing_is_asked_for_where_nothing_changes(api, admin, operator):
    await configure(admin, deployment={}, maps={"settings": {"a": "1"}})
    await a_shard(admin, "default")
    async with operator():
        await there(admin, DEPLOYMENTS, "kai-scheduler-default")
        await run_pods(admin, "binder")
        await run_pods(admin, "kai-scheduler-default")
        await until(admin, "Ready", "True")
        await until(admin, "Ready", "True", of=SCHEDULING_SHARDS, name="default")
        await asyncio.sleep(1.0)
        api.counts.reset()
        # Somebody else's annotation starts a pass, which finds nothing to do.
        await admin.patch(
            CONFIG_MAPS, "settings", {"metadata": {"annotations": {"theirs": "x"}}}, namespace=NAMESPACE
        )
        await asyncio.sleep(1.0)
        assert requests(api) == {}


async def test_a_new_process_writes_nothing_where_all_is_as_it_should_be(api, admin, operator):
    await configure(admin, deployment={}, maps={"settings": {"a": "1"}})
    async with operator():
        await until(admin, "Deployed", "True")
    before = [
        await admin.get(r, n, namespace=NAMESPACE)
        for r, n in ((DEPLOYMENTS, "binder"), (CONFIG_MAPS, "settings"))
    ]
    api.counts.reset()
    async with operator():
        await asyncio.sleep(1.5)
    after = [
        await admin.get(r, n, namespace=NAMESPACE)
        for r, n in ((DEPLOYMENTS, "binder"), (CONFIG_MAPS, "settings"))
    ]
    assert [one["metadata"]["resourceVersion"] for one in before] == [
        one["metadata"]["resourceVersion"] for one in after
    ]
    # Questions, once: what would the server make of these?
    assert set(requests(api)) == {
        ("update", "deployments"),
        ("update", "configmaps"),
        ("update", "serviceaccounts"),
    }


async def test_what_was_edited_while_nobody_looked_is_put_right(admin, operator):
    await configure(admin, deployment={})
    async with operator():
        await until(admin, "Deployed", "True")
    edit = {"spec": {"template": {"spec": {"nodeSelector": {"by": "hand"}}}}}
    await admin.patch(DEPLOYMENTS, "binder", edit, namespace=NAMESPACE)
    async with operator():
        await there(
            admin, DEPLOYMENTS, "binder", lambda now: "nodeSelector" not in now["spec"]["template"]["spec"]
        )


# --- what belongs to others --------------------------------------------------------------------
async def test_objects_of_an_earlier_release_are_taken_over_as_they_are(admin, operator, build):
    left = build.config_map("settings", a="0")
    left["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "Helm"
    left["metadata"]["annotations"] = {"meta.helm.sh/release-name": "kai-scheduler"}
    before = await admin.create(CONFIG_MAPS, left, namespace=NAMESPACE)
    await configure(admin, maps={"settings": {"a": "1"}})
    async with operator():
        now = await there(admin, CONFIG_MAPS, "settings", lambda now: now["data"] == {"a": "1"})
        assert now["metadata"]["uid"] == before["metadata"]["uid"]
        assert now["metadata"]["ownerReferences"][0]["kind"] == "Config"
        assert now["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "kai-operator"
        assert "meta.helm.sh/release-name" not in (now["metadata"].get("annotations") or {})


async def test_programs_of_the_original_are_replaced_and_not_rolled_over(admin, operator, build):
    config = await configure(admin, deployment={})
    theirs = build.deployment("binder")
    owner = owner_reference(CONFIGS, "kai-config", config["metadata"]["uid"])
    theirs["metadata"] |= {
        "labels": {"app": "binder", "app.kubernetes.io/managed-by": "kai-operator"},
        "ownerReferences": [owner],
    }
    theirs["spec"]["template"]["metadata"]["labels"] = {"app": "binder"}
    before = await admin.create(DEPLOYMENTS, theirs, namespace=NAMESPACE)
    async with operator():
        uid = before["metadata"]["uid"]
        now = await there(
            admin, DEPLOYMENTS, "binder", lambda now: now is not None and now["metadata"]["uid"] != uid
        )
        assert now["metadata"]["labels"].items() >= build.labels.items()
        await until(admin, "Deployed", "True")


async def test_objects_of_others_are_left_alone_and_that_is_told(admin, operator):
    theirs = {"metadata": {"name": "settings"}, "data": {"a": "theirs"}}
    await admin.create(CONFIG_MAPS, theirs, namespace=NAMESPACE)
    await configure(admin, maps={"settings": {"a": "1"}, "others": {}})
    async with operator():
        told = await until(admin, "Deployed", "False")
        assert "ConfigMap kai-scheduler/settings belongs to somebody else" in told[2]
        assert await found(admin, CONFIG_MAPS, "others")
        assert (await admin.get(CONFIG_MAPS, "settings", namespace=NAMESPACE))["data"] == {"a": "theirs"}
        notes = await eventually(lambda: admin.list(EVENTS, namespace="default"))
        assert notes[0]["reason"] == "NotDeployed"
        assert notes[0]["regarding"]["name"] == "kai-config"


async def test_what_the_server_refuses_keeps_nothing_else_back_and_is_tried_again(admin, operator, build):
    refused = build.config_map("Not_A_Name")
    product = build.product(more=[refused])
    await configure(admin, maps={"settings": {}}, deployment={})
    async with operator(product):
        told = await until(admin, "Deployed", "False")
        assert "Not_A_Name" in told[2]
        assert await found(admin, CONFIG_MAPS, "settings")
        assert await found(admin, DEPLOYMENTS, "binder")
        product.more.clear()
        await until(admin, "Deployed", "True")


# --- specifications that cannot be used --------------------------------------------------------
async def test_who_writes_an_object_at_the_same_time_is_no_trouble(api, admin, operator):
    await configure(admin, deployment={})
    async with operator():
        await until(admin, "Deployed", "True")
        api.faults.rules.append(Rule(user_agent=AGENT, verb="update", resource="deployments", status=409))
        await change(admin, deployment={"replicas": 3})
        await there(admin, DEPLOYMENTS, "binder", lambda now: now["spec"]["replicas"] == 3)
        await until(admin, "Deployed", "True")
    assert not [each for each in await admin.list(EVENTS) if each["type"] == "Warning"]


async def test_a_slip_in_config_is_told_by_field_and_changes_nothing(api, admin, operator):
    await configure(admin, maps={"settings": {"a": "1"}})
    async with operator():
        await until(admin, "Ready", "True")
        await change(admin, maps={"settings": {"a": "2"}}, deploymnet={})
        told = await until(admin, "Ready", "False")
        assert told[1:] == ("invalid_spec", "spec.deploymnet is not known; what ran before goes on")
        assert (await condition(admin, "Reconciling"))[:2] == ("False", "invalid_spec")
        assert (await admin.get(CONFIG_MAPS, "settings", namespace=NAMESPACE))["data"] == {"a": "1"}
        [note] = await eventually(lambda: admin.list(EVENTS, namespace="default"))
        assert (note["type"], note["reason"]) == ("Warning", "InvalidSpec")
        assert note["note"] == "spec.deploymnet is not known; what ran before goes on"
        # What runs is still kept as it was.
        await admin.delete(CONFIG_MAPS, "settings", namespace=NAMESPACE)
        await there(admin, CONFIG_MAPS, "settings", lambda now: now and now["data"] == {"a": "1"})
        await change(admin, deploymnet=None)
        await there(admin, CONFIG_MAPS, "settings", lambda now: now["data"] == {"a": "2"})
        await until(admin, "Ready", "True")


async def test_a_new_process_with_a_config_that_cannot_be_used_heals_what_was_before(admin, operator):
    await configure(admin, maps={"settings": {"a": "1"}})
    await a_shard(admin, "default")
    async with operator():
        await there(admin, CONFIG_MAPS, "kai-scheduler-default")
    await change(admin, maps=None, x={})
    async with operator():
        assert (await until(admin, "Ready", "False"))[1] == "invalid_spec"
        await until(admin, "Ready", "False", of=SCHEDULING_SHARDS, name="default")
        assert await found(admin, CONFIG_MAPS, "settings")
        await admin.delete(CONFIG_MAPS, "settings", namespace=NAMESPACE)
        await there(admin, CONFIG_MAPS, "settings", lambda now: now and now["data"] == {"a": "1"})
        await admin.delete(CONFIG_MAPS, "kai-scheduler-default", namespace=NAMESPACE)
        await there(admin, CONFIG_MAPS, "kai-scheduler-default")


async def test_of_a_config_that_never_could_be_used_it_is_not_said_that_anything_is_there(admin, operator):
    await configure(admin, x={})
    await a_shard(admin, "default")
    async with operator():
        for resource, name in ((CONFIGS, "kai-config"), (SCHEDULING_SHARDS, "default")):
            told = await until(admin, "Ready", "False", of=resource, name=name)
            assert told[2].endswith("what runs is left alone, since it is not known what was before")
            for kind in ("Deployed", "Available"):
                assert (await condition(admin, kind, of=resource, name=name))[0] == "Unknown"


# --- shards ------------------------------------------------------------------------------------
async def test_each_shard_has_its_own_and_takes_it_along(admin, operator):
    await configure(admin, maps={"settings": {}})
    await a_shard(admin, "default")
    async with operator():
        await there(admin, DEPLOYMENTS, "kai-scheduler-default")
        shard = await a_shard(admin, "reds", "red")
        deployment = await there(admin, DEPLOYMENTS, "kai-scheduler-reds")
        [owner] = deployment["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("SchedulingShard", shard["metadata"]["uid"])
        await admin.patch(SCHEDULING_SHARDS, "reds", {"spec": {"partitionLabelValue": "pink"}})
        await there(admin, CONFIG_MAPS, "kai-scheduler-reds", lambda now: now["data"] == {"pool": "pink"})
        await admin.delete(SCHEDULING_SHARDS, "reds")
        await there(admin, DEPLOYMENTS, "kai-scheduler-reds", lambda gone: gone is None)
        await there(admin, CONFIG_MAPS, "kai-scheduler-reds", lambda gone: gone is None)
        assert await found(admin, DEPLOYMENTS, "kai-scheduler-default")


async def test_of_a_shard_whose_part_another_has_been_given_nothing_runs(admin, operator):
    await configure(admin, maps={"settings": {}})
    await a_shard(admin, "default")
    await a_shard(admin, "reds", "red")
    reds = {"of": SCHEDULING_SHARDS, "name": "reds"}
    async with operator():
        await there(admin, DEPLOYMENTS, "kai-scheduler-reds")
        await admin.patch(SCHEDULING_SHARDS, "default", {"spec": {"partitionLabelValue": "red"}})
        await there(admin, DEPLOYMENTS, "kai-scheduler-reds", lambda gone: gone is None)
        told = await eventually(
            lambda: until(admin, "Ready", "False", **reds), lambda told: "nothing of it runs" in told[2]
        )
        assert "wants what default has" in told[2]
        await admin.patch(SCHEDULING_SHARDS, "default", {"spec": {"partitionLabelValue": "blue"}})
        await there(admin, DEPLOYMENTS, "kai-scheduler-reds")


async def test_what_one_should_know_of_a_shard_is_told_though_nothing_is_wrong(admin, operator, build):
    await configure(admin)
    await a_shard(admin, "default")
    product = build.product(remark="it forgets")
    async with operator(product):
        shard = {"of": SCHEDULING_SHARDS, "name": "default"}
        assert (await until(admin, "Deployed", "True", **shard))[1:] == ("deployed", "it forgets")
        assert (await until(admin, "Deployed", "True"))[2] == ""
        events = await eventually(lambda: admin.list(EVENTS, namespace="default"))
        (event,) = [each for each in events if each["reason"] == "Remark"]
        assert (event["type"], event["note"]) == ("Warning", "it forgets")
        assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("SchedulingShard", "default")


async def test_the_lease_of_a_scheduler_goes_with_its_shard(admin, operator):
    await configure(admin)
    await a_shard(admin, "reds", "red")
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
    async with operator():
        for name in ("kai-scheduler-red", "kai-scheduler-green", "kai-scheduler"):
            await admin.create(LEASES, {"metadata": {"name": name}, "spec": spec}, namespace=NAMESPACE)
        await there(admin, LEASES, "kai-scheduler-green", lambda gone: gone is None)
        assert await found(admin, LEASES, "kai-scheduler-red")
        await admin.delete(SCHEDULING_SHARDS, "reds")
        await there(admin, LEASES, "kai-scheduler-red", lambda gone: gone is None)
        assert await found(admin, LEASES, "kai-scheduler")


async def test_what_one_shard_does_to_us_is_its_own_matter(admin, operator, build):
    await configure(admin, maps={"settings": {}})
    async with operator(build.product(explode_for="bad")):
        await a_shard(admin, "bad", "bad")
        await a_shard(admin, "good", "good")
        await there(admin, DEPLOYMENTS, "kai-scheduler-good")
        told = await until(admin, "Deployed", "False", of=SCHEDULING_SHARDS, name="bad")
        assert "RuntimeError: a defect" in told[2]
        assert (await condition(admin, "Deployed"))[0] == "True"


# --- Secrets -----------------------------------------------------------------------------------
CERTIFICATES = {"webhooks": {"admission-tls": "admission.kai-scheduler.svc"}}


async def test_certificates_are_made_and_webhooks_trust_them(admin, operator):
    await configure(admin, certificates=CERTIFICATES)
    async with operator():
        secret = await there(admin, SECRETS, "admission-tls")
        assert secret["type"] == "kubernetes.io/tls"
        webhook = await there(admin, VALIDATING_WEBHOOKS, "validating", namespace="")
        assert webhook["webhooks"][0]["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]
        # Taking one away has another made, and nobody goes on to trust what is gone for good.
        await admin.delete(SECRETS, "admission-tls", namespace=NAMESPACE)
        again = await there(
            admin, SECRETS, "admission-tls", lambda now: now and now["data"] != secret["data"]
        )
        await there(
            admin,
            VALIDATING_WEBHOOKS,
            "validating",
            lambda now: now["webhooks"][0]["clientConfig"]["caBundle"] == again["data"]["ca.crt"],
            namespace="",
        )


async def owned_by_config(client, name, data, **fields):
    """A Secret that an operator before this one has made."""
    config = await client.get(CONFIGS, "kai-config")
    owner = owner_reference(CONFIGS, "kai-config", config["metadata"]["uid"])
    meta = {"name": name, "ownerReferences": [owner]}
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    body = {"metadata": meta, "data": encoded, **fields}
    return await client.create(SECRETS, body, namespace=NAMESPACE)


@pytest.fixture(scope="module")
def self_signed():
    """A pair as the original makes it: nobody has signed it, so that there is no authority beside it."""
    authority = certificates.new_authority("x", now=datetime.now(UTC), lifetime=timedelta(days=9))
    return {"tls.crt": authority.certificate, "tls.key": authority.key}


async def test_secrets_of_the_original_are_filled_anew_though_they_are_of_another_type(
    admin, operator, self_signed
):
    await configure(admin, certificates=CERTIFICATES)
    before = await owned_by_config(admin, "admission-tls", self_signed)
    async with operator():
        await until(admin, "Deployed", "True")
        secret = await admin.get(SECRETS, "admission-tls", namespace=NAMESPACE)
        assert secret["metadata"]["uid"] == before["metadata"]["uid"]
        assert secret["type"] == "Opaque"
        webhook = await admin.get(VALIDATING_WEBHOOKS, "validating")
        assert webhook["webhooks"][0]["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]
        pair = [base64.b64decode(secret["data"][key]) for key in ("tls.crt", "ca.crt")]
        assert certificates.signed_by_one_of(*pair)


async def test_what_depends_on_a_secret_that_cannot_be_written_is_written_once(admin, operator, self_signed):
    await configure(admin, certificates=CERTIFICATES)
    await owned_by_config(admin, "admission-tls", self_signed, immutable=True)
    async with operator():
        told = await until(admin, "Deployed", "False")
        assert "Secret kai-scheduler/admission-tls" in told[2]
        webhook = await admin.get(VALIDATING_WEBHOOKS, "validating")
        await change(admin, maps={"settings": {}})
        await until(admin, "Deployed", "False")
        assert await found(admin, CONFIG_MAPS, "settings")
        assert await admin.get(VALIDATING_WEBHOOKS, "validating") == webhook


async def test_secrets_that_somebody_else_fills_from_now_on_stay_and_are_not_put_right(admin, operator):
    await configure(admin, certificates=CERTIFICATES)
    async with operator():
        before = await there(admin, SECRETS, "admission-tls")
        await change(admin, certificates=None, theirs=["admission-tls"])
        await until(admin, "Deployed", "True")
        theirs = {"data": {"tls.crt": base64.b64encode(b"theirs").decode()}}
        await admin.patch(SECRETS, "admission-tls", theirs, namespace=NAMESPACE)
        await change(admin, certificates=None, theirs=["admission-tls"], maps={"settings": {}})
        await there(admin, CONFIG_MAPS, "settings")
        now = await admin.get(SECRETS, "admission-tls", namespace=NAMESPACE)
        assert now["metadata"]["uid"] == before["metadata"]["uid"]
        assert now["data"]["tls.crt"] == theirs["data"]["tls.crt"]


async def test_a_password_is_made_once(admin, operator):
    await configure(admin, passwords={"kai-redis": "rediss://kai-redis:6379/0"})
    async with operator():
        secret = await there(admin, SECRETS, "kai-redis")
        assert base64.b64decode(secret["data"]["url"]) == b"rediss://kai-redis:6379/0"
        await change(admin, passwords={"kai-redis": "redis://kai-redis:6379/0"})
        changed = await there(
            admin, SECRETS, "kai-redis", lambda now: now["data"]["url"] != secret["data"]["url"]
        )
        assert changed["data"]["password"] == secret["data"]["password"]


async def test_a_secret_of_somebody_else_is_not_touched(admin, operator):
    theirs = {"metadata": {"name": "admission-tls"}, "data": {"x": "eA=="}}
    await admin.create(SECRETS, theirs, namespace=NAMESPACE)
    await configure(admin, certificates=CERTIFICATES, maps={"settings": {}})
    async with operator():
        told = await until(admin, "Deployed", "False")
        assert "Secret kai-scheduler/admission-tls belongs to somebody else" in told[2]
        assert await found(admin, CONFIG_MAPS, "settings")
        assert (await admin.get(SECRETS, "admission-tls", namespace=NAMESPACE))["data"] == {"x": "eA=="}


@pytest.mark.parametrize("status", [403, 500])
async def test_secrets_that_cannot_be_read_keep_nothing_else_back(api, admin, operator, monkeypatch, status):
    monkeypatch.setattr("kai_operator.watching.OPTIONAL_SECONDS", 0.1)
    passwords = {"kai-redis": "redis://kai-redis:6379/0"}
    await configure(admin, certificates=CERTIFICATES, passwords=passwords, maps={"settings": {}})
    async with operator():
        await until(admin, "Deployed", "True")
    names = ("admission-tls", "kai-redis")
    before = [await admin.get(SECRETS, name, namespace=NAMESPACE) for name in names]
    webhook = await admin.get(VALIDATING_WEBHOOKS, "validating")
    await admin.delete(CONFIG_MAPS, "settings", namespace=NAMESPACE)
    away = Rule(user_agent=AGENT, resource="secrets", status=status, count=-1)
    api.faults.rules.append(away)
    async with operator():
        told = await until(admin, "Deployed", "False")
        assert "Secret kai-scheduler/admission-tls cannot be read, so it stays as it is" in told[2]
        assert "Secret kai-scheduler/kai-redis cannot be read" in told[2]
        assert await found(admin, CONFIG_MAPS, "settings")
        assert await admin.get(VALIDATING_WEBHOOKS, "validating") == webhook
        api.faults.rules.remove(away)
        await until(admin, "Deployed", "True")
        assert [await admin.get(SECRETS, name, namespace=NAMESPACE) for name in names] == before


async def test_what_depends_on_a_secret_that_cannot_be_read_waits_for_it(api, admin, operator, monkeypatch):
    monkeypatch.setattr("kai_operator.watching.OPTIONAL_SECONDS", 0.1)
    away = Rule(user_agent=AGENT, resource="secrets", status=403, count=-1)
    api.faults.rules.append(away)
    await configure(admin, certificates=CERTIFICATES, maps={"settings": {}})
    async with operator():
        await until(admin, "Deployed", "False")
        assert await found(admin, CONFIG_MAPS, "settings")
        assert await found(admin, VALIDATING_WEBHOOKS, "validating", namespace="") is None
        api.faults.rules.remove(away)
        webhook = await there(admin, VALIDATING_WEBHOOKS, "validating", namespace="")
        assert webhook["webhooks"][0]["clientConfig"]["caBundle"]


async def test_a_certificate_is_renewed_while_the_process_runs(admin, operator, build):
    await configure(admin, certificates=CERTIFICATES)
    product = build.product(lifetime=timedelta(seconds=6))
    async with operator(product, "--settle-time=500ms"):
        first = await there(admin, SECRETS, "admission-tls")
        await there(
            admin, SECRETS, "admission-tls", lambda now: now["data"]["tls.crt"] != first["data"]["tls.crt"]
        )


async def test_what_is_left_in_a_namespace_without_rights_any_more_is_told_and_holds_nothing_up(
    api, admin, operator, build
):
    await admin.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
    product = build.product(more=[build.account("scaling", "elsewhere"), build.account("spare")])
    await configure(admin)
    async with operator(product):
        await until(admin, "Deployed", "True")
        away = Rule(user_agent=AGENT, verb="delete", resource="serviceaccounts", status=403, count=-1)
        api.faults.rules.append(away)
        product.more = [build.account("spare")]
        await change(admin, maps={"one": {}})
        told = await until(admin, "Deployed", "True")
        assert "ServiceAccount elsewhere/scaling is not wanted any more, and stays" in told[2]
        # In its own namespace it has to have the right.
        product.more = []
        await change(admin, maps={"two": {}})
        told = await until(admin, "Deployed", "False")
        assert "ServiceAccount kai-scheduler/spare is to go" in told[2]


# --- endpoints -----------------------------------------------------------------------------------
async def test_what_kubernetes_keeps_of_a_service_whose_selector_is_gone_goes(admin, operator, build):
    product = build.product(more=[build.service("leading")])
    await configure(admin)
    async with operator(product):
        await there(admin, SERVICES, "leading")
        await kept_by_kubernetes(admin, "leading", "endpointslice-controller.k8s.io")
        mirrored = await admin.create(ENDPOINTS, {"metadata": {"name": "leading"}}, namespace=NAMESPACE)
        owner = {key: mirrored["metadata"][key] for key in ("name", "uid")}
        await kept_by_kubernetes(
            admin, "leading", "endpointslicemirroring-controller.k8s.io", kind="Endpoints", **owner
        )
        await kept_by_kubernetes(admin, "admission", "endpointslice-controller.k8s.io")
        await until(admin, "Deployed", "True")
        assert await found(admin, ENDPOINTS, "leading")
        product.more = [build.service("leading", selector=False)]
        await change(admin, maps={"settings": {}})
        await there(admin, ENDPOINTS, "leading", lambda gone: gone is None)
        await there(admin, ENDPOINT_SLICES, "leading-endpointslice-controller", lambda gone: gone is None)
        assert await found(admin, ENDPOINT_SLICES, "admission-endpointslice-controller")


async def kept_by_kubernetes(client, service, manager, **owner):
    metadata = {
        "name": f"{service}-{manager.partition('.')[0]}",
        "labels": {"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": manager},
        "ownerReferences": [{"apiVersion": "v1", **owner}] if owner else [],
    }
    body = {"metadata": metadata, "addressType": "IPv4", "endpoints": []}
    return await client.create(ENDPOINT_SLICES, body, namespace=NAMESPACE)


# --- leaving -----------------------------------------------------------------------------------
async def test_everything_goes_with_config(admin, operator):
    await configure(admin, deployment={}, certificates=CERTIFICATES)
    async with operator():
        await there(admin, VALIDATING_WEBHOOKS, "validating", namespace="")
        await admin.delete(CONFIGS, "kai-config")
        await there(admin, DEPLOYMENTS, "binder", lambda gone: gone is None)
        await there(admin, SECRETS, "admission-tls", lambda gone: gone is None)
        await there(admin, VALIDATING_WEBHOOKS, "validating", lambda gone: gone is None, namespace="")
        # And comes back with another one, though what there was is on its way out.
        await configure(admin, deployment={})
        await there(admin, DEPLOYMENTS, "binder")


async def test_without_config_no_scheduler_is_left_and_each_shard_says_why(admin, operator):
    await configure(admin, maps={"settings": {}})
    await a_shard(admin, "default")
    async with operator():
        await there(admin, DEPLOYMENTS, "kai-scheduler-default")
        await admin.delete(CONFIGS, "kai-config")
        await there(admin, DEPLOYMENTS, "kai-scheduler-default", lambda gone: gone is None)
        await eventually(
            lambda: until(admin, "Ready", "False", of=SCHEDULING_SHARDS, name="default"),
            lambda told: "there is no Config kai-config" in told[2],  # its pods were not ready before, either
        )
        available = await until(admin, "Available", "False", of=SCHEDULING_SHARDS, name="default")
        assert "there is no Config kai-config" in available[2]
        await configure(admin)
        await there(admin, DEPLOYMENTS, "kai-scheduler-default")


async def test_of_several_only_one_works(admin, operator):
    await configure(admin, maps={"settings": {}})
    async with operator(None, "--leader-elect"):
        await there(admin, CONFIG_MAPS, "settings")
        lease = await there(admin, LEASES, "kai-operator")
        assert lease["spec"]["holderIdentity"]


async def test_who_leads_once_more_after_its_lease_was_lost_works_on(admin, operator):
    await configure(admin, maps={"settings": {}})
    # What does not stop within the rest of a term ends the process, which is that of all tests here.
    times = ("--lease-duration=10m", "--lease-renew-deadline=5m", "--lease-retry-period=100ms")
    async with operator(None, "--leader-elect", *times):
        first = await there(admin, LEASES, "kai-operator")
        await there(admin, CONFIG_MAPS, "settings")
        await admin.delete(LEASES, "kai-operator", namespace=NAMESPACE)
        await there(
            admin,
            LEASES,
            "kai-operator",
            lambda now: now is not None and now["metadata"]["uid"] != first["metadata"]["uid"],
        )
        await change(admin, maps={"settings": {"a": "1"}})
        await there(admin, CONFIG_MAPS, "settings", lambda now: now["data"] == {"a": "1"})
