"""The leader's side of a binder's stream, where what comes of it cannot be taken in."""

import asyncio
import functools
from contextlib import asynccontextmanager

import grpc
import pytest
from prometheus_client import CollectorRegistry, Counter

from deadlines import eventually, within
from kai.model.decisions import BindDecision, PodRef
from kai.wire.channel import MAX_MESSAGE_BYTES, open_channel
from kai.wire.decisions import SILENCE_SECONDS, Result, ResultStatus, decode_batch, encode_results
from kai.wire.serving import serve
from kai.wire.v1 import decision_pb2 as pb
from kai.wire.v1.decision_pb2_grpc import DecisionServiceStub, add_DecisionServiceServicer_to_server
from kai_scheduler.decisions import WAITING_AT_MOST, BinderStreams, DecisionServicer
from kai_scheduler.dispatch import DECISION_SECONDS, Dispatcher, Settled
from kai_scheduler.steady import steady
from kai_scheduler.troubles import Troubles

PODS = ("a", "bad", "c")


class Aborted(Exception):
    """As gRPC ends a call that a servicer will not serve."""


class Context:
    async def abort(self, code, details):
        raise Aborted(code, details)


class Term:
    """A leader to whose decisions something happens, and one binder that works for it."""

    def __init__(self, ended):
        self.troubles = Troubles(Counter("cut_off", "failures", ("what",), registry=CollectorRegistry()))
        self.streams = BinderStreams(
            epoch=1, identity="s", clock=lambda: 1_000_000.0, ended=ended, troubles=self.troubles
        )
        self.says: asyncio.Queue[pb.BindRequest | None] = asyncio.Queue()
        self.assignments = []
        self.batches = []
        self.clock = None

    async def requests(self):
        while (request := await self.says.get()) is not None:
            yield request

    async def listen(self):
        """Be the binder, until the stream ends."""
        async for message in self.streams.serve(self.requests(), Context()):
            if message.HasField("welcome"):
                self.clock = message.welcome.clock
            if message.HasField("decisions"):
                self.batches.append(decode_batch(message.decisions))
                self.assignments += self.batches[-1].assignments

    def tell(self, *results):
        self.says.put_nowait(pb.BindRequest(results=encode_results(results)))


@asynccontextmanager
async def a_term(ended):
    term = Term(ended)
    term.says.put_nowait(pb.BindRequest(hello=pb.Hello(binder_id="b", capacity=10)))
    listening = asyncio.create_task(term.listen())
    await eventually(lambda: term.streams.binders == 1)
    decisions = [
        BindDecision(pod=PodRef(uid=f"uid-{pod}", namespace="ns", name=pod, pod_group=""), node="n1")
        for pod in PODS
    ]
    term.streams.decide(decisions, needs_preparation=lambda _: False, is_gang=lambda _: False)
    await eventually(lambda: len(term.assignments) == len(PODS))
    try:
        yield term
    finally:
        term.says.put_nowait(None)
        await listening


def bound(assignment):
    return Result(
        decision_id=assignment.decision_id, pod_uid=assignment.decision.pod.uid, status=ResultStatus.BOUND
    )


async def test_a_result_that_cannot_be_told_on_keeps_back_none_of_the_others():
    told = []

    def ended(end):
        assert isinstance(end, Settled)
        if end.decision.pod.name == "bad":
            raise ZeroDivisionError("a defect")
        told.append(end.decision.pod.name)

    async with a_term(ended) as term:
        term.tell(*map(bound, term.assignments))
        await eventually(lambda: told == ["a", "c"])
        assert term.streams.binders == 1
        assert "decision failed 1 times" in term.troubles.summary()
        assert "ns/bad: ZeroDivisionError: a defect" in term.troubles.summary()


async def test_how_long_binds_of_a_binder_may_take_is_heard(monkeypatch):
    heard = []
    connect = Dispatcher.connect

    def connecting(dispatcher, binder, *, longest_bind, **others):
        heard.append((binder, longest_bind))
        return connect(dispatcher, binder, longest_bind=longest_bind, **others)

    monkeypatch.setattr(Dispatcher, "connect", connecting)
    async with a_term(lambda end: None) as term:
        slow = Term(lambda end: None)
        hello = pb.Hello(binder_id="slow", capacity=10, longest_bind_seconds=600)
        slow.says.put_nowait(pb.BindRequest(hello=hello))
        slow.says.put_nowait(None)
        slow.streams = term.streams
        await slow.listen()
    assert heard == [("b", 0), ("slow", 600)]


async def test_results_that_nobody_can_take_in_end_the_stream_and_are_told(monkeypatch):
    async with a_term(lambda end: None) as term:

        def broken(*_, **__):
            raise ZeroDivisionError("a defect")

        monkeypatch.setattr("kai_scheduler.dispatch.Dispatcher.results", broken)
        term.tell(bound(term.assignments[0]))
        await eventually(lambda: term.streams.binders == 0)
        assert "results of a binder failed 1 times" in term.troubles.summary()
        assert "b: ZeroDivisionError" in term.troubles.summary()


