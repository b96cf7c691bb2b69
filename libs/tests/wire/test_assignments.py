"""What a pod-grouper tells of groups is heard as it was said, by whoever follows who leads."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest
from structlog.testing import capture_logs

from deadlines import eventually, within
from kai.kube.leases import Leader
from kai.model.ids import PodUid
from kai.wire import following
from kai.wire.assignments import (
    Assignment,
    AssignmentNews,
    decode_assignments,
    encode_assignments,
    watch_assignments,
)
from kai.wire.errors import MalformedMessage
from kai.wire.serving import serve
from kai.wire.v1 import assignment_pb2 as pb
from kai.wire.v1.assignment_pb2_grpc import (
    AssignmentServiceServicer,
    add_AssignmentServiceServicer_to_server,
)
from libs.tests.wire.test_sessions import Lease


def an_assignment(number=1):
    return Assignment(
        uid=PodUid(f"u{number}"), namespace="team", name=f"p{number}", pod_group=f"pg-p{number}"
    )


def test_many_go_in_several_messages_of_which_none_says_more_than_it_has():
    told = tuple(map(an_assignment, range(4500)))
    news = AssignmentNews(told=told, forgotten=(PodUid("gone"),))
    parts = [decode_assignments(message) for message in encode_assignments(news)]
    assert [len(part.told) for part in parts] == [2000, 2000, 500]
    assert sum((part.told for part in parts), ()) == told
    assert sum((part.forgotten for part in parts), ()) == ("gone",)
    assert [decode_assignments(each) for each in encode_assignments(AssignmentNews())] == [AssignmentNews()]


@pytest.mark.parametrize("field", ["pod_uid", "namespace", "name", "pod_group"])
def test_an_assignment_that_leaves_something_out_is_told_by_pod_and_field(field):
    whole = {"pod_uid": "u", "namespace": "team", "name": "p", "pod_group": "g"}
    message = pb.Assignments(told=[pb.Assignment(**{**whole, field: ""})])
    with pytest.raises(MalformedMessage, match=rf"assignment of pod .*: {field} is empty"):
        decode_assignments(message)


class Grouper(AssignmentServiceServicer):
    """Says some things, and keeps the stream until it is told to end it."""

    def __init__(self, *messages):
        self.messages = messages
        self.end = asyncio.Event()

    async def WatchAssignments(self, request, context):
        for message in self.messages:
            yield message
        await self.end.wait()
        self.end.clear()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    @asynccontextmanager
    async def serving(self):
        register = lambda server: add_AssignmentServiceServicer_to_server(self, server)  # noqa: E731
        async with serve("127.0.0.1:0", [register], grace_seconds=0) as port:
            yield Leader("g", f"127.0.0.1:{port}", 1)


@pytest.mark.integration
async def test_each_stream_begins_anew_and_only_its_first_message_says_so(monkeypatch):
    told = AssignmentNews(told=tuple(map(an_assignment, range(2001))))
    grouper = Grouper(*encode_assignments(told))
    async with grouper.serving() as leader:
        monkeypatch.setattr(following, "LeaderTracker", Lease(leader))
        news = watch_assignments(None, namespace="n")
        async with within("two streams are heard"):
            first = [await anext(news) for _ in range(2)]
            grouper.end.set()
            second = [await anext(news) for _ in range(2)]
        await news.aclose()
    assert [each.anew for each in (*first, *second)] == [True, False, True, False]
    assert sum((each.told for each in second), ()) == told.told


@pytest.mark.integration
async def test_a_message_that_cannot_be_read_is_logged_and_the_stream_begun_anew(monkeypatch):
    grouper = Grouper(pb.Assignments(told=[pb.Assignment(pod_uid="u")]))
    async with grouper.serving() as leader:
        monkeypatch.setattr(following, "LeaderTracker", Lease(leader))
        news = watch_assignments(None, namespace="n")
        with capture_logs() as logs:
            listening = asyncio.create_task(anext(news))
            await eventually(lambda: logs, what="it is told")
            grouper.messages = tuple(encode_assignments(AssignmentNews(told=(an_assignment(),))))
            assert (await listening).told == (an_assignment(),)
        await news.aclose()
    assert logs[0]["event"] == "assignments cannot be read"
    assert "namespace is empty" in logs[0]["reason"]
