"""Reclaim: a queue gets what is its due from queues that have more than theirs."""

import pytest

from e2e.manifests import a_group, a_job, a_pod, as_yaml, members, sized
from kai.model import names
from kai_local.kubelet.nodes import NodeShape


def labels(priority: str) -> dict[str, str]:
    return {"priorityClassName": priority}


async def two_queues(queue, *quotas, total=4, **spec):
    """Queues that share so many GPUs, with these quotas."""
    parent = await queue(gpus=total, limit=total)
    return [await queue(parent=parent, gpus=quota, **spec) for quota in quotas]


# --- whose due it is ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("quotas", "theirs", "ours", "wanted", "gets"),
    [
        pytest.param((1, 1), [2, 2], [], 2, True, id="both over quota afterwards"),
        pytest.param((2, 2), [1, 2], [1], 0.5, True, id="both within quota afterwards"),
        pytest.param((1, 1), [2, 1, 0.5], [0.5], 2, False, id="we would be over our fair share"),
        pytest.param((0, 0), [1, 2], [1], 0.5, True, id="both over quota before and afterwards"),
        pytest.param((2, 2), [2, 0.9, 0.3, 0.3], [], 1, True, id="they stay over quota"),
        pytest.param((0, 0), [2, 0.9, 0.3, 0.3], [], 1, True, id="neither has a quota"),
    ],
)
async def test_shares_decide_whether_we_get_it(cluster, queue, namespace, quotas, theirs, ours, wanted, gets):
    other, own = await two_queues(queue, *quotas)
    for prefix, name, sizes in (("theirs", other, theirs), ("ours", own, ours)):
        await cluster.apply(
            as_yaml(*(a_pod(f"{prefix}-{i}", namespace, name, **sized(each)) for i, each in enumerate(sizes)))
        )
        await cluster.running(namespace, prefix, count=len(sizes))
    await cluster.apply(as_yaml(a_pod("wanted", namespace, own, **sized(wanted))))
    if gets:
        await cluster.running(namespace, "wanted", count=1)
    else:
        await cluster.waits(namespace, "wanted")
        await cluster.running(namespace, "theirs", count=len(theirs))
    await cluster.running(namespace, "ours", count=len(ours))


async def test_a_queue_of_higher_priority_gets_what_is_over_the_quota_of_others(cluster, queue, namespace):
    parent = await queue(gpus=4, limit=4)
    other, own = await queue(parent=parent, gpus=1), await queue(parent=parent, gpus=0, priority=101)
    await cluster.apply(as_yaml(a_pod("first", namespace, other, gpus=1)))
    await cluster.running(namespace, "first", count=1)
    await cluster.apply(as_yaml(a_pod("second", namespace, other, gpus=3)))
    await cluster.running(namespace, "second", count=1)
    await cluster.apply(as_yaml(a_pod("ours", namespace, own, gpus=1)))
    await cluster.running(namespace, "ours", count=1)
    await cluster.running(namespace, "first", count=1)


async def test_those_who_give_keep_the_proportion_of_their_weights(cluster, queue, namespace):
    parent = await queue(gpus=8, limit=8)
    light = await queue(parent=parent, gpus=1, weight=1)
    heavy = await queue(parent=parent, gpus=1, weight=2)
    own = await queue(parent=parent, gpus=0, weight=1, priority=101)
    jobs = [("light", light), ("heavy", heavy)]
    await cluster.apply(
        as_yaml(
            *(a_job(f"{kind}-{i}", namespace, name, pods=1, gpus=1) for i in range(8) for kind, name in jobs)
        )
    )
    await cluster.running(namespace, "light", count=3)
    await cluster.running(namespace, "heavy", count=5)
    await cluster.apply(as_yaml(a_pod("ours", namespace, own, gpus=3)))
    await cluster.running(namespace, "ours", count=1)
    await cluster.running(namespace, "light", count=2)
    await cluster.running(namespace, "heavy", count=3)


async def test_a_queue_gets_back_its_quota_from_one_beyond_its_own(cluster, queue, namespace):
    parent = await queue(gpus=4, limit=4)
    greedy, modest = await queue(parent=parent, gpus=2), await queue(parent=parent, gpus=2)
    await cluster.apply(as_yaml(*(a_pod(f"greedy-{i}", namespace, greedy, gpus=1) for i in range(4))))
    await cluster.running(namespace, "greedy", count=4)
    await cluster.apply(as_yaml(*(a_pod(f"modest-{i}", namespace, modest, gpus=1) for i in range(2))))
    await cluster.running(namespace, "modest", count=2)
    await cluster.running(namespace, "greedy", count=2)


