"""State and engine behind one thread: bad objects, relists, and results of decisions."""

import asyncio
import threading

import pytest
import structlog

from deadlines import patience
from kai.model.decisions import CycleResult
from kai.model.faults import SET_ASIDE, Fault, OutOfBounds
from kai.model.objects import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from kai.snapshot.changes import Changes, Unread
from kai.snapshot.reports import BindDone, BindUnderWay
from kai.snapshot.state import ClusterState, Kind
from kai_scheduler.core import Core


class CountingEngine:
    """Decides nothing; tells how many pods it has seen."""

    def __init__(self):
        self.seen = []

    def run(self, state, now, *, usage=None, hurry=None):
        self.seen.append((sorted(state.tasks), now, usage))
        return CycleResult()


def a_pod(name):
    return Pod(
        metadata=ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}"),
        spec=PodSpec(scheduler_name="kai-scheduler"),
        status=PodStatus(phase="Pending"),
    )


def a_batch(*names, **more):
    return Changes(objects={Kind.POD: {f"ns/{name}": a_pod(name) for name in names}}, **more)


@pytest.fixture
def core():
    core = Core(ClusterState(), CountingEngine())
    yield core
    core.close()


async def test_a_cycle_sees_what_was_gathered(core):
    await core.fold(a_batch("a"))
    await core.cycle(a_batch("b"), now=5.0, usage={"q": (0.1, 0.2, 0.3)})
    assert core.engine.seen == [(["uid-a", "uid-b"], 5.0, {"q": (0.1, 0.2, 0.3)})]


async def test_what_is_gone_is_taken_out(core):
    await core.fold(a_batch("a", "b"))
    await core.fold(Changes(objects={Kind.POD: {"ns/a": None}}))
    await core.cycle(Changes(), now=0.0)
    assert core.engine.seen[-1][0] == ["uid-b"]


async def test_one_malformed_object_is_left_out_and_counted(core):
    batch = a_batch("good")
    broken = Node(metadata=ObjectMeta(name="n", uid="n"), status=NodeStatus(allocatable={"cpu": "lots"}))
    batch.objects[Kind.NODE] = {"n": broken}
    await core.cycle(batch, now=0.0)
    assert core.rejected == 1
    assert core.engine.seen[-1][0] == ["uid-good"]


def a_broken_node():
    return Node(metadata=ObjectMeta(name="n", uid="n"), status=NodeStatus(allocatable={"cpu": "lots"}))


async def faults_of(core):
    return await core.ask(lambda state: dict(state.faults))


async def test_an_object_that_cannot_be_taken_in_is_a_fault_with_kind_key_uid_and_reason(core):
    await core.fold(Changes(objects={Kind.NODE: {"n": a_broken_node()}}))
    (fault,) = (await faults_of(core)).values()
    assert (fault.kind, fault.key, fault.uid, fault.reason) == ("Node", "n", "n", "InvalidObject")
    assert "lots" in fault.message


async def test_a_fault_ends_when_the_object_is_taken_in_well_or_is_gone(core):
    await core.fold(Changes(objects={Kind.NODE: {"n": a_broken_node()}}))
    sound = Node(metadata=ObjectMeta(name="n", uid="n"), status=NodeStatus(allocatable={"cpu": "1"}))
    await core.fold(Changes(objects={Kind.NODE: {"n": sound}}))
    assert not await faults_of(core)
    await core.fold(Changes(objects={Kind.NODE: {"n": a_broken_node()}}))
    await core.fold(Changes(objects={Kind.NODE: {"n": None}}))
    assert not await faults_of(core)


async def test_a_value_out_of_its_bounds_is_one_warning_and_no_traceback(core):
    def refuse(kind, obj):
        raise OutOfBounds("spec.devices", 10**30, "at most 1024")

    await core.ask(lambda state: setattr(state, "apply", refuse))
    with structlog.testing.capture_logs() as logged:
        await core.fold(a_batch("a"))
        await core.fold(a_batch("a"))
    (line,) = logged
    assert line["log_level"] == "warning"
    assert (line["kind"], line["object"], line["field"], line["bound"]) == (
        "Pod", "ns/a", "spec.devices", "at most 1024",
    )  # fmt: skip
    (fault,) = (await faults_of(core)).values()
    assert fault.message == f"spec.devices is '{10**30}'; it must be at most 1024"


async def test_any_other_error_is_told_once_with_its_traceback(core):
    def fail(kind, obj):
        raise KeyError("nome")

    await core.ask(lambda state: setattr(state, "apply", fail))
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            await core.fold(a_batch("a"))
    (line,) = logged
    assert line["log_level"] == "error"
    assert line["exc_info"] is not None


async def test_a_relist_that_agrees_changes_nothing(core):
    await core.fold(a_batch("a", "b", pods_after_relist=frozenset({"uid-a", "uid-b"})))
    assert core.corrected == 0


