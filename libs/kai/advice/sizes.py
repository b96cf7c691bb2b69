"""What a pod asks for, against what any node ever had and the cluster as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from kai.advice.facts import Capacity, Facts
from kai.advice.finding import Code, Finding, Reference
from kai.advice.templates import Workload
from kai.model import names, quantity
from kai.model.objects import Pod, ResourceList
from kai.model.requests import pod_requests
from kai.model.rules.gpus import is_mig

_PORTION_DIGITS = 20


def findings(workload: Workload, facts: Facts) -> Iterator[Finding]:
    """Requests that no node can hold, and gangs that the cluster never had room for."""
    capacity = facts.capacity
    if capacity is None or not capacity.nodes:
        return
    wanted = counted(workload.pod, facts)
    yield from _beyond_nodes(wanted, capacity)
    yield from _beyond_devices(workload.pod, capacity)
    yield from _gang(workload, wanted, capacity)


def requested(pod: Pod) -> dict[str, float]:
    """What one pod asks for by resource, in base units; what cannot be read counts as nothing."""
    return {resource: float(total) for resource, total in pod_requests(pod, _amounts).items()}


def counted(pod: Pod, facts: Facts) -> dict[str, float]:
    """What a pod asks for that nodes alone can offer: of devices of a class nobody tells how many there are.

    While device classes are not known, any extended resource may be one of theirs.
    """
    wanted = requested(pod)
    classes = facts.device_classes
    if classes is None:
        return {resource: value for resource, value in wanted.items() if "/" not in resource}
    backed = {resource for resources in classes.values() for resource in resources}
    return {resource: value for resource, value in wanted.items() if resource not in backed}


def _amounts(resources: ResourceList) -> dict[str, Decimal]:
    return {resource: Decimal(amount(text)) for resource, text in resources.items()}


def amount(text: str) -> float:
    """A quantity as a number; 0 for what is none."""
    try:
        return float(quantity.parse(text))
    except (quantity.InvalidQuantity, ArithmeticError):
        return 0.0


def _beyond_nodes(wanted: dict[str, float], capacity: Capacity) -> Iterator[Finding]:
    for resource in sorted(wanted):
        most = capacity.largest.get(resource, 0)
        if wanted[resource] <= most:
            continue
        if most:
            asked, offered = shown(resource, wanted[resource]), shown(resource, most)
            text = f"one pod asks for {asked}, the largest node has {offered}; ask for less"
            yield Finding(Code.NO_SUCH_NODE, text)
        else:
            text = f"it asks for {resource}, which no node offers{_alternatives(resource, capacity)}"
            yield Finding(Code.NO_SUCH_NODE, text, Reference("DeviceClass", resource))


def _alternatives(resource: str, capacity: Capacity) -> str:
    """Resources of the same family, of which the right one may be chosen."""
    family = names.MIG_PREFIX if is_mig(resource) else resource.rpartition("/")[0] + "/"
    offered = sorted(each for each in capacity.largest if each.startswith(family) and family != "/")
    return f"; nodes offer {', '.join(offered[:5])}" if offered else ""


def _beyond_devices(pod: Pod, capacity: Capacity) -> Iterator[Finding]:
    """Parts of GPUs on several devices, and memory of one device."""
    told = pod.annotations
    gpus = max(capacity.largest.get(names.NVIDIA_GPU, 0), capacity.largest.get(names.AMD_GPU, 0))
    devices, memory = told.get(names.GPU_FRACTION_NUM_DEVICES, ""), told.get(names.GPU_MEMORY, "")
    if names.GPU_FRACTION not in told and names.GPU_MEMORY not in told:
        return
    if not gpus:
        yield Finding(Code.NO_SUCH_NODE, "it asks for a part of a GPU, but no node offers GPUs")
    elif gpus < _number(devices):
        text = f"{names.GPU_FRACTION_NUM_DEVICES} is {devices[:20]}, the largest node has {gpus:g} GPUs"
        yield Finding(Code.NO_SUCH_NODE, text)
    if 0 < capacity.gpu_memory_mib < _number(memory):
        yield Finding(
            Code.NO_SUCH_NODE,
            f"{names.GPU_MEMORY} is {memory[:20]} MiB, the largest GPU has {capacity.gpu_memory_mib:g} MiB",
        )


def _number(text: str) -> float:
    return float(text) if len(text) <= _PORTION_DIGITS and text.isascii() and text.isdecimal() else 0.0


def _gang(workload: Workload, wanted: dict[str, float], capacity: Capacity) -> Iterator[Finding]:
    said = workload.metadata.annotations or {}
    size = int(_number(said.get(names.BATCH_MIN_MEMBER, ""))) if workload.kind == "Job" else 0
    if size < 2:
        return
    if workload.parallelism is not None and size > workload.parallelism:
        yield Finding(
            Code.GANG_TOO_LARGE,
            f"{names.BATCH_MIN_MEMBER} is {size} but parallelism {workload.parallelism}, "
            "so there are never pods enough to begin",
        )
    together = {resource: size * each for resource, each in wanted.items()}
    yield from beyond_cluster(size, together, capacity)


def beyond_cluster(size: int, together: dict[str, float], capacity: Capacity) -> Iterator[Finding]:
    """A gang of so many pods that ask for this much together, where the cluster never had room for it."""
    for resource, asking in sorted({**together, "pods": float(size)}.items()):
        had = capacity.total.get(resource, 0)
        if had and asking > had:
            asked, known = shown(resource, asking), shown(resource, had)
            text = f"{size} pods that start together ask for {asked}, the cluster never had more than {known}"
            yield Finding(Code.GANG_TOO_LARGE, text)


def shown(resource: str, value: float) -> str:
    """An amount for readers."""
    if resource == "memory":
        return f"{_rounded(value / 2**30, digits=4)} GiB of memory"
    return f"{_rounded(value, digits=6)} {resource}"


def _rounded(value: float, *, digits: int) -> str:
    """A number without exponent."""
    return f"{Decimal(f'{value:.{digits}g}'):f}"
