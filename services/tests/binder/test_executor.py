"""What a binder does for its leader, and what it stops doing when that is gone."""

import asyncio

import pytest

from deadlines import within
from kai.kube.ranks import Rank
from kai.model.decisions import BindDecision, PodRef, ResourceType
from kai.model.objects import Pod
from kai.wire.decisions import BIND_SECONDS, Assignment, DecisionBatch, ResultStatus
from kai_binder import executor
from kai_binder.errors import BindFailed, GivenUp, Refused, Rejected
from kai_binder.executor import REFUSED_SECONDS, Executor, Fence
from kai_binder.work import Work

NOW = 1000.0


class FakeBinder:
    """Takes as long as the test lets it."""

    def __init__(self):
        self.log = []
        self.prepares = asyncio.Event()
        self.binds = asyncio.Event()
        self.marks = asyncio.Event()
        self.undoes = asyncio.Event()
        self.prepares.set()
        self.binds.set()
        self.marks.set()
        self.undoes.set()
        self.failure = None
        #: The node to which the pod of a failed bind turns out to be bound.
        self.bound_to = ""
        #: How often the API server still forbids it.
        self.refusals = 0
        self.running = self.most = 0
        #: Pods whose marking has begun, with the rank of its writes.
        self.marking = []
        #: Pods of which undoing has begun.
        self.undoing = []

    def is_ordinary(self, decision):
        return decision.resource_type is ResourceType.REGULAR

    async def prepare(self, decision):
        await self.prepares.wait()
        self._refuse()
        self.log.append(("prepared", decision.pod.name))
        if self.failure is not None:
            raise self.failure

        return Work(decision, Pod())

    async def check(self, decision, work):
        self.log.append(("checked", decision.pod.name))

    async def bind(self, decision):
        self.running += 1
        self.most = max(self.most, self.running)
        self.log.append(("binding", decision.pod.name))
        await asyncio.sleep(0)
        await self.binds.wait()
        self.running -= 1
        self._refuse()
        if self.failure is not None:
            raise self.failure
        self.log.append(("bound", decision.pod.name))

    def _refuse(self):
        if self.refusals:
            self.refusals -= 1
            raise Refused("forbidden")

    async def undo(self, decision):
        self.undoing.append(decision.pod.name)
        await self.undoes.wait()
        self.log.append(("undone", decision.pod.name))
        return self.bound_to

    async def after_bind(self, decision, *, rank):
        self.marking.append((decision.pod.name, rank))
        await self.marks.wait()
        self.log.append(("marked", decision.pod.name))

    async def tell_failed(self, decision, reason):
        self.log.append(("told", decision.pod.name))


class Bench:
    def __init__(self, *, binding_at_most=10, longest_bind=BIND_SECONDS):
        self.binder = FakeBinder()
        self.fence = Fence()
        self.results = asyncio.Queue()
        self.executor = Executor(
            self.binder,
            fence=self.fence,
            report=self.results.put_nowait,
            binding_at_most=binding_at_most,
            longest_bind=longest_bind,
            clock=lambda: NOW,
        )

    def start(self, *names, epoch=1, deadline=NOW + 1, fraction=False, prepare_only=False):
        kind = ResourceType.FRACTION if fraction else ResourceType.REGULAR
        assignments = tuple(
            Assignment(
                decision_id=f"id-{name}",
                prepare_only=prepare_only,
                decision=BindDecision(
                    pod=PodRef(uid=f"uid-{name}", namespace="ns", name=name), node="n", resource_type=kind
                ),
            )
            for name in names
        )
        self.executor.start(DecisionBatch(epoch=epoch, deadline=deadline, assignments=assignments))

    async def result(self):
        async with within("a result comes"):
            result = await self.results.get()
        return result.decision_id.removeprefix("id-"), result.status

    async def until(self, entry):
        async with within(f"{entry} is logged"):
            while entry not in self.binder.log:
                await asyncio.sleep(0)


@pytest.fixture
async def bench():
    return Bench()


async def test_an_ordinary_pod_is_bound_without_preparing(bench):
    bench.start("p")
    assert await bench.result() == ("p", ResultStatus.BOUND)
    await bench.until(("marked", "p"))
    assert bench.binder.log == [("binding", "p"), ("bound", "p"), ("marked", "p")]
    assert len(bench.executor) == 0


