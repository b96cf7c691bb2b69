"""The cluster as it is now over HTTP: who may see what of it, as it is and as it changes."""

import asyncio
import gzip
import json
from contextlib import ExitStack

import pytest

from deadlines import eventually, within
from kai.live.waiting import Known
from kai.model.ids import PodGroupKey
from kai.model.verdicts import GroupVerdict
from kai_insight.http import guard, live_endpoints, packing, streams
from kai_insight.http.access import Caller
from kai_insight.http.problems import Problem
from kai_insight.live.live import Live
from libs.tests.engine.builders import a_job
from services.tests.insight.town import NODES, POD_GROUPS, Told, asking
from services.tests.insight.watched import Watched

pytestmark = pytest.mark.integration


@pytest.fixture
async def watched():
    found = Watched()
    await found.cycle(a_job("hidden", gpus=1, namespace="other"), a_job("waits", gpus=16))
    yield found
    await found.checker.close()


@pytest.fixture
async def looked(town, database, watched):
    found = Known(
        verdicts={
            PodGroupKey("default/waits"): GroupVerdict(
                pod_group=PodGroupKey("default/waits"),
                verdict="ESCALATE",
                code="TooLarge",
                text="other/hidden and alone/pod are in the way",
            )
        },
        places={PodGroupKey("default/waits"): (0, 1)},
    )
    async with (
        town.insight() as client,
        asking(database, client, live=watched.live, knowledge=Told(found)) as asked,
    ):
        yield asked


async def answer(looked, name, token, /, **query):
    status, _, document = await looked.call(f"/api/v1/{name}", token, **query)
    assert status == 200, document
    return document


# --- all of it ----------------------------------------------------------------------------------------
async def test_who_may_see_everything_gets_all_of_the_cluster(looked, boss):
    found = await answer(looked, "live/cluster", boss)
    assert found["nodes"]["name"] == ["n"]
    assert sorted(found["slots"], reverse=True)[:2] == [1, 0]
    assert found["hidden"] == {"groups": 0, "namespaces": 0}
    assert found["waiting"] == {"groups": 1, "gpus": 16}


async def test_an_answer_is_packed_for_those_who_take_it_so(looked, boss, monkeypatch):
    monkeypatch.setattr(packing, "LEAST", 1)
    said = {"Accept-Encoding": "gzip", "Authorization": f"Bearer {boss}"}
    async with looked.unpacked() as session:
        async with session.get("/api/v1/live/cluster", headers=said) as got:
            assert got.headers["Content-Encoding"] == "gzip"
            packed = await got.read()
        async with session.get("/api/v1/live/cluster", headers={**said, "Accept-Encoding": "br"}) as got:
            assert "Content-Encoding" not in got.headers
            assert gzip.decompress(packed) == await got.read()


async def test_what_somebody_may_not_see_is_counted_and_not_named(looked, ann):
    found = await answer(looked, "live/cluster", ann)
    assert found["hidden"] == {"groups": 1, "namespaces": 1}
    assert 0 in found["groups"]["key"]
    keys = ",".join(map(str, range(1, 9)))
    named = await answer(looked, "live/groups", ann, keys=keys)
    assert ([each["name"] for each in named["items"]], named["hidden"]) == (["job-1"], 1)
    for name, query in (
        ("live/cluster", {}),
        ("live/groups", {"keys": keys}),
        ("live/waiting", {}),
        ("live/node", {"name": "n"}),
        ("live/search", {"text": "h"}),
    ):
        assert "hidden-0" not in json.dumps(await answer(looked, name, ann, **query))
        assert "other/" not in json.dumps(await answer(looked, name, ann, **query))


async def test_what_somebody_may_not_see_cannot_be_guessed_by_looking_for_it(looked, ann, boss):
    for text, found in (("other/h", [1, 0]), ("are in the way", [1, 1]), ("somebody's work and", [0, 1])):
        rows = [await answer(looked, "live/waiting", who, text=text) for who in (boss, ann)]
        assert [each["total"] for each in rows] == found


@pytest.mark.parametrize(
    ("name", "query", "right"),
    [
        ("live/cluster", {}, "nodes"),
        ("live/changes", {"version": "x"}, "nodes"),
        ("live/node", {"name": "n"}, "nodes"),
        ("live/slots", {}, "nodes"),
        ("live/search", {"text": "n"}, "nodes"),
    ],
)
async def test_who_may_not_list_nodes_is_told_which_right_is_missing(looked, root, name, query, right):
    status, code, message = await looked.refused(name, root, **query)
    assert (status, code) == (403, "forbidden")
    assert f"may list {right} in the whole cluster" in message


async def test_who_may_list_no_queues_does_not_get_them_with_the_nodes(town, looked):
    token = await town.person("bob")
    await town.allow("bob", NODES)
    status, _, message = await looked.refused("live/cluster", token)
    assert (status, "queues.scheduling.run.ai" in message) == (403, True)
    assert (await answer(looked, "live/slots", token))["all"][0] == 6


