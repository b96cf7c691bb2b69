"""Nobody frees a device that somebody is about to use, in whatever order binders act."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from deadlines import eventually, within
from kai.kube import errors
from kai.kube.reflector import Reflector, Removed, Upserted
from kai.kube.resources import PODS
from kai.kube.workqueue import WorkQueue
from kai.model import names
from kai.model.claims import Grant
from kai.model.objects import Pod, Taint, Toleration
from kai.model.rules.taints import untolerated
from kai.wire.decisions import BIND_SECONDS
from kai_binder.errors import BindFailed
from kai_binder.objects import WatchedPod, pod_store
from kai_binder.reservation_pods import ReservationPod, ReservationTemplate
from kai_binder.reservation_sync import ReservationSync
from kai_binder.reservations import CLAIM_MARGIN, Reservations, group_labels, reservation_store

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("devices")]
NODE, GROUP = "n1", "group-1"
CLAIM_SECONDS = BIND_SECONDS + CLAIM_MARGIN
HALF = Grant(1, portion_centi=50)


class Clock:
    now = 1_800_000_000.0

    def __call__(self):
        return self.now


class Binder:
    """The part of a binder that looks after reservations."""

    def __init__(self, cluster, name, clock, longest_bind):
        self.pods, self.held = pod_store(), reservation_store()
        self.reservations = Reservations(
            cluster.client,
            self.held,
            ReservationTemplate(image="x"),
            pods=self.pods,
            binder_id=name,
            allocation_timeout=10,
            longest_bind=longest_bind,
            clock=clock,
        )
        self.queue = WorkQueue("test")
        self.sync = ReservationSync(
            cluster.client,
            pods=self.pods,
            reservations=self.reservations,
            reservation_store=self.held,
            queue=self.queue,
            binder_id=name,
            scheduler_name=names.SCHEDULER_NAME,
            clock=clock,
        )


async def in_order(binder):
    """Bring the node in order; what the program in a reservation writes to in between is looked at again."""
    await eventually(lambda: binder.sync.sync_node(NODE), lambda again: again is None)


@asynccontextmanager
async def a_binder(cluster, name="b1", *, clock=None, longest_bind=BIND_SECONDS):
    binder = Binder(cluster, name, clock or Clock(), longest_bind)
    watches = [
        (Reflector(cluster.client, PODS, WatchedPod, namespace="default"), binder.pods),
        (Reflector(cluster.client, PODS, ReservationPod, namespace=names.RESERVATION_NAMESPACE), binder.held),
    ]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watch.run(sink)) for watch, sink in watches]
        for watch, _ in watches:
            await watch.synced.wait()
        try:
            yield binder
        finally:
            for task in tasks:
                task.cancel()


async def a_pod(cluster, name):
    await cluster.pod(name, fraction=0.5)
    return await cluster.client.get(PODS, name, namespace="default", type=Pod)


async def test_a_reservation_stays_on_its_node_however_little_the_first_pod_on_its_device_tolerates(cluster):
    """Others may share the device who stay, and they would lose it."""
    briefly = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    await cluster.pod("first", fraction=0.5, tolerations=[briefly])
    first = await cluster.client.get(PODS, "first", namespace="default", type=Pod)
    async with a_binder(cluster) as binder:
        await binder.reservations.reserve(first, node=NODE, group=GROUP, grant=HALF)
    (reservation,) = await cluster.reservations()
    tolerations = msgspec.convert(reservation["spec"]["tolerations"], list[Toleration])
    assert not any(each.toleration_seconds for each in tolerations)
    for key in ("maintenance", "another", "node.kubernetes.io/not-ready"):
        assert untolerated([Taint(key=key, effect="NoExecute")], tolerations) is None


async def test_two_binders_that_reserve_at_once_get_one_device(cluster):
    pods = [await a_pod(cluster, name) for name in "abcd"]
    async with a_binder(cluster, "b1") as one, a_binder(cluster, "b2") as two:
        found = await asyncio.gather(
            *(
                binder.reservations.reserve(pod, node=NODE, group=GROUP, grant=HALF)
                for pod, binder in zip(pods, [one, two, one, two], strict=True)
            )
        )
    assert set(found) == {"GPU-n1-1"}
    (reservation,) = await cluster.reservations()
    claims = [key for key in reservation["metadata"]["annotations"] if key.startswith("claim.kai.scheduler/")]
    assert len(claims) == 4


async def test_a_claim_that_comes_first_makes_the_delete_fail(cluster):
    first, second = await a_pod(cluster, "first"), await a_pod(cluster, "second")
    async with a_binder(cluster, "b1") as one, a_binder(cluster, "b2") as two:
        await one.reservations.reserve(first, node=NODE, group=GROUP, grant=HALF)
        as_it_was = await one.reservations.read(NODE, GROUP)
        await two.reservations.reserve(second, node=NODE, group=GROUP, grant=HALF)
        assert await one.reservations.delete(as_it_was) is False
    assert len(await cluster.reservations()) == 1


async def test_a_delete_that_comes_first_makes_the_claim_start_anew(cluster):
    first, second = await a_pod(cluster, "first"), await a_pod(cluster, "second")
    async with a_binder(cluster, "b1") as one, a_binder(cluster, "b2") as two:
        await one.reservations.reserve(first, node=NODE, group=GROUP, grant=HALF)
        as_it_was = await one.reservations.read(NODE, GROUP)
        assert await one.reservations.delete(as_it_was) is True
        # The other binder's watch may still show what is gone.
        two.held._put(as_it_was.key, as_it_was)
        assert await two.reservations.reserve(second, node=NODE, group=GROUP, grant=HALF) == "GPU-n1-2"
    (reservation,) = await cluster.reservations()
    assert reservation["metadata"]["uid"] != as_it_was.metadata.uid


async def test_a_device_is_not_had_from_a_reservation_that_is_about_to_end(cluster):
    first, second = await a_pod(cluster, "first"), await a_pod(cluster, "second")
    async with a_binder(cluster) as binder:
        await binder.reservations.reserve(first, node=NODE, group=GROUP, grant=HALF)
        held = await binder.reservations.read(NODE, GROUP)
        where = {"namespace": held.metadata.namespace}
        name = held.metadata.name
        await cluster.client.patch(PODS, name, {"metadata": {"finalizers": ["kai.scheduler/test"]}}, **where)
        await cluster.client.delete(PODS, name, **where)
        with pytest.raises(BindFailed, match="does not last"):
            await binder.reservations.reserve(second, node=NODE, group=GROUP, grant=HALF)
        await cluster.client.patch(PODS, name, {"metadata": {"finalizers": None}}, **where)
        await eventually(lambda: binder.reservations.read(NODE, GROUP), lambda found: found is None)
        assert await binder.reservations.reserve(second, node=NODE, group=GROUP, grant=HALF) == "GPU-n1-2"


async def test_the_end_of_the_reservation_before_it_is_not_its_own(cluster):
    """The watch tells late that a device was freed, when it has been reserved again by the same name."""
    pod, known = await a_pod(cluster, "p"), reservation_store()
    reservations = Reservations(
        cluster.client,
        known,
        ReservationTemplate(image="x"),
        pods=pod_store(),
        binder_id="b1",
        allocation_timeout=60,
    )
    manifest = ReservationTemplate(image="x").manifest(node=NODE, group=GROUP, annotations={})
    namespace = names.RESERVATION_NAMESPACE
    former = await cluster.client.create(PODS, manifest, namespace=namespace, type=ReservationPod)
    known(Upserted(former, False))
    await cluster.client.delete(PODS, former.metadata.name, namespace=namespace, grace_seconds=0)
    reserving = asyncio.create_task(reservations.reserve(pod, node=NODE, group=GROUP, grant=HALF))

    async def reserved():
        there = await reservations.read(NODE, GROUP)
        return there is not None and there.device

    device = await cluster.until(reserved)
    known(Removed(former.key, former.metadata.uid, former))
    assert await reserving == device


async def test_a_claim_holds_the_device_until_it_runs_out(cluster):
    clock = Clock()
    pod = await a_pod(cluster, "p")
    async with a_binder(cluster, clock=clock) as binder:
        await binder.reservations.reserve(pod, node=NODE, group=GROUP, grant=HALF)
        assert await binder.sync.sync_node(NODE) is not None
        assert len(await cluster.reservations()) == 1
        clock.now += CLAIM_SECONDS + 1
        await in_order(binder)
    assert await cluster.reservations() == []


async def test_a_claim_lasts_for_as_long_as_a_bind_may_take(cluster):
    clock = Clock()
    pod = await a_pod(cluster, "p")
    async with a_binder(cluster, clock=clock, longest_bind=1000) as binder:
        await binder.reservations.reserve(pod, node=NODE, group=GROUP, grant=HALF)
        clock.now += 1000
        assert await binder.sync.sync_node(NODE) is not None
    assert len(await cluster.reservations()) == 1


async def test_the_claim_of_a_pod_that_is_gone_holds_nothing(cluster):
    pod = await a_pod(cluster, "p")
    async with a_binder(cluster) as binder:
        await binder.reservations.reserve(pod, node=NODE, group=GROUP, grant=HALF)
        await cluster.client.delete(PODS, "p", namespace="default", grace_seconds=0)
        await in_order(binder)
    assert await cluster.reservations() == []


async def test_a_claim_that_is_given_back_holds_nothing(cluster):
    pod = await a_pod(cluster, "p")
    async with a_binder(cluster) as binder:
        await binder.reservations.reserve(pod, node=NODE, group=GROUP, grant=HALF)
        await binder.reservations.release_claim(pod, node=NODE, group=GROUP)
        await in_order(binder)
    assert await cluster.reservations() == []


async def test_a_consumer_holds_the_device_when_its_claim_has_long_run_out(cluster):
    clock = Clock()
    pod = await a_pod(cluster, "p")
    await cluster.node(NODE)
    async with a_binder(cluster, clock=clock) as binder:
        await binder.reservations.reserve(pod, node=NODE, group=GROUP, grant=HALF)
        labels = {"metadata": {"labels": {names.GPU_GROUP_LABEL: GROUP}}}
        await cluster.client.patch(PODS, "p", labels, namespace="default")
        target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": NODE}}
        await cluster.client.create_subresource(PODS, "p", "binding", target, namespace="default")
        clock.now += CLAIM_SECONDS + 1
        await in_order(binder)
    assert len(await cluster.reservations()) == 1


async def test_a_pod_that_is_bound_to_do_without_lets_go_of_what_it_claimed_before(cluster):
    """As when a binder dies between the claim and the bind, and the next leader decides otherwise."""
    pod = await a_pod(cluster, "p")
    await cluster.node("n2")
    async with a_binder(cluster) as binder, asyncio.TaskGroup() as tasks:
        syncing = tasks.create_task(binder.sync.run())
        await binder.reservations.reserve(pod, node=NODE, group=GROUP, grant=HALF)
        await binder.reservations.reserve(pod, node="n2", group="group-2", grant=HALF)

        async def both_claimed():
            return {each.group for each in binder.held.by_index("claimant", pod.metadata.uid)} == {
                GROUP,
                "group-2",
            }

        await cluster.until(both_claimed)
        labels = {"metadata": {"labels": {names.GPU_GROUP_LABEL: "group-2"}}}
        await cluster.client.patch(PODS, "p", labels, namespace="default")
        target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n2"}}
        await cluster.client.create_subresource(PODS, "p", "binding", target, namespace="default")

        async def one_left():
            return [each["spec"]["nodeName"] for each in await cluster.reservations()] == ["n2"]

        await cluster.until(one_left)
        syncing.cancel()


async def test_expired_claims_are_cleared_away_by_the_next_one(cluster):
    clock = Clock()
    first, second = await a_pod(cluster, "first"), await a_pod(cluster, "second")
    async with a_binder(cluster, clock=clock) as binder:
        await binder.reservations.reserve(first, node=NODE, group=GROUP, grant=HALF)
        clock.now += CLAIM_SECONDS + 1
        await binder.reservations.reserve(second, node=NODE, group=GROUP, grant=HALF)
        reservation = await binder.reservations.read(NODE, GROUP)
    assert set(reservation.claims) == {second.metadata.uid}


async def runs(cluster, name, **options):
    """A pod that somebody else has put on the node, and that says it has a part of the device."""
    labels = {names.GPU_GROUP_LABEL: GROUP}
    await cluster.pod(name, nodeName=NODE, **{"fraction": 0.5, **options})
    await cluster.client.patch(PODS, name, {"metadata": {"labels": labels}}, namespace="default")
    await cluster.phase(name, "Running")


@pytest.mark.parametrize(
    "lies",
    [{"schedulerName": "default-scheduler"}, {"fraction": None, "gpus": 0}],
    ids=["is placed by another scheduler", "asks for no part of one"],
)
async def test_who_names_a_device_and_is_charged_for_nothing_does_not_hold_it(cluster, lies):
    clock = Clock()
    pod = await a_pod(cluster, "p")
    async with a_binder(cluster, clock=clock) as binder:
        await binder.reservations.reserve(pod, node=NODE, group=GROUP, grant=HALF)
        await runs(cluster, "freeloader", **lies)
        await cluster.client.delete(PODS, "p", namespace="default", grace_seconds=0)
        await in_order(binder)
    assert not await cluster.reservations()
    assert "deletionTimestamp" not in (await cluster.get("freeloader"))["metadata"]


async def test_what_another_installation_reserved_is_held_by_the_pods_of_its_scheduler(cluster):
    async with a_binder(cluster) as binder:
        theirs = ReservationTemplate(image="x").manifest(node=NODE, group=GROUP, annotations={})
        await cluster.client.create(PODS, theirs, namespace=names.RESERVATION_NAMESPACE)
        await runs(cluster, "theirs", schedulerName="another")
        await cluster.until(lambda: binder.held.by_index("group", GROUP))
        await in_order(binder)
        assert len(await cluster.reservations()) == 1
        await cluster.client.delete(PODS, "theirs", namespace="default", grace_seconds=0)
        await in_order(binder)
    assert not await cluster.reservations()


async def test_a_pod_that_may_not_be_deleted_keeps_nothing_else_of_its_node_waiting(cluster):
    clock = Clock()
    unused = await a_pod(cluster, "unused")
    async with a_binder(cluster, clock=clock) as binder:
        await binder.reservations.reserve(unused, node=NODE, group="another", grant=HALF)
        for name in ("kept", "lost"):
            await runs(cluster, name)
        cluster.fault(verb="delete", resource="pods", status=403)
        clock.now += CLAIM_SECONDS + 1
        with pytest.raises(errors.Forbidden):
            await binder.sync.sync_node(NODE)
        await in_order(binder)
    left = {
        pod["metadata"]["name"]
        for pod in await cluster.pods()
        if not pod["metadata"].get("deletionTimestamp")
    }
    assert left == {"unused"}
    assert not await cluster.reservations()


async def lost_and_made_anew(cluster, binder, *, device):
    """The reservation of a pod ``old`` is deleted, and there is one again for ``new``, by the same name."""
    old = await runs_on_its_device(cluster, binder, "old")
    name = (await binder.reservations.read(NODE, GROUP)).metadata.name
    await cluster.client.delete(PODS, name, namespace=names.RESERVATION_NAMESPACE, grace_seconds=0)
    await cluster.until(lambda: not binder.held.by_index("group", GROUP))
    new = await a_pod(cluster, "new")
    told = {names.RESERVED_GPU: device}
    claim = {f"{names.RESERVATION_CLAIM_PREFIX}{new.metadata.uid}": f"{Clock.now + 400:.0f} {new.key} 1x0.50"}
    manifest = ReservationTemplate(image="x").manifest(
        node=NODE, group=GROUP, annotations={names.RESERVED_BY: "b1", **told, **claim}
    )
    await cluster.client.create(PODS, manifest, namespace=names.RESERVATION_NAMESPACE)
    await cluster.until(lambda: binder.held.by_index("group", GROUP))
    return old, new


async def runs_on_its_device(cluster, binder, name, *, phase="Running"):
    """A pod with a part of the device, bound and running as the watch has told."""
    pod = await a_pod(cluster, name)
    await binder.reservations.reserve(pod, node=NODE, group=GROUP, grant=HALF)
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    labels = {"metadata": {"labels": {names.GPU_GROUP_LABEL: GROUP}}}
    await cluster.client.patch(PODS, name, labels, namespace="default")
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await cluster.client.create_subresource(PODS, name, "binding", binding, namespace="default")
    await cluster.phase(name, phase)
    await cluster.until(lambda: (known := binder.pods.get(pod.key)) and known.status.phase == phase)
    return pod


async def is_going(cluster, name):
    try:
        return "deletionTimestamp" in (await cluster.get(name))["metadata"]
    except errors.NotFound:
        return True


@pytest.mark.parametrize(("device", "ended"), [("GPU-n1-1", False), ("GPU-n1-2", True)])
async def test_whose_reservation_was_made_anew_goes_unless_it_holds_the_same_device(cluster, device, ended):
    """And never is recorded where it does not run: the device would be held for it, and its own by nobody."""
    async with a_binder(cluster) as binder:
        old, new = await lost_and_made_anew(cluster, binder, device=device)
        await binder.sync.sync_node(NODE)
        recorded = set((await binder.reservations.read(NODE, GROUP)).claims)
    assert await is_going(cluster, "old") is ended
    assert recorded == ({new.metadata.uid} if ended else {old.metadata.uid, new.metadata.uid})


async def test_who_starts_on_a_device_that_was_lost_before_is_found_then(cluster):
    async with a_binder(cluster) as binder:
        await runs_on_its_device(cluster, binder, "p", phase="Pending")
        name = (await binder.reservations.read(NODE, GROUP)).metadata.name
        await cluster.client.delete(PODS, name, namespace=names.RESERVATION_NAMESPACE, grace_seconds=0)
        await cluster.until(lambda: not binder.held.by_index("group", GROUP))
        syncing = asyncio.create_task(binder.sync.run())
        async with within("the node is in order while the pod waits to start"):
            await binder.queue.join()
        assert not await is_going(cluster, "p")
        await cluster.phase("p", "Running")
        await cluster.until(lambda: is_going(cluster, "p"))
        syncing.cancel()


def test_labels_of_an_earlier_attempt_are_replaced():
    old = {names.GPU_GROUP_LABEL: "a", "app": "x"}
    assert group_labels(("b",), old) == {names.GPU_GROUP_LABEL: "b"}
    assert group_labels(("a",), old) == {}
    assert group_labels(("b", "c"), old) == {
        names.GPU_GROUP_LABEL: None,
        f"{names.MULTI_GPU_GROUP_PREFIX}b": "b",
        f"{names.MULTI_GPU_GROUP_PREFIX}c": "c",
    }
