"""The binder's side of the stream, against a scheduler that does what the test says."""

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc
import pytest
from structlog.testing import capture_logs

from deadlines import eventually, within
from kai.kube.leases import Leader
from kai.model.decisions import BindDecision, PodRef
from kai.wire.channel import TlsFiles
from kai.wire.decisions import (
    Assignment,
    DecisionBatch,
    InFlight,
    Result,
    ResultStatus,
    decode_batch,
    encode_batch,
)
from kai.wire.serving import MAX_REQUEST_BYTES, serve
from kai.wire.v1 import decision_pb2 as pb
from kai.wire.v1.decision_pb2_grpc import DecisionServiceServicer, add_DecisionServiceServicer_to_server
from kai_binder import link as link_module
from kai_binder.executor import Fence
from kai_binder.link import Link, Outbox

pytestmark = pytest.mark.integration


class Scheduler(DecisionServiceServicer):
    """Welcomes, then says what it is given and remembers what it hears."""

    def __init__(self, epoch=5, *, refuses=0, clock=0.0):
        self.epoch = epoch
        #: So many streams, before it leads.
        self.refuses = refuses
        #: What it reads from its clock; 0: it does not tell.
        self.clock = clock
        self.hellos = asyncio.Queue()
        self.results = asyncio.Queue()
        self.says = asyncio.Queue()

    async def Bind(self, request_iterator, context):
        first = await anext(aiter(request_iterator))
        self.hellos.put_nowait(first.hello)
        if self.refuses:
            self.refuses -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this scheduler does not lead")
        yield pb.BindResponse(welcome=pb.Welcome(epoch=self.epoch, scheduler_id="s", clock=self.clock))
        reader = asyncio.create_task(self.read(request_iterator))
        try:
            while (message := await self.says.get()) is not None:
                yield message
        finally:
            reader.cancel()

    async def read(self, requests):
        async for request in requests:
            for result in request.results.results:
                self.results.put_nowait(result)


class Tracker:
    def __init__(self, leader):
        self.leader = leader
        self.gone = asyncio.Event()

    async def present(self):
        return self.leader

    async def replaced(self, leader):
        await self.gone.wait()
        self.gone.clear()


class FakeExecutor:
    def __init__(self):
        self.started = asyncio.Queue()
        self.verdicts = asyncio.Queue()
        self.drops = 0
        self.in_flight = []

    def start(self, batch):
        self.started.put_nowait(batch)

    def verdict(self, *, bind, abandon):
        self.verdicts.put_nowait((list(bind), list(abandon)))

    async def drop(self):
        self.drops += 1
        return self.in_flight


class Bench:
    def __init__(self, scheduler, port, epoch):
        self.scheduler = scheduler
        self.fence, self.outbox, self.executor = Fence(), Outbox(), FakeExecutor()
        self.tracker = Tracker(Leader("s", f"127.0.0.1:{port}", epoch))
        self.now = 1_000.0
        self.link = Link(
            self.executor,
            self.outbox,
            fence=self.fence,
            binder_id="b",
            capacity=7,
            longest_bind=600,
            clock=lambda: self.now,
        )


@asynccontextmanager
async def a_bench(epoch=5, *, says=None, refuses=0, clock=0.0):
    """``epoch`` is that of the Lease, and of the scheduler unless it ``says`` another."""
    scheduler = Scheduler(says or epoch, refuses=refuses, clock=clock)

    def register(server):
        add_DecisionServiceServicer_to_server(scheduler, server)

    async with serve("127.0.0.1:0", [register], grace_seconds=0) as port:
        bench = Bench(scheduler, port, epoch)
        running = asyncio.create_task(bench.link.run(bench.tracker))
        try:
            async with within("the test is over"):
                yield bench
        finally:
            running.cancel()
            await asyncio.wait([running])


def a_batch(epoch=5, *, deadline=9e9):
    decision = BindDecision(pod=PodRef(uid="u", namespace="ns", name="p"), node="n")
    return DecisionBatch(
        epoch=epoch, deadline=deadline, assignments=(Assignment(decision_id="d", decision=decision),)
    )


def a_result(status):
    return Result(decision_id="d", pod_uid="u", status=status)


