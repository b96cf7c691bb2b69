"""Past use, read in the background: what is known stays in use while nobody answers, and says anything."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram

from deadlines import eventually, within
from kai.config import UsageDatabase
from kai.engine.usage.prometheus import Shares
from kai.runtime import SettingsError
from kai.session.cache import SessionCache
from kai.session.server import redis_server
from kai.session.usage import UsageRecord
from kai.session.usage_history import UsageBuckets
from kai_scheduler.troubles import Troubles
from kai_scheduler.usage import UsageReader
from kai_scheduler.usage_sources import RecordedUsage, UsageUnavailable, connection

NOW = 1_800_000_000.0
TEAM = {"team": (0.0, 0.0, 0.5)}


class Source:
    """Answers in turn; an error is raised, and the last answer is given again and again."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.reads = 0

    async def read(self, *, now):
        self.reads += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Shares) else Shares(by_queue=answer, notes=())


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


class Told:
    """What a reader counts."""

    def __init__(self):
        self.registry = CollectorRegistry()
        self.changes = 0
        self.latency = Histogram("latency", "x", registry=self.registry)
        self.failures = Counter("failures", "x", registry=self.registry)
        self.troubles = Troubles(Counter("cut_off", "x", ("what",), registry=self.registry))

    def changed(self):
        self.changes += 1

    def count(self, name):
        return self.registry.get_sample_value(name)


def params(**usage_params):
    return UsageDatabase.read({"usageParams": usage_params}).params


def a_reader(source, *, told=None, clock=None, **usage_params):
    told = told or Told()
    return UsageReader(
        source,
        params(**{"windowSize": "1h", "fetchInterval": "10ms", "waitTimeout": "10ms", **usage_params}),
        latency=told.latency,
        failures=told.failures,
        troubles=told.troubles,
        changed=told.changed,
        clock=clock or Clock(),
    )


class Running:
    """A reader at work while the block runs."""

    def __init__(self, reader):
        self.reader = reader

    async def __aenter__(self):
        self.task = asyncio.create_task(self.reader.run())
        return self

    async def __aexit__(self, *_):
        assert not self.task.done()
        self.task.cancel()


async def test_what_was_read_is_used_and_counted():
    told = Told()
    reader = a_reader(Source(TEAM), told=told)
    async with Running(reader):
        await eventually(lambda: reader.shares == TEAM)
    assert reader.note() is None
    assert told.count("latency_count") >= 1
    assert told.count("failures_total") == 0


async def test_only_what_has_changed_as_much_as_matters_is_a_reason_for_a_cycle():
    told, source = Told(), Source(TEAM)
    async with Running(a_reader(source, told=told)):
        await eventually(lambda: source.reads > 3)
        assert told.changes == 1
        for changes, gpus in ((1, 0.5004), (1, 0.5008), (2, 0.5012), (3, 0.6)):
            source.answers, reads = [{"team": (0.0, 0.0, gpus)}], source.reads
            await eventually(lambda: source.reads, lambda now, before=reads: now > before + 1)
            assert told.changes == changes
        source.answers = [{}]
        await eventually(lambda: told.changes, lambda changes: changes == 4)


async def test_a_failure_is_tried_again_and_told_until_it_is_over():
    told = Told()
    source = Source(UsageUnavailable("nobody there"))
    reader = a_reader(source, told=told)
    async with Running(reader):
        await eventually(reader.note, lambda note: note and "nobody there" in note)
        source.answers = [TEAM]
        await eventually(lambda: reader.shares == TEAM)
    assert reader.note() is None
    assert told.count("failures_total") >= 1


async def test_while_nobody_answers_the_last_known_is_used_and_said_to_be_old():
    clock, source = Clock(), Source(TEAM, UsageUnavailable("away"))
    reader = a_reader(source, clock=clock, stalenessPeriod="5m")
    async with Running(reader):
        await eventually(lambda: source.reads > 1)
        assert reader.shares == TEAM
        assert "old" not in (reader.note() or "")
        clock.now += 301
        await eventually(
            reader.note, lambda note: note and "usage data is 5m1s old (allowed are 5m0s)" in note
        )
        assert reader.shares == TEAM


