"""A claim that waits for its first consumer is settled by the first pod placed, for all that follow."""

from collections.abc import Mapping
from typing import Any

import pytest

from kai.engine.plugins.predicates.volumes import Volumes
from kai.model.arrays import Mask
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import (
    a_job,
    a_single,
    a_state,
    add,
    cycle,
    decided,
    nodes,
    outcomes,
)

MADE = "disk.example.com"
LOCAL = "kubernetes.io/no-provisioner"
HOSTNAME = "kubernetes.io/hostname"


def a_storage_class(provisioner: str) -> tuple[Kind, Any]:
    waits = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    return (Kind.STORAGE_CLASS, {"metadata": {"name": "fast"}, **waits})


def an_unbound(name: str, *, mode: str = "ReadWriteOnce") -> tuple[Kind, Any]:
    asks = {"storageClassName": "fast", "accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    return (
        Kind.PERSISTENT_VOLUME_CLAIM,
        {"metadata": {"name": name, "namespace": "default"}, "spec": asks},
    )


def a_disk(name: str, *, on: str, mode: str = "ReadWriteOnce") -> tuple[Kind, Any]:
    """A volume that one node reaches."""
    there = {"key": HOSTNAME, "operator": "In", "values": [on]}
    spec = {
        "storageClassName": "fast",
        "accessModes": [mode],
        "capacity": {"storage": "1Gi"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}},
    }
    return (
        Kind.PERSISTENT_VOLUME,
        {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}},
    )


def using(*claims: str) -> dict[str, Any]:
    return {
        "volumes": [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims],
    }


def sharing_gang(*things: Any, mode: str = "ReadWriteOnce", provisioner: str = MADE) -> ClusterState:
    """A gang of two whose pods use the same claim, and two nodes with room for one of them each."""
    return a_state(
        nodes(2, gpus=1),
        a_storage_class(provisioner),
        an_unbound("disk", mode=mode),
        list(things),
        a_job("gang", pods=2, gpus=1, spec=using("disk")),
    )


def test_a_gang_that_shares_a_claim_of_one_node_does_not_start_on_two() -> None:
    state = sharing_gang()
    result = cycle(state)
    assert not result.binds
    assert "claim 'disk' gets its volume for another pod, on node n" in outcomes(result)["gang"].message


@pytest.mark.parametrize("mode", ["ReadWriteMany", "ReadOnlyMany"])
def test_a_volume_of_many_nodes_that_is_yet_to_be_made_ties_nobody(mode: str) -> None:
    assert decided(sharing_gang(mode=mode)).binds == {"gang-0": "n0", "gang-1": "n1"}


def test_pods_that_share_a_claim_are_where_its_only_possible_volume_is() -> None:
    """Both nodes have one, of which the claim gets that of the node of the first pod."""
    local = [a_disk(f"v{row}", on=f"n{row}", mode="ReadWriteMany") for row in range(2)]
    assert not decided(sharing_gang(*local, mode="ReadWriteMany", provisioner=LOCAL)).binds


def test_a_volume_is_given_to_one_claim() -> None:
    """Two pods with a claim each, on a node with one volume."""
    state = a_state(
        nodes(2, gpus=2),
        a_storage_class(LOCAL),
        [an_unbound("a"), an_unbound("b"), a_disk("v0", on="n0")],
        [a_single(name, gpus=1, spec=using(name), created=at) for at, name in enumerate("ab")],
    )
    assert decided(state).binds == {"a": "n0"}


def test_each_claim_gets_a_volume_of_its_own_where_there_are_enough() -> None:
    state = a_state(
        nodes(2, gpus=2),
        a_storage_class(LOCAL),
        [an_unbound("a"), an_unbound("b"), a_disk("v0", on="n0"), a_disk("v1", on="n1")],
        [a_single(name, gpus=1, spec=using(name), created=at) for at, name in enumerate("ab")],
    )
    assert sorted(decided(state).binds.values()) == ["n0", "n1"]


@pytest.mark.parametrize(("disks", "placed"), [(1, {}), (2, {"pod": "n0"})])
def test_a_pod_with_two_claims_needs_two_volumes_on_its_node(disks: int, placed: dict[str, str]) -> None:
    state = a_state(
        nodes(2, gpus=1),
        a_storage_class(LOCAL),
        [an_unbound("a"), an_unbound("b"), [a_disk(f"v{each}", on="n0") for each in range(disks)]],
        a_disk("elsewhere", on="n1"),
        a_single("pod", gpus=1, spec=using("a", "b")),
    )
    assert decided(state).binds == placed


def test_a_volume_can_be_made_where_another_claim_gets_the_one_that_exists() -> None:
    state = a_state(
        nodes(1, gpus=2),
        a_storage_class(MADE),
        [an_unbound("a"), an_unbound("b"), a_disk("v0", on="n0")],
        [a_single(name, gpus=1, spec=using(name), created=at) for at, name in enumerate("ab")],
    )
    assert decided(state).binds == {"a": "n0", "b": "n0"}


def test_a_gang_that_found_no_room_leaves_its_claim_unsettled() -> None:
    """The older gang finds no room for its second pod; the other pod goes to a node that suits it."""
    state = sharing_gang()
    only_there = {**using("disk"), "node_selector": {HOSTNAME: "n1"}}
    add(state, a_single("later", gpus=1, spec=only_there, created=9))
    assert decided(state).binds == {"later": "n1"}


def test_until_its_volume_is_there_a_claim_stays_with_the_pod_that_was_bound() -> None:
    state = a_state(
        nodes(2, gpus=1),
        a_storage_class(MADE),
        an_unbound("disk"),
        a_single("first", gpus=1, spec=using("disk")),
    )
    assert decided(state).binds == {"first": "n0"}
    add(state, a_single("second", gpus=1, spec=using("disk"), created=9))
    assert not decided(state).binds


def test_which_nodes_reach_a_volume_is_found_once_for_all_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    found = Volumes._of_volume

    def of_volume(self: Volumes, volume: Mapping[str, Any]) -> Mask | None:
        asked.append(volume["metadata"]["name"])
        return found(self, volume)

    monkeypatch.setattr(Volumes, "_of_volume", of_volume)
    names = [f"c{each}" for each in range(4)]
    state = a_state(
        nodes(4, gpus=1),
        a_storage_class(LOCAL),
        [an_unbound(name) for name in names],
        [a_disk(f"v{row}", on=f"n{row}") for row in range(4)],
        [a_single(name, gpus=1, spec=using(name), created=at) for at, name in enumerate(names)],
    )
    assert sorted(decided(state).binds.values()) == ["n0", "n1", "n2", "n3"]
    assert sorted(asked) == ["v0", "v1", "v2", "v3"]


def test_a_volume_that_is_kept_for_a_claim_is_no_other_claims() -> None:
    kind, disk = a_disk("v0", on="n0")
    disk["spec"]["claimRef"] = {"namespace": "default", "name": "b"}
    state = a_state(
        nodes(2, gpus=2),
        a_storage_class(LOCAL),
        [an_unbound("a"), an_unbound("b"), (kind, disk), a_disk("v1", on="n1")],
        [a_single(name, gpus=1, spec=using(name), created=at) for at, name in enumerate("ab")],
    )
    assert decided(state).binds == {"a": "n1", "b": "n0"}