@pytest.mark.looptime
async def test_what_a_binder_had_that_died_while_it_was_told_is_for_the_others():
    """gRPC holds on to the message for it, and asks its stream for no other."""
    now = 1_000_000.0
    term = Term(lambda end: None)
    term.streams = BinderStreams(
        epoch=1, identity="s", clock=lambda: now, ended=lambda end: None, troubles=term.troubles
    )
    term.says.put_nowait(pb.BindRequest(hello=pb.Hello(binder_id="dead", capacity=10)))
    told = term.streams.serve(term.requests(), Context())
    assert (await anext(told)).HasField("welcome")
    message = asyncio.create_task(anext(told))
    await eventually(lambda: term.streams.binders == 1)
    decision = BindDecision(pod=PodRef(uid="uid-a", namespace="ns", name="a", pod_group=""), node="n1")
    term.streams.decide([decision], needs_preparation=lambda _: False, is_gang=lambda _: False)
    assert (await message).HasField("decisions")  # and nobody asks for what comes after it

    now += SILENCE_SECONDS + 1
    ticking = asyncio.create_task(term.streams.run())
    await eventually(lambda: term.streams.binders == 0)
    other = Term(lambda end: None)
    other.streams = term.streams
    other.says.put_nowait(pb.BindRequest(hello=pb.Hello(binder_id="other", capacity=10)))
    listening = asyncio.create_task(other.listen())
    await eventually(lambda: [each.decision for each in other.assignments] == [decision])
    for task in (ticking, listening):
        task.cancel()
    await asyncio.gather(ticking, listening, return_exceptions=True)
    await told.aclose()


@pytest.mark.looptime
async def test_who_connects_and_says_nothing_is_not_waited_for():
    term = Term(lambda end: None)
    began = asyncio.get_running_loop().time()
    with pytest.raises(Aborted) as aborted:
        await term.listen()
    assert aborted.value.args[0] is grpc.StatusCode.DEADLINE_EXCEEDED
    assert asyncio.get_running_loop().time() - began == pytest.approx(SILENCE_SECONDS, abs=1)


async def test_a_binder_is_told_by_which_clock_its_deadlines_are_meant():
    async with a_term(lambda end: None) as term:
        assert [batch.deadline - term.clock for batch in term.batches] == [DECISION_SECONDS]


@pytest.mark.looptime
async def test_a_binder_that_falls_silent_is_lost_as_soon_though_the_clock_was_put_back():
    wall, passed = 1_000_000.0, 0.0
    term = Term(lambda end: None)
    term.streams = BinderStreams(
        epoch=1,
        identity="s",
        clock=steady(lambda: wall, monotonic=lambda: passed),
        ended=lambda end: None,
        troubles=term.troubles,
    )
    term.says.put_nowait(pb.BindRequest(hello=pb.Hello(binder_id="b", capacity=10)))
    running = [asyncio.create_task(each) for each in (term.listen(), term.streams.run())]
    await eventually(lambda: term.streams.binders == 1)
    wall -= 3600.0
    passed += SILENCE_SECONDS + 1
    await eventually(lambda: term.streams.binders == 0)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


# --- of which there is much to tell -------------------------------------------------------------------
#: The most that a claim may configure: 32 times 10 KiB.
_CONFIGURED = [{"opaque": {"driver": "d", "parameters": {"x": "x" * (10 << 10)}}}] * 32


def a_pod_decision(pod, *, config=()):
    claims = ({"name": "c", "allocation": {"devices": {"config": list(config)}}},) if config else ()
    return BindDecision(
        pod=PodRef(uid=f"uid-{pod}", namespace="ns", name=pod, pod_group=""),
        node="n1",
        claim_allocations=claims,
    )


def give_out(term, decisions):
    term.streams.decide(decisions, needs_preparation=lambda _: False, is_gang=lambda _: False)


@pytest.mark.integration
async def test_decisions_of_which_there_is_more_to_tell_than_a_message_may_have_keep_no_other_back():
    ended = []
    term = Term(ended.append)
    servicer = DecisionServicer()
    servicer.term = term.streams
    register = functools.partial(add_DecisionServiceServicer_to_server, servicer)
    term.says.put_nowait(pb.BindRequest(hello=pb.Hello(binder_id="b", capacity=10)))
    much = [a_pod_decision(f"large-{at}", config=_CONFIGURED) for at in range(215)]
    too_much = a_pod_decision("too-large", config=_CONFIGURED * (MAX_MESSAGE_BYTES // (320 << 10)))
    heard = {}
    async with (
        serve("127.0.0.1:0", [register], grace_seconds=0) as port,
        open_channel(f"127.0.0.1:{port}") as channel,
        within("the ordinary one is heard"),
    ):
        call = DecisionServiceStub(channel).Bind(term.requests())
        await eventually(lambda: term.streams.binders == 1)
        give_out(term, [*much, too_much, a_pod_decision("ordinary")])
        async for message in call:
            if message.HasField("decisions"):
                batch = decode_batch(message.decisions)
                heard |= {each.decision.pod.name: each.decision for each in batch.assignments}
            if "ordinary" in heard:
                break
        call.cancel()
    assert heard == {each.pod.name: each for each in (*much, a_pod_decision("ordinary"))}
    [refused] = ended
    assert (refused.decision.pod.name, refused.bound) == ("too-large", False)
    assert "a message may have 64 MiB" in refused.reason


async def test_one_decision_of_many_that_cannot_be_told_does_not_cut_off_the_binder():
    """Not even where there are more of them than messages may wait for it."""
    ended = []
    async with a_term(ended.append) as term:
        bad = BindDecision(
            pod=PodRef(uid="uid-x", namespace="ns", name="line\nbreak", pod_group=""), node="n1"
        )
        good = [a_pod_decision(f"p{at}") for at in range(WAITING_AT_MOST + 1)]
        give_out(term, [*good, bad])
        await eventually(lambda: len(term.assignments) == len(PODS) + len(good))
        assert [each.decision for each in ended] == [bad]
        assert term.streams.binders == 1