async def test_the_scheduler_hears_of_a_bind_before_the_pod_is_marked_and_the_end_waits_for_that(bench):
    bench.binder.marks.clear()
    bench.start("p")
    assert await bench.result() == ("p", ResultStatus.BOUND)
    assert await bench.executor.drop() == []
    ending = asyncio.create_task(bench.executor.finish())
    await asyncio.sleep(0)
    assert not ending.done()
    bench.binder.marks.set()
    async with within("all is done"):
        await ending
    assert ("marked", "p") in bench.binder.log


async def test_of_many_bound_pods_few_are_marked_at_once_and_all_in_the_end(bench, monkeypatch):
    monkeypatch.setattr(executor, "HURRIED", 12)
    bench.binder.marks.clear()
    names = [f"p{number:02}" for number in range(30)]
    bench.start(*names)
    for _ in names:
        assert (await bench.result())[1] is ResultStatus.BOUND
    await asyncio.sleep(0)
    assert len(bench.binder.marking) == executor.MARKING_AT_MOST
    bench.binder.marks.set()
    async with within("all are marked"):
        await bench.executor.finish()
    assert sorted(name for mark, name in bench.binder.log if mark == "marked") == names
    assert [name for name, _ in bench.binder.marking] == names
    # A line that is long is a reason to hurry.
    ranks = [rank for _, rank in bench.binder.marking]
    assert ranks == [Rank.NEWS] * 8 + [Rank.STATUS] * 11 + [Rank.NEWS] * 11


async def test_a_pod_that_is_bound_just_when_the_last_one_was_marked_is_marked_too(bench, monkeypatch):
    monkeypatch.setattr(executor, "MARKING_AT_MOST", 1)
    late = BindDecision(pod=PodRef(uid="u", namespace="ns", name="late"), node="n")
    marked = bench.binder.after_bind

    async def mark(decision, *, rank):
        await marked(decision, rank=rank)
        if decision is not late:
            asyncio.get_running_loop().call_soon(bench.executor._mark_soon, late)

    monkeypatch.setattr(bench.binder, "after_bind", mark)
    bench.start("p")
    await bench.until(("marked", "late"))


async def test_no_more_binds_at_once_than_told():
    bench = Bench(binding_at_most=3)
    bench.start(*(f"p{number}" for number in range(10)))
    for _ in range(10):
        await bench.result()
    assert bench.binder.most == 3


async def test_a_decision_that_is_dropped_before_it_began_leaves_nothing_and_may_come_again(bench):
    bench.start("p")
    assert await bench.executor.drop() == []
    assert len(bench.executor) == 0
    bench.start("p")
    assert await bench.result() == ("p", ResultStatus.BOUND)


async def test_the_same_decision_told_twice_is_executed_once(bench):
    bench.binder.binds.clear()
    bench.start("p")
    await bench.until(("binding", "p"))
    bench.start("p")
    bench.binder.binds.set()
    assert await bench.result() == ("p", ResultStatus.BOUND)
    assert bench.binder.log.count(("binding", "p")) == 1
    assert bench.results.empty()


async def test_a_decision_past_its_deadline_is_not_started(bench):
    bench.start("p", deadline=NOW - 1)
    assert await bench.result() == ("p", ResultStatus.REJECTED)
    assert bench.binder.log == []


async def test_a_decision_of_an_earlier_leader_is_not_started(bench):
    bench.fence.see(7)
    bench.start("p", epoch=6)
    assert await bench.result() == ("p", ResultStatus.REJECTED)
    assert bench.binder.log == []


async def test_a_leader_elected_while_preparing_ends_it_before_the_bind(bench):
    bench.binder.prepares.clear()
    bench.start("p", epoch=6, fraction=True)
    await asyncio.sleep(0)
    bench.fence.see(7)
    bench.binder.prepares.set()
    assert await bench.result() == ("p", ResultStatus.REJECTED)
    assert bench.binder.log == [("prepared", "p")]


async def test_a_failure_is_undone_told_and_reported(bench):
    bench.binder.failure = BindFailed("no device")
    bench.start("p", fraction=True)
    assert await bench.result() == ("p", ResultStatus.FAILED)
    assert bench.binder.log == [("prepared", "p"), ("undone", "p"), ("told", "p")]


