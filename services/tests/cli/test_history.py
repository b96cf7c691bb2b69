"""`kai history`, `kai report` and `kai replay` of what was recorded, over a real API server and gRPC."""

import asyncio
import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from kai.history import recordings
from kai.history.addresses import open_database
from kai.history.records import RECORDS
from kai.history.store import open_store
from kai.kube.client import KubeClient
from kai.kube.resources import LEASES, NAMESPACES
from kai.model import names
from kai.wire.serving import serve
from kai.wire.v1.history_pb2_grpc import add_HistoryServiceServicer_to_server
from kai_cli.__main__ import app
from kai_cli.past import moment
from kai_cli.views.amounts import lasting
from kai_cli.views.history import TABLES
from kai_insight.forecasts import Forecasts
from kai_insight.metrics import ForecastMetrics
from kai_insight.servicer import HistoryServicer
from kai_local.apiserver.serving.server import ApiServer
from libs.tests.history.builders import (
    HOUR,
    NOON,
    a_cycle,
    a_decision,
    a_queue_state,
    a_run,
    an_eviction,
)
from services.tests.insight.recording import Recording, without_decisions

LONG_AGO = "--since=2000-01-01"
RECORDED = (
    a_run("a", ended=2, gpus=4.0),
    a_run("b", began=1, queue="other"),
    an_eviction(
        "a",
        at=2,
        queue="research",
        gpus=4.0,
        for_namespace="team",
        for_pod_group="pg-b",
        message="over quota\nby 4 GPUs",
    ),
    a_cycle(7, at=2, evictions=1),
    a_decision("pg-b", at=2, reason="OverLimit", message="it asks for 9"),
    a_queue_state(at=2, quota_gpus=-1.0, allocated_gpus=0.5),
)


@pytest.fixture
async def cluster(tmp_path):
    """An API server; nobody says there that insight is."""
    async with ApiServer() as server:
        path = server.write_kubeconfig(tmp_path / "kubeconfig")
        async with KubeClient.connect(str(path), user_agent="test") as client:
            await client.create(NAMESPACES, {"metadata": {"name": names.NAMESPACE}})
            yield Cluster(path, client)


class Cluster:
    def __init__(self, kubeconfig: Path, client: KubeClient) -> None:
        self.kubeconfig = kubeconfig
        self.client = client

    async def kai(self, *arguments):
        """Status, answer and what is told beside it."""
        command = ["--kubeconfig", str(self.kubeconfig), *arguments]
        done = await asyncio.to_thread(CliRunner().invoke, app, command)
        return done.exit_code, done.stdout, done.stderr

    async def says(self, *arguments):
        status, printed, told = await self.kai(*arguments)
        assert status == 0, told
        return printed


@pytest.fixture
async def insight(cluster, tmp_path):
    """The same with an insight that knows what was recorded."""
    database = open_database(f"sqlite:///{tmp_path}/history.db")
    open_store(database).add(RECORDED)
    answers = HistoryServicer(
        database, Forecasts(ForecastMetrics(CollectorRegistry())), now=lambda: NOON + 24 * HOUR
    )
    register = lambda server: add_HistoryServiceServicer_to_server(answers, server)  # noqa: E731
    async with serve("127.0.0.1:0", [register], grace_seconds=0) as port:
        annotations = {names.ENDPOINT_ANNOTATION: f"127.0.0.1:{port}", names.EPOCH_ANNOTATION: "1"}
        lease = {
            "metadata": {"name": names.INSIGHT_LEASE, "annotations": annotations},
            "spec": {"holderIdentity": "i"},
        }
        await cluster.client.create(LEASES, lease, namespace=names.NAMESPACE)
        cluster.database = database
        yield cluster
    database.close()


def rows(text):
    """A table as lists of words."""
    return [line.split() for line in text.splitlines()]


@pytest.mark.integration
async def test_the_runs_of_a_pod_are_told_with_their_end(insight):
    heading, run = rows(await insight.says("history", "pod", "a", "-n", "team", LONG_AGO))
    assert heading == ["BEGAN", "NAMESPACE", "POD", "NODE", "GPUS", "LASTED", "ENDED", "QUEUE", "USER"]
    assert run == ["2027-01-15T08:00:00Z", "team", "a", "node-1", "4", "2h", "Succeeded", "research", "ada"]


@pytest.mark.integration
async def test_every_kind_is_told_as_table_csv_and_json(insight):
    for kind, word in zip(RECORDS, ("pod", "evictions", "cycles", "podgroup", "queue"), strict=True):
        printed = json.loads(await insight.says("history", word, LONG_AGO, "-o", "json"))
        lines = list(csv.DictReader(io.StringIO(await insight.says("history", word, LONG_AGO, "-o", "csv"))))
        assert len(printed) == len(lines) == sum(type(each) is kind for each in RECORDED)
        assert [set(line) for line in lines] == [set(row) for row in printed]
        table = rows(await insight.says("history", word, LONG_AGO))
        assert len(table) == 1 + len(printed)
        assert table[0] == " ".join(each.column.heading for each in TABLES[kind]).split()


