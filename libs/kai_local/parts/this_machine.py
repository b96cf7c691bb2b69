"""The node that this machine is, and which pods run on it."""

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
