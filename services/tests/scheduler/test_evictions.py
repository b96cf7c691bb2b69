"""Evictions against an API server in trouble."""

import asyncio
import collections
import sys
from contextlib import asynccontextmanager

import msgspec
import pytest
from prometheus_client import CollectorRegistry, Counter

from kai.kube import errors
from kai.model.condition_texts import MOST_BYTES
from kai.model.decisions import Eviction, PodRef
from kai.model.objects import ObjectMeta, Pod
from kai_scheduler.evictions import PATIENCE_SECONDS, WORKERS, Evictor
from kai_scheduler.troubles import Troubles

pytestmark = pytest.mark.looptime


def of(name):
    return Eviction(
        pod=PodRef(uid=f"uid-{name}", namespace="default", name=name, pod_group="default/g"),
        action="preempt",
        evictor="default/new",
        message="preempted",
    )


VICTIM = of("victim")
BROKEN = errors.ServerError("failed calling webhook", status=500)
CONFLICT = errors.Conflict("the object has been modified", status=409)


class Server:
    """Answers deletions with what it is told, one after the other; the last answer stays.

    ``pods`` are those that are still there, by name; without any it cannot be asked about them.
    """

    def __init__(self, *answers, pods=None):
        self.answers = list(answers)
        self.pods = pods
        self.asked = []
        self.told = []

    async def patch(self, res, name, patch, **options):
        self.told += patch["status"]["conditions"]

    async def delete(self, res, name, *, namespace, uid):
        self.asked.append(name)
        await asyncio.sleep(1)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, dict):
            answer = answer.get(name)
        if answer is not None:
            raise answer

    async def get(self, res, name, *, namespace, type):  # noqa: A002 (as the client has it)
        await asyncio.sleep(1)
        if self.pods is None:
            raise errors.TransportError("connection broke")
        if name not in self.pods:
            raise errors.NotFound("gone", status=404)
        return Pod(metadata=self.pods[name])


@asynccontextmanager
async def evicting(
    server, *victims, counted=None, reasons=None, leads=lambda: True, set_condition=False, **options
):
    failed = []

    def note(eviction, reason):
        failed.append(eviction)
        if reasons is not None:
            reasons.append(reason)

    troubles = Troubles(Counter("cut_off", "failures", ("what",), registry=CollectorRegistry()))
    evictor = Evictor(
        server,
        through_api=False,
        set_condition=set_condition,
        evicted=counted.append if counted is not None else lambda eviction: None,
        failed=note,
        troubles=troubles,
        leads=leads,
        **options,
    )
    running = asyncio.create_task(evictor.run())
    collections.deque(map(evictor.offer, victims or (VICTIM,)), maxlen=0)  # a loop would hold the last
    try:
        yield evictor, failed, troubles
    finally:
        running.cancel()
        await asyncio.wait([running])


@pytest.mark.parametrize(
    "trouble",
    [
        errors.DeadlineExceeded("no answer"),
        errors.TransportError("connection broke"),
        errors.ServerError("etcdserver: request timed out", status=500),
    ],
)
@pytest.mark.parametrize("end", [None, errors.NotFound("gone", status=404)])
async def test_an_eviction_of_unknown_effect_is_asked_again_and_costs_no_other_pod_its_place(trouble, end):
    server = Server(trouble, trouble, trouble, end)
    async with evicting(server) as (evictor, failed, _):
        await evictor.drain()
    assert len(server.asked) == 4
    assert failed == []


async def test_a_leader_that_may_have_been_replaced_evicts_nobody_before_it_knows_better():
    server, leading = Server(None), asyncio.Event()
    async with evicting(server, leads=leading.is_set) as (evictor, failed, _):
        await asyncio.sleep(2 * PATIENCE_SECONDS)
        assert (server.asked, failed) == ([], [])
        leading.set()
        await evictor.drain()
    assert (server.asked, failed) == (["victim"], [])


async def test_why_a_pod_goes_is_told_with_the_time_without_which_kubernetes_takes_it_for_out_of_date():
    server = Server(None)
    async with evicting(server, set_condition=True, clock=lambda: 1_800_000_000.0) as (evictor, _, _):
        await evictor.drain()
    (condition,) = server.told
    assert (condition["type"], condition["status"]) == ("DisruptionTarget", "True")
    assert condition["lastTransitionTime"] == "2027-01-15T08:00:00Z"


async def test_a_victim_that_is_asked_about_is_not_taken_on_again():
    server = Server(errors.DeadlineExceeded("no answer"), None)
    async with evicting(server) as (evictor, failed, _):
        for _ in range(5):
            evictor.offer(VICTIM)
        await evictor.drain()
    assert (len(server.asked), failed) == (2, [])


async def test_an_eviction_that_the_server_refuses_is_told_with_its_reason():
    server, reasons = Server(errors.Forbidden("no", status=403)), []
    async with evicting(server, reasons=reasons) as (evictor, failed, _):
        await evictor.drain()
    assert (len(server.asked), failed) == (1, [VICTIM])
    assert reasons == ["no"]