async def test_nobody_is_answered_without_a_token(looked):
    for name in ("live", "live/cluster", "live/changes?version=x", "live/waiting"):
        assert (await looked.refused(name))[:2] == (401, "unauthenticated")


# --- its parts ----------------------------------------------------------------------------------------
async def test_who_asks_is_told_who_he_is_and_what_there_is(looked, ann):
    found = await answer(looked, "live", ann)
    assert (found["source"], found["history"]) == ("insight", True)
    assert found["user"] == "system:serviceaccount:people:ann"
    assert found["sees"] == {"nodes": True, "queues": True, "allNamespaces": False}
    (shard,) = found["shards"]
    assert shard["version"]
    told = {name: shard[name] for name in ("name", "nodes", "gpus", "gpusUsed", "pods", "waiting")}
    assert told == {"name": "default", "nodes": 1, "gpus": 8, "gpusUsed": 2, "pods": 3, "waiting": 1}


async def test_what_waits_is_told_with_what_was_found_of_it(looked, boss):
    found = await answer(looked, "live/waiting", boss)
    (row,) = found["items"]
    assert (row["name"], row["verdict"], row["gpus"]) == ("waits", "ESCALATE", 16)
    assert (row["text"], row["position"]) == (
        "other/hidden and alone/pod are in the way",
        {"ahead": 0, "of": 1},
    )
    assert (found["verdicts"], found["codes"]) == ({"ESCALATE": 1}, {"TooLarge": 1})
    assert (await answer(looked, "live/waiting", boss, verdict="WAIT"))["items"] == []


async def test_a_text_names_nobody_whom_its_reader_may_not_see(looked, ann):
    (row,) = (await answer(looked, "live/waiting", ann))["items"]
    assert row["text"] == "somebody's work and somebody's work are in the way"


async def test_a_node_and_its_pods_are_told(looked, boss):
    found = await answer(looked, "live/node", boss, name="n")
    assert (found["gpus"], found["gpusUsed"]) == (8, 2)
    assert sorted(pod["podGroup"] for pod in found["pods"]) == ["hidden", "job-1"]
    assert (await looked.refused("live/node", boss, name="m"))[:2] == (404, "notFound")


async def test_room_and_names_are_found(looked, boss):
    assert (await answer(looked, "live/slots", boss))["all"] == [6, 3, 1, 0]
    found = await answer(looked, "live/search", boss, text="WAIT")
    assert [(each["kind"], each["name"]) for each in found["items"]] == [("group", "waits")]


async def test_as_many_names_as_are_promised_may_be_asked_for_however_commas_are_written(looked, boss):
    keys = ["999999999"] * live_endpoints.MOST_KEYS
    for comma in (",", "%2C"):  # browsers write the second
        status, _, document = await looked.call(
            f"/api/v1/live/groups?shard=default&keys={comma.join(keys)}", boss, raw=True
        )
        assert (status, document.get("items")) == (200, [])
    status, _, document = await looked.call("/api/v1/live/node?name=" + "x" * 4096, boss, raw=True)
    assert (status, document["error"]["message"]) == (
        400,
        "the query has 4101 characters; at most 4096 are read",
    )


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("live/groups?keys=1,x", "keys is '1,x'; write at most 500 numbers"),
        ("live/groups?keys=" + ",".join(["1"] * 501), "write at most 500 numbers"),
        ("live/groups", "keys is missing"),
        ("live/node", "name is missing"),
        ("live/changes", "version is missing"),
        ("live/waiting?limit=1001", "write a number from 1 to 1000"),
        ("live/waiting?sort=size", "sort is 'size'; there are age, position, gpus, name"),
        ("live/cluster?shard=a&shard=b", "shard is there twice"),
        ("live?x=1", "unknown parameter 'x'"),
    ],
)
async def test_what_cannot_be_asked_is_refused_by_its_name(looked, boss, path, told):
    status, _, document = await looked.call(f"/api/v1/{path}", boss, raw=True)
    assert (status, document["error"]["code"]) == (400, "badParameter")
    assert told in document["error"]["message"]


async def test_a_shard_that_there_is_not_is_told_with_those_that_there_are(looked, boss):
    status, code, message = await looked.refused("live/cluster", boss, shard="gold")
    assert (status, code) == (404, "notFound")
    assert message == "there is no shard 'gold'; there are default"


# --- where there is no state --------------------------------------------------------------------------
async def test_where_there_is_no_state_the_reason_is_told(town, database, boss):
    async with town.insight() as client, asking(database, client, live=Live("it is switched off")) as asked:
        assert await asked.refused("live/cluster", boss) == (503, "noState", "it is switched off")
        (shard,) = (await answer(asked, "live", boss))["shards"]
        assert (shard["version"], shard["reason"]) == ("", "it is switched off")


async def test_who_would_follow_changes_where_there_is_no_state_is_told_the_reason_too(looked, watched, boss):
    watched.shard.release("its next base is read")
    refused = await looked.refused("live/changes", boss, version="x")
    assert refused == (503, "noState", "its next base is read")


