"""What is tried on a copy over HTTP: why work waits, when it starts, what would follow from a change."""

import asyncio
import json
import threading
import time

import pytest

from kai.model import names
from kai_insight.http import live_endpoints as endpoints
from kai_insight.http.live_asked import LiveAsked
from kai_insight.http.tried import TriedAnswers
from kai_insight.live import questions
from kai_insight.live.copies import MOST_WAITING, Copies, situation_of
from kai_insight.live.live import Live
from libs.tests.engine.builders import NOW, a_job, a_pod
from libs.tests.history.builders import a_run
from services.tests.insight.town import NODES, POD_GROUPS, QUEUES, Told, asking
from services.tests.insight.watched import Watched

pytestmark = pytest.mark.integration


@pytest.fixture
async def watched():
    found = Watched()
    await found.cycle(
        a_job("large", gpus=16),
        a_job("theirs", gpus=2, namespace="other"),
        a_job("next", gpus=6, created=NOW + 50),
    )
    yield found
    await found.checker.close()


@pytest.fixture
async def told():
    return Told(runs=[a_run("r", began=1.0, ended=2.0)])


@pytest.fixture
async def tried(town, database, watched, told):
    async with town.insight() as client, asking(database, client, live=watched.live, knowledge=told) as asked:
        yield asked


async def answer(tried, path, token, /, **query):
    status, _, document = await tried.call(f"/api/v1/{path}", token, **query)
    assert status == 200, document
    return document


# --- one workload -------------------------------------------------------------------------------------
async def test_a_workload_is_explained_as_kai_explain_does(tried, boss):
    found = await answer(tried, "live/workload", boss, namespace="default", name="large")
    told = found["answer"]
    assert (told["kind"], told["verdict"], told["reason"]["code"]) == ("PodGroup", "NEVER", "TooLarge")
    assert told["stages"][0]["stage"] == "known"
    assert (found["group"]["verdict"], found["group"]["gpus"]) == ("NEVER", 16)
    assert [(pod["name"], pod["state"], pod["node"]) for pod in found["pods"]] == [("large-0", "Pending", "")]
    assert found["reason"] == ""


async def test_a_workload_that_runs_is_told_with_its_places(tried, boss):
    found = await answer(tried, "live/workload", boss, namespace="default", name="job-1")
    assert found["answer"]["verdict"] == "RUNS"
    (pod,) = found["pods"]
    assert (pod["node"], len(pod["devices"])) == ("n", 1)


async def test_who_does_not_see_the_namespace_is_told_which_right_is_missing(tried, ann):
    status, _, message = await tried.refused("live/workload", ann, namespace="other", name="theirs")
    assert (status, "in the namespace other" in message) == (403, True)
    status, _, message = await tried.refused("live/forecast", ann, namespace="other", name="theirs")
    assert status == 403
    assert (await answer(tried, "live/workload", ann, namespace="default", name="large"))["answer"]


async def test_a_workload_that_there_is_not_is_not_found(tried, boss):
    for path in ("live/workload", "live/forecast"):
        assert (await tried.refused(path, boss, namespace="default", name="x"))[:2] == (404, "notFound")


async def test_beyond_what_may_be_copied_the_rest_is_told_and_why_not_more(town, database, watched, boss):
    async with (
        town.insight() as client,
        asking(database, client, live=watched.live, answer_pods=1) as asked,
    ):
        found = await answer(asked, "live/workload", boss, namespace="default", name="large")
        assert found["answer"] is None
        assert "copies are made of up to 1 (--answer-pods)" in found["reason"]
        assert found["pods"]
        status, _, message = await asked.refused(
            "live/what-if", boss, change="quota", target="team", value="gpu=1"
        )
        assert (status, "--answer-pods" in message) == (503, True)


# --- a forecast ---------------------------------------------------------------------------------------
async def test_what_does_not_start_by_itself_has_no_forecast(tried, boss):
    found = await answer(tried, "live/forecast", boss, namespace="default", name="large")
    assert found == {"forecast": None, "reason": "it does not start by itself: NEVER (TooLarge)"}
    found = await answer(tried, "live/forecast", boss, namespace="default", name="job-1")
    assert found["reason"] == "nothing of it waits"


