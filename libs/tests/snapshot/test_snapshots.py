"""A snapshot of a cluster that uses every feature says everything that decisions depend on."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kai.bench.objects import a_group, a_node, a_pod, a_queue
from kai.bench.worlds import NOW, World, a_world
from kai.engine import Engine
from kai.model import names
from kai.model.failures import FailedOver
from kai.snapshot import codec
from kai.snapshot.state import ClusterState, Kind
from kai.snapshot.times import rfc3339
from libs.tests.engine.builders import claiming
from libs.tests.engine.random_worlds import WORLDS

DRIVER = "gpu.example.com"
#: No encoder takes it for a key.
NO_TEXT = ("no", "text")


def add_work(state: ClusterState, name: str, **more) -> None:
    state.apply(Kind.POD_GROUP, a_group(name, queue="special"))
    state.apply(Kind.POD, a_pod(name, group=name, created=NOW - 10, **more))


def add_devices(state: ClusterState) -> None:
    """A node with devices, MIG instances and NUMA zones."""
    mig = {"nvidia.com/mig-1g.5gb": "2"}
    state.apply(Kind.NODE, a_node("special", gpus=0, cpu="16", extra=mig | {"example.com/nic": "2"}))
    state.apply(Kind.DEVICE_CLASS, {"metadata": {"name": "any"}, "spec": {}})
    devices = [{"name": f"d{at}"} for at in range(4)]
    pool = {"name": "special", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "special", "pool": pool, "devices": devices}
    state.apply(Kind.RESOURCE_SLICE, {"metadata": {"name": "special"}, "spec": spec})
    zone = [{"name": "cpu", "capacity": "8", "allocatable": "8", "available": "8"}]
    zones = {
        "metadata": {"name": "special"},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "pod"},
        ],
        "zones": [{"name": f"node-{at}", "type": "Node", "resources": zone} for at in range(2)],
    }
    state.apply(Kind.NODE_RESOURCE_TOPOLOGY, zones)


def add_claims(state: ClusterState, rng: random.Random) -> None:
    """Pods with claims, one of them with parameters that only JSON can say."""
    request = {"name": "r", "exactly": {"deviceClassName": "any", "count": 1}}
    parameters = {"serial": 10 ** rng.choice([3, 19, 30]), "nested": [[{"é": 1.5}]]}
    config = [{"requests": ["r"], "opaque": {"driver": DRIVER, "parameters": parameters}}]
    for at in range(rng.randint(1, 3)):
        name = f"claim-{at}"
        spec = {"devices": {"requests": [request], "config": config}}
        state.apply(Kind.RESOURCE_CLAIM, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        add_work(state, f"claims-{at}", spec=claiming(name))


def add_volumes(state: ClusterState) -> None:
    """A pod with a volume that waits for its first user, and one with a config map."""
    meta = {"name": "data", "namespace": "default"}
    spec = {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
    state.apply(
        Kind.PERSISTENT_VOLUME_CLAIM, {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
    )
    late = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "csi.example.com"}
    state.apply(Kind.STORAGE_CLASS, {"metadata": {"name": "fast"}} | late)
    state.apply(Kind.CSI_DRIVER, {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}})
    state.apply(Kind.CONFIG_MAP, {"metadata": {"name": "settings", "namespace": "default"}})
    state.apply(Kind.NAMESPACE, {"metadata": {"name": "default", "labels": {"team": "x"}}})
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "settings", "configMap": {"name": "settings"}},
    ]
    add_work(state, "volumes", spec={"volumes": volumes})


def add_special_work(state: ClusterState, rng: random.Random) -> None:
    state.apply(Kind.QUEUE, a_queue("special"))
    add_devices(state)
    add_claims(state, rng)
    add_volumes(state)
    sliced = a_pod("sliced", group="sliced")
    sliced.spec.containers[0].resources.requests["nvidia.com/mig-1g.5gb"] = "1"
    state.apply(Kind.POD_GROUP, a_group("sliced", queue="special"))
    state.apply(Kind.POD, sliced)
    zoned = a_pod("zoned", group="zoned", cpu="4")
    zoned.status.qos_class = "Guaranteed"
    zoned.spec.containers[0].resources.limits = zoned.spec.containers[0].resources.requests
    state.apply(Kind.POD_GROUP, a_group("zoned", queue="special"))
    state.apply(Kind.POD, zoned)
    nominated = a_pod("nominated", group="nominated", gpus=1)
    nominated.status.nominated_node_name = "node-0"
    state.apply(Kind.POD_GROUP, a_group("nominated", queue="special"))
    state.apply(Kind.POD, nominated)
    observed = a_pod("observed", group="observed", cpu="1", node="special")
    observed.metadata.annotations[names.NUMA_OBSERVED] = '[{"zone": "node-0", "resources": {"cpu": "1"}}]'
    state.apply(Kind.POD_GROUP, a_group("observed", queue="special"))
    state.apply(Kind.POD, observed)


@settings(max_examples=30, derandomize=True)
@given(world=WORLDS, number=st.integers(0, 2**32))
def test_a_snapshot_of_any_cluster_survives_the_round_trip(world: World, number: int) -> None:
    state, engine = world.state(), Engine()
    add_special_work(state, random.Random(number))
    engine.run(state, NOW)
    snapshot = codec.cut(state)
    decoded = codec.decode(codec.encode(snapshot))
    assert decoded == snapshot
    restored = codec.restore(decoded)
    restored.settle(NOW)
    restored.check()
    again = codec.cut(restored)
    assert again.digest == snapshot.digest
    assert codec.encode(again) == codec.encode(snapshot)


@pytest.mark.parametrize("serial", [7, 2**63, 2**64, 10**30])
def test_what_was_decided_for_claims_is_in_a_snapshot_whatever_their_parameters_say(serial: int) -> None:
    state = ClusterState()
    state.apply(Kind.QUEUE, a_queue("special"))
    add_devices(state)
    request = {"name": "r", "exactly": {"deviceClassName": "any"}}
    config = [{"opaque": {"driver": DRIVER, "parameters": {"serial": serial}}}]
    claim = {"metadata": {"name": "c", "namespace": "default"}}
    state.apply(Kind.RESOURCE_CLAIM, claim | {"spec": {"devices": {"requests": [request], "config": config}}})
    add_work(state, "p", spec=claiming("c"))
    (bind,) = Engine().run(state, NOW).binds
    assert bind.claim_allocations
    restored = codec.restore(codec.decode(codec.encode(codec.cut(state))))
    placement = restored.tasks["default-p"].facts.assumed_allotment
    assert placement.claims == bind.claim_allocations
    assert restored.objects[Kind.RESOURCE_CLAIM] == state.objects[Kind.RESOURCE_CLAIM]


@pytest.mark.parametrize(
    ("poison", "about"),
    [
        (
            lambda state: state.objects[Kind.DEVICE_CLASS]["odd"].update({("no", "text"): 1}),
            "DeviceClass odd",
        ),
        (lambda state: state.queue_objects["odd"].metadata.labels.update({NO_TEXT: ""}), "Queue odd"),
        (lambda state: state.tasks["default-odd"].labels.update({NO_TEXT: ""}), "Pod default/odd"),
    ],
    ids=["json", "struct", "pod"],
)
def test_an_object_that_cannot_be_encoded_is_named(poison, about) -> None:
    state = ClusterState()
    for name in ("even", "odd", "other"):
        labels = {"app": name}
        queue, pod = a_queue(name), a_pod(name, group=name)
        for obj in (queue, pod):
            obj.metadata.labels = (obj.metadata.labels or {}) | labels
        state.apply(Kind.DEVICE_CLASS, {"metadata": {"name": name}, "spec": {}})
        state.apply(Kind.QUEUE, queue)
        state.apply(Kind.POD_GROUP, a_group(name, queue=name))
        state.apply(Kind.POD, pod)
    codec.cut(state)
    poison(state)
    with pytest.raises(FailedOver) as raised:
        codec.cut(state)
    assert raised.value.about == about
    assert isinstance(raised.value.__cause__, TypeError)


def test_a_snapshot_says_which_config_maps_come_with_the_binding() -> None:
    """Else pods that share GPUs would seem to wait for what only their bind makes."""
    pod = a_pod("part", group="part", fraction=0.5)
    pod.metadata.annotations[names.SHARED_GPU_CONFIGMAP] = "part-x-shared-gpu"
    wanted = [{"configMapRef": {"name": name}} for name in ("part-x-shared-gpu-0", "own")]
    pod.spec.containers[0].env_from = wanted
    state = ClusterState()
    state.apply(Kind.QUEUE, a_queue("special"))
    state.apply(Kind.POD_GROUP, a_group("part", queue="special"))
    state.apply(Kind.POD, pod)
    [task] = codec.restore(codec.cut(state)).tasks.values()
    assert task.cls.constraints.config_maps == ("own",)


def test_snapshots_of_equal_clusters_are_equal_bytes_in_whatever_order_their_objects_came() -> None:
    def a_state(rng: random.Random) -> ClusterState:
        state = ClusterState()
        objects = a_world(random.Random(3)).objects()
        rng.shuffle(objects)
        for kind, obj in objects:
            state.apply(kind, obj)
        add_special_work(state, random.Random(1))
        state.settle(NOW)
        return state

    first, second = a_state(random.Random(1)), a_state(random.Random(2))
    assert codec.cut(first).digest == codec.cut(second).digest


def test_a_snapshot_of_a_release_that_did_not_tell_since_when_pods_run_is_read_all_the_same() -> None:
    state = ClusterState()
    add_work(state, "runs", node="special")
    state.tasks["default-runs"].facts.started = rfc3339(NOW - 60)
    snapshot = codec.cut(state)
    [pod] = snapshot.each_pod()
    assert pod.status.start_time == rfc3339(NOW - 60)
    former = replace(snapshot, pods=replace(snapshot.pods, started=b""))
    [pod] = codec.decode(codec.encode(former)).each_pod()
    assert pod.status.start_time is None