# --- what changes -------------------------------------------------------------------------------------
async def test_changes_come_as_events(looked, watched, boss):
    version = (await answer(looked, "live/cluster", boss))["version"]
    async with looked.stream("/api/v1/live/changes", boss, version=version) as (status, headers, events):
        assert (status, headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
        assert headers["Cache-Control"] == "no-store"
        await watched.cycle()
        async with within("a change comes"):
            name, change = await anext(events)
    assert name == "change"
    assert change["nodes"][0][:2] == [0, 0]
    assert change["version"] == (await answer(looked, "live/cluster", boss))["version"]


async def test_who_is_too_far_behind_is_told_to_begin_anew(looked, boss):
    old = looked.stream("/api/v1/live/changes", boss, version="old/1")
    async with old as (_, _, events), within("he is told"):
        assert [each async for each in events] == [("anew", {})]


async def test_who_loses_a_right_is_told_nothing_more(town, looked, watched, ann, monkeypatch):
    monkeypatch.setattr(streams, "RECHECK_SECONDS", 0.0)
    monkeypatch.setattr("kai_insight.live.shard.HEARTBEAT_SECONDS", 0.05)
    version = (await answer(looked, "live/cluster", ann))["version"]
    async with looked.stream("/api/v1/live/changes", ann, version=version) as (_, _, events):
        await town.allow("ann", POD_GROUPS, namespace="team")
        await watched.cycle(a_job("theirs", gpus=1, namespace="team"))
        async with within("he begins anew"):
            told = [name async for name, _ in events]
    assert told[-1] == "anew"


async def test_one_who_asks_has_so_many_streams_and_no_more(looked, boss, monkeypatch):
    monkeypatch.setattr(streams, "MOST_OF_ONE", 1)
    version = (await answer(looked, "live/cluster", boss))["version"]
    async with looked.stream("/api/v1/live/changes", boss, version=version) as (status, _, _):
        assert status == 200
        assert (await looked.refused("live/changes", boss, version=version))[:2] == (503, "busy")

    async def again():
        async with looked.stream("/api/v1/live/changes", boss, version=version) as (status, _, _):
            return status

    await eventually(again, lambda status: status == 200)


@pytest.mark.parametrize(
    ("user", "told"),
    [
        ("anna", "200 streams are open, or 20 of yours; close"),
        (
            "system:serviceaccount:team:bot",
            "200 streams are open, or 20 of yours, or 66 of all service accounts of your namespace; close",
        ),
    ],
)
def test_who_gets_no_stream_is_told_what_counts_for_him(user, told):
    places, caller = streams.Streams(), Caller(key=b"", user=user)
    with ExitStack() as stack:
        for _ in range(20):
            places.check(caller)
            stack.enter_context(places.place(caller))
        with pytest.raises(Problem, match=told):
            places.check(caller)


def test_service_accounts_of_a_namespace_have_so_many_streams_together():
    places = streams.Streams()
    accounts = [Caller(key=b"", user=f"system:serviceaccount:team:bot-{number}") for number in range(67)]
    with ExitStack() as stack:
        for each in accounts[:66]:
            places.check(each)
            stack.enter_context(places.place(each))
        with pytest.raises(Problem):
            places.check(accounts[66])
        places.check(Caller(key=b"", user="system:serviceaccount:other:bot"))


async def test_streams_take_none_of_the_places_of_questions(looked, boss, monkeypatch):
    version = (await answer(looked, "live/cluster", boss))["version"]
    monkeypatch.setattr(guard, "MOST_AT_ONCE", 1)
    async with looked.stream("/api/v1/live/changes", boss, version=version) as (status, _, _):
        assert status == 200
        assert (await answer(looked, "live/slots", boss))["shapes"] == [1, 2, 4, 8]


async def test_who_takes_nothing_is_not_written_to_for_ever(looked, watched, boss, monkeypatch):
    monkeypatch.setattr(streams, "_STUCK_SECONDS", 0.05)
    monkeypatch.setattr(streams, "_STILL_THERE", b": " + b"x" * 2**24 + b"\n\n")
    monkeypatch.setattr("kai_insight.live.shard.HEARTBEAT_SECONDS", 0.01)
    version = (await answer(looked, "live/cluster", boss))["version"]
    host, port = looked.address
    reader, writer = await asyncio.open_connection(host, port)
    wanted = f"GET /api/v1/live/changes?version={version} HTTP/1.1"
    writer.write("\r\n".join([wanted, "Host: x", f"Authorization: Bearer {boss}", "", ""]).encode())
    await writer.drain()
    reader._transport.pause_reading()
    await eventually(lambda: watched.live.shards["default"].followers, lambda found: found == 1)
    await eventually(lambda: watched.live.shards["default"].followers, lambda found: found == 0)
    writer.close()


async def test_streams_are_counted_by_their_path(looked, boss):
    async with looked.stream("/api/v1/live/changes", boss, version="old/1") as (_, _, events):
        assert [name async for name, _ in events] == ["anew"]
    labels = {"path": "/api/v1/live/changes", "code": "200"}
    assert looked.registry.get_sample_value("kai_http_requests_total", labels) == 1
