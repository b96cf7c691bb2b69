"""Who follows a leader learns that it cannot be followed any more."""

import asyncio

import pytest

from kai.kube.errors import Unauthorized
from kai.kube.leases import Leader
from kai.wire import leader as module
from kai.wire.leader import LeaderTracker

LEADER = Leader(identity="s", endpoint="127.0.0.1:1", epoch=1)


@pytest.fixture
def lease(monkeypatch):
    """What is told of the Lease: leaders, and at the end an error."""
    told = asyncio.Queue()

    async def follow(client, name, namespace):
        while True:
            each = await told.get()
            if isinstance(each, Exception):
                raise each
            yield each

    monkeypatch.setattr(module, "follow_leader", follow)
    return told


def tracker():
    return LeaderTracker(None, lease_name="kai-scheduler", namespace="kai-scheduler")


async def test_the_leader_is_given_once_it_can_be_called(lease):
    async with tracker() as tracked:
        for each in (None, Leader(identity="s", endpoint="", epoch=1), LEADER):
            lease.put_nowait(each)
        assert await tracked.present() == LEADER
        lease.put_nowait(None)
        await tracked.replaced(LEADER)


@pytest.mark.parametrize("error", [Unauthorized("no", status=401), ZeroDivisionError("a defect")])
async def test_nobody_waits_for_ever_for_a_leader_that_cannot_be_followed(lease, error):
    async with tracker() as tracked:
        waiting = asyncio.create_task(tracked.present())
        lease.put_nowait(error)
        with pytest.raises(type(error)):
            await waiting
        with pytest.raises(type(error)):
            await tracked.present()
