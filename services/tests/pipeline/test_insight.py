"""What insight records equals what happened: real scheduler, binder, API server and gRPC."""

import asyncio

import pytest

from deadlines import eventually
from kai.history.addresses import open_database
from kai.history.errors import STORE_AWAY
from kai.history.questions import Selection, find
from kai.history.recordings import Wanted
from kai.history.records import Cycle, Decision, QueueState, Run, Taking
from kai.kube.resources import POD_GROUPS, PODS, QUEUES
from kai.model import names
from kai.replay.cycles import Replay, read_cycle
from kai.wire.history import connect_history
from kai_insight.service import InsightService
from kai_insight.settings import InsightSettings
from services.tests.pipeline.conftest import in_this_process

pytestmark = pytest.mark.integration


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'history.db'}"
    return request.getfixturevalue("postgresql").make(
        f"insight_{tmp_path.name.replace('-', '_')}".lower()[:60]
    )


@pytest.fixture
def history(url):
    database = open_database(url)
    yield lambda kind, **equal: sorted(
        find(database, kind, Selection(equal=equal)), key=lambda row: getattr(row, "began", None) or row.at
    )
    database.close()


def insight(cluster, url, **settings):
    told = {
        "history_url": url,
        "write_interval": 0.1,
        "queue_interval": 1,
        "grpc_listen": "127.0.0.1:0",
        "lease_retry_period": 0.2,
        "lease_duration": 2,
        "lease_renew_deadline": 1.5,
        **settings,
    }
    return in_this_process(InsightService(InsightSettings(**told)), cluster.kubeconfig)


async def recording(host):
    """Wait until everything that exists is taken in."""
    await eventually(host.health.ask, lambda checks: not checks.get("synced", "no check yet"))
    await eventually(host.health.ask, lambda checks: not checks.get("store", "no check yet"))


async def hearing(cluster, history):
    """Wait until the scheduler is heard: what it does from now on is told cycle by cycle, and not in one."""
    await cluster.until(lambda: history(QueueState))


async def a_queue(cluster, name, *, gpus):
    amounts = {"cpu": {"quota": -1, "limit": -1}, "memory": {"quota": -1, "limit": -1}}
    amounts["gpu"] = {"quota": gpus, "limit": -1, "overQuotaWeight": 1}
    spec = {"parentQueue": "top", "resources": amounts}
    await cluster.client.create(QUEUES, {"metadata": {"name": name}, "spec": spec})


async def test_a_gang_that_is_bound_runs_from_then_on_and_its_group_is_placed(cluster, url, history):
    await cluster.node("n1", gpus=2)
    async with cluster.scheduler(), cluster.binder(), insight(cluster, url) as host:
        await recording(host)
        await hearing(cluster, history)
        await cluster.group("gang", min_member=2)
        for name in ("g-0", "g-1"):
            await cluster.pod(name, group="gang")
        await cluster.bound("g-0", "g-1")
        runs = await cluster.until(lambda: _all(history(Run), 2))
        decisions = await cluster.until(lambda: history(Decision, pod_group="gang", outcome="Placed"))
        cycles = await cluster.until(lambda: [cycle for cycle in history(Cycle) if cycle.binds])
        states = await cluster.until(
            lambda: [row for row in history(QueueState, queue="test") if row.allocated_gpus == 2]
        )
        async with connect_history(cluster.client, namespace=names.NAMESPACE) as asked:
            answered, more = await asked.find(Run, Selection(equal={"pod_group": "gang"}))
    pods = {pod["metadata"]["name"]: pod for pod in await cluster.pods()}
    assert (sorted(answered, key=lambda run: run.pod), more) == (sorted(runs, key=lambda run: run.pod), False)
    assert {(run.pod_uid, run.node, run.pod_group, run.queue) for run in runs} == {
        (pod["metadata"]["uid"], "n1", "gang", "test") for pod in pods.values()
    }
    assert {(run.gpus, run.cpu_millis, run.ended) for run in runs} == {(1.0, 1000, None)}
    assert sum(cycle.binds for cycle in cycles) == 2
    assert len(decisions) == 1
    assert states[0].parent == "top"


