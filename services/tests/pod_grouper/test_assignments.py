"""Who listens is told of groups, and only pods that nobody binds with what was told are written."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from deadlines import eventually
from kai.grouping.objects.pods import Pod, PodSpec
from kai.kube.resources import PODS
from kai.model import names
from kai.model.objects import ObjectMeta
from kai_pod_grouper.live.assignments import Assignments

from .conftest import a_pod_grouper
from .test_live import a_job, a_pod, has_members

AFTER = 2.0


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Listening:
    """Takes what one who listens is told."""

    def __init__(self, assignments, **more):
        self._news = assignments.watch(**more)

    async def next(self):
        news = await anext(self._news)
        return {each.key: each.pod_group for each in news.told}, set(news.forgotten)

    async def close(self):
        await self._news.aclose()


@asynccontextmanager
async def somebody_listens(assignments, **more):
    """To whom all was told that there is."""
    listening = Listening(assignments, **more)
    told = await listening.next()
    try:
        yield listening, told
    finally:
        await listening.close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def late():
    """Keys of pods that are to be written."""
    return []


@pytest.fixture
def assignments(clock, late):
    made = Assignments(after=AFTER, clock=clock)
    made.late = late.append
    return made


def pod(name="p", *, uid="u", node="", annotations=None, labels=None):
    meta = ObjectMeta(name=name, namespace="ns", uid=uid, annotations=annotations, labels=labels)
    return Pod(metadata=meta, spec=PodSpec(scheduler_name=names.SCHEDULER_NAME, node_name=node))


def in_group(group, **more):
    return pod(annotations={names.POD_GROUP_ANNOTATION: group}, **more)


# --- what is told ----------------------------------------------------------------------------------
async def test_who_listens_is_told_all_that_is_not_on_pods_and_then_what_changes(assignments):
    async with somebody_listens(assignments) as (first, told):
        assert told == ({}, set())
        assert assignments.tell(pod("a", uid="1"), "g", "")
        assert assignments.tell(pod("b", uid="2"), "g", "")
        assert await first.next() == ({"ns/a": "g", "ns/b": "g"}, set())
        assert assignments.heard_of(in_group("g", name="a", uid="1"))
        assignments.forget("ns/b")
        assert assignments.tell(pod("c", uid="3"), "h", "")
        assert await first.next() == ({"ns/c": "h"}, {"1", "2"})
        async with somebody_listens(assignments) as (_, told):
            assert told == ({"ns/c": "h"}, set())


async def test_what_is_told_already_is_told_once_and_another_group_anew(assignments):
    async with somebody_listens(assignments) as (listening, _):
        assert assignments.tell(pod(), "g", "")
        assert await listening.next() == ({"ns/p": "g"}, set())
        assert assignments.tell(pod(), "g", "")
        assert assignments.tell(pod(), "h", "")
        assert await listening.next() == ({"ns/p": "h"}, set())
        assert assignments.group_of("ns/p") == "h"
        assert assignments.members("ns/h") == ["ns/p"]
        assert assignments.members("other/h") == assignments.members("ns/g") == []


async def test_members_of_a_group_are_those_of_which_it_is_still_told(assignments):
    with assignments.opened():
        async with somebody_listens(assignments):
            for name in ("a", "b", "c", "d"):
                assignments.tell(pod(name, uid=name), "g", "")
            assignments.forget("ns/a")
            assignments.heard_of(in_group("g", name="b", uid="b"))
            assignments.tell(pod("d", uid="d"), "h", "")
            assert assignments.members("ns/g") == ["ns/c"]
    assert assignments.members("ns/g") == assignments.members("ns/h") == []


@pytest.mark.looptime
async def test_silence_is_broken_by_nothing_at_all(assignments):
    listening = Listening(assignments, heartbeat=30)
    await listening.next()
    began = asyncio.get_running_loop().time()
    assert await listening.next() == ({}, set())
    assert asyncio.get_running_loop().time() - began == pytest.approx(30, abs=1)
    await listening.close()


@pytest.mark.looptime
async def test_what_is_forgotten_makes_no_message_of_its_own(assignments):
    async with somebody_listens(assignments, heartbeat=30) as (listening, _):
        loop = asyncio.get_running_loop()
        assignments.tell(pod("a", uid="1"), "g", "")
        assert await listening.next() == ({"ns/a": "g"}, set())
        began = loop.time()
        assignments.forget("ns/a")
        loop.call_later(7, assignments.tell, pod("b", uid="2"), "g", "")
        assert await listening.next() == ({"ns/b": "g"}, {"1"})
        assert loop.time() - began == pytest.approx(7, abs=1)
        assignments.forget("ns/b")
        assert await listening.next() == ({}, {"2"})
        assert loop.time() - began == pytest.approx(37, abs=1)


async def test_who_listens_is_let_go_when_this_process_groups_no_more(assignments, late):
    with assignments.opened():
        assert assignments.open
        listening = Listening(assignments)
        await listening.next()
        assignments.tell(pod(), "g", "")
        assert await listening.next() == ({"ns/p": "g"}, set())
    with pytest.raises(StopAsyncIteration):
        await listening.next()
    assert not assignments.open
    assert assignments.group_of("ns/p") == ""
    assert late == []


# --- what is written -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("member", "sub_group"),
    [
        (pod(node="n"), ""),
        (in_group("other"), ""),
        (pod(), "worker"),
        (pod(labels={names.SUBGROUP_LABEL: "driver"}), "worker"),
    ],
    ids=["has a node", "says another group", "needs a label", "has another label"],
)
async def test_what_a_bind_cannot_say_is_written(assignments, member, sub_group):
    async with somebody_listens(assignments):
        assert not assignments.tell(member, "g", sub_group)


async def test_a_pod_that_has_its_label_needs_no_write(assignments):
    async with somebody_listens(assignments):
        assert assignments.tell(pod(labels={names.SUBGROUP_LABEL: "worker"}), "g", "worker")


async def test_without_anybody_who_listens_everything_is_written(assignments):
    assert not assignments.tell(pod(), "g", "")


async def test_with_no_time_at_all_everything_is_written(clock):
    assignments = Assignments(after=0, clock=clock)
    async with somebody_listens(assignments):
        assert not assignments.tell(pod(), "g", "")
    await assignments.run()


async def test_a_pod_that_still_waits_after_its_time_is_written_and_told_until_it_says_so(
    assignments, late, clock
):
    async with somebody_listens(assignments):
        assignments.tell(pod("early", uid="1"), "g", "")
        clock.now += 1.5
        assignments.tell(pod("later", uid="2"), "g", "")
        assignments.look()
        assert late == []
        clock.now += 0.5
        assignments.look()
        assignments.look()
        assert late == ["ns/early"]
        assert not assignments.tell(pod("early", uid="1"), "g", "")
        async with somebody_listens(assignments) as (_, told):
            assert told == ({"ns/early": "g", "ns/later": "g"}, set())
        assert assignments.heard_of(in_group("g", name="early", uid="1"))
        clock.now += 1.5
        assignments.look()
        assert late == ["ns/early", "ns/later"]


async def test_a_pod_that_was_bound_in_time_is_not_written(assignments, late, clock):
    async with somebody_listens(assignments):
        assignments.tell(pod(), "g", "")
        assert assignments.heard_of(in_group("g", node="n"))
        clock.now += AFTER
        assignments.look()
    assert late == []


async def test_a_pod_that_somebody_else_binds_is_written_at_once(assignments, late):
    async with somebody_listens(assignments):
        assignments.tell(pod(), "g", "")
        assert not assignments.heard_of(pod(node="n"))
        assert late == ["ns/p"]
        assert not assignments.heard_of(pod(node="n"))
    assert late == ["ns/p"]


async def test_when_the_last_one_who_listens_goes_all_is_written_that_was_told(assignments, late):
    async with somebody_listens(assignments):
        async with somebody_listens(assignments):
            assignments.tell(pod("a", uid="1"), "g", "")
            assignments.tell(pod("b", uid="2"), "g", "")
        assert late == []
    assert late == ["ns/a", "ns/b"]


async def test_another_group_that_somebody_writes_on_a_pod_is_no_echo(assignments):
    async with somebody_listens(assignments):
        assignments.tell(pod(), "g", "")
        assert not assignments.heard_of(in_group("other"))
        assignments.tell(pod(), "g", "")
        assert not assignments.heard_of(in_group("g", uid="another of its name"))


@pytest.mark.looptime
async def test_the_time_of_each_pod_is_kept(late):
    loop = asyncio.get_running_loop()
    assignments = Assignments(after=AFTER, clock=loop.time)
    at = {}
    assignments.late = lambda key: at.setdefault(key, loop.time())
    running = asyncio.create_task(assignments.run())
    async with somebody_listens(assignments):
        began = loop.time()
        for number in range(4):
            assignments.tell(pod(f"p{number}", uid=str(number)), "g", "")
            await asyncio.sleep(0.7)
        await asyncio.sleep(AFTER)
    running.cancel()
    assert [at[f"ns/p{number}"] - began for number in range(4)] == pytest.approx(
        [2.0, 2.7, 3.4, 4.1], abs=0.05
    )


# --- on an API server ------------------------------------------------------------------------------
@pytest.mark.integration
async def test_a_pod_that_is_bound_in_time_costs_its_group_and_no_patch(cluster):
    async with a_pod_grouper(cluster, annotate_after=3600) as grouper:
        async with somebody_listens(grouper.assignments) as (listening, _):
            made = await cluster.create(a_pod("demo"))
            group = f"pg-demo-{made['metadata']['uid']}"
            assert await listening.next() == ({"default/demo": group}, set())
            assert list(await cluster.groups()) == [group]
            annotations = {names.POD_GROUP_ANNOTATION: group}
            binding = {"metadata": {"annotations": annotations}, "target": {"kind": "Node", "name": "n1"}}
            await cluster.client.create_subresource(PODS, "demo", "binding", binding, namespace="default")
            await eventually(lambda: not grouper.assignments.members(f"default/{group}"))
            await grouper.join()
        await grouper.join()
    assert await cluster.memberships() == {"demo": group}
    assert cluster.requests() == Counter({"create podgroups": 1})


@pytest.mark.integration
async def test_a_pod_that_waits_is_annotated_after_its_time_and_one_with_a_label_at_once(cluster):
    await cluster.install("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
    job_set = await cluster.create(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "js", "namespace": "default"},
            "spec": {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": {}}}]},
        }
    )
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "w", "jobset.sigs.k8s.io/job-index": "0"}
    clock = Clock()
    async with a_pod_grouper(cluster, clock=clock) as grouper, somebody_listens(grouper.assignments):
        job = await cluster.create(a_job())
        await cluster.create(a_pod("one", owner=job), a_pod("two", owner=job))
        await cluster.create(a_pod("part", owner=job_set, labels=labels))
        await eventually(has_members(cluster, "part"))
        await eventually(lambda: grouper.assignments.members(f"default/pg-train-{job['metadata']['uid']}"))
        await grouper.join()
        assert set(await cluster.memberships()) == {"part"}
        clock.now += AFTER
        grouper.assignments.look()
        await eventually(has_members(cluster, "one", "two"))
        await grouper.join()
    assert cluster.requests() == Counter(
        {"create podgroups": 2, "patch pods": 3, "get jobs": 1, "get jobsets": 1}
    )


@pytest.mark.integration
async def test_what_was_told_is_written_once_nobody_listens_and_what_somebody_else_binds_at_once(cluster):
    async with a_pod_grouper(cluster, annotate_after=3600) as grouper:
        async with somebody_listens(grouper.assignments) as (listening, _):
            await cluster.create(a_pod("bound"), a_pod("waits"))
            told = {}
            while len(told) < 2:
                told |= (await listening.next())[0]
            binding = {"target": {"kind": "Node", "name": "n1"}}
            await cluster.client.create_subresource(PODS, "bound", "binding", binding, namespace="default")
            await eventually(has_members(cluster, "bound"))
            assert set(await cluster.memberships()) == {"bound"}
        await eventually(has_members(cluster, "bound", "waits"))
        await grouper.join()
    assert cluster.requests() == Counter({"create podgroups": 2, "patch pods": 2})


@pytest.mark.integration
async def test_nobody_is_told_of_a_group_that_could_not_be_made(cluster):
    cluster.fail(verb="create", resource="podgroups", status=403, count=1)
    async with a_pod_grouper(cluster) as grouper, somebody_listens(grouper.assignments) as (listening, _):
        await cluster.create(a_pod("demo"))
        warnings = await eventually(cluster.warnings)
        assert "demo" in warnings
        told, _ = await listening.next()
        assert set(await cluster.groups()) == set(told.values())


@pytest.mark.integration
async def test_of_a_workload_that_becomes_smaller_before_it_says_its_group_fewer_are_needed(cluster):
    await cluster.install("kubeflow.org", "v1", "TFJob", "tfjobs")
    body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "tf"}}
    owner = await cluster.create({**body, "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}})
    group = f"pg-tf-{owner['metadata']['uid']}"
    async with (
        a_pod_grouper(cluster, annotate_after=3600) as grouper,
        somebody_listens(grouper.assignments),
    ):
        await cluster.create(*(a_pod(f"tf-{number}", owner=owner) for number in range(3)))
        await eventually(lambda: len(grouper.assignments.members(f"default/{group}")) == 3)
        tf_jobs = await cluster.client.discover("kubeflow.org/v1", "TFJob")
        smaller = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}}
        await cluster.client.patch(tf_jobs, "tf", smaller, namespace="default")
        for name in ("tf-1", "tf-2"):
            await cluster.client.delete(PODS, name, namespace="default", grace_seconds=0)
        await eventually(cluster.groups, lambda groups: groups[group]["spec"]["minMember"] == 1)
        assert await cluster.memberships() == {}