async def test_what_is_given_up_is_undone_and_told_to_nobody_but_the_scheduler(bench):
    bench.binder.failure = GivenUp("its namespace goes")
    bench.start("p")
    assert await bench.result() == ("p", ResultStatus.REJECTED)
    assert bench.binder.log == [("binding", "p"), ("undone", "p")]


async def test_a_bind_that_turns_out_to_have_been_made_is_no_failure(bench):
    bench.binder.failure, bench.binder.bound_to = BindFailed("no answer"), "n"
    bench.start("p")
    assert await bench.result() == ("p", ResultStatus.BOUND)
    await bench.until(("marked", "p"))
    assert ("told", "p") not in bench.binder.log


async def test_a_pod_that_was_bound_elsewhere_meanwhile_does_not_say_that_its_bind_failed(bench):
    bench.binder.failure, bench.binder.bound_to = BindFailed("it is bound to node another"), "another"
    bench.start("p")
    assert await bench.result() == ("p", ResultStatus.FAILED)
    assert ("told", "p") not in bench.binder.log


async def test_a_defect_over_one_pod_is_told_and_reported_and_the_next_is_bound(bench):
    bench.binder.failure = ZeroDivisionError("of ours")
    bench.start("p")
    async with within("a result comes"):
        result = await bench.results.get()
    assert result.status is ResultStatus.FAILED
    assert "ZeroDivisionError: of ours" in result.reason
    assert ("told", "p") in bench.binder.log
    bench.binder.failure = None
    bench.start("q")
    assert await bench.result() == ("q", ResultStatus.BOUND)


@pytest.mark.looptime
@pytest.mark.parametrize("fraction", [False, True], ids=["binding", "preparing"])
async def test_a_refusal_that_passes_is_nobodys_business(bench, fraction):
    bench.binder.refusals = len(REFUSED_SECONDS)
    bench.start("p", deadline=NOW + 30, fraction=fraction)
    async with within("a result comes"):
        result = await bench.results.get()
    assert result.status is ResultStatus.BOUND
    assert ("told", "p") not in bench.binder.log


@pytest.mark.looptime
async def test_a_refusal_that_lasts_is_a_failure_and_others_are_bound_meanwhile():
    bench = Bench(binding_at_most=1)
    bench.binder.refusals = 1
    bench.start("p")
    await bench.until(("binding", "p"))
    bench.start("q")
    assert await bench.result() == ("q", ResultStatus.BOUND)

    bench.binder.refusals = 1000
    async with within("a result comes"):
        result = await bench.results.get()
    assert (result.status, result.node_at_fault) == (ResultStatus.FAILED, False)
    assert bench.binder.log.count(("told", "p")) == 1


@pytest.mark.looptime
async def test_what_was_refused_is_dropped_with_its_leader(bench):
    bench.binder.refusals = 1
    bench.start("p")
    await bench.until(("binding", "p"))
    await asyncio.sleep(REFUSED_SECONDS[0] / 2)
    assert await bench.executor.drop() == []
    assert len(bench.executor) == 0


async def test_a_pod_that_is_gone_needs_nothing_undone(bench):
    bench.binder.failure = Rejected("gone")
    bench.start("p")
    assert await bench.result() == ("p", ResultStatus.REJECTED)
    assert bench.binder.log == [("binding", "p")]


async def test_a_defect_in_one_bind_does_not_stop_the_others(bench):
    bench.binder.failure = ZeroDivisionError()
    bench.start("p")
    assert await bench.result() == ("p", ResultStatus.FAILED)
    bench.binder.failure = None
    bench.start("q")
    assert await bench.result() == ("q", ResultStatus.BOUND)


# --- gangs -------------------------------------------------------------------------------------
async def test_a_prepared_pod_waits_for_the_verdict(bench):
    bench.start("p", "q", fraction=True, prepare_only=True)
    assert {await bench.result(), await bench.result()} == {
        ("p", ResultStatus.PREPARED),
        ("q", ResultStatus.PREPARED),
    }
    bench.executor.verdict(bind=["id-p"], abandon=["id-q", "unknown"])
    assert {await bench.result(), await bench.result()} == {
        ("p", ResultStatus.BOUND),
        ("q", ResultStatus.FAILED),
    }
    assert ("undone", "q") in bench.binder.log
    assert ("undone", "p") not in bench.binder.log