async def test_it_says_who_it_is_and_what_it_could_not_stop():
    in_flight = InFlight(decision_id="3-1", pod_uid="u", node="n", epoch=3)
    async with a_bench() as bench:
        bench.executor.in_flight = [in_flight]
        first = await bench.scheduler.hellos.get()
        assert (first.binder_id, first.capacity, first.epoch) == ("b", 7, 5)
        assert first.longest_bind_seconds == 600
        bench.tracker.gone.set()
        again = await bench.scheduler.hellos.get()
        assert [item.decision_id for item in again.in_flight] == ["3-1"]


async def test_decisions_and_verdicts_arrive_and_results_go_back():
    async with a_bench() as bench:
        bench.scheduler.says.put_nowait(pb.BindResponse(decisions=encode_batch(a_batch())))
        started = await bench.executor.started.get()
        assert started.assignments == decode_batch(encode_batch(a_batch())).assignments
        bench.scheduler.says.put_nowait(
            pb.BindResponse(verdict=pb.GangVerdict(epoch=5, bind=["d"], abandon=["e"]))
        )
        assert await bench.executor.verdicts.get() == (["d"], ["e"])
        bench.outbox.put(a_result(ResultStatus.BOUND))
        assert (await bench.scheduler.results.get()).status == pb.Result.STATUS_BOUND
        assert bench.link.connected_to == 5


