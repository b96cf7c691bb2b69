"""An extended resource that is backed by a device class, from the pod to the decision."""

import pytest

from kai.engine import EngineParams, SchedulerConfig
from kai.snapshot.state import Kind
from libs.tests.engine.builders import a_node, a_single, a_state, add, claiming, cycle, outcomes
from libs.tests.engine.dra.builders import a_class, a_slice, in_cluster

RESOURCE = "example.com/gpu"
NIC = "example.com/nic"


def offering(*, devices=2, plugin=0, resource=RESOURCE):
    """One node with devices in a ResourceSlice, or offered by a device plugin."""
    return a_state(
        a_node("n1", gpus=0, extra={resource: str(plugin)} if plugin else {}),
        in_cluster(a_class("gpus", extendedResourceName=resource), a_slice("n1", devices)),
    )


def asking(name, *, gpus, resource=RESOURCE, claims=()):
    job = a_single(name, namespace="ns", spec=claiming(*claims))
    job[1].metadata.uid = name
    job[1].spec.containers[0].resources.requests = {"cpu": "1", resource: str(gpus)}
    return job


def binds(state, **params):
    """What a cycle binds, by names of pods."""
    result = cycle(state, SchedulerConfig.parse("actions: allocate", params=EngineParams(**params)))
    return {bind.pod.name: bind for bind in result.binds}


def claimed(bind):
    return [each["device"] for each in bind.extended_claim["allocation"]["devices"]["results"]]


def test_devices_are_allocated_and_stay_allocated_while_the_pod_is_bound():
    state = offering(devices=2)
    add(state, asking("first", gpus=1))
    assert claimed(binds(state)["first"]) == ["gpu-0"]
    add(state, asking("second", gpus=1))
    bind = binds(state)["second"]
    assert claimed(bind) == ["gpu-1"]
    assert bind.extended_claim["deviceRequests"][0]["name"] == "container-0-request-1"
    add(state, asking("third", gpus=1))
    assert binds(state) == {}


def test_a_device_plugin_that_offers_the_resource_is_used_instead():
    state = offering(devices=0, plugin=2)
    add(state, asking("first", gpus=2))
    assert binds(state)["first"].extended_claim is None


def test_the_claim_object_that_was_made_for_a_pod_is_its_own():
    state = offering(devices=1)
    add(state, asking("first", gpus=1))
    allocation = binds(state)["first"].extended_claim["allocation"]
    users = [{"resource": "pods", "name": "first", "uid": "first"}]
    status = {"allocation": allocation, "reservedFor": users}
    state.apply(Kind.RESOURCE_CLAIM, made_for("first", status=status))
    add(state, asking("second", gpus=1))
    assert binds(state) == {}
    state.remove(Kind.POD, "ns/first")
    state.remove(Kind.RESOURCE_CLAIM, "ns/first-x")
    assert claimed(binds(state)["second"]) == ["gpu-0"]


