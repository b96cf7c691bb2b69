"""A scheduler that does not lead keeps its state current, and no larger than the cluster."""

import asyncio
from contextlib import asynccontextmanager

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Counter

from deadlines import eventually
from kai.bench.objects import a_group, a_node, a_pod, a_queue
from kai.engine import Engine
from kai.kube.reflector import Removed, Upserted
from kai.model import names
from kai.snapshot.changes import Changes
from kai.snapshot.state import ClusterState, Kind
from kai_scheduler.changes import ChangeQueue
from kai_scheduler.core import Core
from kai_scheduler.service import stand_by
from kai_scheduler.troubles import Troubles

#: More than there may be classes of pods that nobody is of any more.
MANY = 1500


class Standby:
    def __init__(self):
        self.state = ClusterState()
        self.core = Core(self.state, Engine())
        clock = asyncio.get_running_loop().time
        self.changes = ChangeQueue(scheduler_name="kai-scheduler", debounce=0.0, period=0.0, clock=clock)
        self.troubles = Troubles(Counter("cut_off", "failures", ("what",), registry=CollectorRegistry()))

    def put(self, kind, obj):
        self.changes.sink(kind)(Upserted(obj, False))

    def remove(self, kind, key, uid):
        self.changes.sink(kind)(Removed(key, uid, None))

    async def has(self, what, holds):
        await eventually(lambda: self.core.ask(holds), what=what)


@asynccontextmanager
async def standing_by():
    standby = Standby()
    running = asyncio.create_task(stand_by(standby.core, standby.changes, standby.troubles))
    try:
        yield standby
    finally:
        running.cancel()
        await asyncio.wait([running])
        standby.core.close()


async def test_what_came_and_went_leaves_nothing_behind():
    async with standing_by() as standby:
        away = a_group("away", queue="q")
        standby.put(Kind.NODE, a_node("n"))
        standby.put(Kind.QUEUE, a_queue("q"))
        standby.put(Kind.POD_GROUP, a_group("job", queue="q"))
        standby.put(
            Kind.POD_GROUP,
            replace(away, metadata=replace(away.metadata, labels={names.NODE_POOL_LABEL: "b"})),
        )
        standby.put(Kind.POD, a_pod("p", group="job"))
        await standby.has("all is there", lambda state: state.tasks and state.jobs)
        standby.remove(Kind.POD, "default/p", "default-p")
        standby.remove(Kind.POD_GROUP, "default/job", "job")
        standby.remove(Kind.POD_GROUP, "default/away", "away")
        await standby.has("all is gone", lambda state: not (state.tasks or state.jobs or state.elsewhere))
        await standby.has("nothing waits", lambda state: not (state.unsettled or state.gone_jobs))


async def test_kinds_of_pods_that_are_gone_are_forgotten():
    async with standing_by() as standby:
        kinds = [a_pod("p", spec={"node_selector": {"kind": str(number)}}) for number in range(MANY)]
        await standby.core.fold(Changes({Kind.NODE: {"n": a_node("n")}}))
        for pod in kinds:
            await standby.core.fold(Changes({Kind.POD: {"default/p": pod}}))
        standby.put(Kind.POD, kinds[0])
        await standby.has("few are left", lambda state: len(state.classes) < MANY / 2)


async def test_what_cannot_be_settled_is_told_and_the_state_kept_current(monkeypatch):
    async with standing_by() as standby:
        monkeypatch.setattr(standby.state, "settle", lambda now: 1 / 0)
        standby.put(Kind.POD, a_pod("p"))
        await eventually(standby.troubles.summary, lambda told: told and "ZeroDivisionError" in told)
        standby.put(Kind.POD, a_pod("q"))
        await standby.has("the next is there", lambda state: "default/q" in state.tasks_by_key)


async def test_whom_the_state_cannot_be_settled_for_is_named(monkeypatch):
    async with standing_by() as standby:

        def settle(now):
            for job in standby.state.jobs.values():
                raise ZeroDivisionError(job.name)

        monkeypatch.setattr(standby.state, "settle", settle)
        standby.put(Kind.POD_GROUP, a_group("odd", queue="q"))
        await eventually(standby.troubles.summary, lambda told: told and "PodGroup default/odd: Zero" in told)


async def test_who_begins_to_lead_forgets_no_group_that_nobody_was_told_of():
    async with standing_by() as standby:
        core = standby.core
        await core.fold(Changes({Kind.POD_GROUP: {"default/job": a_group("job", queue="q")}}))
        await core.fold(Changes({Kind.POD_GROUP: {"default/job": None}}))
        await core.settle(now=1.0)
        assert (await core.cycle(Changes(), now=2.0)).forgotten == ()
