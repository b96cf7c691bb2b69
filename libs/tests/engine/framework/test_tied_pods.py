"""Pods that must be together: the first of them goes where there is room for all."""

from collections.abc import Mapping
from typing import Any

import pytest

from kai.snapshot.state import Kind
from libs.tests.engine.builders import (
    a_group,
    a_job,
    a_node,
    a_pod,
    a_state,
    claiming,
    cycle,
    decided,
    nodes,
    outcomes,
)
from libs.tests.engine.dra.builders import a_claim, a_class, a_slice, in_cluster

HOSTNAME = "kubernetes.io/hostname"


def following(labels: Mapping[str, str], *keys: str) -> dict[str, Any]:
    """A pod that must be in the same domains as others with these labels."""
    wanted = [{"labelSelector": {"matchLabels": labels}, "topologyKey": key} for key in keys]
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}}


def a_gang(pods: int, *keys: str) -> list[Any]:
    return a_job("g", pods=pods, gpus=1, labels={"app": "g"}, spec=following({"app": "g"}, *keys))


@pytest.mark.parametrize("keys", [(HOSTNAME,), ("zone",), (HOSTNAME, "zone")], ids=" and ".join)
def test_a_gang_whose_pods_want_each_other_near_leaves_the_node_that_is_too_small(
    keys: tuple[str, ...],
) -> None:
    """The small node is the fullest, and so the best one for the first pod."""
    state = a_state(
        a_node("n0", gpus=1, labels={"zone": "a"}),
        a_node("n1", gpus=4, labels={"zone": "b"}),
        a_gang(2, *keys),
    )
    assert decided(state).binds == {"g-0": "n1", "g-1": "n1"}


def test_domains_that_are_too_small_are_not_tried_one_by_one() -> None:
    """More of them than are tried."""
    state = a_state(nodes(30, gpus=1), a_node("room", gpus=2), a_gang(2, HOSTNAME))
    assert decided(state).binds == {"g-0": "room", "g-1": "room"}


def test_pods_that_follow_another_one_take_it_with_them() -> None:
    """A leader that wants nobody, and workers that must be near it."""
    state = a_state(
        a_node("n0", gpus=1),
        a_node("n1", gpus=4),
        a_group("g", queue="team", min_member=3),
        a_pod("a-leader", group="g", gpus=1, labels={"role": "leader"}),
        [
            a_pod(f"worker-{each}", group="g", gpus=1, spec=following({"role": "leader"}, HOSTNAME))
            for each in "01"
        ],
    )
    assert set(decided(state).binds.values()) == {"n1"}


def test_a_gang_stays_together_with_those_who_run_already() -> None:
    """Who runs there says where, so there is nowhere else to look, and nobody is placed."""
    state = a_state(
        a_node("n0", gpus=2),
        a_node("n1", gpus=4),
        a_job("other", on="n0", gpus=1, labels={"app": "g"}),
        a_gang(2, HOSTNAME),
    )
    assert not decided(state).binds


def test_a_gang_that_shares_devices_goes_where_both_pods_fit() -> None:
    state = a_state(
        a_node("n0", gpus=0, cpu="1.5"),
        a_node("n1", gpus=0, cpu="4"),
        in_cluster(a_class("gpu"), a_slice("n0", 1), a_slice("n1", 1), a_claim("shared", queue="team")),
        a_job("g", pods=2, gpus=0, cpu="1", namespace="ns", spec=claiming("shared")),
    )
    assert decided(state).binds == {"g-0": "n1", "g-1": "n1"}


@pytest.mark.parametrize("provisioner", ["disk.example.com", "kubernetes.io/no-provisioner"])
def test_a_gang_that_shares_a_volume_goes_where_both_pods_fit(provisioner: str) -> None:
    asks = {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}
    storage = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]
    state = a_state(
        [a_node("n0", gpus=1), a_node("n1", gpus=4)],
        (Kind.STORAGE_CLASS, {"metadata": {"name": "fast"}, **storage}),
        [(Kind.PERSISTENT_VOLUME, a_local_volume(name)) for name in ("n0", "n1")],
        (Kind.PERSISTENT_VOLUME_CLAIM, {"metadata": {"name": "disk", "namespace": "default"}, "spec": asks}),
        a_job("g", pods=2, gpus=1, spec={"volumes": volumes}),
    )
    assert decided(state).binds == {"g-0": "n1", "g-1": "n1"}


def a_local_volume(node: str) -> dict[str, Any]:
    there = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
    spec = {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "nodeAffinity": {"required": {"nodeSelectorTerms": [there]}},
    }
    return {"metadata": {"name": f"volume-{node}"}, "spec": spec}


def test_a_gang_that_fits_nowhere_is_told_what_kept_it_from_the_best_node() -> None:
    state = a_state(a_node("n0", gpus=1), a_node("n1", gpus=2), a_gang(3, HOSTNAME))
    result = cycle(state)
    assert not result.binds
    assert "1 of the 3 pods needed found room" in outcomes(result)["g"].message
    assert state.jobs["default/g"].active_allocated == 0


@pytest.mark.parametrize("names", ["abcd", "acbd"], ids=["pair by pair", "in turns"])
@pytest.mark.parametrize("small", ["first", "last"])
def test_of_two_pairs_the_one_that_has_too_little_room_goes_elsewhere(names: str, small: str) -> None:
    """Each pair shares a claim; one is placed well, and the best node for the other is too small for both."""
    storage = {"provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    asks = {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}
    cramped, roomy = ("first", "last") if small == "first" else ("last", "first")

    def a_member(name: str, pair: str) -> Any:
        volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": pair}}]
        return a_pod(name, group="g", gpus=1, spec={"volumes": volumes, "node_selector": {"for": pair}})

    of = dict(zip(names, ("first", "first", "last", "last"), strict=True))
    state = a_state(
        [a_node(f"roomy-{each}", gpus=2, labels={"for": roomy}) for each in range(12)],
        a_node("cramped", gpus=1, labels={"for": cramped}),
        a_node("enough", gpus=4, labels={"for": cramped}),
        (Kind.STORAGE_CLASS, {"metadata": {"name": "fast"}, **storage}),
        [
            (Kind.PERSISTENT_VOLUME_CLAIM, {"metadata": {"name": pair, "namespace": "default"}, "spec": asks})
            for pair in ("first", "last")
        ],
        a_group("g", queue="team", min_member=4),
        [a_member(name, of[name]) for name in "abcd"],
    )
    binds = decided(state).binds
    assert {name for name, node in binds.items() if node == "enough"} == {
        name for name, pair in of.items() if pair == cramped
    }
    assert len(binds) == 4
