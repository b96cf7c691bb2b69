"""What insight tells of pod groups that wait is heard as it was said, by whoever follows who leads."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest

from deadlines import within
from kai.kube.leases import Leader
from kai.model.verdicts import GroupVerdict
from kai.wire import following
from kai.wire.serving import serve
from kai.wire.v1.verdict_pb2_grpc import VerdictServiceServicer, add_VerdictServiceServicer_to_server
from kai.wire.verdicts import VerdictNews, encode_verdicts, watch_verdicts
from libs.tests.wire.test_sessions import Lease


def a_verdict(number):
    return GroupVerdict(pod_group=f"team/{number}", verdict="WAIT", code="OthersFirst", text="they are first")


class Insight(VerdictServiceServicer):
    """Says some things, and keeps the stream until it is told to end it."""

    def __init__(self, *messages):
        self.messages = messages
        self.end = asyncio.Event()

    async def WatchVerdicts(self, request, context):
        for message in self.messages:
            yield message
        await self.end.wait()
        self.end.clear()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    @asynccontextmanager
    async def serving(self):
        register = lambda server: add_VerdictServiceServicer_to_server(self, server)  # noqa: E731
        async with serve("127.0.0.1:0", [register], grace_seconds=0) as port:
            yield Leader("i", f"127.0.0.1:{port}", 1)


@pytest.mark.integration
async def test_each_stream_begins_anew_and_only_its_first_message_says_so(monkeypatch):
    told = VerdictNews(told=tuple(map(a_verdict, range(501))))
    insight = Insight(*encode_verdicts(told))
    async with insight.serving() as leader:
        monkeypatch.setattr(following, "LeaderTracker", Lease(leader))
        news = watch_verdicts(None, namespace="n")
        async with within("two streams are heard"):
            first = [await anext(news) for _ in range(2)]
            insight.end.set()
            second = [await anext(news) for _ in range(2)]
        await news.aclose()
    assert [each.anew for each in (*first, *second)] == [True, False, True, False]
    assert sum((each.told for each in second), ()) == told.told
