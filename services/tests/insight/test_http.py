"""The history over HTTP: a real API server says who asks and what he may see, its roles in force."""

import asyncio
import ssl
import threading
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp
import pytest
from yarl import URL

from deadlines import eventually, within
from kai.history.addresses import open_database
from kai.history.store import open_store
from kai.kube.resources import LEASES, NAMESPACES
from kai.model.names import INSIGHT_LEASE, NAMESPACE
from kai.runtime import certificates
from kai_insight.http import answers, guard
from kai_insight.http.endpoints import ENDPOINTS, OPENAPI
from kai_insight.http.live_endpoints import LIVE_ENDPOINTS
from kai_insight.http.store import AskedStore
from kai_insight.service import InsightService
from kai_insight.settings import InsightSettings
from kai_local.processes.ports import free_ports
from libs.tests.history.builders import a_cycle, a_decision, a_queue_state, a_run, an_eviction
from services.tests.insight.town import (
    POD_GROUPS,
    QUEUES,
    REVIEWS,
    Asking,
    asking,
)
from services.tests.pipeline.conftest import in_this_process

pytestmark = pytest.mark.integration
HISTORY = (
    *(a_run(f"t-{number}", began=number) for number in range(3)),
    *(a_run(f"o-{number}", began=number + 0.5, namespace="other") for number in range(4)),
    an_eviction("t-0"),
    an_eviction("o-0", namespace="other"),
    a_decision("pg-t"),
    a_decision("pg-o", namespace="other"),
    a_cycle(),
    a_queue_state(),
)


def pods(document):
    return [row["pod"] for row in document["items"]]


# --- who may see what ---------------------------------------------------------------------------------
async def test_who_may_see_one_namespace_sees_that_and_how_much_is_hidden(town, store, asked):
    store.add(HISTORY)
    ann = await town.person("ann")
    await town.allow("ann", POD_GROUPS, namespace="team")
    found = await asked.rows("runs", ann)
    assert (pods(found), found["more"], found["hidden"]) == (["t-2", "t-1", "t-0"], False, 4)
    assert [(await asked.rows(name, ann))["hidden"] for name in ("evictions", "decisions")] == [1, 1]


async def test_as_many_rows_come_as_were_asked_for_however_many_are_hidden_between_them(town, store, asked):
    store.add(HISTORY)
    ann = await town.person("ann")
    await town.allow("ann", POD_GROUPS, namespace="team")
    found = await asked.rows("runs", ann, limit="2")
    assert (pods(found), found["more"]) == (["t-2", "t-1"], True)
    assert not (await asked.rows("runs", ann, limit="3"))["more"]


async def test_what_is_hidden_cannot_be_asked_for_by_name(town, store, asked):
    store.add(HISTORY)
    ann = await town.person("ann")
    await town.allow("ann", POD_GROUPS, namespace="team")
    there, not_there = [await asked.rows("runs", ann, pod=pod) for pod in ("o-0", "nobody")]
    assert there == not_there == {"items": [], "more": False, "hidden": 4}


async def test_who_may_list_pod_groups_everywhere_sees_all_by_one_review(town, store, asked):
    store.add(HISTORY)
    root = await town.person("root")
    await town.allow("root", POD_GROUPS)
    before = await town.reviews()
    found = await asked.rows("runs", root)
    assert (len(found["items"]), found["hidden"]) == (7, 0)
    assert await town.reviews() - before == 2  # whose token it is, and what he may


async def test_a_namespace_that_somebody_may_not_see_is_refused_whether_it_exists_or_not(town, store, asked):
    store.add(HISTORY)
    ann = await town.person("ann")
    await town.allow("ann", POD_GROUPS, namespace="team")
    assert len((await asked.rows("runs", ann, namespace="team"))["items"]) == 3
    for namespace in ("other", "nowhere"):
        status, code, message = await asked.refused("runs", ann, namespace=namespace)
        assert (status, code) == (403, "forbidden")
        assert message == (
            f"this is for those who may list podgroups.scheduling.run.ai in the namespace {namespace}"
        )


