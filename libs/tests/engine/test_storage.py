"""Volumes share the slots of nodes, and those yet to be made the capacity, where the flag counts it."""

import pytest

from kai.engine import Engine, EngineParams, SchedulerConfig
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import (
    NOW,
    a_group,
    a_node,
    a_pod,
    a_queue,
    a_single,
    a_state,
    add,
    config,
    decided,
)


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


# --- what others give up -------------------------------------------------------------------------
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("volume", "node", "reached"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({OLD_ZONE: "a"}, {ZONE: "a"}, True),
        ({OLD_ZONE: "a"}, {ZONE: "b"}, False),
        ({OLD_ZONE: "a"}, {OLD_ZONE: "a", ZONE: "b"}, True),
        ({ZONE: "a"}, {}, True),
        ({ZONE: "a"}, {"disktype": "ssd"}, True),
        ({ZONE: "a"}, {OLD_ZONE: "a"}, False),
        ({ZONE: "a", REGION: "r"}, {REGION: "r"}, False),
    ],
    ids=str,
)
def test_a_volume_of_a_zone_is_reached_as_in_kubernetes(
    volume: dict[str, str], node: dict[str, str], reached: bool
) -> None:
    claim = {"metadata": {"name": "data", "namespace": "default"}, "spec": {"volumeName": "v"}}
    state = a_state(
        a_node("n", gpus=1, labels=node),
        (Kind.PERSISTENT_VOLUME, {"metadata": {"name": "v", "labels": volume}, "spec": {}}),
        (Kind.PERSISTENT_VOLUME_CLAIM, {**claim, "status": {"phase": "Bound"}}),
    )
    add(state, a_single("job", gpus=1, spec=using("data")))
    assert [bind.pod.name for bind in Engine().run(state, NOW).binds] == (["job"] if reached else [])


def one_slot(*things: object, gpus: int = 4) -> ClusterState:
    """A node that attaches one volume of a driver; claims ``mine`` and ``theirs`` have one each."""
    limit = {"drivers": [{"name": "disk.example.com", "allocatable": {"count": 1}}]}
    disks: list[object] = []
    for name in ("mine", "theirs"):
        claim = {"metadata": {"name": name, "namespace": "default"}, "spec": {"volumeName": name}}
        disks += [
            (Kind.PERSISTENT_VOLUME_CLAIM, {**claim, "status": {"phase": "Bound"}}),
            (
                Kind.PERSISTENT_VOLUME,
                {"metadata": {"name": name}, "spec": {"csi": {"driver": "disk.example.com"}}},
            ),
        ]
    return a_state(
        a_node("n", gpus=gpus), (Kind.CSI_NODE, {"metadata": {"name": "n"}, "spec": limit}), disks, things
    )


def using(claim: str) -> dict[str, object]:
    return {"volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": claim}}]}


QUEUES = [a_queue("top"), a_queue("team", parent="top", gpu=4), a_queue("other", parent="top", gpu=0)]


@pytest.mark.parametrize(
    ("theirs", "mine"),
    [
        pytest.param({}, {"priority": "inference"}, id="preempt"),
        pytest.param({"queue": "other"}, {}, id="reclaim"),
    ],
)
def test_who_makes_room_gives_up_the_slot_of_its_volume(theirs: dict[str, str], mine: dict[str, str]) -> None:
    state = one_slot(
        QUEUES,
        a_single("old", on="n", gpus=4, spec=using("theirs"), **theirs),
        a_single("new", gpus=4, created=1, spec=using("mine"), **mine),
    )
    found = decided(state)
    assert (found.evicts, found.waits) == ({"old"}, {"new": "n"})


@pytest.mark.parametrize(
    ("deleted", "waits"),
    [
        pytest.param(0, {}, id="stays"),
        pytest.param(NOW + 30, {"new": "n"}, id="soon"),
        pytest.param(NOW + 86_400, {}, id="tomorrow"),
    ],
)
def test_a_slot_is_waited_for_as_any_other_resource(deleted: float, waits: dict[str, str]) -> None:
    state = one_slot(
        a_single("old", on="n", gpus=1, spec=using("theirs"), deleted=deleted),
        a_single("new", gpus=1, created=1, spec=using("mine")),
        gpus=8,
    )
    found = decided(state)
    assert (found.binds, found.waits) == ({}, waits)


def test_nobody_waits_for_the_slot_of_a_volume_that_both_use() -> None:
    state = one_slot(
        a_single("old", on="n", gpus=1, spec=using("mine"), deleted=NOW + 30),
        a_single("new", gpus=1, created=1, spec=using("mine")),
    )
    assert decided(state).binds == {"new": "n"}


def test_who_makes_room_gives_up_the_volume_that_would_be_made_for_it() -> None:
    state = pods_with_disks(pods=2, size="6Gi", capacity="10Gi")
    add(
        state,
        a_pod("job-0", group="job-0", gpus=1, node="n", phase="Pending", spec=using("disk-0")),
        a_group("job-1", queue="team", created=1, priority="inference"),
    )
    found = decided(state, config(schedule_csi_storage=True))
    assert (found.evicts, found.waits) == ({"job-0"}, {"job-1": "n"})
    again = decided(state, config(schedule_csi_storage=True), now=NOW + 1)
    assert (again.binds, again.waits) == ({}, {"job-1": "n"})
