"""Sessions of which there is more to tell than a message may have."""

import pytest

from kai.model.decisions import Outcome, PodGroupOutcome
from kai.model.faults import Fault
from kai.wire.session_codec import SessionUpdate, decode_update, encode_update
from kai.wire.session_parts import joined_sessions, split_session
from kai.wire.v1.session_pb2 import WatchSessionsResponse

MOST = 1000


def a_session(*, version=7, groups=50, faults=50, **more):
    outcomes = tuple(
        PodGroupOutcome(
            pod_group=f"ns/g{number}",
            outcome=Outcome.UNSCHEDULABLE,
            message="no room",
            pod_messages={f"ns/p{number}": "no node has enough"},
        )
        for number in range(groups)
    )
    return SessionUpdate(
        version=version,
        epoch=3,
        opened_at=1.0,
        full=True,
        shard="default",
        outcomes=outcomes,
        forgotten=("ns/gone",),
        binds=2,
        faults=tuple(
            Fault(kind="Pod", key=f"ns/f{number}", uid="u", reason="InvalidObject", message="m")
            for number in range(faults)
        ),
        cured=(("Pod", "ns/well"),),
        capacity=(1.0, 2.0, 3.0),
        **more,
    )


async def joined(parts):
    async def messages():
        for part in parts:
            yield WatchSessionsResponse.FromString(part.SerializeToString())

    return [decode_update(message) async for message in joined_sessions(messages())]


@pytest.mark.parametrize("groups", [0, 1, 50])
async def test_a_session_arrives_as_it_was_in_parts_that_fit(groups):
    sessions = [a_session(version=version, groups=groups) for version in (7, 8)]
    parts = [part for each in sessions for part in split_session(encode_update(each), most=MOST)]
    assert len(parts) > len(sessions)
    assert max(part.ByteSize() for part in parts) <= MOST
    assert await joined(parts) == sessions


async def test_one_that_fits_is_one_message():
    session = a_session(groups=1, faults=1)
    (only,) = split_session(encode_update(session), most=MOST)
    assert not only.more
    assert await joined([only]) == [session]


async def test_one_that_broke_off_is_none():
    *parts, _ = split_session(encode_update(a_session()), most=MOST)
    assert await joined(parts) == []


def test_a_group_of_which_there_is_too_much_is_told_without_its_pods():
    found = PodGroupOutcome(
        pod_group="ns/g",
        outcome=Outcome.UNSCHEDULABLE,
        message="no room",
        pod_messages={f"ns/{number}": "x" * 100 for number in range(50)},
        invalid_pods=("ns/0",),
    )
    session = SessionUpdate(version=1, epoch=1, opened_at=0.0, outcomes=(found,))
    *_, last = split_session(encode_update(session), most=MOST)
    (told,) = decode_update(last).outcomes
    assert (told.message, told.pod_messages, told.invalid_pods) == ("no room", {}, ())
