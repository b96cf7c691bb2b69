"""Who is taken along goes on where the job left him his room, whatever the node says to newcomers."""

from typing import Any

import pytest

from kai.model.objects import Node, Taint
from libs.tests.engine.builders import a_job, a_node, a_queue, a_state, decided, nodes, urgent

TWICE = ("n0", "n0", "n1", "n1", "n2", "n2", "n3", "n3")


def at(node: str) -> dict[str, Any]:
    return {"spec": {"node_selector": {"kubernetes.io/hostname": node}}}


def cordoned(node: Node) -> Node:
    node.spec.unschedulable = True
    return node


def closing(node: Node) -> Node:
    node.spec.taints = [Taint(key="ToBeDeletedByClusterAutoscaler", value="1", effect="NoSchedule")]
    return node


@pytest.mark.parametrize("minimum", [1, 2, 6])
def test_an_elastic_job_loses_those_pods_only_whose_room_is_needed(minimum: int) -> None:
    state = a_state(
        nodes(4, gpus=2),
        a_job("j", on=TWICE, gpus=1, min_member=minimum),
        urgent("u", gpus=2, **at("n0")),
    )
    found = decided(state)
    assert found.evicts == {"j-0", "j-1"}
    assert found.waits == {"u-0": "n0"}


def test_a_job_that_cannot_keep_its_minimum_keeps_nothing() -> None:
    state = a_state(
        nodes(4, gpus=2), a_job("j", on=TWICE, gpus=1, min_member=7), urgent("u", gpus=2, **at("n0"))
    )
    assert decided(state).evicts == {f"j-{number}" for number in range(8)}


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param(a_node("y", gpus=1), id="open"),
        pytest.param(cordoned(a_node("y", gpus=1)), id="cordoned"),
        pytest.param(closing(a_node("y", gpus=1)), id="tainted"),
        pytest.param(a_node("y", gpus=1, ready=False), id="not ready"),
    ],
)
def test_who_runs_on_a_node_that_takes_nobody_goes_on_there(beside: Node) -> None:
    state = a_state(
        a_node("x", gpus=2),
        beside,
        a_job("j", on=["x", "x", "y"], gpus=1, min_member=1),
        urgent("u", gpus=1, **at("x")),
    )
    found = decided(state)
    assert found.evicts == {"j-1"}
    assert found.waits == {"u-0": "x"}


def test_who_runs_on_a_node_that_is_charged_more_than_it_has_goes_on_there() -> None:
    """Its room there is nobody's, though the node has none to give."""
    state = a_state(
        a_node("x", gpus=2),
        a_node("lost-a-gpu", gpus=1),
        urgent("k", on=["lost-a-gpu"], gpus=1),
        a_job("j", on=["x", "x", "lost-a-gpu"], gpus=1, min_member=1),
        urgent("u", gpus=2, **at("x")),
    )
    found = decided(state)
    assert found.evicts == {"j-0", "j-1"}
    assert found.waits == {"u-0": "x"}


def test_room_that_a_limit_keeps_from_the_job_as_well_is_given_up() -> None:
    """The job goes to other nodes; it is the queue that has no room for both."""
    state = a_state(
        a_queue("team", limit=2),
        a_node("x", gpus=2),
        a_node("free", gpus=2),
        a_job("j", on=["x", "x"], gpus=1, min_member=1),
        urgent("u", gpus=2, **at("free")),
    )
    found = decided(state)
    assert found.evicts == {"j-0", "j-1"}
    assert found.waits == {"u-0": "free"}


def test_who_may_not_be_near_the_job_does_not_stay() -> None:
    away = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "j"}}, "topologyKey": "zone"}
            ]
        }
    }
    state = a_state(
        nodes(2, gpus=1, labels={"zone": "a"}),
        a_job("j", on=["n0", "n1"], gpus=1, min_member=1, labels={"app": "j"}),
        urgent("u", gpus=1, spec={"affinity": away, **at("n0")["spec"]}),
    )
    found = decided(state)
    assert found.evicts == {"j-0", "j-1"}
    assert found.waits == {"u-0": "n0"}
