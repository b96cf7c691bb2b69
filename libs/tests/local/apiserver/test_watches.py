"""Watches and lists: what is told to whom, and when they must start anew."""

import time

import pytest

from deadlines import eventually
from kai_local.apiserver.clock import Clock
from kai_local.apiserver.kinds.selectors import Selection
from kai_local.apiserver.reading import reads, watch
from libs.tests.local.apiserver.builders import a_pod

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def test_a_watch_from_a_version_sees_every_later_change_in_order(api):
    await api.post(CONFIG_MAPS, {"metadata": {"name": "before"}})
    version = (await api.get(CONFIG_MAPS))["metadata"]["resourceVersion"]
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    async with api.watch(f"{CONFIG_MAPS}?resourceVersion={version}") as events:
        await api.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}})
        await api.delete(f"{CONFIG_MAPS}/a")
        assert await events.take(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_the_version_of_a_deletion_is_later_than_that_of_the_last_change(api):
    made = await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    async with api.watch(f"{CONFIG_MAPS}?resourceVersion={made['metadata']['resourceVersion']}") as events:
        await api.delete(f"{CONFIG_MAPS}/a")
        event = await events.next()
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


@pytest.mark.parametrize("version", ["", "0"])
async def test_a_watch_without_a_version_begins_with_what_is_there(api, version):
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    async with api.watch(f"{CONFIG_MAPS}?resourceVersion={version}") as events:
        assert await events.take(1) == [("ADDED", "a")]


async def test_watch_list_ends_its_initial_events_with_a_bookmark(api):
    for name in ("a", "b"):
        await api.post(CONFIG_MAPS, {"metadata": {"name": name}})
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with api.watch(f"{CONFIG_MAPS}?{query}") as events:
        assert await events.take(2) == [("ADDED", "a"), ("ADDED", "b")]
        bookmark = await events.next()
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert bookmark["object"]["kind"] == "ConfigMap"
        await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}})
        assert await events.take(1) == [("ADDED", "c")]


async def test_send_initial_events_needs_a_version_match(api):
    status, answer = await api.call("GET", f"{CONFIG_MAPS}?watch=true&sendInitialEvents=true")
    assert status == 422
    assert "NotOlderThan" in answer["message"]


async def test_a_watch_ends_at_its_timeout_with_a_bookmark_before(api):
    async with api.watch(f"{CONFIG_MAPS}?timeoutSeconds=1&allowWatchBookmarks=true") as events:
        bookmark = await events.next()
        assert bookmark["type"] == "BOOKMARK"
        with pytest.raises(EOFError):
            await events.next()


async def test_an_object_that_leaves_the_selection_is_deleted_for_the_watcher(api):
    async with (
        api.watch(f"{PODS}?fieldSelector=spec.nodeName%3Dn1") as on_node,
        api.watch(f"{PODS}?labelSelector=app") as app,
    ):
        await api.post(PODS, a_pod("p"))
        await api.post(f"{PODS}/p/binding", {"target": {"kind": "Node", "name": "n1"}})
        await api.patch(f"{PODS}/p", {"metadata": {"labels": {"app": "x"}}})
        await api.patch(f"{PODS}/p", {"metadata": {"labels": {"app": None}}})
        assert await on_node.take(3) == [("ADDED", "p"), ("MODIFIED", "p"), ("MODIFIED", "p")]
        assert (await app.next())["type"] == "ADDED"
        left = await app.next()
    assert left["type"] == "DELETED"
    assert left["object"]["metadata"]["labels"] == {"app": "x"}


async def test_a_version_outside_the_window_is_too_old(start):
    api = await start(window=5)
    made = await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    for number in range(12):
        await api.patch(f"{CONFIG_MAPS}/a", {"data": {"n": str(number)}})
    async with api.watch(f"{CONFIG_MAPS}?resourceVersion={made['metadata']['resourceVersion']}") as events:
        event = await events.next()
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_a_version_of_a_server_before_this_one_is_too_old(start):
    earlier = await start(clock=Clock(lambda: time.time() - 1))
    version = (await earlier.post(CONFIG_MAPS, {"metadata": {"name": "a"}}))["metadata"]["resourceVersion"]
    api = await start()
    async with api.watch(f"{CONFIG_MAPS}?resourceVersion={version}") as events:
        assert (await events.next())["object"]["code"] == 410


async def test_a_version_from_the_future_is_refused_so_that_the_client_waits(api):
    status, answer = await api.call("GET", f"{CONFIG_MAPS}?resourceVersion=9999999999999")
    assert (status, answer["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")


async def test_a_client_that_left_is_forgotten(api):
    async with api.watch(CONFIG_MAPS), api.watch(PODS):
        assert api.server.hubs.counts() == {"configmaps": 1, "pods": 1}
    await eventually(api.server.hubs.counts, lambda watches: not watches)


async def test_a_watcher_that_falls_too_far_behind_is_ended(api, monkeypatch):
    monkeypatch.setattr(watch, "QUEUE_LIMIT", 3)
    pods = api.server.catalogue.get("", "configmaps")
    watcher = watch.Watcher(Selection(pods, "", "", ""))
    api.server.hubs.of(("", "configmaps")).add(watcher)
    for number in range(4):
        assert not watcher.behind
        await api.post(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}})
    assert watcher.behind