async def test_a_pod_that_was_refused_is_not_missed_by_a_relist(core):
    pod = a_batch("a").objects[Kind.POD]["ns/a"]
    pod.spec.containers = [Container(resources=ResourceRequirements(requests={"cpu": "lots"}))]
    await core.fold(Changes(objects={Kind.POD: {"ns/a": pod}}, pods_after_relist=frozenset({"uid-a"})))
    assert core.corrected == 0
    assert len(await faults_of(core)) == 1


async def test_pods_that_a_relist_does_not_tell_are_taken_out_and_counted(core):
    await core.fold(a_batch("a", "b"))
    await core.cycle(Changes(pods_after_relist=frozenset({"uid-a"})), now=0.0)
    assert core.corrected == 1
    assert core.engine.seen[-1][0] == ["uid-a"]


async def test_results_of_decisions_are_applied_after_the_objects(core):
    await core.fold(a_batch("a", reports=[BindUnderWay("uid-a", "n")]))
    assert await core.ask(lambda state: state.tasks["uid-a"].facts.assumed_node) == "n"


async def test_whoever_a_cycle_failed_over_is_in_the_log_with_the_traceback(core):
    fault = Fault(kind="PodGroup", key="ns/g", uid="u", reason=SET_ASIDE, message="it failed")
    core.engine.run = lambda state, now, **_: CycleResult(faults=(fault,), setbacks=((fault, "trace"),))
    with structlog.testing.capture_logs() as logged:
        await core.cycle(Changes(), now=0.0)
    (line,) = logged
    assert (line["kind"], line["object"], line["traceback"]) == ("PodGroup", "ns/g", "trace")


async def test_a_result_that_cannot_be_taken_in_costs_the_others_nothing(core):
    broken = BindDone(["no uid"])
    with structlog.testing.capture_logs() as logged:
        await core.fold(a_batch("a", reports=[broken, BindUnderWay("uid-a", "n")]))
    assert [line["event"] for line in logged] == ["result of a decision cannot be taken in"]
    assert await core.ask(lambda state: state.tasks["uid-a"].facts.assumed_node) == "n"


async def test_an_error_of_the_engine_reaches_who_asked(core):
    def broken(state, now, *, usage=None, hurry=None):
        raise ZeroDivisionError

    core.engine.run = broken
    with pytest.raises(ZeroDivisionError):
        await core.cycle(Changes(), now=0.0)
    assert await core.ask(lambda state: len(state.tasks)) == 0


async def test_an_object_that_nobody_can_read_is_a_fault_and_keeps_what_was_known_of_it(core):
    await core.fold(a_batch("a"))
    await core.fold(Changes(objects={Kind.POD: {"ns/a": Unread("uid-a", "Number out of range")}}))
    (fault,) = (await faults_of(core)).values()
    assert (fault.kind, fault.key, fault.uid) == ("Pod", "ns/a", "uid-a")
    assert "Number out of range" in fault.message
    assert await core.ask(lambda state: sorted(state.tasks)) == ["uid-a"]
    await core.fold(a_batch("a"))
    assert not await faults_of(core)


class SlowEngine(CountingEngine):
    """Decides when it is let go on."""

    def __init__(self):
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def run(self, state, now, *, usage=None, hurry=None):
        self.begun.set()
        assert self.go_on.wait(patience())
        return super().run(state, now)


async def test_a_cycle_that_does_not_end_is_told_while_it_lasts():
    engine, clock = SlowEngine(), iter([100.0, 102.0, 134.0]).__next__
    core = Core(ClusterState(), engine, clock=clock)
    try:
        assert core.long_cycle() is None
        cycle = asyncio.create_task(core.cycle(Changes(), now=0.0))
        await asyncio.to_thread(engine.begun.wait, patience())
        assert core.long_cycle() is None
        assert core.long_cycle() == "a cycle has run for 34 s; nothing is decided meanwhile"
        engine.go_on.set()
        await cycle
        assert core.long_cycle() is None
    finally:
        engine.go_on.set()
        core.close()


class SearchingEngine:
    """Searches for victims for as long as nobody waits for the end of the cycle."""

    def __init__(self):
        self.searches = threading.Event()
        self.given_up = threading.Event()

    def run(self, state, now, *, usage=None, hurry=None):
        self.searches.set()
        while not hurry() and not self.given_up.wait(0.01):
            pass
        return CycleResult()


async def test_who_ends_does_not_wait_for_a_long_search():
    engine = SearchingEngine()
    core = Core(ClusterState(), engine)
    cycle = asyncio.create_task(core.cycle(Changes(), now=0.0, hurry=lambda: False))
    assert await asyncio.to_thread(engine.searches.wait, patience())
    cycle.cancel()  # as where the process is told to stop, or leads no longer
    late = threading.Timer(patience(), engine.given_up.set)
    late.start()
    core.close()
    late.cancel()
    assert not engine.given_up.is_set()
