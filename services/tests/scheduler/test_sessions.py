"""Every watcher gets everything that it has not seen, once, in order."""

import asyncio
import dataclasses
import functools

import pytest

from deadlines import within
from kai.model.decisions import (
    BindDecision,
    CycleResult,
    Eviction,
    Nomination,
    Outcome,
    PodGroupOutcome,
    PodRef,
    QueueShare,
)
from kai.model.faults import Fault
from kai.wire.channel import MAX_MESSAGE_BYTES, open_channel
from kai.wire.serving import serve
from kai.wire.session_codec import decode_update
from kai.wire.session_parts import joined_sessions
from kai.wire.v1.session_pb2 import WatchSessionsRequest
from kai.wire.v1.session_pb2_grpc import SessionServiceStub, add_SessionServiceServicer_to_server
from kai_scheduler.servicers import SessionServicer
from kai_scheduler.sessions import KEPT, KEPT_BYTES, KEPT_SECONDS, SessionLog

ZERO = (0.0, 0.0, 0.0)


def a_share(queue="q", gpus=1.0):
    return QueueShare(
        queue=queue,
        display_name="",
        parent="",
        priority=1,
        deserved=ZERO,
        limit=ZERO,
        over_quota_weight=ZERO,
        fair_share=(0.0, 0.0, gpus),
        allocated=ZERO,
        allocated_non_preemptible=ZERO,
        requested=ZERO,
        usage=ZERO,
    )


def an_outcome(group="ns/g", message=""):
    return PodGroupOutcome(pod_group=group, outcome=Outcome.UNSCHEDULABLE, message=message)


def a_log(failed=lambda error: None):
    return SessionLog(epoch=5, shard="default", node_pool="", failed=failed)


def a_cycle(*outcomes, shares=(), binds=0, forgotten=()):
    pods = [PodRef(uid=str(n), namespace="ns", name=str(n)) for n in range(binds)]
    return CycleResult(
        outcomes=outcomes,
        forgotten=forgotten,
        shares=shares,
        binds=tuple(BindDecision(pod=pod, node="n") for pod in pods),
    )


async def read(log, count, *, after=0, epoch=0, **options):
    found = []
    async with within(f"{count} messages come"):
        async for message in log.watch(after_version=after, epoch=epoch, **options):
            found.append(message)
            if len(found) == count:
                return found
    return found


def test_that_no_queue_is_left_is_told_with_all_else():
    """Shares that are not there are shares that did not change."""
    log = a_log()
    log.record(a_cycle(an_outcome("ns/waits"), shares=(a_share(),)), opened_at=1.0)
    told = decode_update(log.record(a_cycle(an_outcome("ns/new")), opened_at=2.0))
    assert (told.full, told.shares) == (True, ())
    assert {outcome.pod_group for outcome in told.outcomes} == {"ns/waits", "ns/new"}
    assert log.record(a_cycle(), opened_at=3.0) is None


def test_the_first_session_is_published_even_if_empty():
    log = a_log()
    assert log.record(a_cycle(), opened_at=1.0).version == 1
    assert log.record(a_cycle(), opened_at=2.0) is None


def test_only_what_differs_is_published():
    log = a_log()
    log.record(a_cycle(an_outcome(), shares=(a_share(),)), opened_at=1.0)
    assert log.record(a_cycle(an_outcome(), shares=(a_share(),)), opened_at=2.0) is None
    changed = log.record(a_cycle(an_outcome(message="new"), shares=(a_share(),)), opened_at=3.0)
    assert [outcome.message for outcome in changed.outcomes] == ["new"]
    assert changed.shares.rows == 0
    assert log.record(a_cycle(shares=(a_share(gpus=2.0),)), opened_at=4.0).shares.rows == 1


def test_binds_are_always_news():
    log = a_log()
    log.record(a_cycle(), opened_at=1.0)
    assert log.record(a_cycle(binds=2), opened_at=2.0).binds == 2


def test_a_pod_that_goes_on_waiting_is_no_news():
    log = a_log()
    nomination = Nomination(pod=PodRef(uid="u", namespace="ns", name="p"), node="n")
    waiting = CycleResult(nominations=(nomination,))
    assert len(log.record(waiting, opened_at=1.0).nominations) == 1
    assert log.record(waiting, opened_at=2.0) is None
    log.record(CycleResult(), opened_at=3.0)
    assert len(log.record(waiting, opened_at=4.0).nominations) == 1


