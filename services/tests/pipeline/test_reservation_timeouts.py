"""A reservation pod whose device does not come is given up, and not one whose device has just come."""

import asyncio

import pytest

from kai.kube.events import EventRecorder
from kai.kube.resources import PODS
from kai.model import names
from kai.model.claims import Grant
from kai.model.decisions import BindDecision, PodRef, ResourceType
from kai.model.objects import Pod
from kai_binder.binding import PodBinder
from kai_binder.errors import BindFailed
from kai_binder.objects import pod_store
from kai_binder.reservation_pods import ReservationTemplate
from kai_binder.reservations import Reservations, reservation_store

pytestmark = pytest.mark.integration
NODE, GROUP = "n1", "group-1"
HALF = Grant(1, portion_centi=50)
CLAIM = f"{names.RESERVATION_CLAIM_PREFIX}another"


class WrittenBetween:
    """A client before whose first delete somebody writes an annotation."""

    def __init__(self, client, annotations):
        self._client = client
        self._annotations = annotations
        #: The uids of all that were deleted.
        self.deleted = set()

    def __getattr__(self, name):
        return getattr(self._client, name)

    async def delete(self, resource, name, *, namespace, **options):
        written, self._annotations = self._annotations, None
        if written:
            patch = {"metadata": {"annotations": written}}
            await self._client.patch(resource, name, patch, namespace=namespace)
        self.deleted.add(options["uid"])
        await self._client.delete(resource, name, namespace=namespace, **options)


@pytest.fixture
async def pod(cluster):
    await cluster.pod("p", fraction=0.5)
    return await cluster.client.get(PODS, "p", namespace="default", type=Pod)


def reservations(client, *, timeout=0.1):
    """Those of a binder whose watch is late: it tells nothing."""
    return Reservations(
        client,
        reservation_store(),
        ReservationTemplate(image="x"),
        pods=pod_store(),
        binder_id="b1",
        allocation_timeout=timeout,
    )


async def test_a_device_that_comes_in_the_moment_in_which_it_is_given_up_is_had(cluster, pod):
    """Another binder may have bound a pod to it by then, which would lose it."""
    client = WrittenBetween(cluster.client, {names.RESERVED_GPU: "GPU-0"})
    found = reservations(client)
    assert await found.reserve(pod, node=NODE, group=GROUP, grant=HALF) == "GPU-0"
    assert (await found.read(NODE, GROUP)).device == "GPU-0"


@pytest.mark.parametrize("written", [None, {CLAIM: "1 default/another"}])
async def test_one_that_gets_none_is_given_up_though_others_wait_for_it(cluster, pod, written):
    found = reservations(WrittenBetween(cluster.client, written))
    with pytest.raises(BindFailed, match="got no device"):
        await found.reserve(pod, node=NODE, group=GROUP, grant=HALF)
    assert await found.read(NODE, GROUP) is None


async def test_pods_of_one_device_wait_for_it_together_and_not_one_after_the_other(cluster):
    """One that does not come is waited for once, and not as many times as there are pods."""
    client = WrittenBetween(cluster.client, None)
    found = reservations(client, timeout=3)
    binder = PodBinder(
        cluster.client,
        pods=pod_store(),
        reservations=found,
        plugins=(),
        events=EventRecorder(cluster.client, controller="test"),
        node_pool_label=names.NODE_POOL_LABEL,
        sync_soon=lambda node: None,
    )
    decisions = []
    for name in "abc":
        pod = await cluster.pod(name, fraction=0.2)
        ref = PodRef(uid=pod["metadata"]["uid"], namespace="default", name=name)
        decisions.append(
            BindDecision(
                pod=ref, node=NODE, resource_type=ResourceType.FRACTION, gpu_portion=0.2, gpu_groups=(GROUP,)
            )
        )
    ends = await asyncio.gather(*map(binder.prepare, decisions), return_exceptions=True)
    assert [type(end) for end in ends] == [BindFailed] * 3
    assert len(client.deleted) == 1
