"""GPUs of all makers are charged alike, and a pod gets those that it names."""

from typing import Any

import pytest

from libs.tests.engine.builders import a_node, a_single, a_state, add, bound, cycle, decided, outcomes, read
from libs.tests.engine.dra.builders import a_class, a_slice, in_cluster

NVIDIA, AMD = "nvidia.com/gpu", "amd.com/gpu"


def naming(name: str, resource: str, **more: Any) -> list[Any]:
    group, pod = a_single(name, **more)
    pod.spec.containers[0].resources.requests[resource] = "1"
    return [group, pod]


def of_amd(name: str = "amd") -> Any:
    return a_node(name, gpus=0, extra={AMD: "4"})


@pytest.mark.parametrize(("resource", "node"), [(NVIDIA, "nv"), (AMD, "amd")])
def test_a_pod_goes_to_a_node_that_offers_the_gpus_that_it_names(resource: str, node: str) -> None:
    other = {"nv": "amd", "amd": "nv"}[node]
    there = naming("there", NVIDIA if other == "nv" else AMD, on=other)
    state = a_state(a_node("nv", gpus=4), of_amd(), there, naming("new", resource, created=1))
    assert decided(state).binds == {"new": node}


def test_it_waits_where_there_are_only_others_and_is_told_so() -> None:
    state = a_state(a_node("nv", gpus=4), naming("new", AMD))
    result = cycle(state)
    assert bound(result) == {}
    assert "node offers no amd.com/gpu" in outcomes(result)["new"].message
    add(state, of_amd())
    assert decided(state).binds == {"new": "amd"}


def test_nobody_makes_room_on_a_node_of_another_maker() -> None:
    state = a_state(
        a_node("nv", gpus=1),
        naming("low", NVIDIA, on="nv"),
        naming("wants-amd", AMD, priority="build", created=1),
        naming("wants-nvidia", NVIDIA, priority="build", created=2),
    )
    found = decided(state)
    assert (found.evicts, found.waits) == ({"low"}, {"wants-nvidia": "nv"})


def test_parts_are_given_of_gpus_that_reservation_pods_ask_for() -> None:
    state = a_state(of_amd(), a_single("part", fraction=0.5))
    assert decided(state).binds == {}
    add(state, a_node("nv", gpus=1))
    assert decided(state).binds == {"part": "nv"}


@pytest.mark.parametrize(("resource", "binds"), [(NVIDIA, {"new": "n"}), (AMD, {})])
def test_claims_serve_the_names_of_their_device_class(resource: str, binds: dict[str, str]) -> None:
    state = a_state(
        a_node("n", gpus=0),
        in_cluster(
            a_class(extendedResourceName=NVIDIA), a_slice("n", 2, driver="gpu.nvidia.com", name="slice")
        ),
        naming("new", resource),
    )
    assert read(cycle(state)).binds == binds