async def test_a_new_watcher_gets_everything_then_what_comes():
    log = a_log()
    log.record(a_cycle(an_outcome("ns/a")), opened_at=1.0)
    log.record(a_cycle(an_outcome("ns/b")), opened_at=2.0)
    reading = asyncio.ensure_future(read(log, 2))
    await asyncio.sleep(0)
    log.record(a_cycle(an_outcome("ns/c")), opened_at=3.0)
    full, update = await reading
    assert (full.full, full.version) == (True, 2)
    assert [outcome.pod_group for outcome in full.outcomes] == ["ns/a", "ns/b"]
    assert (update.full, update.version) == (False, 3)


async def test_a_watcher_that_comes_before_the_first_session_waits_for_it():
    log = a_log()
    reading = asyncio.ensure_future(read(log, 1))
    await asyncio.sleep(0)
    log.record(a_cycle(), opened_at=1.0)
    assert (await reading)[0].full


async def test_a_watcher_that_comes_back_gets_only_what_it_missed():
    log = a_log()
    for number in range(5):
        log.record(a_cycle(an_outcome(f"ns/{number}")), opened_at=1.0)
    messages = await read(log, 2, after=3, epoch=5)
    assert [(message.full, message.version) for message in messages] == [(False, 4), (False, 5)]


async def test_a_watcher_of_another_leader_starts_anew():
    log = a_log()
    for number in range(5):
        log.record(a_cycle(an_outcome(f"ns/{number}")), opened_at=1.0)
    assert (await read(log, 1, after=3, epoch=4))[0].full


async def test_who_records_gets_what_another_leader_did_from_its_first_session_on_while_that_is_kept():
    log = a_log()
    for number in range(3):
        log.record(a_cycle(an_outcome(f"ns/{number}"), binds=2), opened_at=1.0 + number)
    messages = await read(log, 3, after=9, epoch=4, from_first=True)
    assert [(each.full, each.version, each.binds) for each in messages] == [
        (False, 1, 2), (False, 2, 2), (False, 3, 2)
    ]  # fmt: skip
    messages = await read(log, 1, after=2, epoch=5, from_first=True)
    assert [each.version for each in messages] == [3]
    log.forget(now=1.5 + KEPT_SECONDS)
    (message,) = await read(log, 1, after=9, epoch=4, from_first=True)
    assert (message.full, message.version) == (True, 3)


async def test_who_tells_of_evictions_is_told_those_of_all_sessions_that_are_kept():
    log = a_log()

    def evict(name, *, at):
        pod = PodRef(uid=name, namespace="ns", name=name)
        log.record(CycleResult(evictions=(Eviction(pod=pod, action="reclaim", message=""),)), opened_at=at)

    evict("old", at=1.0)
    evict("a", at=20.0)
    log.record(a_cycle(binds=1), opened_at=30.0)
    evict("b", at=40.0)
    log.forget(now=2.0 + KEPT_SECONDS)
    (message,) = await read(log, 1, with_evictions=True)
    told = decode_update(message)
    assert (told.full, told.version, told.evictions) == (True, 4, ())
    assert [(version, [each.pod.name for each in gone]) for version, gone in told.kept] == [
        (2, ["a"]), (4, ["b"])
    ]  # fmt: skip
    assert not decode_update(log.everything()).kept
    (message,) = await read(log, 1, after=3, epoch=5, with_evictions=True)
    assert (message.full, len(message.evictions), len(message.kept)) == (False, 1, 0)


async def test_a_watcher_that_was_away_too_long_starts_anew():
    log = a_log()
    for number in range(KEPT + 10):
        log.record(a_cycle(an_outcome(message=str(number))), opened_at=1.0)
    (message,) = await read(log, 1, after=3, epoch=5)
    assert message.full
    assert len(message.outcomes) == 1