async def test_what_waits_for_others_to_end_is_foreseen_and_it_is_looked_whether_that_holds(
    tried, told, boss, watched
):
    found = await answer(tried, "live/forecast", boss, namespace="default", name="next")
    assert found["reason"] == ""
    coverage = {"p50": {"held": 1, "of": 2}, "p90": {"held": 2, "of": 2}}
    assert found["forecast"]["basis"]["coverage"] == coverage
    assert told.kept == ["next"]


async def test_a_forecast_counts_from_when_it_is_told_however_long_ago_the_last_cycle_was(tried, told, boss):
    asked_at = time.time()
    assert (await answer(tried, "live/forecast", boss, namespace="default", name="next"))["forecast"]
    assert asked_at <= told.kept_at <= time.time()


async def test_where_time_is_over_before_the_cluster_lived_on_often_enough_that_is_the_reason(
    tried, told, boss, monkeypatch
):
    monkeypatch.setattr("kai_insight.live.questions.FORECAST_SECONDS", 0.0)
    found = await answer(tried, "live/forecast", boss, namespace="default", name="next")
    text = "there was not time enough to let the cluster live on often enough"
    assert found == {"forecast": None, "reason": text}
    assert told.kept == []


async def test_without_a_past_there_is_no_forecast(town, database, watched, boss):
    knows_nothing = Told(runs=None)
    async with (
        town.insight() as client,
        asking(database, client, live=watched.live, knowledge=knows_nothing) as asked,
    ):
        found = await answer(asked, "live/forecast", boss, namespace="default", name="next")
        assert found == {"forecast": None, "reason": "nobody knows the past"}


# --- what if ------------------------------------------------------------------------------------------
async def test_what_would_follow_is_told_as_kai_what_if_does_and_nothing_is_changed(tried, boss, watched):
    before = await answer(tried, "live/cluster", boss)
    found = await answer(tried, "live/what-if", boss, change="delete", target="other/theirs", within="10m")
    assert found["changes"][0]["text"].startswith("delete")
    assert [each["podGroup"] for each in found["workloads"]] == ["default/next", "other/theirs"]
    assert found["started"] == ["default/next-0"]
    after = await answer(tried, "live/cluster", boss)
    assert after["slots"] == before["slots"]
    await watched.cycle()


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"change": "quota", "target": "team", "value": "gpu=2 cpu=4"}, "quota of queue"),
        ({"change": "drain", "target": "n"}, "drain"),
        ({"change": "nodes", "target": "n", "value": "2"}, "2 nodes"),
        ({"change": "priority", "target": "default/large", "value": "build"}, "priority"),
        ({"change": "minimum", "target": "default/large", "value": "1"}, "start with 1 pod"),
        ({"change": "delete-queue", "target": "team"}, "delete"),
    ],
)
async def test_each_change_can_be_asked_about(tried, boss, query, text):
    found = await answer(tried, "live/what-if", boss, within="1m", **query)
    assert text in found["changes"][0]["text"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"change": "paint", "target": "n"}, "change is 'paint'; there are quota, limit"),
        ({"change": "quota", "target": "nowhere", "value": "gpu=1"}, "nowhere"),
        ({"change": "quota", "target": "team", "value": "gpu=lots"}, "lots"),
        ({"change": "quota", "target": "team"}, "'quota' takes a queue and amounts"),
        ({"change": "quota", "target": "team", "value": "gpu=1 gpu=2"}, "gpu is said twice"),
        ({"change": "drain", "target": "m"}, "m"),
        ({"change": "drain"}, "target is missing"),
        ({"change": "drain", "target": "n", "within": "soon"}, "within: "),
        ({"change": "drain", "target": "n", "within": "30d"}, "write a time of up to 7 days"),
    ],
)
async def test_what_cannot_be_changed_is_refused_by_its_name(tried, boss, query, told):
    status, code, message = await tried.refused("live/what-if", boss, **query)
    assert (status, code) == (400, "badParameter")
    assert told in message


@pytest.mark.parametrize(
    ("granted", "missing"),
    [((POD_GROUPS, QUEUES), "nodes"), ((POD_GROUPS, NODES), "queues.scheduling.run.ai"), ((), "podgroups")],
)
async def test_what_if_is_for_those_who_see_everything(town, tried, granted, missing):
    token = await town.person("carl")
    for each in granted:
        await town.allow("carl", each)
    status, _, message = await tried.refused("live/what-if", token, change="drain", target="n")
    assert (status, missing in message) == (403, True)


