# ruff: noqa: A002 (the fakes have the signature of the client)
"""Elections among several electors over one Lease, in virtual time."""

import asyncio
import contextlib
import math
from collections import Counter

import msgspec
import pytest

from kai.kube import errors
from kai.kube.lease import LeaderElector, LeaseTimes
from kai.kube.leases import Lease
from kai.model import names
from kai.model.objects import ObjectMeta

pytestmark = pytest.mark.looptime


class FakeLeases:
    """A Lease behind compare-and-swap, as the API server keeps it; ``broken`` identities cannot
    reach it, ``ignored`` ones get no answer, ``late`` ones theirs some time after their write."""

    def __init__(self):
        self.lease = None
        self.version = 100
        self.broken = set()
        self.ignored = set()
        self.late = set()
        self.history = []
        self.written_at = 0.0

    def client(self, identity):
        return FakeClient(self, identity)

    def store(self, body):
        self.version += 1
        lease = msgspec.convert(body, Lease)
        lease.metadata.resource_version = str(self.version)
        self.lease = lease
        self.written_at = asyncio.get_running_loop().time()
        self.history.append(lease.spec.holder_identity)
        return msgspec.convert(msgspec.to_builtins(lease), Lease)


class FakeClient:
    def __init__(self, leases, identity):
        self.leases, self.identity = leases, identity

    async def answer(self):
        await asyncio.sleep(0.001)
        if self.identity in self.leases.broken:
            raise errors.TransportError("no route to host")
        if self.identity in self.leases.ignored:
            await asyncio.Event().wait()

    async def get(self, res, name, *, namespace, type):
        await self.answer()
        if self.leases.lease is None:
            raise errors.NotFound("not found", status=404)
        return msgspec.convert(msgspec.to_builtins(self.leases.lease), Lease)

    async def create(self, res, body, *, namespace, type):
        await self.answer()
        if self.leases.lease is not None:
            raise errors.AlreadyExists("exists", status=409)
        return self.leases.store(body)

    async def update(self, res, name, body, *, namespace, type, deadline):
        await self.answer()
        if self.leases.lease is None:
            raise errors.NotFound("not found", status=404)
        if body["metadata"]["resourceVersion"] != self.leases.lease.metadata.resource_version:
            raise errors.Conflict("changed", status=409)
        written = self.leases.store(body)
        await asyncio.sleep(1.0 if self.identity in self.leases.late else 0)
        return written


def an_elector(leases, identity, **more):
    return LeaderElector(leases.client(identity), "kai", "kai-scheduler", identity, **more)


async def settle(seconds=1.0):
    await asyncio.sleep(seconds)


class Candidate:
    """An elector that leads whenever it can, and writes down its terms."""

    def __init__(self, leases, identity, terms, **more):
        self.elector = an_elector(leases, identity, **more)
        self.terms = terms
        self.task = asyncio.create_task(self.elector.lead(self.work))

    async def work(self, term):
        self.terms.append((self.elector.identity, term.epoch))
        await asyncio.Event().wait()

    async def stop(self):
        self.task.cancel()
        await asyncio.wait([self.task])


async def test_who_was_stopped_for_longer_than_the_lease_lasts_holds_it_only_once_it_is_renewed():
    stopped_for = Counter()
    elector = an_elector(
        FakeLeases(), "a", clock=lambda: asyncio.get_running_loop().time() + stopped_for["seconds"]
    )
    assert not elector.holds
    async with elector.term():
        await settle()
        assert elector.holds
        stopped_for["seconds"] = 16
        assert not elector.holds
        await settle(5)
        assert elector.holds
    assert not elector.holds


async def test_the_first_to_come_leads_and_tells_epoch_address_and_release():
    leases = FakeLeases()
    elector = an_elector(leases, "a", endpoint="10.0.0.1:50051", version="1.2.3")
    async with elector.term() as term:
        assert elector.leading
        await settle()
        assert leases.lease.spec.holder_identity == "a"
        assert leases.lease.metadata.annotations == {
            names.ENDPOINT_ANNOTATION: "10.0.0.1:50051",
            names.EPOCH_ANNOTATION: str(term.epoch),
            names.VERSION_ANNOTATION: "1.2.3",
        }
    assert not elector.leading
    assert leases.lease.metadata.annotations == {}