@pytest.mark.parametrize(("more", "full"), [(0, False), (1, True)])
async def test_who_comes_back_to_more_than_is_kept_of_sessions_is_told_everything(more, full):
    log = a_log()
    size = log.record(a_cycle(an_outcome("ns/g", "x" * (KEPT_BYTES // 5))), opened_at=1.0).ByteSize()
    for number in range(KEPT_BYTES // size + more):
        log.record(a_cycle(an_outcome(f"ns/{number % 10}", "x" * (KEPT_BYTES // 5))), opened_at=2.0)
    (first,) = await read(log, 1, after=1, epoch=5)
    assert first.full is full


async def test_who_comes_back_after_a_session_of_which_no_more_than_all_is_kept_is_told_everything():
    log = a_log()
    log.record(a_cycle(an_outcome("ns/a")), opened_at=1.0)
    log.record(a_cycle(an_outcome("ns/b", "x" * KEPT_BYTES)), opened_at=2.0)
    (first,) = await read(log, 1, after=1, epoch=5)
    assert (first.full, first.version) == (True, 2)
    log.record(a_cycle(an_outcome("ns/c")), opened_at=3.0)
    (first,) = await read(log, 1, after=2, epoch=5)
    assert (first.full, first.version) == (False, 3)


@pytest.mark.parametrize(("seconds", "full"), [(KEPT_SECONDS, False), (KEPT_SECONDS + 1, True)])
async def test_what_is_old_is_kept_for_nobody(seconds, full):
    log = a_log()
    for opened_at in (1.0, 1.0, 1.0, 1.0 + seconds):
        log.record(a_cycle(an_outcome(message=str(log.version))), opened_at=opened_at)
    messages = await read(log, 1 if full else 3, after=1, epoch=5)
    assert [(message.full, message.version) for message in messages] == (
        [(True, 4)] if full else [(False, 2), (False, 3), (False, 4)]
    )


async def test_what_is_old_is_dropped_though_nothing_new_comes():
    log = a_log()
    log.record(a_cycle(an_outcome("ns/a")), opened_at=1.0)
    log.record(a_cycle(an_outcome("ns/b")), opened_at=2.0)
    log.forget(now=1.0 + KEPT_SECONDS)
    assert [message.version for message in await read(log, 1, after=1, epoch=5)] == [2]
    log.forget(now=3.0 + KEPT_SECONDS)
    (message,) = await read(log, 1, after=1, epoch=5)
    assert (message.full, message.version, len(message.outcomes)) == (True, 2, 2)


async def test_groups_that_are_gone_are_forgotten():
    log = a_log()
    log.record(a_cycle(an_outcome("ns/a"), an_outcome("ns/b")), opened_at=1.0)
    told = log.record(a_cycle(forgotten=("ns/a", "ns/never-mentioned")), opened_at=2.0)
    assert list(told.forgotten) == ["ns/a"]
    assert [outcome.pod_group for outcome in log.everything().outcomes] == ["ns/b"]


async def test_a_group_made_anew_is_told_of_though_it_stands_as_the_one_before():
    log = a_log()
    log.record(a_cycle(an_outcome()), opened_at=1.0)
    told = decode_update(log.record(a_cycle(an_outcome(), forgotten=("ns/g",)), opened_at=2.0))
    assert (told.forgotten, told.outcomes) == (("ns/g",), (an_outcome(),))


async def test_all_watches_end_with_the_term():
    log = a_log()
    log.record(a_cycle(), opened_at=1.0)
    reading = asyncio.ensure_future(read(log, 2))
    await asyncio.sleep(0)
    log.close()
    assert len(await reading) <= 1


def a_fault(key="ns/p", message="spec.x is 7; it must be at most 6", kind="Pod"):
    return Fault(kind=kind, key=key, uid="u", reason="InvalidObject", message=message)


async def test_faults_are_told_when_they_begin_change_and_end_and_no_oftener():
    log = a_log()
    first, changed = a_fault(), a_fault(message="spec.x is 8; it must be at most 6")
    assert log.record(CycleResult(faults=(first,)), opened_at=1.0) is not None
    assert log.record(CycleResult(faults=(first,)), opened_at=2.0) is None
    assert log.record(CycleResult(faults=(changed,)), opened_at=3.0) is not None
    assert log.record(CycleResult(), opened_at=4.0) is not None
    updates = [decode_update(message) for message in await read(log, 3, after=0, epoch=5)]
    assert [update.faults for update in updates] == [(first,), (changed,), ()]
    assert [update.cured for update in updates] == [(), (), (("Pod", "ns/p"),)]


async def test_who_is_new_is_told_all_faults_that_stand():
    log = a_log()
    for number in range(3):
        faults = tuple(a_fault(f"ns/{each}") for each in range(number + 1))
        log.record(CycleResult(faults=faults), opened_at=1.0)
    (message,) = await read(log, 1)
    assert message.full
    assert [each.key for each in decode_update(message).faults] == ["ns/0", "ns/1", "ns/2"]


async def test_what_there_is_no_message_for_is_left_out_and_costs_nobody_the_rest():
    log = a_log()
    spoiled = dataclasses.replace(a_share("bad"), priority=2**40)
    log.record(a_cycle(an_outcome(), shares=(spoiled, a_share("good"))), opened_at=1.0)
    log.record(a_cycle(an_outcome("ns/other")), opened_at=2.0)
    for update in [decode_update(message) for message in (log.everything(), *await read(log, 1, epoch=5))]:
        assert [each.queue for each in update.shares] in (["good"], [])
        assert an_outcome() in update.outcomes


@pytest.mark.parametrize(
    ("told", "about"),
    [
        (a_cycle(an_outcome("ns/a"), an_outcome("ns/odd", message="\ud800")), "PodGroup ns/odd"),
        (a_cycle(shares=(a_share(), dataclasses.replace(a_share("odd"), priority=2**40))), "Queue odd"),
        (
            CycleResult(
                nominations=(Nomination(pod=PodRef(uid="u", namespace="ns", name="odd"), node="\ud800"),)
            ),
            "Pod ns/odd",
        ),
        (CycleResult(faults=(a_fault(), a_fault("odd", message="\ud800", kind="Node"))), "Node odd"),
    ],
    ids=["outcome", "share", "nomination", "fault"],
)
def test_whose_part_of_a_session_cannot_be_told_is_named(told, about):
    failures = []
    a_log(failures.append).record(told, opened_at=1.0)
    assert [failure.about for failure in failures] == [about]


async def test_after_an_update_that_could_not_be_made_everything_is_told(monkeypatch):
    log = a_log()
    log.record(a_cycle(an_outcome("ns/a")), opened_at=1.0)

    def broken(update):
        raise TypeError

    monkeypatch.setattr(log, "_encode", broken)
    with pytest.raises(TypeError):
        log.record(a_cycle(an_outcome("ns/b")), opened_at=2.0)
    monkeypatch.undo()
    (message,) = await read(log, 1, after=1, epoch=5)
    assert message.full
    assert {each.pod_group for each in decode_update(message).outcomes} == {"ns/a", "ns/b"}
    log.record(a_cycle(an_outcome("ns/c")), opened_at=3.0)
    (message,) = await read(log, 1, after=2, epoch=5)
    assert not message.full


def test_what_is_divided_is_told_when_it_changes_and_to_whoever_is_new():
    log = a_log()
    first, more = (8000.0, 1e9, 8.0), (16000.0, 2e9, 16.0)
    told = log.record(dataclasses.replace(a_cycle(), capacity=first), opened_at=1.0)
    assert decode_update(told).capacity == first
    assert log.record(dataclasses.replace(a_cycle(), capacity=first), opened_at=2.0) is None
    told = log.record(dataclasses.replace(a_cycle(binds=1), capacity=first), opened_at=3.0)
    assert decode_update(told).capacity is None
    told = log.record(dataclasses.replace(a_cycle(), capacity=more), opened_at=4.0)
    assert decode_update(told).capacity == more
    assert decode_update(log.everything()).capacity == more


@pytest.mark.integration
async def test_a_session_of_which_there_is_more_to_tell_than_a_message_may_have_is_heard():
    """As where many thousands of pod groups wait, and somebody connects who knows nothing yet."""
    log, text = a_log(), "x" * (MAX_MESSAGE_BYTES // 6)
    log.record(a_cycle(*(an_outcome(f"ns/{number}", text) for number in range(8))), opened_at=1.0)
    servicer = SessionServicer(None, None, None)
    servicer.log = log
    register = functools.partial(add_SessionServiceServicer_to_server, servicer)
    async with (
        serve("127.0.0.1:0", [register], grace_seconds=0) as port,
        open_channel(f"127.0.0.1:{port}") as channel,
        within("it is heard"),
    ):
        call = SessionServiceStub(channel).WatchSessions(WatchSessionsRequest())
        whole = decode_update(await anext(joined_sessions(call)))
    assert [each.pod_group for each in whole.outcomes] == [f"ns/{number}" for number in range(8)]