async def test_results_of_which_there_is_more_to_tell_than_a_message_may_have_go_back():
    """As where a webhook refuses thousands of pods, and says at length why."""
    reason = "denied " * 1000
    async with a_bench() as bench:
        await bench.scheduler.hellos.get()
        for at in range(MAX_REQUEST_BYTES // len(reason) + 1):
            bench.outbox.put(replace(a_result(ResultStatus.FAILED), decision_id=f"d{at}", reason=reason))
        bench.outbox.put(a_result(ResultStatus.BOUND))
        while (result := await bench.scheduler.results.get()).status != pb.Result.STATUS_BOUND:
            assert result.reason == reason[: len(result.reason)]
            assert len(result.reason) > 1000


@pytest.mark.parametrize("ahead", [-3600.0, 0.0, 3600.0])
async def test_a_deadline_holds_however_clocks_differ_and_however_late_one_hears_of_it(ahead):
    clock = 1_000_000.0 + ahead
    async with a_bench(clock=clock) as bench:
        asked = bench.now
        await eventually(lambda: bench.link.connected_to)
        bench.now += 60.0  # as where a process was stopped, with the batch before its door
        bench.scheduler.says.put_nowait(
            pb.BindResponse(decisions=encode_batch(a_batch(deadline=clock + 30.0)))
        )
        assert (await bench.executor.started.get()).deadline == asked + 30.0


async def test_a_scheduler_that_does_not_tell_its_clock_is_taken_to_have_ours():
    async with a_bench() as bench:
        await eventually(lambda: bench.link.connected_to)
        batch = a_batch(deadline=time.time() + 3600.0)
        bench.scheduler.says.put_nowait(pb.BindResponse(decisions=encode_batch(batch)))
        assert (await bench.executor.started.get()).deadline == pytest.approx(bench.now + 3600.0, abs=600.0)


async def test_when_the_leader_is_replaced_everything_is_dropped_and_the_next_one_is_called():
    async with a_bench() as bench:
        await bench.scheduler.hellos.get()
        before = bench.executor.drops
        bench.tracker.gone.set()
        await bench.scheduler.hellos.get()
        assert bench.executor.drops >= before + 1


async def test_a_silent_scheduler_is_given_up(monkeypatch):
    monkeypatch.setattr(link_module, "SILENCE_SECONDS", 0.2)
    async with a_bench() as bench:
        await bench.scheduler.hellos.get()
        await bench.scheduler.hellos.get()


async def test_a_scheduler_whose_time_is_over_gets_no_work_done():
    async with a_bench(epoch=5) as bench:
        await bench.scheduler.hellos.get()
        bench.tracker.leader = replace(bench.tracker.leader, epoch=6)
        bench.tracker.gone.set()
        assert (await bench.scheduler.hellos.get()).epoch == 6
        bench.scheduler.says.put_nowait(pb.BindResponse(decisions=encode_batch(a_batch(5))))
        assert (await bench.scheduler.hellos.get()).epoch == 6  # called again in vain
        assert bench.executor.started.empty()
        assert bench.link.connected_to == 0


async def test_a_lease_that_was_restored_from_a_backup_counts_as_it_is():
    async with a_bench(epoch=9) as bench:
        assert (await bench.scheduler.hellos.get()).epoch == 9
        bench.scheduler.epoch = 5
        bench.tracker.leader = replace(bench.tracker.leader, epoch=5)
        bench.tracker.gone.set()
        assert (await bench.scheduler.hellos.get()).epoch == 5
        bench.scheduler.says.put_nowait(pb.BindResponse(decisions=encode_batch(a_batch(5))))
        assert (await bench.executor.started.get()).epoch == 5


GREATEST = 2**63 - 1


async def test_an_epoch_is_believed_only_from_the_lease():
    async with a_bench(epoch=5, says=GREATEST) as bench:
        for _ in range(2):  # called, not believed, and called again
            assert (await bench.scheduler.hellos.get()).epoch == 5
        assert (bench.fence.epoch, bench.link.connected_to) == (5, 0)
        bench.scheduler.epoch = 5
        await eventually(lambda: bench.link.connected_to == 5, what="it works for the leader")
        bench.scheduler.says.put_nowait(pb.BindResponse(decisions=encode_batch(a_batch(5))))
        assert (await bench.executor.started.get()).epoch == 5


@pytest.mark.parametrize("epoch", [4, 6, GREATEST])
async def test_decisions_and_verdicts_of_another_term_than_the_leases_are_not_carried_out(epoch):
    for lie in (
        pb.BindResponse(decisions=encode_batch(a_batch(epoch))),
        pb.BindResponse(verdict=pb.GangVerdict(epoch=epoch, bind=["d"])),
    ):
        async with a_bench(epoch=5) as bench:
            await bench.scheduler.hellos.get()
            bench.scheduler.says.put_nowait(lie)
            await bench.scheduler.hellos.get()  # the stream is given up
            assert bench.executor.started.empty()
            assert bench.executor.verdicts.empty()
            assert bench.fence.epoch == 5


async def test_between_two_streams_only_good_news_is_kept():
    outbox = Outbox()
    for status in ResultStatus:
        outbox.put(a_result(status))
    stream = outbox.begin()
    assert [result.status for result in await outbox.take(stream, patience=1)] == [ResultStatus.BOUND]
    assert await outbox.take(stream, patience=0.01) == []


async def test_what_is_still_read_for_a_stream_that_is_over_takes_nothing_from_the_next():
    outbox = Outbox()
    over = outbox.begin()
    reading = asyncio.create_task(outbox.take(over, patience=60))
    await asyncio.sleep(0)
    outbox.end()
    stream = outbox.begin()
    outbox.put(a_result(ResultStatus.FAILED))
    assert await reading is None
    assert await outbox.take(over, patience=60) is None
    assert await outbox.take(stream, patience=60) == [a_result(ResultStatus.FAILED)]


async def test_a_failure_right_after_the_scheduler_refused_us_is_told_to_it():
    async with a_bench(refuses=1) as bench:
        await eventually(lambda: bench.link.connected_to == 5, what="it works for the leader")
        bench.outbox.put(a_result(ResultStatus.FAILED))
        assert (await bench.scheduler.results.get()).status == pb.Result.STATUS_FAILED


async def test_a_certificate_that_is_just_missing_does_not_end_the_binder(tmp_path):
    files = TlsFiles(ca=tmp_path / "ca", cert=tmp_path / "crt", key=tmp_path / "key", namespace="kai")
    link = Link(FakeExecutor(), Outbox(), fence=Fence(), binder_id="b", capacity=7, tls=files)
    with capture_logs() as logs:
        running = asyncio.create_task(link.run(Tracker(Leader("s", "127.0.0.1:1", 5))))
        await eventually(lambda: len(logs) > 1 or running.done(), what="the scheduler is called again")
    assert not running.done()
    assert str(files.ca) in logs[0]["reason"]
    running.cancel()
    await asyncio.wait([running])