async def test_cycles_and_queues_are_for_those_who_may_list_queues(town, store, asked):
    store.add(HISTORY)
    ann, bob = [await town.person(name) for name in ("ann", "bob")]
    await town.allow("ann", POD_GROUPS)
    await town.allow("bob", QUEUES)
    for name in ("cycles", "queue-states", "usage"):
        assert (await asked.refused(name, ann))[:2] == (403, "forbidden")
        assert len((await asked.rows(name, bob))["items"]) == 1
    assert (await asked.rows("runs", bob))["hidden"] == 7


async def test_use_is_added_up_of_what_somebody_may_see(town, store, asked):
    store.add([a_run("a", ended=2, gpus=4), a_run("b", namespace="other", user_name="eve", ended=1)])
    ann = await town.person("ann")
    await town.allow("ann", POD_GROUPS, namespace="team")
    names = {}
    for by in ("namespace", "user", "workload"):
        found = await asked.rows("usage", ann, by=by)
        assert found["hidden"] == 1
        names[by] = [(row["name"], row["gpuHours"], row["pods"]) for row in found["items"]]
    assert names == {
        "namespace": [("team", 8.0, 1)],
        "user": [("ada", 8.0, 1)],
        "workload": [("team/Job/a", 8.0, 1)],
    }
    assert (await asked.refused("usage", ann, by="user", namespace="other"))[0] == 403


async def test_use_by_queue_in_one_namespace_needs_both_rights(town, store, asked):
    store.add(HISTORY)
    bob = await town.person("bob")
    await town.allow("bob", QUEUES)
    assert (await asked.refused("usage", bob, by="queue", namespace="team"))[0] == 403
    await town.allow("bob", POD_GROUPS, namespace="other")
    found = await asked.rows("usage", bob, by="queue", namespace="other")
    assert [row["pods"] for row in found["items"]] == [4]


async def test_a_question_about_too_many_namespaces_says_how_to_ask_less(town, store, asked, monkeypatch):
    store.add(HISTORY)
    monkeypatch.setattr(answers, "MOST_NAMESPACES", 1)
    ann = await town.person("ann")
    status, code, message = await asked.refused("runs", ann, since="0")
    assert (status, code) == (400, "tooManyNamespaces")
    assert "name one with namespace" in message


async def test_the_answers_are_the_same_whichever_the_store_is(town, tmp_path, postgresql):
    ann, root = [await town.person(name) for name in ("ann", "root")]
    await town.allow("ann", POD_GROUPS, namespace="team")
    for granted in (POD_GROUPS, QUEUES):
        await town.allow("root", granted)
    questions = [
        *((name, ann, {}) for name in ("runs", "evictions", "decisions")),
        *((name, root, {"limit": "2"}) for name in ("runs", "cycles", "queue-states")),
        *(("usage", root, {"by": by}) for by in ("queue", "namespace", "user", "workload")),
        ("runs", root, {"pod": "t-1", "namespace": "team"}),
    ]
    found = []
    async with town.insight() as client:
        for url in (f"sqlite:///{tmp_path}/one.db", postgresql.make("insight_over_http")):
            database = open_database(url)
            try:
                open_store(database).add(HISTORY)
                async with asking(database, client) as asked:
                    found.append([await asked.rows(name, who, **how) for name, who, how in questions])
            finally:
                database.close()
    assert found[0] == found[1]
    assert all(each["items"] for each in found[0])


# --- who is nobody ------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", [*(each.path for each in ENDPOINTS), OPENAPI])
async def test_without_a_token_nothing_is_told(asked, path):
    status, headers, document = await asked.call(path)
    assert (status, document["error"]["code"]) == (401, "unauthenticated")
    assert headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Bearer", "Basic YTpi", "Bearer a b", "Bearer " + "x" * 13_000, "Bearer ä"]
)
async def test_a_wrong_token_is_nobody(asked, header):
    status, _, document = await asked.call("/api/v1/runs", headers={"Authorization": header})
    assert (status, document["error"]["code"]) == (401, "unauthenticated")


async def test_what_the_api_server_said_is_believed_for_a_moment_only_and_wrong_tokens_too(town, asked):
    before = await town.reviews()
    for _ in range(5):
        await asked.call("/api/v1/runs", "wrong")
    assert await town.reviews() - before == 1
    ann = await town.person("ann")
    before = await town.reviews()
    for _ in range(5):
        assert (await asked.call("/api/v1/cycles", ann))[0] == 403
    assert await town.reviews() - before == 2


