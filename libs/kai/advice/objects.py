"""From an object as it is written to what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kai.advice import operators, pod_groups, queues, templates, topologies, workloads
from kai.advice.facts import Facts
from kai.advice.finding import Finding
from kai.model.objects import Json, PodGroup, Queue, Topology


async def findings(kind: str, body: Json, namespace: str, facts: Facts) -> tuple[str, Iterator[Finding]]:
    """How to call the object, and what is wrong with it.

    Raises:
        msgspec.ValidationError: a field has the wrong type; also while the findings are read.
    """
    match kind:
        case "PodGroup":
            group = msgspec.convert(body, PodGroup)
            group.metadata.namespace = group.metadata.namespace or namespace
            return f"podgroup {group.key}", pod_groups.findings(group, facts)
        case "Queue":
            queue = msgspec.convert(body, Queue)
            return f"queue {queue.metadata.name}", queues.findings(queue, facts)
        case "Topology":
            topology = msgspec.convert(body, Topology)
            return f"topology {topology.metadata.name}", topologies.findings(topology, facts)
        case _ if kind in templates.KINDS:
            workload = templates.workload_of(kind, body, namespace)
            return workload.where, workloads.findings(workload, facts)
        case _ if operators.is_known(kind, body):
            return await operators.findings(kind, body, namespace, facts)
        case _:
            return kind, iter(())
