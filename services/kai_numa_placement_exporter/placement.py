"""What a pod has of each NUMA zone, from what its kubelet tells.

Only what belongs to one zone beyond doubt is told: a device between two zones, or memory that comes from
several, is in none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from kai.wire.kubelet import podresources_pb2 as pb

#: Zone, resource, and how much of it.
_Share = tuple[int, str, int]


def placement(pod: pb.PodResources, zones: Mapping[int, int]) -> str:
    """The annotation for a pod, zones in order, given those of CPUs; empty where nothing can be told."""
    amounts: dict[int, Counter[str]] = {}
    for container in pod.containers:
        for zone, resource, amount in _shares(container, zones):
            amounts.setdefault(zone, Counter())[resource] += amount
    records = [
        {"zone": f"node-{zone}", "amount": {resource: str(total) for resource, total in sorted(of.items())}}
        for zone, of in sorted(amounts.items())
    ]
    return msgspec.json.encode(records).decode() if records else ""


def _shares(container: pb.ContainerResources, zones: Mapping[int, int]) -> Iterator[_Share]:
    for devices in container.devices:
        zone = _only_zone(devices.topology)
        if zone is not None and devices.device_ids:
            yield zone, devices.resource_name, len(devices.device_ids)
    for cpu in container.cpu_ids:
        if cpu in zones:
            yield zones[cpu], "cpu", 1
    for memory in container.memory:
        zone = _only_zone(memory.topology)
        if zone is not None and memory.size:
            yield zone, memory.memory_type, memory.size


def _only_zone(topology: pb.TopologyInfo) -> int | None:
    """The zone, if it is one."""
    found = {node.ID for node in topology.nodes}
    return found.pop() if len(found) == 1 else None
