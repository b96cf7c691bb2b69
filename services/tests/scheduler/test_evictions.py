"""Evictions against an API server in trouble."""

import asyncio
import sys
from contextlib import asynccontextmanager

import pytest

from kai.kube import errors
from kai.model.decisions import Eviction, PodRef
from kai_scheduler.evictions import Evictor

pytestmark = pytest.mark.looptime

VICTIM = Eviction(
    pod=PodRef(uid="u", namespace="default", name="victim", pod_group="default/g"),
    action="preempt",
    evictor="default/new",
    message="preempted",
)


class Server:
    """Answers deletions with what it is told, one after the other; the last answer stays."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    async def delete(self, res, name, *, namespace, uid):
        self.asked += 1
        await asyncio.sleep(1)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer


@asynccontextmanager
async def evicting(server):
    failed = []
    evictor = Evictor(server, through_api=False, set_condition=False, failed=failed.append)
    running = asyncio.create_task(evictor.run())
    evictor.offer(VICTIM)
    try:
        yield evictor, failed
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
    async with evicting(server) as (evictor, failed):
        await evictor.drain()
    assert server.asked == 4
    assert failed == []


async def test_a_victim_that_is_asked_about_is_not_taken_on_again():
    server = Server(errors.DeadlineExceeded("no answer"), None)
    async with evicting(server) as (evictor, failed):
        for _ in range(5):
            evictor.offer(VICTIM)
        await evictor.drain()
    assert (server.asked, failed) == (2, [])


async def test_an_eviction_that_the_server_refuses_is_told():
    server = Server(errors.Forbidden("no", status=403))
    async with evicting(server) as (evictor, failed):
        await evictor.drain()
    assert (server.asked, failed) == (1, [VICTIM])


async def test_an_eviction_that_is_done_is_held_by_nobody():
    before = sys.getrefcount(VICTIM)
    async with evicting(Server(None)) as (evictor, _):
        assert sys.getrefcount(VICTIM) > before
        await evictor.drain()
        await asyncio.sleep(1)
        assert sys.getrefcount(VICTIM) == before
