"""Who tells all that is known, and then what changes, begins anew, also after a stream broke, and says so."""

import pytest

from deadlines import within
from kai.model.ids import PodUid
from kai.model.verdicts import GroupVerdict
from kai.wire import following
from kai.wire.assignments import Assignment, AssignmentNews, encode_assignments, watch_assignments
from kai.wire.v1 import assignment_pb2_grpc, verdict_pb2_grpc
from kai.wire.verdicts import VerdictNews, encode_verdicts, watch_verdicts
from libs.tests.wire.speaking import Speaker
from libs.tests.wire.test_sessions import Lease

#: More than a message has.
ASSIGNMENTS = AssignmentNews(
    told=tuple(
        Assignment(uid=PodUid(f"u{n}"), namespace="team", name=f"p{n}", pod_group="g") for n in range(2001)
    )
)
VERDICTS = VerdictNews(
    told=tuple(
        GroupVerdict(pod_group=f"team/{n}", verdict="WAIT", code="OthersFirst", text="they are first")
        for n in range(501)
    )
)
STREAMS = {
    "assignments": (
        ASSIGNMENTS,
        encode_assignments,
        watch_assignments,
        assignment_pb2_grpc.AssignmentServiceServicer,
        assignment_pb2_grpc.add_AssignmentServiceServicer_to_server,
        "WatchAssignments",
    ),
    "verdicts": (
        VERDICTS,
        encode_verdicts,
        watch_verdicts,
        verdict_pb2_grpc.VerdictServiceServicer,
        verdict_pb2_grpc.add_VerdictServiceServicer_to_server,
        "WatchVerdicts",
    ),
}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("told", "encode", "watch", "servicer", "add", "method"), STREAMS.values(), ids=STREAMS
)
async def test_each_stream_begins_anew_and_only_its_first_message_says_so(
    monkeypatch, told, encode, watch, servicer, add, method
):
    speaker = Speaker(*encode(told))
    async with speaker.serving(servicer, add, method) as leader:
        monkeypatch.setattr(following, "LeaderTracker", Lease(leader))
        news = watch(None, namespace="n")
        async with within("two streams are heard"):
            first = [await anext(news) for _ in range(2)]
            speaker.end.set()
            second = [await anext(news) for _ in range(2)]
        await news.aclose()
    assert [each.anew for each in (*first, *second)] == [True, False, True, False]
    assert sum((each.told for each in second), ()) == told.told