async def test_who_leads_no_longer_tells_nothing_of_the_store(cluster, url):
    gauges = ("kai_history_store_up", "kai_history_store_bytes", "kai_history_written_until_seconds")
    async with insight(cluster, url) as host:
        await recording(host)
        for name in gauges:
            await eventually(lambda name=name: host.metrics.get_sample_value(name))
    more = ("kai_history_records_waiting", "kai_history_store_bytes_per_day", "kai_replay_bytes")
    assert {name: host.metrics.get_sample_value(name) for name in gauges + more} == dict.fromkeys(
        gauges + more, 0
    )


async def test_an_eviction_by_reclaim_says_who_lost_what_to_whom_and_why(cluster, url, history):
    await cluster.node("n1", gpus=2)
    await a_queue(cluster, "poor", gpus=0)
    await a_queue(cluster, "rich", gpus=2)
    async with cluster.scheduler(), cluster.binder(), insight(cluster, url) as host:
        await recording(host)
        await hearing(cluster, history)
        for name in ("p-0", "p-1"):
            await cluster.group(f"pg-{name}", queue="poor")
            await cluster.pod(name, group=f"pg-{name}")
            await cluster.bound(name)
            await cluster.phase(name, "Running")
        await cluster.group("pg-r", queue="rich")
        await cluster.pod("r", group="pg-r")

        async def going():
            return [pod for pod in await cluster.pods() if "deletionTimestamp" in pod["metadata"]]

        (victim,) = await cluster.until(going)
        name = victim["metadata"]["name"]
        await cluster.client.delete(PODS, name, namespace="default", grace_seconds=0)
        await cluster.bound("r")
        (run,) = await cluster.until(lambda: history(Run, pod=name, ending="Evicted"))
        (taking,) = await cluster.until(lambda: history(Taking))
        await cluster.until(lambda: history(Run, pod="r"))
    assert (taking.pod_uid, taking.pod, taking.queue, taking.gpus) == (
        victim["metadata"]["uid"],
        name,
        "poor",
        1.0,
    )
    assert (taking.action, taking.for_pod_group, taking.for_queue) == ("reclaim", "pg-r", "rich")
    assert "rich" in taking.message
    assert run.ended >= taking.at
    (cycle,) = [cycle for cycle in history(Cycle) if cycle.evictions]
    assert (cycle.epoch, cycle.cycle, cycle.at) == (taking.epoch, taking.cycle, taking.at)


async def test_a_restart_leaves_no_hole_that_it_could_have_filled_and_nothing_twice(cluster, url, history):
    await cluster.node("n1", gpus=3)
    async with cluster.scheduler(), cluster.binder():
        async with insight(cluster, url) as host:
            await recording(host)
            await hearing(cluster, history)
            for name in ("stays", "ends", "large"):
                await cluster.pod(name, gpus=9 if name == "large" else 1)
            await cluster.bound("stays", "ends")
            await cluster.until(lambda: _all(history(Run), 2))
            await cluster.until(lambda: history(Decision, pod_group="pg-large"))
        before = {kind: history(kind) for kind in (Run, Cycle, Decision)}
        await cluster.phase("ends", "Succeeded")
        await cluster.pod("begins")
        await cluster.bound("begins")
        async with insight(cluster, url) as host:
            await recording(host)
            await cluster.until(lambda: history(Run, pod="begins"))
            await cluster.until(lambda: history(Run, pod="ends", ending="Succeeded"))
            await cluster.until(lambda: history(Decision, pod_group="pg-begins", outcome="Placed"))
    runs = {run.pod: run for run in history(Run)}
    assert sorted(run.pod for run in history(Run)) == ["begins", "ends", "stays"]
    assert runs["stays"] in before[Run]
    assert len(history(Decision, pod_group="pg-large")) == 1
    # The cycle that bound it was missed, and told again to one who said where it had been.
    assert sum(cycle.binds for cycle in history(Cycle)) == 3
    numbers = [cycle.cycle for cycle in history(Cycle)]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert history(Cycle)[: len(before[Cycle])] == before[Cycle]