async def test_what_was_known_is_dropped_when_its_window_is_over():
    clock, source = Clock(), Source(TEAM, UsageUnavailable("away"))
    reader = a_reader(source, clock=clock, windowSize="1h")
    async with Running(reader):
        await eventually(lambda: source.reads > 1)
        clock.now += 3599
        await eventually(reader.note, lambda note: note and "the last known is used" in note)
        assert reader.shares == TEAM
        clock.now += 1
        await eventually(lambda: reader.shares == {})
        assert "as if they had used nothing" in reader.note()


async def test_data_that_make_no_sense_are_told_and_end_nothing():
    told, source = Told(), Source(TEAM, ValueError("not a number"))
    reader = a_reader(source, told=told)
    async with Running(reader):
        await eventually(lambda: source.reads > 3)
        assert reader.shares == TEAM
    assert "usage failed" in told.troubles.summary()
    assert "not a number" in reader.note()


async def test_what_of_the_data_does_not_count_is_told():
    reader = a_reader(Source(Shares(by_queue=TEAM, notes=("queue 'odd' used nan of GPUs",))))
    async with Running(reader):
        await eventually(lambda: reader.shares == TEAM)
    assert reader.note() == "queue 'odd' used nan of GPUs"


async def test_the_first_cycle_waits_for_the_first_read():
    reader = a_reader(Source(TEAM), waitTimeout="1h")
    waiting = asyncio.create_task(reader.first())
    async with Running(reader), within("the first read"):
        await waiting
    assert reader.shares == TEAM


async def test_the_first_cycle_waits_no_longer_than_told():
    reader = a_reader(Source(UsageUnavailable("away")), waitTimeout="20ms")
    async with Running(reader), within("the end of waiting"):
        await reader.first()
    assert reader.shares == {}


@pytest.mark.integration
async def test_shares_of_the_cluster_are_read_from_redis_and_outlive_it(tmp_path):
    socket = tmp_path / "r.sock"
    async with SessionCache.connect(f"unix://{socket}", shard="s") as cache:
        record = UsageRecord(cache)
        reader = a_reader(RecordedUsage(UsageBuckets(cache), params(windowSize="1h")))
        async with redis_server(unix_socket=socket):
            for at, gpus in [(NOW - 7200, 8.0), (NOW - 1200, 2.0), (NOW - 600, 4.0)]:
                await record.add(
                    at=at,
                    seconds=60,
                    queues={"team": (0.0, 0.0, gpus)},
                    capacity=(1000.0, 1e9, 8.0),
                    keep_seconds=1e6,
                )
            await reader.read()
            assert reader.shares == {"team": (0.0, 0.0, pytest.approx(6 / 16))}
        with pytest.raises(UsageUnavailable, match="redis does not answer"):
            await reader.read()
    assert reader.shares["team"][2] == pytest.approx(6 / 16)


# --- where it is read from ------------------------------------------------------------------------
def database(**document):
    return UsageDatabase.read(document)


def test_the_connection_may_stand_in_a_variable():
    found = database(clientType="prometheus", connectionStringEnvVar="WHERE")
    assert connection(found, {"WHERE": " prometheus:9090\n"}) == "http://prometheus:9090"
    assert connection(database(), {}) == ""


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "connectionStringEnvVar: the variable WHERE is not set; set it to a URL"),
        ({"WHERE": " "}, "the variable WHERE is not set"),
        ({"WHERE": "ftp://u:pw@x"}, "the variable WHERE is 'ftp://u:…@x'; write http://host:9090"),
    ],
)
def test_a_variable_without_a_connection_is_refused_by_name(environment, told):
    with pytest.raises(SettingsError) as raised:
        connection(database(clientType="prometheus", connectionStringEnvVar="WHERE"), environment)
    assert told in str(raised.value)


def test_a_prometheus_that_nobody_names_is_refused():
    with pytest.raises(SettingsError, match=r"usageDBConfig\.connectionString: say where the Prometheus is"):
        connection(database(clientType="prometheus"), {})