# --- who does not answer ------------------------------------------------------------------------------
@pytest.mark.parametrize("resource", REVIEWS)
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"hang": True}, "no answer in time"),
        ({"status": 500}, "it answers 500"),
        ({"drop": True}, "it cannot be reached"),
        ({"status": 403}, "insight may not create"),
    ],
)
async def test_an_api_server_that_does_not_say_who_asks_is_told(town, database, store, resource, how, why):
    store.add(HISTORY)
    ann = await town.person("ann")
    await town.allow("ann", POD_GROUPS, namespace="team")
    async with town.insight() as client, asking(database, client, patience=0.5) as asked:
        town.fails(resource, **how)
        for name in ("runs", "cycles"):
            status, headers, document = await asked.call(f"/api/v1/{name}", ann)
            assert (status, document["error"]["code"]) == (503, "apiServerAway")
            assert why in document["error"]["message"]
            assert headers["Retry-After"] == "1"
        town.api.faults.rules.clear()
        await asked.answered("runs", ann)


async def test_a_namespace_about_which_the_api_server_does_not_answer_is_not_just_hidden(
    town, database, store
):
    store.add([a_run(), a_run(namespace="other")])
    ann = await town.person("ann")
    async with town.insight() as client, asking(database, client, patience=0.5) as asked:
        await asked.answered("decisions", ann)  # of no namespace: that she may not see all is known now
        town.fails("subjectaccessreviews", status=500)
        assert (await asked.refused("runs", ann, since="0"))[:2] == (503, "apiServerAway")
        town.api.faults.rules.clear()
        assert (await asked.answered("runs", ann))["hidden"] == 2


async def test_a_store_that_is_away_is_told_without_where_it_is(town, tmp_path):
    database = open_database(f"sqlite:///{tmp_path}/later/history.db")
    root = await town.person("root")
    await town.allow("root", POD_GROUPS)
    async with town.insight() as client, asking(database, client) as asked:
        status, code, message = await asked.refused("runs", root)
        assert (status, code) == (503, "storeAway")
        assert "later" not in message.replace("again later", "")
        (tmp_path / "later").mkdir()
        open_store(database)
        assert (await asked.rows("runs", root))["items"] == []
    database.close()


async def test_a_store_without_tables_is_one_that_is_away(town, database):
    root = await town.person("root")
    await town.allow("root", POD_GROUPS)
    async with town.insight() as client, asking(database, client) as asked:
        assert (await asked.refused("runs", root))[:2] == (503, "storeAway")


async def test_an_answer_that_takes_too_long_is_given_up(town, database, store):
    ann = await town.person("ann")
    async with town.insight() as client, asking(database, client, deadline=0.5) as asked:
        town.fails("tokenreviews", hang=True)
        status, code, message = await asked.refused("runs", ann)
    assert (status, code, message[:18]) == (503, "tooSlow", "no answer in 0.5 s")


async def test_of_too_many_who_ask_at_once_the_last_are_told_so(town, database, store, monkeypatch):
    monkeypatch.setattr(guard, "MOST_AT_ONCE", 2)
    ann = await town.person("ann")
    async with town.insight() as client, asking(database, client) as asked:
        town.fails("tokenreviews", hang=True)
        calls = [asyncio.create_task(asked.refused("runs", ann)) for _ in range(3)]
        async with within("one of them is sent away"):
            (done, waiting) = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert [each.result()[:2] for each in done] == [(503, "busy")]
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)


async def test_one_caller_leaves_places_to_others_whatever_tokens_he_has(town, database, store, monkeypatch):
    """All service accounts of a namespace are one who asks: he may make as many as he likes."""
    monkeypatch.setattr(guard, "OF_ONE", 2)
    tokens = [await town.person(name) for name in ("ann", "bob")]
    await town.allow("ann", POD_GROUPS)
    await town.allow("bob", POD_GROUPS)
    go = threading.Event()
    async with town.insight() as client, asking(database, client) as asked:
        monkeypatch.setattr(answers, "find", lambda *args, **more: go.wait() and [])
        calls = [asyncio.create_task(asked.call("/api/v1/runs", tokens[number % 2])) for number in range(3)]
        async with within("one of them is sent away"):
            (done, waiting) = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        try:
            [refused] = [each.result() for each in done]
            assert (refused[0], refused[2]["error"]["code"]) == (503, "busy")
        finally:
            go.set()
        assert {(await each)[0] for each in waiting} == {200}
        assert (await asked.call("/api/v1/runs", tokens[0]))[0] == 200


