"""Whose sessions are heard, over real gRPC."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest
from structlog.testing import capture_logs

from deadlines import eventually, within
from kai.kube.leases import Leader
from kai.wire import following
from kai.wire.channel import TlsFiles
from kai.wire.serving import CannotListen, serve
from kai.wire.session_codec import SessionUpdate, encode_update
from kai.wire.sessions import take_each, watch_sessions
from kai.wire.v1.session_pb2_grpc import SessionServiceServicer, add_SessionServiceServicer_to_server

pytestmark = pytest.mark.integration


class Scheduler(SessionServiceServicer):
    """Says one thing, and keeps the stream for ever."""

    def __init__(self, version):
        self.version = version
        self.refuses = False

    async def WatchSessions(self, request, context):
        if self.refuses:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "role x may not call this")
        yield encode_update(SessionUpdate(version=self.version, epoch=self.version, opened_at=0, full=True))
        await asyncio.Event().wait()

    @asynccontextmanager
    async def serving(self):
        register = lambda server: add_SessionServiceServicer_to_server(self, server)  # noqa: E731
        async with serve("127.0.0.1:0", [register], grace_seconds=0) as port:
            yield Leader("s", f"127.0.0.1:{port}", self.version)


class Lease:
    """Names the leader that the test wants."""

    def __init__(self, leader):
        self.leader = leader
        self.changed = asyncio.Event()

    def __call__(self, client, *, lease_name, namespace):
        return self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def present(self):
        return self.leader

    async def replaced(self, leader):
        while self.leader == leader:
            await self.changed.wait()

    def name(self, leader):
        self.leader = leader
        self.changed.set()
        self.changed = asyncio.Event()


async def test_a_leader_that_was_replaced_is_not_heard_even_if_it_goes_on_to_talk(monkeypatch):
    async with Scheduler(1).serving() as old, Scheduler(2).serving() as new:
        lease = Lease(old)
        monkeypatch.setattr(following, "LeaderTracker", lease)
        updates = watch_sessions(None, lease_name="l", namespace="n")
        async with within("the new leader is heard"):
            assert (await anext(updates)).version == 1
            lease.name(new)
            assert (await anext(updates)).version == 2
        await updates.aclose()


async def test_that_we_may_not_listen_is_told(monkeypatch):
    scheduler = Scheduler(1)
    scheduler.refuses = True
    async with scheduler.serving() as leader:
        monkeypatch.setattr(following, "LeaderTracker", Lease(leader))
        updates = watch_sessions(None, lease_name="l", namespace="n")
        with capture_logs() as logs:
            listening = asyncio.create_task(anext(updates))
            await eventually(lambda: logs, what="it is told")
        listening.cancel()
        await asyncio.wait([listening])
    assert (logs[0]["log_level"], logs[0]["reason"]) == ("warning", "role x may not call this")


async def test_a_session_that_cannot_be_taken_in_is_told_and_keeps_no_later_one_away():
    async def updates():
        for version in (1, 2, 3):
            yield SessionUpdate(version=version, epoch=1, opened_at=0)

    taken = []

    def take(shard, update):
        if update.version == 2:
            raise ValueError("poisoned")
        taken.append((shard, update.version))

    with capture_logs() as logs:
        await take_each(updates(), take, shard="a")
    assert taken == [("a", 1), ("a", 3)]
    assert [(line["shard"], line["version"]) for line in logs] == [("a", 2)]


@pytest.mark.parametrize("from_first", [False, True])
async def test_who_knows_up_to_where_it_was_asks_for_what_came_after(monkeypatch, from_first):
    scheduler = Scheduler(1)
    asked = []
    watch = scheduler.WatchSessions

    def noted(request, context):
        asked.append((request.epoch, request.after_version, request.from_first))
        return watch(request, context)

    scheduler.WatchSessions = noted
    async with scheduler.serving() as leader:
        monkeypatch.setattr(following, "LeaderTracker", Lease(leader))
        updates = watch_sessions(None, lease_name="l", namespace="n", after=(7, 40), from_first=from_first)
        async with within("the scheduler answers"):
            await anext(updates)
        await updates.aclose()
    assert asked == [(7, 40, from_first)]


@pytest.fixture
def no_files(tmp_path):
    """Of a Secret that is being made anew."""
    return TlsFiles(ca=tmp_path / "ca", cert=tmp_path / "crt", key=tmp_path / "key", namespace="kai")


async def test_a_certificate_that_is_just_missing_ends_nobody_and_is_told(monkeypatch, no_files):
    monkeypatch.setattr(following, "LeaderTracker", Lease(Leader("s", "127.0.0.1:1", 1)))
    with capture_logs() as logs:
        listening = asyncio.create_task(
            anext(watch_sessions(None, lease_name="l", namespace="n", tls=no_files))
        )
        await eventually(lambda: len(logs) > 1 or listening.done(), what="it is tried again")
    assert not listening.done()
    assert str(no_files.ca) in logs[0]["reason"]
    listening.cancel()
    await asyncio.wait([listening])


async def test_a_server_without_its_certificate_says_which_file_it_lacks(no_files):
    with pytest.raises(CannotListen, match=f"{no_files.cert}|{no_files.ca}|{no_files.key}"):
        async with serve("127.0.0.1:0", [], tls=no_files):
            pass