async def test_nothing_is_taken_from_a_queue_within_its_quota(cluster, queue, namespace):
    parent = await queue(gpus=4, limit=4)
    first, second = await queue(parent=parent, gpus=4), await queue(parent=parent, gpus=0)
    await cluster.apply(as_yaml(*(a_pod(f"first-{i}", namespace, first, gpus=1) for i in range(4))))
    before = await cluster.running(namespace, "first", count=4)
    await cluster.apply(as_yaml(a_pod("second", namespace, second, gpus=1)))
    await cluster.waits(namespace, "second")
    after = await cluster.running(namespace, "first", count=4)
    assert {pod.metadata.uid for pod in after} == {pod.metadata.uid for pod in before}


async def test_work_that_cannot_be_preempted_is_not_reclaimed(cluster, queue, namespace):
    parent = await queue(gpus=2, limit=2)
    first, second = await queue(parent=parent, gpus=2), await queue(parent=parent, gpus=2)
    fixed = [a_pod(f"first-{i}", namespace, first, gpus=1, labels=labels("build")) for i in range(2)]
    await cluster.apply(as_yaml(*fixed))
    await cluster.running(namespace, "first", count=2)
    await cluster.apply(as_yaml(a_pod("second", namespace, second, gpus=1)))
    await cluster.waits(namespace, "second")
    await cluster.running(namespace, "first", count=2)


async def test_a_gang_reclaims_for_all_its_pods(cluster, queue, namespace):
    parent = await queue(gpus=4, limit=4)
    greedy, modest = await queue(parent=parent, gpus=0), await queue(parent=parent, gpus=4)
    await cluster.apply(as_yaml(a_job("greedy", namespace, greedy, pods=4, gang=1, gpus=1)))
    await cluster.running(namespace, "greedy", count=4)
    await cluster.apply(as_yaml(a_job("modest", namespace, modest, pods=2, gang=2, gpus=2)))
    await cluster.running(namespace, "modest", count=2)
    await cluster.running(namespace, "greedy", count=0)


async def test_a_gang_reclaims_on_several_nodes(cluster, queue, node, namespace):
    label = f"e2e.example.com/{namespace}"
    for _ in range(2):
        await node(NodeShape(gpus=2, labels={label: "yes"}))
    there = {"nodeSelector": {label: "yes"}}
    other, own = await two_queues(queue, 0, 4)
    await cluster.apply(
        as_yaml(*(a_pod(f"theirs-{i}", namespace, other, gpus=2, spec=there) for i in range(2)))
    )
    await cluster.running(namespace, "theirs", count=2)
    await cluster.apply(as_yaml(a_job("ours", namespace, own, pods=2, gang=2, gpus=2, spec=there)))
    pods = await cluster.running(namespace, "ours", count=2)
    assert len({pod.spec.node_name for pod in pods}) == 2


async def test_nothing_is_taken_from_a_department_within_its_quota(cluster, queue, namespace):
    """Though the queue that lends is over its own, and the one that wants within."""
    top = await queue(gpus=4, limit=4)
    rich, poor = await queue(parent=top, gpus=4), await queue(parent=top, gpus=0)
    other, own = await queue(parent=rich, gpus=0), await queue(parent=poor, gpus=2)
    await cluster.apply(as_yaml(*(a_pod(f"theirs-{i}", namespace, other, gpus=1) for i in range(4))))
    await cluster.running(namespace, "theirs", count=4)
    await cluster.apply(as_yaml(a_job("ours", namespace, own, pods=2, gang=2, gpus=1)))
    await cluster.waits(namespace, "ours")
    await cluster.running(namespace, "theirs", count=4)


# --- elastic work ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("gang", "wanted", "left"),
    [(2, 1, 3), (2, 2, 2), (3, 2, 0), (1, 3, 1)],
    ids=["one of two beyond the minimum", "all beyond it", "all, for the minimum is cut", "all but one"],
)
async def test_an_elastic_job_gives_what_is_beyond_its_minimum_or_all(
    cluster, queue, namespace, gang, wanted, left
):
    other, own = await two_queues(queue, 0, 4)
    await cluster.apply(as_yaml(a_job("elastic", namespace, other, pods=4, gang=gang, gpus=1)))
    await cluster.running(namespace, "elastic", count=4)
    await cluster.apply(as_yaml(a_pod("ours", namespace, own, gpus=wanted)))
    await cluster.running(namespace, "ours", count=1)
    await cluster.running(namespace, "elastic", count=left)


async def test_an_elastic_job_reclaims_its_due_and_no_more(cluster, queue, namespace):
    other, own = await two_queues(queue, 2, 2)
    await cluster.apply(as_yaml(*(a_pod(f"theirs-{i}", namespace, other, gpus=1) for i in range(4))))
    await cluster.running(namespace, "theirs", count=4)
    await cluster.apply(as_yaml(a_job("elastic", namespace, own, pods=4, gang=1, gpus=1)))
    await cluster.running(namespace, "elastic", count=2)
    await cluster.running(namespace, "theirs", count=2)