async def test_one_caller_leaves_a_thread_of_the_store_to_others_also_when_he_is_gone():
    asked, go = AskedStore(), threading.Event()
    try:
        his = [asyncio.create_task(asked.ask(go.wait, asker="him")) for _ in range(10)]
        async with within("the question of another one is answered"):
            assert await asked.ask(lambda: "told", asker="another") == "told"
        for each in his:
            each.cancel()
        await asyncio.wait(his)
        his = [asyncio.create_task(asked.ask(go.wait, asker="him")) for _ in range(10)]
        async with within("it is, though his first ones are still under way"):
            assert await asked.ask(lambda: "told", asker="another") == "told"
        go.set()
        assert await asyncio.gather(*his) == [True] * 10
    finally:
        go.set()
        asked.close()


async def test_messages_of_decisions_name_nothing_of_namespaces_that_somebody_may_not_see(town, store, asked):
    """Neither are they to be guessed, by asking for the message that names it."""
    ann, root = await town.person("ann"), await town.person("root")
    await town.allow("ann", POD_GROUPS, namespace="team")
    await town.allow("root", POD_GROUPS)
    message = "0/4 nodes do: what pg-o waited for is given to workload {}"
    whole = message.format("other/pg-o") + ", and not to team/x"
    store.add([a_decision("pg-t", message=whole), a_decision("pg-o", namespace="other")])
    left = message.format("somebody's work") + ", and not to team/x"
    for named in ({}, {"namespace": "team"}):
        assert [row["message"] for row in (await asked.rows("decisions", ann, **named))["items"]] == [left]
    assert (await asked.rows("decisions", ann, message=whole))["items"] == []
    (row,) = (await asked.rows("decisions", root, message=whole))["items"]
    assert row["message"] == whole


# --- what comes from outside --------------------------------------------------------------------------
async def test_names_with_markup_are_texts(store, asked, root):
    evil = '<script>alert("1")</script>\u2028\r\nX: y'
    store.add([a_run(evil, queue=evil)])
    status, headers, document = await asked.call("/api/v1/runs", root, since="0", queue=evil)
    assert (status, pods(document)) == (200, [evil])
    assert headers["Content-Type"].startswith("application/json")


async def test_every_answer_forbids_to_be_kept_guessed_at_or_run(store, asked, root):
    answers_of = [
        await asked.call("/api/v1/runs", root),
        await asked.call("/api/v1/runs"),
        await asked.call("/nowhere"),
        await asked.call("/api/v1/runs", root, method="POST"),
    ]
    assert [status for status, *_ in answers_of] == [200, 401, 404, 405]
    for _, headers, _ in answers_of:
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Content-Security-Policy"] == guard.HEADERS["Content-Security-Policy"]
        assert not [name for name in headers if name.lower().startswith("access-control")]


async def test_nothing_is_written_and_nothing_is_elsewhere(asked, root):
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        status, headers, document = await asked.call("/api/v1/runs", root, method=method)
        assert (status, headers["Allow"]) == (405, "GET")
        assert document["error"]["code"] == "methodNotAllowed"
    for path in ("/", "/api/v1", "/api/v1/runs/", "/api/v1/../../etc/passwd", "/api/v2/runs"):
        status, _, document = await asked.call(path, root)
        assert (status, document["error"]["code"]) == (404, "notFound")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("podgroup=x", "did you mean 'podGroup'?"),
        ("namespace=team&namespace=other", "namespace is there twice"),
        ("pod=" + "x" * 4093, "the query has 4097 characters; at most 4096 are read"),
        ("&".join(f"a{number}=1" for number in range(40)), "the query has 40 parameters"),
        ("pod=a%00b", "pod holds a character"),
        ("namespace=", "namespace is empty"),
        ("since=1&until=0", "until (0) must be after since (1)"),
        ("%3Cscript%3E=1", "unknown parameter '<script>'"),
    ],
)
async def test_what_cannot_be_asked_is_refused_by_its_name(asked, root, query, told):
    status, headers, document = await asked.call(f"/api/v1/runs?{query}", root, raw=True)
    assert (status, document["error"]["code"]) == (400, "badParameter")
    assert told in document["error"]["message"]
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "query", ["pod=%ff", "pod=%ed%a0%80", "pod=%", "pod=%zz", "pod=a;b", "pod=' OR 1=1 --"]
)
async def test_odd_spellings_find_nothing_and_break_nothing(store, asked, root, query):
    store.add(HISTORY)
    status, _, document = await asked.call(
        f"/api/v1/runs?since=0&{query.replace(' ', '%20')}", root, raw=True
    )
    assert status in (200, 400)
    assert not document.get("items")


