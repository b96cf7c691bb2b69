"""The client against an API server that keeps objects: the embedded cluster's."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from deadlines import eventually, within
from kai.kube import errors
from kai.kube.client import KubeClient, PatchKind
from kai.kube.events import EventRecorder, reference
from kai.kube.lease import LeaderElector, LeaseTimes, follow_leader
from kai.kube.reflector import Reflector
from kai.kube.resources import CONFIG_MAPS, CORE_EVENTS, LEASES, NAMESPACES, PODS
from kai.kube.store import Store
from kai.model.objects import ApiObject, Json, Pod
from kai_local.apiserver.serving.faults import Rule
from kai_local.apiserver.serving.server import ApiServer

pytestmark = pytest.mark.integration

#: What does not stop within the rest of a term ends the process, which is that of all tests here.
FAST = LeaseTimes(duration=600.0, renew_deadline=300.0, retry=0.1)


class ConfigMap(ApiObject):
    data: dict[str, str] | None = None


@pytest.fixture
async def api():
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def kube(api, tmp_path):
    async with KubeClient.connect(str(api.write_kubeconfig(tmp_path / "config"))) as client:
        yield client


def a_config_map(name, **data) -> Json:
    return {"metadata": {"name": name}, "data": data}


@asynccontextmanager
async def following(client, **options):
    store = Store()
    reflector = Reflector(client, CONFIG_MAPS, ConfigMap, namespace="default", **options)
    task = asyncio.create_task(reflector.run(store))
    try:
        async with within("the reflector is synced"):
            await reflector.synced.wait()
        yield store, reflector
    finally:
        task.cancel()
        await asyncio.wait([task])


def contents(store):
    return {each.metadata.name: each.data for each in store if each.metadata.name != "kube-root-ca.crt"}


async def test_objects_are_created_read_changed_and_deleted(kube):
    made = await kube.create(CONFIG_MAPS, a_config_map("a", x="1"), namespace="default", type=ConfigMap)
    assert made.metadata.uid
    with pytest.raises(errors.AlreadyExists):
        await kube.create(CONFIG_MAPS, a_config_map("a"), namespace="default")
    await kube.patch(CONFIG_MAPS, "a", {"data": {"y": "2"}}, namespace="default")
    operations = [{"op": "remove", "path": "/data/x"}]
    changed = await kube.patch(
        CONFIG_MAPS, "a", operations, namespace="default", kind=PatchKind.JSON, type=ConfigMap
    )
    assert changed.data == {"y": "2"}
    applied = await kube.patch(
        CONFIG_MAPS,
        "a",
        {"apiVersion": "v1", "kind": "ConfigMap", **a_config_map("a", z="3")},
        namespace="default",
        kind=PatchKind.APPLY,
        field_manager="kai",
        type=ConfigMap,
    )
    assert applied.data == {"y": "2", "z": "3"}
    with pytest.raises(errors.Conflict):
        await kube.delete(CONFIG_MAPS, "a", namespace="default", uid="another")
    await kube.delete(CONFIG_MAPS, "a", namespace="default", uid=made.metadata.uid)
    with pytest.raises(errors.NotFound):
        await kube.get(CONFIG_MAPS, "a", namespace="default")


async def test_keys_inside_a_kubeconfig_are_not_left_in_files(api, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    config = str(api.write_kubeconfig(tmp_path / "config"))
    async with KubeClient.connect(config) as one, KubeClient.connect(config) as other:
        assert list((tmp_path / "temporary").iterdir()) == []
        await one.list(NAMESPACES)
        await other.list(NAMESPACES)


async def test_a_client_certificate_that_was_renewed_is_read_again(api, tmp_path):
    config = api.write_kubeconfig(tmp_path / "config")
    async with KubeClient.connect(str(config)) as client:
        api.admin = api.authority.client("renewed", ["system:masters"])
        api.write_kubeconfig(config)
        api.faults.rules.append(Rule(count=1, verb="list", status=401))
        await client.list(NAMESPACES)


async def test_an_update_of_an_old_version_conflicts(kube):
    old = await kube.create(CONFIG_MAPS, a_config_map("a"), namespace="default")
    await kube.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, namespace="default")
    with pytest.raises(errors.Conflict):
        await kube.update(CONFIG_MAPS, "a", old, namespace="default")


async def test_discovery_finds_what_is_served(kube):
    assert await kube.discover("v1", "ConfigMap") == CONFIG_MAPS
    assert await kube.discover("v1", "Namespace") == NAMESPACES
    assert await kube.discover("coordination.k8s.io/v1", "Lease") == LEASES
    assert await kube.discover("kubeflow.org/v1", "PyTorchJob") is None


@pytest.mark.parametrize("watch_list", [True, False], ids=["watch-list", "pages"])
async def test_a_store_follows_the_server(kube, watch_list):
    await kube.create(CONFIG_MAPS, a_config_map("before", x="0"), namespace="default")
    async with following(kube, watch_list=watch_list) as (store, _):
        assert contents(store) == {"before": {"x": "0"}}
        await kube.create(CONFIG_MAPS, a_config_map("new", x="1"), namespace="default")
        await kube.delete(CONFIG_MAPS, "before", namespace="default")
        await eventually(lambda: contents(store) == {"new": {"x": "1"}})
        await kube.patch(CONFIG_MAPS, "new", {"data": {"x": "2"}}, namespace="default")
        await eventually(lambda: contents(store) == {"new": {"x": "2"}})


async def test_live_state_equals_a_fresh_list_after_losing_the_watch_for_good(api, kube):
    async with following(kube) as (store, reflector):
        for number in range(8):
            await kube.create(CONFIG_MAPS, a_config_map(f"m{number}"), namespace="default")
        await eventually(lambda: len(contents(store)) == 8)
        # While the watch is down things happen that the server then forgets.
        api.faults.rules.append(Rule(count=-1, verb="watch", resource="configmaps", status=503))
        api.hubs.close()
        for number in range(4):
            await kube.delete(CONFIG_MAPS, f"m{number}", namespace="default")
        for value in range(3):
            await kube.patch(CONFIG_MAPS, "m7", {"data": {"x": str(value)}}, namespace="default")
        api.faults.compact()
        api.faults.rules.clear()
        await eventually(lambda: contents(store).get("m7") == {"x": "2"} and len(contents(store)) == 4)
        assert reflector.relists >= 1
        fresh = await kube.list(CONFIG_MAPS, namespace="default", type=ConfigMap)
        assert {each.key: each for each in store} == {each.key: each for each in fresh}


async def test_selectors_limit_what_is_followed(kube):
    labelled = {"metadata": {"name": "mine", "labels": {"app": "kai"}}}
    await kube.create(CONFIG_MAPS, labelled, namespace="default")
    await kube.create(CONFIG_MAPS, a_config_map("other"), namespace="default")
    async with following(kube, label_selector="app=kai") as (store, _):
        assert list(contents(store)) == ["mine"]
        await kube.patch(CONFIG_MAPS, "mine", {"metadata": {"labels": {"app": None}}}, namespace="default")
        await eventually(lambda: contents(store) == {})


async def test_two_candidates_take_turns_and_followers_see_both(kube):
    seen = []

    async def follow():
        async for leader in follow_leader(kube, "kai", "default"):
            seen.append(leader and leader.identity)  # noqa: PERF401 (extend shows nothing before the end)

    task = asyncio.create_task(follow())
    first = LeaderElector(kube, "kai", "default", "a", endpoint="h:1", times=FAST)
    second = LeaderElector(kube, "kai", "default", "b", endpoint="h:2", times=FAST)
    second_term = second.term()  # a term that nobody knows any more is at its end
    async with first.term() as one:
        await eventually(lambda: seen[-1:] == ["a"])
        waiting = asyncio.create_task(second_term.__aenter__())
        await asyncio.sleep(0.3)
        assert not waiting.done()
    async with within("the second candidate leads"):
        two = await waiting
    assert two.epoch > one.epoch
    await eventually(lambda: seen[-1:] == ["b"])
    task.cancel()
    await asyncio.wait([task])


async def test_events_are_shown_by_the_server_once_with_a_count(kube, monkeypatch):
    monkeypatch.setattr("kai.kube.events.SERIES_SECONDS", 0.05)
    pod = await kube.create(
        PODS,
        {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        namespace="default",
        type=Pod,
    )
    recorder = EventRecorder(kube, controller="kai")
    task = asyncio.create_task(recorder.run())
    for _ in range(3):
        recorder.emit(reference(PODS, pod), "Warning", "Unschedulable", "no room")
    await recorder.drain()
    await asyncio.sleep(0.2)
    await recorder.drain()
    events = await kube.list(CORE_EVENTS, namespace="default")
    assert [(e["reason"], e["message"], e["involvedObject"]["name"]) for e in events] == [
        ("Unschedulable", "no room", "p")
    ]
    assert events[0]["series"]["count"] == 3
    task.cancel()
    await asyncio.wait([task])
