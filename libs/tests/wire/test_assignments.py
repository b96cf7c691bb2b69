"""What a pod-grouper tells of groups is heard as it was said, by whoever follows who leads."""

import asyncio

import pytest
from structlog.testing import capture_logs

from deadlines import eventually
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
from kai.wire.v1 import assignment_pb2 as pb
from kai.wire.v1.assignment_pb2_grpc import (
    AssignmentServiceServicer,
    add_AssignmentServiceServicer_to_server,
)
from libs.tests.wire.speaking import Speaker
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


@pytest.mark.integration
async def test_a_message_that_cannot_be_read_is_logged_and_the_stream_begun_anew(monkeypatch):
    grouper = Speaker(pb.Assignments(told=[pb.Assignment(pod_uid="u")]))
    async with grouper.serving(
        AssignmentServiceServicer, add_AssignmentServiceServicer_to_server, "WatchAssignments"
    ) as leader:
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
