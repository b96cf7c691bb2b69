"""A decision that comes when another one has been carried out already."""

import asyncio
import time

import pytest

from deadlines import within
from kai.kube.events import EventRecorder
from kai.kube.resources import PODS
from kai.model import names
from kai.model.decisions import BindDecision, PodRef, ResourceType
from kai.wire.decisions import Assignment, DecisionBatch, ResultStatus
from kai_binder.binding import PodBinder
from kai_binder.executor import Executor, Fence
from kai_binder.objects import pod_store
from kai_binder.reservation_pods import ReservationTemplate
from kai_binder.reservations import Reservations, reservation_store

pytestmark = pytest.mark.integration


def a_binder(client):
    """One whose watch is late: it tells nothing."""
    pods = pod_store()
    return PodBinder(
        client,
        pods=pods,
        reservations=Reservations(
            client,
            reservation_store(),
            ReservationTemplate(image="x"),
            pods=pods,
            binder_id="b1",
            allocation_timeout=1,
        ),
        plugins=(),
        events=EventRecorder(client, controller="test"),
        node_pool_label=names.NODE_POOL_LABEL,
        sync_soon=lambda node: None,
    )


async def test_a_pod_that_another_decision_has_bound_does_not_say_that_its_bind_failed(cluster):
    """As where a leader decides before it knows what a binder still did for the last one."""
    pod = await cluster.pod("p")
    target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    await cluster.client.create_subresource(PODS, "p", "binding", target, namespace="default")
    results = asyncio.Queue()
    executor = Executor(a_binder(cluster.client), fence=Fence(), report=results.put_nowait, binding_at_most=1)
    late = BindDecision(
        pod=PodRef(uid=pod["metadata"]["uid"], namespace="default", name="p"),
        node="n2",
        resource_type=ResourceType.REGULAR,
    )
    assignments = (Assignment(decision_id="late", decision=late),)
    executor.start(DecisionBatch(epoch=1, deadline=time.monotonic() + 60, assignments=assignments))
    async with within("the late decision has ended"):
        result = await results.get()
    assert result.status is ResultStatus.FAILED
    found = await cluster.get("p")
    assert found["spec"]["nodeName"] == "n1"
    assert names.POD_BOUND not in {each["type"] for each in found["status"].get("conditions", ())}