async def test_pages_show_one_moment_however_long_they_take(api):
    for number in range(5):
        await api.post(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}})
    first = await api.get(f"{CONFIG_MAPS}?limit=2")
    assert first["metadata"]["remainingItemCount"] == 3
    await api.delete(f"{CONFIG_MAPS}/c3")
    await api.post(CONFIG_MAPS, {"metadata": {"name": "c9"}})
    seen, page = [item["metadata"]["name"] for item in first["items"]], first
    while token := page["metadata"].get("continue"):
        page = await api.get(f"{CONFIG_MAPS}?limit=2&continue={token}")
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        seen += [item["metadata"]["name"] for item in page["items"]]
    assert seen == ["c0", "c1", "c2", "c3", "c4"]


async def test_a_continue_token_that_is_too_old_is_gone(api):
    for number in range(3):
        await api.post(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}})
    token = (await api.get(f"{CONFIG_MAPS}?limit=1"))["metadata"]["continue"]
    api.server.faults.compact()
    status, answer = await api.call("GET", f"{CONFIG_MAPS}?limit=1&continue={token}")
    assert (status, answer["reason"]) == (410, "Expired")


async def test_the_rest_of_a_list_is_not_held_for_ever(api, monkeypatch):
    monkeypatch.setattr(reads, "PAGES_SECONDS", 0.0)
    for number in range(3):
        await api.post(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}})
    token = (await api.get(f"{CONFIG_MAPS}?limit=1"))["metadata"]["continue"]
    status, answer = await eventually(
        lambda: api.call("GET", f"{CONFIG_MAPS}?limit=1&continue={token}"), lambda answer: answer[0] != 200
    )
    assert (status, answer["reason"]) == (410, "Expired")


SELECTORS = {
    "labelSelector=a%3D1": ["x"],
    "labelSelector=a%3D%3D1": ["x"],
    "labelSelector=a!%3D1": ["y", "z"],
    "labelSelector=a": ["x", "y"],
    "labelSelector=!a": ["z"],
    "labelSelector=a in (1,2)": ["x", "y"],
    "labelSelector=a notin (1)": ["y", "z"],
    "labelSelector=a in (1,2),b": ["y"],
    "fieldSelector=metadata.name%3Dz": ["z"],
    "fieldSelector=metadata.name!%3Dz": ["x", "y"],
    "fieldSelector=spec.schedulerName%3Dkai-scheduler": ["x", "y", "z"],
    "fieldSelector=spec.schedulerName%3Ddefault-scheduler": [],
    "fieldSelector=status.phase%3DPending,spec.nodeName%3D": ["x", "y", "z"],
    "fieldSelector=spec.hostNetwork%3Dfalse": ["x", "y", "z"],
    "": ["x", "y", "z"],
}


async def test_selectors_choose(api):
    for name, labels in {"x": {"a": "1"}, "y": {"a": "2", "b": "1"}, "z": {}}.items():
        await api.post(PODS, a_pod(name, metadata={"labels": labels}, schedulerName="kai-scheduler"))
    found = {
        query: [item["metadata"]["name"] for item in (await api.get(f"{PODS}?{query}"))["items"]]
        for query in SELECTORS
    }
    assert found == SELECTORS


async def test_jobs_are_selected_by_how_many_of_their_pods_succeeded(api):
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    for name in ("done", "fresh"):
        await api.post(jobs, {"metadata": {"name": name}, "spec": {"template": template}})
    await api.patch(f"{jobs}/done/status", {"status": {"succeeded": 1}})
    found = {
        succeeded: [
            item["metadata"]["name"]
            for item in (await api.get(f"{jobs}?fieldSelector=status.successful%3D{succeeded}"))["items"]
        ]
        for succeeded in "01"
    }
    assert found == {"0": ["fresh"], "1": ["done"]}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("labelSelector=a b", "unable to parse requirement"),
        ("fieldSelector=spec.containers%3Dx", "field label not supported: spec.containers"),
        ("fieldSelector=nonsense", "invalid selector"),
        ("limit=x", "is not a number"),
        ("resourceVersion=x", "invalid resource version"),
    ],
)
async def test_a_selector_that_makes_no_sense_is_refused(api, query, text):
    status, answer = await api.call("GET", f"{PODS}?{query}")
    assert status == 400
    assert text in answer["message"]


async def test_items_of_builtin_lists_do_not_repeat_their_kind(api):
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"x": "y"}})
    listed = await api.get(CONFIG_MAPS)
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert set(listed["items"][0]) == {"metadata", "data"}


async def test_metadata_alone_can_be_asked_for(api):
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"x": "y"}})
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    listed = await api.get(CONFIG_MAPS, **accept)
    assert listed["kind"] == "PartialObjectMetadataList"
    assert set(listed["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_a_table_has_cells_for_every_column(api):
    await api.post(PODS, a_pod("p"))
    table = await api.get(PODS, Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert len(table["rows"][0]["cells"]) == len(names)
    assert table["rows"][0]["cells"][:3] == ["p", "0/1", "Pending"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
