"""What a pod takes of a node, counted as kubelets and schedulers count it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kai.model import quantity, requests
from kai.model.objects import ContainerStatus, PodStatus
from kai_local.parts.objects import LocalContainer, LocalPod, LocalPodSpec, LocalPodStatus

#: Amounts by resource name, in thousandths.
Amounts = dict[str, int]


def amounts(resources: Mapping[str, str] | None) -> Amounts:
    """A resource list in thousandths of its base unit."""
    return {name: quantity.milli(str(text)) for name, text in (resources or {}).items()}


class _Pod(NamedTuple):
    spec: LocalPodSpec
    status: PodStatus


def pod_requests(pod: LocalPod) -> Amounts:
    """Requests of a pod, one of ``pods`` too, and nothing of what it has by claims."""
    running = requests.pod_requests(_Pod(pod.spec, _status(pod.status)), amounts)
    running["pods"] = 1000
    return {resource: amount for resource, amount in running.items() if resource not in claimed(pod)}


def _status(status: LocalPodStatus) -> PodStatus:
    """As much of it as requests depend on."""
    told = [each for each in status.container_statuses or () if each.get("resources")]
    return PodStatus(
        conditions=status.conditions,
        container_statuses=msgspec.convert(told, list[ContainerStatus]) if told else None,
        resources=status.resources,
        allocated_resources=status.allocated_resources,
    )


def claimed(pod: LocalPod) -> set[str]:
    """Extended resources that the pod has by a claim of devices, and does not take of the node's own."""
    found = pod.status.extended_resource_claim_status or {}
    return {str(mapping.get("resourceName")) for mapping in found.get("requestMappings") or ()}


def container_requests(container: LocalContainer) -> Amounts:
    """Requests of one container; a limit counts where no request is given."""
    return amounts(requests.requests(container.resources))


def add(to: Amounts, more: Amounts, sign: int = 1) -> None:
    """Add ``more`` to ``to`` in place, or take it away with ``sign=-1``."""
    for name, amount in more.items():
        to[name] = to.get(name, 0) + sign * amount
