"""What of a pod the kubelet aligns to NUMA zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kai.model import quantity
from kai.model.objects import Container, Pod
from kai.model.requests import is_sidecar

#: Amounts by resource name, positive only; CPU in millicores.
ResourceAmounts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaRequest:
    """The units that are aligned each on its own.

    With pod scope there is one. With container scope sidecars and containers (``lasting``) draw on the zones
    one after the other, while each ordinary init container (``brief``) finds the zones as they were.
    """

    guaranteed: bool
    pod: ResourceAmounts
    lasting: tuple[ResourceAmounts, ...]
    brief: tuple[ResourceAmounts, ...]


def aligned_for_guaranteed_only(resource: str) -> bool:
    """Whether the kubelet aligns the resource only for Guaranteed pods; devices are aligned for all."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def numa_request(pod: Pod) -> NumaRequest | None:
    """The pod's units; None if it asks for nothing that is ever aligned."""
    guaranteed = is_guaranteed(pod)
    init = pod.spec.init_containers or []
    sidecars = [_amounts(each, guaranteed) for each in init if is_sidecar(each)]
    containers = [_amounts(each, guaranteed) for each in pod.spec.containers]
    whole = _pod_amounts(init, sidecars + containers, guaranteed)
    if not whole:
        return None
    brief = tuple(_amounts(each, guaranteed) for each in init if not is_sidecar(each))
    return NumaRequest(guaranteed=guaranteed, pod=whole, lasting=(*sidecars, *containers), brief=brief)


def is_guaranteed(pod: Pod) -> bool:
    """The QoS class of the pod's status; before the status says, what the containers imply."""
    if pod.status.qos_class:
        return pod.status.qos_class == "Guaranteed"
    containers = [*(pod.spec.init_containers or []), *pod.spec.containers]
    return bool(containers) and all(_limits_cpu_and_memory(each) for each in containers)


def _limits_cpu_and_memory(container: Container) -> bool:
    limits = (container.resources and container.resources.limits) or {}
    requests = (container.resources and container.resources.requests) or {}
    return all(
        name in limits
        and quantity.parse(requests.get(name, limits[name])) == quantity.parse(limits[name]) > 0
        for name in ("cpu", "memory")
    )


def _pod_amounts(
    init: Iterable[Container], lasting: Iterable[ResourceAmounts], guaranteed: bool
) -> ResourceAmounts:
    """What lasts, or the peak while init containers run, whichever is more of each resource."""
    total: Counter[str] = Counter()
    for amounts in lasting:
        total.update(amounts)
    started: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in init:
        amounts = _amounts(container, guaranteed)
        if is_sidecar(container):
            started.update(amounts)
        else:
            peak |= started + Counter(amounts)
    return dict(total | peak)


def _amounts(container: Container, guaranteed: bool) -> ResourceAmounts:
    """Only whole CPUs are pinned, so a container with a fraction of one constrains no zone by its CPU."""
    amounts: dict[str, int] = {}
    for name, text in ((container.resources and container.resources.requests) or {}).items():
        if aligned_for_guaranteed_only(name) and not guaranteed:
            continue
        amount = quantity.milli(text) if name == "cpu" else quantity.whole(text)
        if amount > 0 and (name != "cpu" or amount % 1000 == 0):
            amounts[name] = amount
    return amounts