@pytest.mark.integration
async def test_an_eviction_says_in_full_who_took_what_and_why(insight):
    (eviction,) = json.loads(await insight.says("history", "evictions", LONG_AGO, "-o", "json"))
    assert eviction == {
        "podUid": "uid-team-a",
        "at": "2027-01-15T10:00:00Z",
        "shard": "default",
        "epoch": 7,
        "cycle": 1,
        "namespace": "team",
        "pod": "a",
        "podGroup": "",
        "queue": "research",
        "action": "reclaim",
        "gpus": 4.0,
        "forNamespace": "team",
        "forPodGroup": "pg-b",
        "forQueue": "other",
        "message": "over quota\nby 4 GPUs",
    }


@pytest.mark.integration
async def test_what_is_asked_for_is_all_that_is_told(insight):
    assert (
        json.loads(await insight.says("history", "pod", LONG_AGO, "--queue", "other", "-o", "json"))[0]["pod"]
        == "b"
    )
    assert json.loads(await insight.says("history", "pod", "nobody", LONG_AGO, "-o", "json")) == []
    assert rows(await insight.says("history", "evictions", LONG_AGO, "--until", "2001-01-01")) == [
        ["AT", "NAMESPACE", "POD", "QUEUE", "GPUS", "ACTION", "FOR", "OF", "QUEUE", "WHY"]
    ]


@pytest.mark.integration
async def test_that_nothing_is_recorded_is_said_apart_from_the_answer(insight):
    asked = ("history", "podgroup", "nobody", LONG_AGO, "-o", "json")
    assert await insight.kai(*asked) == (0, "[]\n", "note: nothing of this is recorded in that time\n")


@pytest.mark.integration
async def test_who_asks_why_something_waits_that_is_gone_is_told_how_it_ended(insight):
    status, printed, told = await insight.kai("explain", "pod/a", "-n", "team")
    assert (status, printed) == (1, "")
    how = "pod a ran on node-1 until 2027-01-15T10:00:00Z (Succeeded); `kai history pod a -n team` tells more"
    assert told == f"kai: Job/a is gone: {how}\n"


@pytest.mark.integration
async def test_that_there_is_more_is_said_apart_from_the_answer(insight):
    status, printed, told = await insight.kai("history", "pod", LONG_AGO, "--most", "1", "-o", "json")
    assert (status, len(json.loads(printed))) == (0, 1)
    assert told == "note: there are more than these 1; ask with --most, or for less time\n"


@pytest.mark.integration
async def test_use_is_reported_by_what_was_asked_for(insight):
    until = ("--since", "2027-01-15T08:00:00Z", "--until", "2027-01-15T12:00:00Z")
    table = rows(await insight.says("report", "usage", *until))
    assert table == [
        ["QUEUE", "GPU", "HOURS", "CPU", "HOURS", "MEMORY", "GIB", "HOURS", "PODS"],
        ["research", "8", "4", "2", "1"],
        ["other", "3", "6", "3", "1"],
    ]
    by_workload = await insight.says("report", "usage", "--by", "workload", *until, "-o", "csv")
    assert by_workload.splitlines()[:2] == [
        "workload,gpuHours,cpuHours,memoryGibHours,pods",
        "team/Job/a,8.0,4.0,2.0,1",
    ]
    users = json.loads(await insight.says("report", "usage", "--by", "user", *until, "-o", "json"))
    assert users == [{"user": "ada", "gpuHours": 11.0, "cpuHours": 10.0, "memoryGibHours": 5.0, "pods": 2}]


@pytest.mark.integration
@pytest.mark.parametrize("command", [("history", "cycles"), ("report", "usage")])
async def test_without_insight_one_line_says_what_to_do(cluster, command):
    status, printed, told = await cluster.kai(*command)
    assert (status, printed, told.count("\n")) == (1, "", 1)
    assert "no insight runs" in told
    assert "insight.enabled=true" in told


@pytest.mark.integration
async def test_a_time_that_is_none_is_wrong_use(cluster):
    status, _, told = await cluster.kai("history", "cycles", "--since", "yesterday")
    assert status == 2
    assert "2026-11-01" in told