async def test_an_eviction_that_is_done_is_held_by_nobody():
    before = sys.getrefcount(VICTIM)
    async with evicting(Server(None)) as (evictor, _, _):
        assert sys.getrefcount(VICTIM) > before
        await evictor.drain()
        await asyncio.sleep(1)
        assert sys.getrefcount(VICTIM) == before


async def test_pods_that_the_server_fails_to_evict_hold_up_nobody_else():
    """As where a webhook that has to be asked about them is down."""
    stuck = [of(f"stuck-{number}") for number in range(2 * WORKERS)]
    there = {each.pod.name: ObjectMeta(name=each.pod.name, uid=each.pod.uid) for each in stuck}
    server = Server({each.pod.name: BROKEN for each in stuck}, pods=there)
    async with evicting(server, *stuck, VICTIM) as (_, failed, _):
        await asyncio.sleep(10)
        assert server.asked.count("victim") == 1
        assert failed == []


async def test_one_that_the_server_fails_to_evict_for_long_is_given_up_and_told():
    meta = ObjectMeta(name="victim", uid=VICTIM.pod.uid)
    async with evicting(Server(BROKEN, pods={"victim": meta})) as (evictor, failed, troubles):
        began = asyncio.get_running_loop().time()
        await evictor.drain()
        assert PATIENCE_SECONDS <= asyncio.get_running_loop().time() - began < 3 * PATIENCE_SECONDS
        assert failed == [VICTIM]
        assert "default/victim: ServerError: failed calling webhook" in troubles.summary()


@pytest.mark.parametrize(
    "pods",
    [
        {},
        {"victim": ObjectMeta(name="victim", uid="another")},
        {"victim": ObjectMeta(name="victim", uid=VICTIM.pod.uid, deletion_timestamp="2026-01-01T00:00:00Z")},
    ],
    ids=["gone", "another of its name", "going"],
)
@pytest.mark.parametrize("trouble", [BROKEN, CONFLICT], ids=["fails", "conflicts"])
async def test_one_that_goes_after_all_is_not_given_up(pods, trouble):
    async with evicting(Server(trouble, pods=pods)) as (evictor, failed, troubles):
        await evictor.drain()
    assert (failed, troubles.summary()) == ([], None)


async def test_another_pod_of_its_name_is_not_asked_about_again():
    server = Server(CONFLICT, pods={"victim": ObjectMeta(name="victim", uid="another")})
    async with evicting(server) as (evictor, _, _):
        await evictor.drain()
    assert len(server.asked) == 1


async def test_where_somebody_else_wrote_to_the_pod_it_is_asked_again():
    server = Server(CONFLICT, None, pods={"victim": ObjectMeta(name="victim", uid=VICTIM.pod.uid)})
    async with evicting(server) as (evictor, failed, _):
        await evictor.drain()
    assert (len(server.asked), failed) == (2, [])


async def test_a_conflict_that_lasts_is_given_up_and_told():
    server = Server(CONFLICT, pods={"victim": ObjectMeta(name="victim", uid=VICTIM.pod.uid)})
    async with evicting(server) as (evictor, failed, troubles):
        await evictor.drain()
    assert failed == [VICTIM]
    assert "default/victim: Conflict: the object has been modified" in troubles.summary()


async def test_while_the_server_says_nothing_at_all_an_eviction_is_neither_done_nor_given_up():
    server = Server(errors.TransportError("connection broke"))
    async with evicting(server) as (evictor, failed, _):
        await asyncio.sleep(10 * PATIENCE_SECONDS)
        assert failed == []
        server.answers = [None]
        await evictor.drain()
    assert failed == []


REFUSED = errors.TooManyRequests("a disruption budget forbids it", status=429)
GONE = errors.NotFound("gone", status=404)


@pytest.mark.parametrize(
    ("answers", "pods", "goes"),
    [
        ([None], None, True),
        ([BROKEN, None], None, True),
        ([BROKEN, GONE], None, True),
        ([BROKEN, CONFLICT], {}, True),
        ([REFUSED], None, False),
        ([GONE], None, False),
        ([CONFLICT], {"victim": ObjectMeta(name="victim", uid="another")}, False),
        ([BROKEN], {"victim": ObjectMeta(name="victim", uid=VICTIM.pod.uid)}, False),
    ],
    ids=["done", "done at last", "gone after all", "gone", "refused", "went by itself", "another", "fails"],
)
async def test_only_who_goes_by_our_doing_counts_as_evicted(answers, pods, goes):
    counted = []
    async with evicting(Server(*answers, pods=pods), counted=counted) as (evictor, _, _):
        await evictor.drain()
    assert counted == [VICTIM] * goes


async def test_a_reason_of_any_length_is_told_as_far_as_conditions_go():
    server = Server(None)
    victim = msgspec.structs.replace(VICTIM, message="x" * 100_000)
    async with evicting(server, victim, set_condition=True) as (evictor, _, _):
        await evictor.drain()
    (condition,) = server.told
    assert len(condition["message"].encode()) == MOST_BYTES
