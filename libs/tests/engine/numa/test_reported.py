"""Zones where nodes say what is left in them, which they do some time after it is so."""

import json
from dataclasses import replace

import msgspec
import pytest

from kai.engine import SchedulerConfig
from kai.engine.config import PluginOption
from kai.model import names
from kai.model.numa import NodeResourceTopology
from kai.snapshot.state import Kind
from libs.tests.engine.builders import (
    Decided,
    a_job,
    a_node,
    a_running,
    a_state,
    add,
    decided,
    leaving,
    urgent,
)

GPU = "nvidia.com/gpu"
REPORTED = replace(
    SchedulerConfig(),
    plugins=(*SchedulerConfig().plugins, PluginOption("numa", {"reconstructAvailable": "false"})),
)


def a_zoned_node(*, left):
    """Two zones of one GPU, in which so much is left."""
    zones = [
        {
            "name": f"node-{at}",
            "type": "Node",
            "resources": [{"name": GPU, "allocatable": "1", "available": available}],
        }
        for at, available in enumerate(left)
    ]
    told = {
        "metadata": {"name": "n"},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "pod"},
        ],
        "zones": zones,
    }
    return [
        a_node("n", gpus=2),
        (Kind.NODE_RESOURCE_TOPOLOGY, msgspec.convert(told, NodeResourceTopology)),
    ]


def in_zone(number, job):
    """The same job, of whose pod it is recorded that it has the GPU of a zone."""
    record = [{"zone": f"node-{number}", "amount": {GPU: "1"}}]
    job[1].metadata.annotations[names.NUMA_OBSERVED] = json.dumps(record)
    return job


@pytest.mark.parametrize("left", ["0", "1"], ids=["as before", "as after"])
def test_what_is_being_given_up_is_waited_for_whatever_the_node_says_of_it_yet(left):
    state = a_state(
        a_zoned_node(left=[left, "0"]),
        in_zone(0, leaving("gone", on="n", gpus=1)),
        in_zone(1, a_running("stays", on="n")),
        urgent("ours"),
    )
    assert decided(state, REPORTED) == Decided(waits={"ours-0": "n"})


def test_what_a_node_does_not_report_yet_is_not_given_away_twice():
    state = a_state(
        a_zoned_node(left=["1", "0"]), in_zone(1, a_running("stays", on="n")), a_job("first", gpus=1)
    )
    assert decided(state, REPORTED).binds == {"first-0": "n"}
    add(state, a_node("n", gpus=3), a_job("second", gpus=1))
    assert decided(state, REPORTED) == Decided()


def test_who_runs_has_what_the_node_says():
    state = a_state(
        a_zoned_node(left=["0", "0"]), in_zone(1, a_running("stays", on="n")), a_job("ours", gpus=1)
    )
    assert decided(state, REPORTED) == Decided()