async def test_who_asks_for_something_endless_is_not_read(asked, root):
    async with asked._session.get(URL(f"{asked._root}/api/v1/runs?pod={'x' * 100_000}", encoded=True)) as got:
        assert got.status == 400


async def test_the_description_is_told_to_whoever_has_a_token(town, asked):
    nobody = await town.person("nobody")
    status, _, document = await asked.call(OPENAPI, nobody)
    assert (status, document["openapi"]) == (200, "3.1.0")
    assert set(document["paths"]) == {*(each.path for each in (*ENDPOINTS, *LIVE_ENDPOINTS)), OPENAPI}
    assert (await asked.call(OPENAPI, nobody, pretty="1"))[0] == 400


async def test_questions_are_counted_by_path_and_code(store, asked, root):
    await asked.call("/api/v1/runs", root)
    await asked.call("/api/v1/runs")
    await asked.call("/some/where")

    def counted(path, code):
        labels = {"path": path, "code": code}
        return asked.registry.get_sample_value("kai_http_requests_total", labels)

    assert [counted("/api/v1/runs", "200"), counted("/api/v1/runs", "401")] == [1, 1]
    assert counted("other", "404") == 1
    assert counted("/api/v1/cycles", "200") == 0


# --- the process --------------------------------------------------------------------------------------
@pytest.fixture
async def at_work(town, tmp_path):
    """Starts insight as a process would be, where somebody else leads; gives the port of HTTP."""
    lease = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
    lease["renewTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    await town.admin.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await town.admin.create(LEASES, {"metadata": {"name": INSIGHT_LEASE}, "spec": lease}, namespace=NAMESPACE)

    @asynccontextmanager
    async def start(**settings):
        (port,) = free_ports(1)
        told = {"grpc_listen": "127.0.0.1:0", "http_listen": f"127.0.0.1:{port}", **settings}
        service = InsightService(InsightSettings(history_url=f"sqlite:///{tmp_path}/history.db", **told))
        async with in_this_process(service, town.api.write_kubeconfig(tmp_path / "ours")) as host:
            await eventually(host.health.ask, lambda checks: checks.get("http") == "")
            yield port

    return start


async def test_a_replica_that_does_not_lead_answers_too(store, root, at_work):
    store.add(HISTORY)
    async with at_work() as port, aiohttp.ClientSession() as session:
        found = await Asking(session, ("127.0.0.1", port), None).rows("runs", root)
    assert len(found["items"]) == 7


async def test_with_tls_it_shows_the_certificate_of_the_process_and_asks_for_none(
    store, root, at_work, tmp_path
):
    store.add(HISTORY)
    certificates.ensure(tmp_path / "tls", ["localhost"])
    names = {"tls_ca": "ca.crt", "tls_cert": "tls.crt", "tls_key": "tls.key"}
    files = {setting: str(tmp_path / "tls" / name) for setting, name in names.items()}
    trusting = ssl.create_default_context(cafile=files["tls_ca"])
    async with at_work(**files) as port, aiohttp.ClientSession() as session:
        url = f"https://localhost:{port}/api/v1/runs?since=0"
        async with session.get(url, ssl=trusting, headers={"Authorization": f"Bearer {root}"}) as answer:
            assert len((await answer.json())["items"]) == 7
        with pytest.raises(aiohttp.ClientError):
            await session.get(url.replace("https", "http"))
