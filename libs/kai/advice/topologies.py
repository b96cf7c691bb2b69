"""Warnings about Topologies."""

from __future__ import annotations

from collections.abc import Iterator

from kai.advice.facts import Facts
from kai.advice.finding import Code, Finding
from kai.advice.spelling import nearest
from kai.model.objects import Topology


def findings(topology: Topology, facts: Facts) -> Iterator[Finding]:
    """Levels that no node belongs to."""
    capacity = facts.capacity
    if capacity is None or not capacity.nodes:
        return
    for level in topology.spec.levels:
        if level.node_label and level.node_label not in capacity.label_keys:
            meant = nearest(level.node_label, capacity.label_keys)
            hint = f"; did you mean {meant}?" if meant else ""
            yield Finding(
                Code.UNKNOWN_NODE_LABEL, f"no node has the label {level.node_label} of spec.levels{hint}"
            )
