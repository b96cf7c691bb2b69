"""An extended resource that is backed by a device class, from the pod to the decision."""

from kai.engine import Engine, EngineParams, SchedulerConfig
from kai.model.objects import PodResourceClaim
from kai.snapshot.state import Kind
from libs.tests.engine.builders import NOW, a_group, a_node, a_pod, a_state, add

RESOURCE = "example.com/gpu"
NIC = "example.com/nic"


def a_cluster(*, devices=2, plugin=0, resource=RESOURCE):
    """One node with devices in a ResourceSlice, or offered by a device plugin."""
    slice_ = {
        "driver": "gpu.example.com",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n1",
        "devices": [{"name": f"gpu-{at}"} for at in range(devices)],
    }
    class_ = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": resource}}
    return a_state(
        a_node("n1", gpus=0, extra={resource: str(plugin)} if plugin else {}),
        (Kind.DEVICE_CLASS, class_),
        (Kind.RESOURCE_SLICE, {"metadata": {"name": "n1-gpus"}, "spec": slice_}),
    )


def submit(state, name, *, gpus, resource=RESOURCE, claims=()):
    pod = a_pod(name, group=name, namespace="ns", spec={"resource_claims": list(claims)})
    pod.metadata.uid = name
    pod.spec.containers[0].resources.requests = {"cpu": "1", resource: str(gpus)}
    add(state, a_group(name, queue="team", namespace="ns"), pod)


def run(state, **params):
    config = SchedulerConfig.parse("actions: allocate", params=EngineParams(**params))
    result = Engine(config).run(state, now=NOW)
    state.check()
    return {bind.pod.name: bind for bind in result.binds}


def devices_of(bind):
    return [each["device"] for each in bind.extended_claim["allocation"]["devices"]["results"]]


def test_devices_are_allocated_and_stay_allocated_while_the_pod_is_bound():
    state = a_cluster(devices=2)
    submit(state, "first", gpus=1)
    assert devices_of(run(state)["first"]) == ["gpu-0"]
    submit(state, "second", gpus=1)
    bind = run(state)["second"]
    assert devices_of(bind) == ["gpu-1"]
    assert bind.extended_claim["deviceRequests"][0]["name"] == "container-0-request-1"
    submit(state, "third", gpus=1)
    assert run(state) == {}


def test_a_device_plugin_that_offers_the_resource_is_used_instead():
    state = a_cluster(devices=0, plugin=2)
    submit(state, "first", gpus=2)
    assert run(state)["first"].extended_claim is None


def test_the_claim_object_that_was_made_for_a_pod_is_its_own():
    state = a_cluster(devices=1)
    submit(state, "first", gpus=1)
    allocation = run(state)["first"].extended_claim["allocation"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "first", "uid": "first", "controller": True}
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    claim = {
        "metadata": {
            "name": "first-x",
            "namespace": "ns",
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "status": {
            "allocation": allocation,
            "reservedFor": [{"resource": "pods", "name": "first", "uid": "first"}],
        },
    }
    state.apply(Kind.RESOURCE_CLAIM, claim)
    submit(state, "second", gpus=1)
    assert run(state) == {}
    state.remove(Kind.POD, "ns/first")
    state.remove(Kind.RESOURCE_CLAIM, "ns/first-x")
    assert devices_of(run(state)["second"]) == ["gpu-0"]


def test_q42_other_resources_than_gpus_are_claimed_too_where_no_device_plugin_offers_them():
    state = a_cluster(devices=2, resource=NIC)
    submit(state, "first", gpus=1, resource=NIC)
    submit(state, "second", gpus=1, resource=NIC)
    submit(state, "third", gpus=1, resource=NIC)
    found = run(state)
    assert sorted(found) == ["first", "second"]
    assert sorted(device for bind in found.values() for device in devices_of(bind)) == ["gpu-0", "gpu-1"]


def test_q42_a_device_plugin_that_offers_them_still_limits_them():
    state = a_cluster(devices=4, plugin=2, resource=NIC)
    submit(state, "large", gpus=3, resource=NIC)
    submit(state, "small", gpus=2, resource=NIC)
    found = run(state)
    assert list(found) == ["small"]
    assert found["small"].extended_claim is None


def test_q42_the_order_in_which_class_and_node_become_known_does_not_matter():
    state = a_cluster(devices=1, resource=NIC)
    class_ = state.objects[Kind.DEVICE_CLASS]["gpus"]
    submit(state, "first", gpus=1, resource=NIC)
    state.remove(Kind.DEVICE_CLASS, "gpus")
    assert run(state) == {}
    state.apply(Kind.DEVICE_CLASS, class_)
    assert devices_of(run(state)["first"]) == ["gpu-0"]


def test_q42_without_dynamic_resources_only_device_plugins_count():
    without = a_cluster(devices=2, resource=NIC)
    submit(without, "first", gpus=1, resource=NIC)
    assert run(without, dynamic_resources=False) == {}
    offered = a_cluster(devices=2, plugin=2, resource=NIC)
    submit(offered, "first", gpus=1, resource=NIC)
    assert run(offered, dynamic_resources=False)["first"].extended_claim is None


# --- GPUs, which claims and device plugins share ---------------------------------------------------
GPU = "nvidia.com/gpu"


def test_a_pod_that_asks_for_gpus_does_not_go_where_they_are_to_be_had_by_claims_only():
    state = a_cluster(devices=2, resource=NIC)
    submit(state, "first", gpus=1, resource=GPU)
    assert run(state) == {}


def test_a_pod_that_asks_for_gpus_goes_where_a_class_stands_behind_them():
    state = a_cluster(devices=2, resource=NIC)
    submit(state, "first", gpus=1, resource=GPU)
    state.apply(Kind.DEVICE_CLASS, {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": GPU}})
    assert devices_of(run(state)["first"]) == ["gpu-0"]


def test_a_device_plugin_beside_claims_limits_what_a_pod_asks_for():
    state = a_cluster(devices=4, plugin=2, resource=GPU)
    state.remove(Kind.DEVICE_CLASS, "gpus")
    submit(state, "large", gpus=3, resource=GPU)
    submit(state, "small", gpus=2, resource=GPU)
    assert list(run(state)) == ["small"]


def test_a_node_with_devices_for_a_later_alternative_only_is_not_passed_over():
    state = a_cluster(devices=1)
    wanted = [{"name": n, "deviceClassName": "gpus", "count": c} for n, c in (("many", 2), ("one", 1))]
    claim = {"devices": {"requests": [{"name": "r", "firstAvailable": wanted}]}}
    labels = {"kai.scheduler/queue": "team"}
    state.apply(
        Kind.RESOURCE_CLAIM,
        {"metadata": {"name": "c", "namespace": "ns", "uid": "c", "labels": labels}, "spec": claim},
    )
    submit(state, "job", gpus=0, claims=[PodResourceClaim(name="r", resource_claim_name="c")])
    assert list(run(state)) == ["job"]