async def test_of_a_group_of_parts_only_those_beyond_its_minimum_are_reclaimed(cluster, queue, namespace):
    other, own = await two_queues(queue, 0, 6, total=6)
    parts = [{"name": each, "minMember": 2} for each in ("a", "b", "c")]
    group = a_group("parts", namespace, other, minSubGroup=2, subGroups=parts, priorityClassName="train")
    pods = [pod for part in parts for pod in members("parts", namespace, other, part["name"], 2, gpus=1)]
    await cluster.apply(as_yaml(group, *pods))
    await cluster.running(namespace, count=6)
    await cluster.apply(as_yaml(a_pod("ours", namespace, own, gpus=2)))
    await cluster.running(namespace, "ours", count=1)
    left = await cluster.running(namespace, count=5)
    assert len({pod.labels.get(names.SUBGROUP_LABEL) for pod in left} - {None}) == 2


# --- protection -----------------------------------------------------------------------------------
async def test_work_is_safe_for_the_least_time_of_its_queue(cluster, queue, namespace):
    other, own = await two_queues(queue, 0, 1, total=1, reclaimMinRuntime="1h")
    await cluster.apply(as_yaml(a_pod("theirs", namespace, other, gpus=1)))
    await cluster.running(namespace, "theirs", count=1)
    await cluster.apply(as_yaml(a_pod("ours", namespace, own, gpus=1)))
    told = await cluster.waits(namespace, "ours", reason="MinRuntimeNotElapsed")
    assert f"protected by minimum runtime: {namespace}/pg-theirs-" in told
    await cluster.running(namespace, "theirs", count=1)
    await cluster.change_queue(other, reclaimMinRuntime="0s")
    await cluster.running(namespace, "ours", count=1)
    assert not await cluster.pods(namespace, "theirs")


async def test_what_is_beyond_the_minimum_of_a_job_is_not_safe(cluster, queue, namespace):
    other, own = await two_queues(queue, 0, 3, total=3, reclaimMinRuntime="1h")
    await cluster.apply(as_yaml(a_job("elastic", namespace, other, pods=3, gang=2, gpus=1)))
    await cluster.running(namespace, "elastic", count=3)
    await cluster.apply(as_yaml(a_pod("ours", namespace, own, gpus=1)))
    await cluster.running(namespace, "ours", count=1)
    await cluster.apply(as_yaml(a_pod("second", namespace, own, gpus=1)))
    await cluster.waits(namespace, "second")
    await cluster.running(namespace, "elastic", count=2)


async def test_work_that_is_to_wait_a_while_reclaims_nothing_before(cluster, queue, namespace):
    other, own = await two_queues(queue, 0, 1, total=1)
    await cluster.apply(as_yaml(a_pod("theirs", namespace, other, gpus=1)))
    await cluster.running(namespace, "theirs", count=1)
    delay = {"kai.scheduler/preemption-delay": "1h"}
    await cluster.apply(as_yaml(a_pod("ours", namespace, own, gpus=1, annotations=delay)))
    await cluster.waits(namespace, "ours", reason="PreemptionDelayNotElapsed")
    await cluster.running(namespace, "theirs", count=1)


# --- claimed devices ------------------------------------------------------------------------------
async def test_claimed_devices_are_reclaimed(cluster, queue, driver, namespace):
    (other, own), found = await two_queues(queue, 0, 2, total=2), await driver(2)
    await cluster.apply(as_yaml(found.template(namespace)))
    await cluster.apply(as_yaml(*(found.a_pod(f"theirs-{i}", namespace, other) for i in range(2))))
    await cluster.running(namespace, "theirs", count=2)
    await cluster.apply(as_yaml(found.a_pod("ours", namespace, own)))
    await cluster.running(namespace, "ours", count=1)
    await cluster.running(namespace, "theirs", count=1)


async def test_claimed_devices_within_the_quota_stay(cluster, queue, driver, namespace):
    (other, own), found = await two_queues(queue, 2, 0, total=2), await driver(2)
    await cluster.apply(as_yaml(found.template(namespace)))
    await cluster.apply(as_yaml(*(found.a_pod(f"theirs-{i}", namespace, other) for i in range(2))))
    await cluster.running(namespace, "theirs", count=2)
    await cluster.apply(as_yaml(found.a_pod("ours", namespace, own)))
    await cluster.waits(namespace, "ours")
    await cluster.running(namespace, "theirs", count=2)


async def test_several_claimed_devices_are_reclaimed_for_one_pod(cluster, queue, driver, namespace):
    (other, own), found = await two_queues(queue, 0, 2, total=2), await driver(2)
    await cluster.apply(as_yaml(found.template(namespace), found.template(namespace, devices=2)))
    await cluster.apply(as_yaml(*(found.a_pod(f"theirs-{i}", namespace, other) for i in range(2))))
    await cluster.running(namespace, "theirs", count=2)
    await cluster.apply(as_yaml(found.a_pod("ours", namespace, own, devices=2)))
    await cluster.running(namespace, "ours", count=1)
    assert not await cluster.pods(namespace, "theirs")
