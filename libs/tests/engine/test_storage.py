"""Volumes that a driver has yet to make share its capacity, where the flag asks to count them."""

import pytest

from kai.engine import Engine, EngineParams, SchedulerConfig
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import NOW, a_group, a_node, a_pod, a_state, add


def pods_with_disks(*, pods: int, size: str, capacity: str) -> ClusterState:
    """One node whose driver has room for volumes, and pods with a claim each."""
    provisioner = {"provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    driver = {"metadata": {"name": "disk.example.com"}, "spec": {"storageCapacity": True}}
    room = {"storageClassName": "fast", "capacity": capacity, "nodeTopology": {}}
    state = a_state(
        a_node("n", gpus=8),
        (Kind.STORAGE_CLASS, {"metadata": {"name": "fast"}, **provisioner}),
        (Kind.CSI_DRIVER, driver),
        (Kind.CSI_STORAGE_CAPACITY, {"metadata": {"name": "room", "namespace": "kube-system"}, **room}),
    )
    for i in range(pods):
        claim = {"storageClassName": "fast", "resources": {"requests": {"storage": size}}}
        disk = {"metadata": {"name": f"disk-{i}", "namespace": "default"}, "spec": claim}
        volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": f"disk-{i}"}}]
        pod = a_pod(f"job-{i}", group=f"job-{i}", gpus=1, spec={"volumes": volumes})
        add(state, (Kind.PERSISTENT_VOLUME_CLAIM, disk), a_group(f"job-{i}", queue="team", created=i), pod)
    return state


def placed(state: ClusterState, *, reserves: bool) -> list[str]:
    config = SchedulerConfig(params=EngineParams(schedule_csi_storage=reserves))
    return [bind.pod.name for bind in Engine(config).run(state, NOW).binds]


def test_with_the_flag_claims_of_one_cycle_and_the_next_share_the_capacity() -> None:
    state = pods_with_disks(pods=3, size="4Gi", capacity="10Gi")
    assert placed(state, reserves=True) == ["job-0", "job-1"]
    assert placed(state, reserves=True) == []


def test_room_taken_by_a_volume_that_was_made_is_for_the_driver_to_tell() -> None:
    state = pods_with_disks(pods=3, size="4Gi", capacity="10Gi")
    assert placed(state, reserves=True) == ["job-0", "job-1"]
    for i in range(2):
        claim = state.objects[Kind.PERSISTENT_VOLUME_CLAIM][f"default/disk-{i}"]
        state.apply(
            Kind.PERSISTENT_VOLUME_CLAIM, {**claim, "spec": {**claim["spec"], "volumeName": f"volume-{i}"}}
        )
    assert placed(state, reserves=True) == ["job-2"]


@pytest.mark.parametrize(("size", "expected"), [("4Gi", ["job-0", "job-1", "job-2"]), ("11Gi", [])])
def test_without_the_flag_each_claim_is_compared_with_the_capacity_alone(
    size: str, expected: list[str]
) -> None:
    assert placed(pods_with_disks(pods=3, size=size, capacity="10Gi"), reserves=False) == expected


@pytest.mark.parametrize(
    ("volume", "claim", "placed_there"),
    [
        ({}, {}, True),
        ({"volumeMode": "Block"}, {}, False),
        ({}, {"selector": {"matchLabels": {"tier": "hot"}}}, True),
        ({}, {"selector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}}, False),
        ({"claimRef": {"namespace": "default", "name": "disk-0", "uid": "of one before"}}, {}, False),
    ],
)
def test_a_pod_waits_where_no_volume_is_what_its_claim_asks_for(
    volume: dict[str, object], claim: dict[str, object], placed_there: bool
) -> None:
    state = pods_with_disks(pods=1, size="4Gi", capacity="10Gi")
    local = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    state.apply(Kind.STORAGE_CLASS, {"metadata": {"name": "fast"}, **local})
    asked = {"storageClassName": "fast", "resources": {"requests": {"storage": "4Gi"}}, **claim}
    meta = {"name": "disk-0", "namespace": "default", "uid": "u"}
    state.apply(Kind.PERSISTENT_VOLUME_CLAIM, {"metadata": meta, "spec": asked})
    offered = {"storageClassName": "fast", "capacity": {"storage": "5Gi"}, **volume}
    state.apply(
        Kind.PERSISTENT_VOLUME, {"metadata": {"name": "v", "labels": {"tier": "hot"}}, "spec": offered}
    )
    assert placed(state, reserves=False) == (["job-0"] if placed_there else [])