@pytest.mark.parametrize(
    ("fraction", "prepare_only", "long_ago", "checked"),
    [
        (True, False, 0.0, True),
        (False, True, 0.0, True),
        (False, False, 0.0, False),
        (True, True, 5.0, False),
    ],
    ids=["it was prepared", "its gang was", "nothing was", "it took no time"],
)
async def test_what_took_long_is_looked_at_once_more_before_the_bind(
    bench, monkeypatch, fraction, prepare_only, long_ago, checked
):
    monkeypatch.setattr(executor, "LONG_SECONDS", long_ago)
    bench.start("p", fraction=fraction, prepare_only=prepare_only)
    if prepare_only:
        assert await bench.result() == ("p", ResultStatus.PREPARED)
        bench.executor.verdict(bind=["id-p"], abandon=[])
    assert await bench.result() == ("p", ResultStatus.BOUND)
    before_bind = bench.binder.log[: bench.binder.log.index(("binding", "p"))]
    assert (("checked", "p") in before_bind) is checked


@pytest.mark.looptime
async def test_a_prepared_pod_waits_for_as_long_as_preparing_another_of_its_gang_may_take():
    bench = Bench(longest_bind=1000)
    bench.start("p", fraction=True, prepare_only=True)
    assert await bench.result() == ("p", ResultStatus.PREPARED)
    await asyncio.sleep(1050)
    bench.executor.verdict(bind=["id-p"], abandon=[])
    assert await bench.result() == ("p", ResultStatus.BOUND)


async def test_a_verdict_that_comes_while_still_preparing_counts(bench):
    bench.binder.prepares.clear()
    bench.start("p", fraction=True, prepare_only=True)
    await asyncio.sleep(0)
    bench.executor.verdict(bind=[], abandon=["id-p"])
    bench.binder.prepares.set()
    assert await bench.result() == ("p", ResultStatus.PREPARED)
    assert await bench.result() == ("p", ResultStatus.FAILED)


# --- the leader is lost ------------------------------------------------------------------------
async def test_what_has_not_reached_its_bind_is_dropped_as_it_is(bench):
    bench.binder.prepares.clear()
    bench.start("preparing", fraction=True)
    bench.start("prepared", fraction=True, prepare_only=True)
    await asyncio.sleep(0)
    assert await bench.executor.drop() == []
    assert bench.results.empty()
    assert bench.binder.log == []
    assert len(bench.executor) == 0


async def test_a_bind_call_is_carried_to_its_end_and_told_to_the_next_leader(bench):
    bench.binder.binds.clear()
    bench.start("p")
    await bench.until(("binding", "p"))
    (in_flight,) = await bench.executor.drop()
    assert (in_flight.decision_id, in_flight.pod_uid, in_flight.node) == ("id-p", "uid-p", "n")
    bench.binder.binds.set()
    assert await bench.result() == ("p", ResultStatus.BOUND)


async def test_a_bind_that_fails_after_the_leader_is_lost_undoes_nothing(bench):
    bench.binder.binds.clear()
    bench.start("p")
    await bench.until(("binding", "p"))
    await bench.executor.drop()
    bench.binder.failure = BindFailed("no")
    bench.binder.binds.set()
    assert await bench.result() == ("p", ResultStatus.FAILED)
    assert ("undone", "p") not in bench.binder.log


async def test_what_is_undone_after_its_bind_failed_is_dropped_as_it_is(bench):
    """Another binder may have the decision by then, and need what would be taken away."""
    bench.binder.failure = BindFailed("no answer")
    bench.binder.undoes.clear()
    bench.start("p")
    async with within("undoing has begun"):
        while bench.binder.undoing != ["p"]:
            await asyncio.sleep(0)
    assert await bench.executor.drop() == []
    bench.binder.undoes.set()
    await bench.executor.finish()
    assert bench.binder.log == [("binding", "p")]


async def test_at_the_end_of_the_process_begun_binds_are_awaited(bench):
    bench.binder.binds.clear()
    running = asyncio.ensure_future(bench.executor.run())
    bench.start("p")
    await bench.until(("binding", "p"))
    running.cancel()
    await asyncio.sleep(0)
    assert not running.done()
    bench.binder.binds.set()
    await asyncio.wait([running])
    assert await bench.result() == ("p", ResultStatus.BOUND)
