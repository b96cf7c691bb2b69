"""A node with two NUMA zones, and pods that have devices of one of them."""

import json

import msgspec

from kai.model import names
from kai.model.numa import NodeResourceTopology
from kai.snapshot.state import Kind
from libs.tests.engine.builders import a_node

GPU = "nvidia.com/gpu"


def a_zoned_node(*, left, gpus=1):
    """Zones of so many GPUs each, in which so much is left, as the node ``n`` says."""
    zones = [
        {
            "name": f"node-{at}",
            "type": "Node",
            "resources": [{"name": GPU, "allocatable": str(gpus), "available": available}],
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
        a_node("n", gpus=2 * gpus),
        (Kind.NODE_RESOURCE_TOPOLOGY, msgspec.convert(told, NodeResourceTopology)),
    ]


def in_zone(number, job, *, gpus=1):
    """The same job, of whose pod it is recorded that it has GPUs of a zone."""
    record = [{"zone": f"node-{number}", "amount": {GPU: str(gpus)}}]
    job[1].metadata.annotations[names.NUMA_OBSERVED] = json.dumps(record)
    return job