async def test_what_takes_too_long_is_told_so_and_leaves_no_trace(tried, boss, monkeypatch):
    monkeypatch.setattr("kai_insight.live.questions.WHAT_IF_SECONDS", -1.0)
    status, code, message = await tried.refused("live/what-if", boss, change="drain", target="n")
    assert (status, code) == (503, "tooSlow")
    assert "look less far ahead" in message
    monkeypatch.undo()
    assert (await answer(tried, "live/what-if", boss, change="drain", target="n", within="1m"))["changes"]


async def test_more_questions_than_that_do_not_wait(tried, boss, monkeypatch):
    monkeypatch.setattr("kai_insight.live.copies.MOST_WAITING", 0)
    assert (await tried.refused("live/what-if", boss, change="drain", target="n"))[:2] == (503, "busy")


async def test_one_caller_takes_no_place_of_others_by_asking_more(watched, told, monkeypatch):
    go, explained = threading.Event(), questions.explained
    monkeypatch.setattr(questions, "explained", lambda *args: go.wait() and explained(*args))
    copies = Copies(most_pods=1000)
    answers = TriedAnswers(told, copies)
    asked = LiveAsked(texts={"namespace": "default", "name": "large"})

    def ask(asker):
        return asyncio.create_task(
            answers.answer(endpoints.WORKLOAD, asked, watched.shard, None, asker=asker)
        )

    try:
        his = [ask("him") for _ in range(MOST_WAITING)]
        others = [ask("another"), ask("third")]
        await asyncio.sleep(0)
        assert [each.done() for each in (*his, *others)] == [False] * (MOST_WAITING + 2)
        go.set()
        assert all(json.loads(each) for each in await asyncio.gather(*his, *others))
    finally:
        go.set()
        copies.close()


async def test_those_who_ask_at_once_share_a_copy(watched, monkeypatch):
    """A copy takes as much memory as the cluster itself: six of them are no copy for each who asks."""
    made = []

    def counted(*args, **more):
        made.append(args)
        return situation_of(*args, **more)

    monkeypatch.setattr("kai_insight.live.copies.situation_of", counted)
    asked = Copies(most_pods=1000)
    try:
        found = await asyncio.gather(*(asked.ask(watched.shard, id) for _ in range(6)))
        assert (len(set(found)), len(made)) == (1, 1)
    finally:
        asked.close()


async def test_a_copy_of_a_cluster_in_which_nothing_changes_is_made_anew_after_a_minute(watched):
    """Protections end and forecasts begin at the time of the copy, which must not stand still."""
    passed = [0.0]
    asked = Copies(most_pods=1000, now=lambda: NOW + passed[0], clock=lambda: passed[0])
    try:
        for seconds, made in ((0.0, 0.0), (59.0, 0.0), (61.0, 61.0), (119.0, 61.0), (122.0, 122.0)):
            passed[0] = seconds
            assert await asked.ask(watched.shard, lambda situation: situation.now) == NOW + made
    finally:
        asked.close()


# --- health -------------------------------------------------------------------------------------------
async def test_how_cycles_are_followed_is_told(tried, boss, watched):
    found = await answer(tried, "live/health", boss)
    (shard,) = found["shards"]
    assert (shard["name"], shard["replayed"], shard["differing"]) == ("default", 1, 0)
    assert (found["forecasts"], found["store"], found["processes"]) == (None, None, [])


async def test_what_is_set_aside_is_told_to_those_who_see_it(tried, boss, ann, watched):
    bad = a_pod("bad", gpus=1, namespace="other")
    bad.metadata.annotations = {names.GPU_FRACTION: "lots"}
    await watched.cycle(bad)
    (shard,) = (await answer(tried, "live/health", boss))["shards"]
    assert [(each["kind"], each["key"]) for each in shard["setAside"]] == [("Pod", "other/bad")]
    (shard,) = (await answer(tried, "live/health", ann))["shards"]
    assert shard["setAside"] == []


async def test_health_is_told_where_no_scheduler_is_followed(town, database, boss):
    async with town.insight() as client, asking(database, client, live=Live("its store is away")) as asked:
        found = await answer(asked, "live/health", boss)
        assert (found["shards"], found["processes"]) == ([], [])
        assert (await asked.refused("live/health", await town.person("carl")))[0] == 403


async def test_health_is_for_those_who_may_list_queues(town, tried):
    token = await town.person("carl")
    assert (await tried.refused("live/health", token))[0] == 403
