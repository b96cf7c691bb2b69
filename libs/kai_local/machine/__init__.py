"""This machine as a node of a cluster: the pods of the chart run here, as processes.

The other nodes of a cluster in a box are simulated. This one does for the chart's pods what a kubelet, a
network and a DNS would do: it starts what their manifests say, starts it again when it ends, tells their
status and their logs, ends them when they are deleted, and leads the API server to their Services. So
whatever helm or kubectl changes in the installation takes effect as on any cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kai.model import names

NODE: Final = "this-machine"
#: The port of every kubelet.
KUBELET_PORT: Final = 10250
_PART_OF: Final = "app.kubernetes.io/part-of"
SELECTOR: Final = f"{_PART_OF}={names.SCHEDULER_NAME}"


def is_of_chart(labels: Mapping[str, str]) -> bool:
    """Whether a pod with these labels comes from the chart."""
    return labels.get(_PART_OF) == names.SCHEDULER_NAME


def runs_here(labels: Mapping[str, str], node: str) -> bool:
    """Whether a pod with these labels on this node is one that this machine runs."""
    return node == NODE and is_of_chart(labels)
