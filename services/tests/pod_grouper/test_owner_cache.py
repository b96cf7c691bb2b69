"""What is kept of owners: not more than so much, and nothing for longer than it may be used."""

import asyncio

import pytest

from kai.grouping.objects.documents import ObjectRef
from kai.kube.resources import JOBS
from kai_pod_grouper.live import owner_cache
from kai_pod_grouper.live.owner_cache import FRESH_SECONDS, OwnerCache

pytestmark = pytest.mark.looptime


class Jobs:
    """Any Job that is asked for, of 3 KB."""

    def __init__(self):
        self.reads = 0

    async def discover(self, api_version, kind):
        return JOBS

    async def get(self, resource, name, *, namespace):
        self.reads += 1
        told = {"metadata": {"name": name, "namespace": namespace, "annotations": {"x": "y" * 3000}}}
        return {"apiVersion": "batch/v1", "kind": "Job", **told}


def a_job(number):
    return ObjectRef("batch/v1", "Job", "team", f"job-{number}")


def a_cache(client):
    return OwnerCache(client, asyncio.get_running_loop().time)


async def test_large_owners_push_out_those_that_were_read_first(monkeypatch):
    monkeypatch.setattr(owner_cache, "CAPACITY_BYTES", 10_000)
    jobs = Jobs()
    cache = a_cache(jobs)
    for number in range(10):
        await cache.get(a_job(number))
    assert len(cache._entries) == 3
    for number in (9, 8, 7):
        await cache.get(a_job(number))
    assert jobs.reads == 10
    await cache.get(a_job(0))
    assert jobs.reads == 11


async def test_an_owner_that_is_larger_than_all_room_is_read_all_the_same(monkeypatch):
    monkeypatch.setattr(owner_cache, "CAPACITY_BYTES", 100)
    cache = a_cache(Jobs())
    assert (await cache.get(a_job(1))).name == "job-1"
    assert not cache._entries


async def test_what_is_too_old_to_be_used_is_forgotten_though_nobody_asks():
    cache = a_cache(Jobs())
    await cache.get(a_job(1))
    await asyncio.sleep(FRESH_SECONDS / 2)
    await cache.get(a_job(2))
    await asyncio.sleep(FRESH_SECONDS * 0.6)
    assert list(cache._entries) == [a_job(2)]
    await asyncio.sleep(FRESH_SECONDS * 1.5)
    assert not cache._entries