async def test_only_one_of_many_leads():
    leases, terms = FakeLeases(), []
    candidates = [Candidate(leases, name, terms) for name in "abcde"]
    await settle(120)
    assert len(terms) == 1
    for candidate in candidates:
        await candidate.stop()


async def test_who_is_alone_leads_at_once_whoever_died_with_the_lease_and_fights_nobody_for_it():
    leases, terms = FakeLeases(), []
    dead = Candidate(leases, "dead", terms, alone=True)
    await settle()
    leases.broken.add("dead")
    second = Candidate(leases, "second", terms, alone=True)
    await settle()
    assert [identity for identity, _ in terms] == ["dead", "second"]
    leases.broken.clear()
    await settle(60)
    assert [identity for identity, _ in terms] == ["dead", "second"]
    assert terms[1][1] > terms[0][1]
    for candidate in (dead, second):
        await candidate.stop()


async def test_leaving_gives_the_lease_back_so_that_the_next_one_leads_soon():
    leases, terms = FakeLeases(), []
    first = Candidate(leases, "a", terms)
    await settle(5)
    second = Candidate(leases, "b", terms)
    await settle(5)
    await first.stop()
    await settle(2.1)
    assert [identity for identity, _ in terms] == ["a", "b"]
    assert terms[1][1] > terms[0][1]
    assert leases.lease.spec.lease_transitions == 1
    await second.stop()


async def test_leaving_amid_a_renewal_gives_the_lease_back_too():
    leases, writes = FakeLeases(), asyncio.Event()
    store = leases.store

    def stored(body):
        writes.set()
        return store(body)

    leases.store = stored
    async with an_elector(leases, "a").term():
        await settle(3)
        leases.late.add("a")
        writes.clear()
        await writes.wait()
        leases.late.clear()
    assert leases.lease.spec.holder_identity == ""


async def test_a_leader_that_lost_its_server_stops_before_another_one_starts():
    leases, terms = FakeLeases(), []
    loop = asyncio.get_running_loop()
    first = Candidate(leases, "a", terms)
    await settle(5)
    second = Candidate(leases, "b", terms)
    await settle(5)
    leases.broken.add("a")
    while first.elector.leading:
        assert not second.elector.leading
        await settle(0.1)
    stopped = loop.time()
    while not second.elector.leading:
        await settle(0.1)
    assert loop.time() - stopped > 1
    await first.stop()
    await second.stop()


async def test_losing_cancels_the_work_and_is_told():
    leases = FakeLeases()
    elector = an_elector(leases, "a")
    worked = []

    async def lead():
        async with elector.term():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                worked.append("cancelled")
                raise

    task = asyncio.create_task(lead())
    await settle(3)
    leases.store(
        {"metadata": {"name": "kai"}, "spec": {"holderIdentity": "thief", "leaseDurationSeconds": 15}}
    )
    with pytest.raises(errors.LeadershipLost, match="lease kai went to thief"):
        await task
    assert worked == ["cancelled"]
    assert leases.lease.spec.holder_identity == "thief"


async def test_work_that_goes_on_without_leadership_ends_the_process_before_others_lead(monkeypatch):
    leases, ended = FakeLeases(), []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr("kai.kube.lease.os._exit", lambda status: ended.append((status, loop.time())))
    elector = an_elector(leases, "a")

    async def lead():
        async with elector.term():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.sleep(60)  # as if it had never been cancelled

    task = asyncio.create_task(lead())
    await settle(3)
    leases.broken.add("a")
    while elector.leading and not ended:
        await settle(0.1)
    [(status, at)] = ended
    assert status == 1
    other = an_elector(leases, "b")
    async with other.term():
        assert loop.time() >= at
    with pytest.raises(errors.LeadershipLost):
        await task