def made_for(pod, *, status=None):
    """The claim object that a binder makes for a pod, and allocates next."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod, "controller": True}
    meta = {
        "name": f"{pod}-x",
        "namespace": "ns",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [owner],
    }
    return {"metadata": meta, "status": status or {}}


def naming_its_claim(pod, *, bound=False):
    """The pod as the API server tells it once its status names its claim."""
    job = asking(pod, gpus=1)
    job[1].status.extended_resource_claim_status = {"resourceClaimName": f"{pod}-x", "requestMappings": []}
    job[1].spec.node_name = "n1" if bound else ""
    return job[1]


def reserved_for(pod, allocation):
    return {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": pod, "uid": pod}]}


@pytest.mark.parametrize("is_allocated", [False, True])
def test_a_claim_that_a_former_attempt_has_made_is_named_by_the_next_decision(is_allocated):
    """Else the pod would be bound, and its claim or its status never written."""
    state = offering(devices=2)
    add(state, asking("first", gpus=1))
    first = binds(state)["first"].extended_claim
    again = offering(devices=2)
    add(again, asking("first", gpus=1))
    status = reserved_for("first", first["allocation"]) if is_allocated else {}
    again.apply(Kind.RESOURCE_CLAIM, made_for("first", status=status))
    assert binds(again)["first"].extended_claim == first
    add(again, asking("second", gpus=1))
    assert claimed(binds(again)["second"]) == ["gpu-1"]


def test_a_claim_of_a_former_attempt_keeps_its_pod_from_other_nodes_until_it_is_given_back():
    state = offering(devices=1)
    add(state, asking("first", gpus=1))
    allocation = binds(state)["first"].extended_claim["allocation"]
    closed = a_node("n1", gpus=0)
    closed.spec.unschedulable = True
    later = a_state(
        closed,
        a_node("n2", gpus=0, extra={RESOURCE: "1"}),
        in_cluster(a_class("gpus", extendedResourceName=RESOURCE), a_slice("n1", 1)),
        asking("first", gpus=1),
    )
    later.apply(Kind.RESOURCE_CLAIM, made_for("first", status=reserved_for("first", allocation)))
    assert binds(later) == {}
    later.apply(Kind.RESOURCE_CLAIM, made_for("first"))
    bind = binds(later)["first"]
    assert (bind.node, bind.extended_claim) == ("n2", None)


@pytest.mark.parametrize("is_known", [False, True], ids=["claim not known", "claim not allocated"])
@pytest.mark.parametrize(
    "pod",
    [None, naming_its_claim("first"), naming_its_claim("first", bound=True)],
    ids=["pod as before", "pod names it", "pod is bound"],
)
def test_a_device_is_given_once_whatever_is_known_of_the_claim_that_is_made_for_a_pod(is_known, pod):
    """Claims and pods are watched apart, and a claim is allocated after it has been made."""
    state = offering(devices=2)
    add(state, asking("first", gpus=1))
    assert claimed(binds(state)["first"]) == ["gpu-0"]
    if is_known:
        state.apply(Kind.RESOURCE_CLAIM, made_for("first"))
    if pod is not None:
        state.apply(Kind.POD, pod)
    for name in ("second", "third"):
        add(state, asking(name, gpus=1))
    assert [claimed(bind) for bind in binds(state).values()] == [["gpu-1"]]


def test_q42_other_resources_than_gpus_are_claimed_too_where_no_device_plugin_offers_them():
    state = offering(devices=2, resource=NIC)
    add(state, asking("first", gpus=1, resource=NIC))
    add(state, asking("second", gpus=1, resource=NIC))
    add(state, asking("third", gpus=1, resource=NIC))
    found = binds(state)
    assert sorted(found) == ["first", "second"]
    assert sorted(device for bind in found.values() for device in claimed(bind)) == ["gpu-0", "gpu-1"]


def test_q42_a_device_plugin_that_offers_them_still_limits_them():
    state = offering(devices=4, plugin=2, resource=NIC)
    add(state, asking("large", gpus=3, resource=NIC))
    add(state, asking("small", gpus=2, resource=NIC))
    found = binds(state)
    assert list(found) == ["small"]
    assert found["small"].extended_claim is None


def test_q42_the_order_in_which_class_and_node_become_known_does_not_matter():
    state = offering(devices=1, resource=NIC)
    class_ = state.objects[Kind.DEVICE_CLASS]["gpus"]
    add(state, asking("first", gpus=1, resource=NIC))
    state.remove(Kind.DEVICE_CLASS, "gpus")
    assert binds(state) == {}
    state.apply(Kind.DEVICE_CLASS, class_)
    assert claimed(binds(state)["first"]) == ["gpu-0"]


def test_q42_without_dynamic_resources_only_device_plugins_count():
    without = offering(devices=2, resource=NIC)
    add(without, asking("first", gpus=1, resource=NIC))
    assert binds(without, dynamic_resources=False) == {}
    offered = offering(devices=2, plugin=2, resource=NIC)
    add(offered, asking("first", gpus=1, resource=NIC))
    assert binds(offered, dynamic_resources=False)["first"].extended_claim is None


# --- GPUs, which claims and device plugins share ---------------------------------------------------
GPU = "nvidia.com/gpu"


def test_a_pod_that_asks_for_gpus_does_not_go_where_they_are_to_be_had_by_claims_only():
    state = offering(devices=2, resource=NIC)
    add(state, asking("first", gpus=1, resource=GPU))
    assert binds(state) == {}


def test_a_pod_that_asks_for_gpus_goes_where_a_class_stands_behind_them():
    state = offering(devices=2, resource=NIC)
    add(state, asking("first", gpus=1, resource=GPU))
    state.apply(Kind.DEVICE_CLASS, {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": GPU}})
    assert claimed(binds(state)["first"]) == ["gpu-0"]


def test_a_device_plugin_beside_claims_limits_what_a_pod_asks_for():
    state = offering(devices=4, plugin=2, resource=GPU)
    state.remove(Kind.DEVICE_CLASS, "gpus")
    add(state, asking("large", gpus=3, resource=GPU))
    add(state, asking("small", gpus=2, resource=GPU))
    assert list(binds(state)) == ["small"]


def test_who_finds_no_gpu_beside_claims_is_told_why():
    state = offering(devices=4, plugin=2, resource=GPU)
    state.remove(Kind.DEVICE_CLASS, "gpus")
    part = a_single("part", namespace="ns", fraction=0.5)
    add(state, asking("whole", gpus=3, resource=GPU), part)
    told = outcomes(cycle(state, SchedulerConfig.parse("actions: allocate")))
    assert "1 node offers its GPUs by resource claims only" in told["whole"].message
    assert "1 node offers GPUs by resource claims, and no parts of GPUs therefore" in told["part"].message


def test_a_node_with_devices_for_a_later_alternative_only_is_not_passed_over():
    state = offering(devices=1)
    wanted = [{"name": n, "deviceClassName": "gpus", "count": c} for n, c in (("many", 2), ("one", 1))]
    claim = {"devices": {"requests": [{"name": "r", "firstAvailable": wanted}]}}
    labels = {"kai.scheduler/queue": "team"}
    state.apply(
        Kind.RESOURCE_CLAIM,
        {"metadata": {"name": "c", "namespace": "ns", "uid": "c", "labels": labels}, "spec": claim},
    )
    add(state, asking("job", gpus=0, claims=["c"]))
    assert list(binds(state)) == ["job"]