def test_times_are_so_long_ago_or_said_in_full():
    assert moment("2h", option="--since", now=NOON) == NOON - 2 * HOUR
    assert moment("1d12h", option="--since", now=NOON) == NOON - 36 * HOUR
    assert moment("2027-01-15", option="--since", now=0) == NOON - 8 * HOUR
    assert moment("2027-01-15T08:00:00+01:00", option="--since", now=0) == NOON - HOUR


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0s"), (59.6, "1m"), (61, "1m1s"), (3600, "1h"), (90061, "1d1h"), (172_800, "2d")],
)
def test_how_long_something_lasted_is_told_in_its_largest_units(seconds, said):
    assert lasting(seconds) == said


# --- replay --------------------------------------------------------------------------------------------
@pytest.fixture
def recorded(insight):
    """Three cycles, each of which binds a pod."""
    recording = Recording()
    entries = [recording.base(), *(recording.cycle() for _ in range(3))]
    recordings.add(insight.database, entries)
    return insight, entries


@pytest.mark.integration
async def test_a_recorded_cycle_is_shown_as_it_was_decided(recorded):
    insight, _ = recorded
    printed = await insight.says("replay", "--cycle=2")
    assert rows(printed)[1] == ["default/job-2-0", "default/job-2", "n", "1"]
    assert "cycle 2 of term 5" in printed
    assert printed.rstrip().endswith("as it was decided then")
    told = json.loads(await insight.says("replay", "--cycle=2", "-o", "json"))
    assert (told["same"], told["cycle"], told["term"]) == (True, 2, 5)
    assert [bind["pod"] for bind in told["binds"]] == ["default/job-2-0"]


@pytest.mark.integration
async def test_all_cycles_of_a_time_are_decided_again(recorded):
    insight, _ = recorded
    printed = await insight.says("replay", LONG_AGO)
    assert "3 cycles: 3 decided as then, 0 otherwise, 0 not decided again" in printed
    (stretch,) = json.loads(await insight.says("replay", LONG_AGO, "-o", "json"))
    assert (stretch["cycles"], stretch["same"], stretch["differing"]) == (3, 3, None)


@pytest.mark.integration
async def test_a_cycle_that_comes_out_otherwise_is_told_and_the_command_fails(insight):
    recording = Recording()
    entries = [recording.base(), recording.cycle(), without_decisions(recording.cycle()), recording.cycle()]
    recordings.add(insight.database, entries)
    status, printed, _ = await insight.kai("replay", "--cycle=2")
    assert status == 1
    assert "not as it was decided then" in printed
    assert printed.splitlines()[-1] == "bind of default/job-2-0 to n: decided now, not then"
    status, printed, _ = await insight.kai("replay", LONG_AGO)
    assert status == 1
    assert "3 cycles: 1 decided as then, 1 otherwise, 1 not decided again" in printed
    status, _, told = await insight.kai("replay", "--cycle=3")
    assert (status, "cycle 2, before it, comes out otherwise" in told) == (1, True)


@pytest.mark.integration
async def test_a_cycle_that_is_not_kept_or_not_readable_is_told_with_what_to_do(recorded):
    insight, entries = recorded
    status, _, told = await insight.kai("replay", "--cycle=9")
    assert (status, "cycle 9 is not recorded: insight keeps" in told) == (1, True)
    status, _, told = await insight.kai("replay", LONG_AGO, "--until=2000-01-02")
    assert (status, "no cycle of that time is recorded" in told) == (1, True)
    newer = replace(entries[-1], number=4, version=4, data=b'{"number": "four"}')
    recordings.add(insight.database, [newer])
    status, _, told = await insight.kai("replay", "--cycle=4")
    assert (status, "another release" in told) == (1, True)


@pytest.mark.parametrize("arguments", [("--cycle=9223372036854775808",), ("--cycle=1", f"--term={10**30}")])
async def test_a_number_that_no_cycle_can_have_is_refused(cluster, arguments):
    status, _, told = await cluster.kai("replay", *arguments)
    option = arguments[-1].partition("=")[0]
    assert (status, f"Invalid value for '{option}'" in " ".join(told.split())) == (2, True), told


async def test_a_replay_is_of_one_thing(cluster):
    for arguments in ((), ("file.zip", "--cycle=1"), ("--cycle=1", "--since=1h")):
        status, _, told = await cluster.kai("replay", *arguments)
        assert (status, "give one of FILE, --cycle and --since" in told) == (2, True)
    for arguments in (
        ("file.zip", "--shard=gold"),
        ("file.zip", "--until=1h"),
        ("--cycle=1", "--now=2026-11-01"),
        ("--since=1h", "--term=5"),
    ):
        status, _, told = await cluster.kai("replay", *arguments)
        option = arguments[1].partition("=")[0]
        assert (status, f"Invalid value for {option}: is for" in " ".join(told.split())) == (2, True), told