async def test_work_is_told_how_long_it_has_to_end_in_where_the_loss_was_learned_late():
    leases, stopped_for, left = FakeLeases(), Counter(), []
    elector = an_elector(
        leases, "a", clock=lambda: asyncio.get_running_loop().time() + stopped_for["seconds"]
    )

    async def work(term):
        left.append(term.left())
        try:
            await asyncio.Event().wait()
        finally:
            left.append(term.left())

    task = asyncio.create_task(elector.lead(work))
    await settle()
    leases.broken.add("a")
    stopped_for["seconds"] = 16  # longer than the Lease lasts
    await settle(5)
    task.cancel()
    await asyncio.wait([task])
    assert left == [math.inf, pytest.approx(0.5)]


async def test_a_lease_deleted_under_the_leader_ends_its_term():
    leases = FakeLeases()
    elector = an_elector(leases, "a")

    async def lead():
        async with elector.term():
            await settle(3)
            leases.lease = None
            await asyncio.Event().wait()

    with pytest.raises(errors.LeadershipLost, match="deleted"):
        await lead()


async def test_a_write_by_a_bystander_does_not_end_the_term():
    leases = FakeLeases()
    async with an_elector(leases, "a").term():
        await settle(3)
        leases.lease.metadata.labels = {"touched": "yes"}
        leases.version += 1
        leases.lease.metadata.resource_version = str(leases.version)
        await settle(30)
        assert leases.lease.spec.holder_identity == "a"


async def test_an_error_of_the_work_comes_out_as_it_is_and_gives_the_lease_back():
    leases = FakeLeases()

    async def lead():
        async with an_elector(leases, "a").term():
            await settle(1)
            raise ValueError("defect")

    with pytest.raises(ValueError, match="defect"):
        await lead()
    assert leases.lease.spec.holder_identity == ""


async def test_a_short_outage_does_not_end_the_term():
    leases = FakeLeases()
    async with an_elector(leases, "a").term():
        await settle(3)
        leases.broken.add("a")
        await settle(6)
        leases.broken.clear()
        await settle(30)
    assert Counter(leases.history)["a"] > 5


async def test_an_own_lease_left_behind_is_taken_at_once_with_a_new_epoch():
    leases = FakeLeases()
    leases.store({"metadata": {"name": "kai"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}})
    before = leases.version
    began = asyncio.get_running_loop().time()
    async with an_elector(leases, "a").term() as term:
        assert term.epoch > before
    assert asyncio.get_running_loop().time() - began < 1


async def test_a_dead_holder_is_waited_for_by_our_own_clock():
    leases = FakeLeases()
    leases.store(
        {
            "metadata": {"name": "kai"},
            "spec": {
                "holderIdentity": "dead",
                "leaseDurationSeconds": 15,
                "renewTime": "2100-01-01T00:00:00.000000Z",
            },
        }
    )
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with an_elector(leases, "a").term():
        assert 15 < loop.time() - started < 20


def test_a_lease_decodes_with_unknown_fields():
    lease = msgspec.json.decode(
        b'{"kind":"Lease","metadata":{"name":"x"},"spec":{"strategy":"new"}}', type=Lease
    )
    assert lease.metadata == ObjectMeta(name="x")


async def test_a_leader_that_gets_no_answer_says_so():
    leases = FakeLeases()
    elector = an_elector(leases, "a")

    async def lead():
        async with elector.term():
            await settle(3)
            leases.ignored.add("a")
            await asyncio.Event().wait()

    with pytest.raises(errors.LeadershipLost, match=r"could not be renewed: no answer within 10 s"):
        await lead()


async def test_a_leader_whose_server_first_fails_and_then_hangs_stops_before_another_one_starts():
    leases = FakeLeases()
    loop = asyncio.get_running_loop()
    times = LeaseTimes()
    elector = an_elector(leases, "a", times=times)
    stopped = []

    async def lead():
        try:
            async with elector.term():
                await asyncio.Event().wait()
        finally:
            stopped.append(loop.time())

    task = asyncio.create_task(lead())
    await settle(5)
    leases.broken.add("a")
    while loop.time() - leases.written_at < times.renew_deadline - 0.5:
        await settle(0.1)
    leases.ignored.add("a")
    leases.broken.clear()
    with pytest.raises(errors.LeadershipLost):
        await task
    assert stopped[0] - leases.written_at < times.duration
