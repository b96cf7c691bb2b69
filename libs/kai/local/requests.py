"""What a pod takes of a node, counted as kubelets and schedulers count it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kai.local.objects import LocalContainer, LocalPod
from kai.model import quantity

#: Amounts by resource name, in thousandths.
Amounts = dict[str, int]


def amounts(resources: Mapping[str, str] | None) -> Amounts:
    """A resource list in thousandths of its base unit."""
    return {name: quantity.milli(str(text)) for name, text in (resources or {}).items()}


def pod_requests(pod: LocalPod) -> Amounts:
    """Requests of a pod (one of ``pods`` too): its containers together, or an init container if higher."""
    sidecars: Amounts = {}
    highest_init: Amounts = {}
    for container in pod.spec.init_containers or ():
        wanted = container_requests(container)
        if container.restart_policy == "Always":
            add(sidecars, wanted)
            wanted = {}
        _raise_to(highest_init, total((wanted, sidecars)))
    running = total([*map(container_requests, pod.spec.containers), sidecars])
    _raise_to(running, highest_init)
    add(running, amounts(pod.spec.overhead))
    running["pods"] = 1000
    return {resource: amount for resource, amount in running.items() if resource not in claimed(pod)}


def claimed(pod: LocalPod) -> set[str]:
    """Extended resources that the pod has by a claim of devices, and does not take of the node's own."""
    found = pod.status.extended_resource_claim_status or {}
    return {str(mapping.get("resourceName")) for mapping in found.get("requestMappings") or ()}


def container_requests(container: LocalContainer) -> Amounts:
    """Requests of one container; a limit counts where no request is given."""
    if container.resources is None:
        return {}
    return {**amounts(container.resources.limits), **amounts(container.resources.requests)}


def total(parts: Iterable[Amounts]) -> Amounts:
    """The sum of several."""
    result: Amounts = {}
    for part in parts:
        add(result, part)
    return result


def add(to: Amounts, more: Amounts, sign: int = 1) -> None:
    """Add ``more`` to ``to`` in place, or take it away with ``sign=-1``."""
    for name, amount in more.items():
        to[name] = to.get(name, 0) + sign * amount


def _raise_to(target: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        target[name] = max(target.get(name, 0), amount)