async def test_a_store_that_is_away_is_told_and_costs_only_time(cluster, tmp_path):
    """What happened meanwhile is recorded once it is back; scheduling went on."""
    folder = tmp_path / "later"
    url = f"sqlite:///{folder}/history.db"
    await cluster.node("n1", gpus=2)
    async with cluster.scheduler(), cluster.binder(), insight(cluster, url) as host:
        told = await eventually(host.health.ask, lambda checks: "not answer" in checks.get("store", ""))
        await eventually(
            lambda: host.metrics.get_sample_value("kai_history_store_failures_total"),
            lambda value: value >= 2,
        )
        await cluster.pod("early")
        assert await cluster.bound("early") == ["n1"]
        await eventually(
            lambda: host.metrics.get_sample_value("kai_replay_cycles_total"), lambda value: value >= 1
        )
        await asyncio.to_thread(folder.mkdir)
        await recording(host)
        database = open_database(url)
        await cluster.until(lambda: find(database, Run, Selection(equal={"pod": "early"})))
        database.close()
    assert told["store"] == STORE_AWAY  # where it is, and what it says itself, is nothing for probes


async def test_more_than_waits_for_a_store_is_made_up_for_from_what_there_is(cluster, tmp_path, monkeypatch):
    """A bound that is reached costs what nobody can tell any more, and the runs of pods are told again."""
    url = f"sqlite:///{tmp_path}/history.db"
    await cluster.node("n1", gpus=6)
    async with cluster.scheduler(), cluster.binder(), insight(cluster, url, most_waiting=3) as host:
        await recording(host)
        pods = [f"p-{number}" for number in range(6)]
        for name in pods:
            await cluster.pod(name)
        await cluster.bound(*pods)
        database = open_database(url)
        await cluster.until(lambda: _all(find(database, Run, Selection()), 6))
        assert host.metrics.get_sample_value("kai_history_records_lost_total") > 0
        database.close()


def _all(rows, number):
    return rows if len(rows) == number else None


async def test_every_cycle_is_recorded_and_comes_out_as_it_did_also_after_a_change_of_leader(cluster, url):
    await cluster.node("n1", gpus=8)
    wanted = Wanted(shard=names.DEFAULT_SHARD)

    async def kept():
        async with connect_history(cluster.client, namespace=names.NAMESPACE, deadline=10) as asked:
            return [entry async for entry in asked.recordings(wanted)]

    async with insight(cluster, url) as host, cluster.binder():
        await recording(host)
        for terms in (1, 2):
            async with cluster.scheduler():
                # What was decided before somebody listened nobody knows.
                await eventually(kept, lambda entries, terms=terms: len(terms_of(entries)) == terms)
                for number in range(3):
                    await cluster.group(f"g-{terms}-{number}")
                    await cluster.pod(f"p-{terms}-{number}", group=f"g-{terms}-{number}")
                    await cluster.bound(f"p-{terms}-{number}")
                told = await eventually(
                    kept, lambda entries, terms=terms: len(list(binds_of(entries))) == 3 * terms
                )
        cycles = sum(not entry.base for entry in told)
        counted = host.metrics.get_sample_value
        await eventually(lambda: counted("kai_replay_cycles_total"), lambda found: found >= cycles)
        assert not counted("kai_replay_differences_total", {"shard": names.DEFAULT_SHARD})
    replay = None
    for entry in told:
        if entry.base:
            replay = Replay(entry.data)
        else:
            again = replay.decide(read_cycle(entry.data))
            assert again.same, list(again.differences())


def terms_of(entries):
    return {entry.epoch for entry in entries}


def binds_of(entries):
    return (bind for entry in entries if not entry.base for bind in read_cycle(entry.data).decided.binds)


async def test_a_pod_group_shows_why_it_waits_and_what_has_to_happen(cluster, url):
    await cluster.node("n1", gpus=2)

    async def shown():
        group = await cluster.client.get(POD_GROUPS, "large", namespace="default")
        conditions = group.get("status", {}).get("schedulingConditions")
        return conditions[-1]["message"] if conditions else ""

    async with (
        cluster.scheduler(),
        cluster.binder(),
        cluster.podgroup_controller(),
        insight(cluster, url, verdict_interval=0.3),
    ):
        await cluster.group("large", min_member=1)
        await cluster.pod("large-0", group="large", gpus=3)

        async def told():
            own, _, verdict = (await shown()).partition("; verdict ")
            return verdict if own else ""

        verdict = await cluster.until(told)
        assert verdict.startswith("NEVER (TooLarge): pod large-0 asks for 3 GPUs; the largest node, n1,")
        await cluster.node("n2", gpus=4)
        await cluster.bound("large-0")

        async def cleared():
            return not await shown()

        await cluster.until(cleared)
