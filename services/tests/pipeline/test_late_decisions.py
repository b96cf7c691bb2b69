"""A decision that comes when another one has been carried out already."""

import asyncio
import time

import pytest

from deadlines import within
from kai.kube.errors import Forbidden
from kai.kube.events import EventRecorder
from kai.kube.resources import PODS, RESOURCE_CLAIMS
from kai.model import names
from kai.model.decisions import BindDecision, PodRef, ResourceType
from kai.wire.decisions import Assignment, DecisionBatch, ResultStatus
from kai_binder import executor
from kai_binder.binding import PodBinder
from kai_binder.executor import Executor, Fence
from kai_binder.objects import pod_store
from kai_binder.plugins.dynamicresources import DynamicResources
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
        plugins=(DynamicResources(client, timeout=10),),
        events=EventRecorder(client, controller="test"),
        node_pool_label=names.NODE_POOL_LABEL,
        sync_soon=lambda node: None,
    )


async def carry_out(client, pod, *, node, **decided):
    """What comes of the decision to bind a pod to a node."""
    results = asyncio.Queue()
    bench = Executor(a_binder(client), fence=Fence(), report=results.put_nowait, binding_at_most=1)
    decision = BindDecision(
        pod=PodRef(uid=pod["metadata"]["uid"], namespace="default", name=pod["metadata"]["name"]),
        node=node,
        resource_type=ResourceType.REGULAR,
        **decided,
    )
    assignments = (Assignment(decision_id="late", decision=decision),)
    bench.start(DecisionBatch(epoch=1, deadline=time.monotonic() + 60, assignments=assignments))
    async with within("the decision has ended"):
        return await results.get()


async def test_a_pod_that_another_decision_has_bound_does_not_say_that_its_bind_failed(cluster):
    """As where a leader decides before it knows what a binder still did for the last one."""
    pod = await cluster.pod("p")
    target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    await cluster.client.create_subresource(PODS, "p", "binding", target, namespace="default")
    result = await carry_out(cluster.client, pod, node="n2")
    assert result.status is ResultStatus.FAILED
    found = await cluster.get("p")
    assert found["spec"]["nodeName"] == "n1"
    assert names.POD_BOUND not in {each["type"] for each in found["status"].get("conditions", ())}


def has_gone(namespace, client, monkeypatch):
    """Have binds refused as where this namespace is being deleted; gives those that were asked for."""
    asked = []
    cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}

    async def refuse(*args, **options):
        asked.append(args)
        raise Forbidden("unable to create new content", status=403, details={"causes": [cause]})

    monkeypatch.setattr(client, "create_subresource", refuse)
    monkeypatch.setattr(executor, "REFUSED_SECONDS", (0.0,))
    return asked


@pytest.mark.parametrize(("namespace", "gone"), [("default", True), ("kai-resource-reservation", False)])
async def test_a_pod_whose_namespace_goes_is_given_up_at_once_and_is_told_of_no_failure(
    cluster, monkeypatch, namespace, gone
):
    """Its place is free sooner, and nobody is told that a bind failed of what he has just deleted."""
    pod = await cluster.pod("p")
    asked = has_gone(namespace, cluster.client, monkeypatch)
    result = await carry_out(cluster.client, pod, node="n1")
    found = await cluster.get("p")
    failed = names.POD_BOUND in {each["type"] for each in found["status"].get("conditions", ())}
    assert (result.status, len(asked), failed) == (
        (ResultStatus.REJECTED, 1, False) if gone else (ResultStatus.FAILED, 2, True)
    )


async def test_what_was_prepared_for_a_pod_whose_namespace_goes_is_given_back(cluster, monkeypatch):
    """The namespace may stay for long, as where a finalizer is not done, and the pod with it."""
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
    claim = {"metadata": {"name": "gpu"}, "spec": spec}
    await cluster.client.create(RESOURCE_CLAIMS, claim, namespace="default")
    pod = await cluster.pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    asked = has_gone("default", cluster.client, monkeypatch)
    device = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    taken = {"name": "gpu", "allocation": {"devices": {"results": [device]}}}
    result = await carry_out(cluster.client, pod, node="n1", claim_allocations=(taken,))
    assert (result.status, len(asked)) == (ResultStatus.REJECTED, 1)
    found = await cluster.client.get(RESOURCE_CLAIMS, "gpu", namespace="default")
    assert not found.get("status")
