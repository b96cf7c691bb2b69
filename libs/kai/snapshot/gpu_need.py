"""How a pod asks for GPUs: by its specification, or by annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kai.model import limits, names
from kai.model.objects import Pod
from kai.model.rules.gpu_shares import Share, asked_share
from kai.model.rules.gpus import is_mig
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.classes import GpuKind
from kai.snapshot.resources import GPU

#: How keys of annotations begin that ask for GPUs.
GPU_ANNOTATIONS: Final = (names.GPU_FRACTION, names.GPU_MEMORY, names.MIG_PREFIX)


def gpu_annotations(pod: Pod) -> Sequence[tuple[str, str]]:
    """The annotations that ask for GPUs."""
    annotations = pod.metadata.annotations
    if not annotations or (len(annotations) == 1 and names.POD_GROUP_ANNOTATION in annotations):
        return ()
    keys = "".join(annotations)
    if names.GPU_FRACTION not in keys and names.GPU_MEMORY not in keys and names.MIG_PREFIX not in keys:
        return ()  # nearly all pods there are
    found = [item for item in annotations.items() if item[0].startswith(GPU_ANNOTATIONS)]
    return sorted(found) if found else found


class Annotated(NamedTuple):
    """The GPUs that a pod asks for by annotations: hundredths or MiB of each device, and MIG devices."""

    portion_centi: int = 0
    memory_mib: int = 0
    devices: int = 1
    mig: Mapping[str, int] = MappingProxyType({})


def annotated(pod: Pod) -> Annotated:
    """The GPUs that a pod asks for by annotations.

    Raises OutOfBounds for a request that cannot be read: the pod would run without what it asks for.
    """
    annotations = dict(gpu_annotations(pod))
    if not annotations:
        return NOT_ANNOTATED
    share = asked_share(annotations) or _NO_SHARE
    return Annotated(
        portion_centi=share.portion_centi,
        memory_mib=share.memory_mib,
        devices=share.devices,
        mig={
            name: number
            for name, text in annotations.items()
            if is_mig(name) and (number := limits.MIG_DEVICES.integer(text, f"metadata.annotations[{name}]"))
        },
    )


NOT_ANNOTATED: Final = Annotated()
_NO_SHARE: Final = Share(devices=1)


def gpu_need(annotated: Annotated, amounts: dict[int, int], dra_gpus: int, mig: int) -> dict[str, Any]:
    """The GPU part of a class, as fields of :class:`~kai.snapshot.classes.TaskClass`.

    Of several ways to ask for GPUs the later one below counts, as in the original.
    """
    whole = amounts.get(GPU, 0)
    need: dict[str, Any] = {
        "kind": GpuKind.WHOLE if whole else GpuKind.NONE,
        "devices": whole,
        "gpu_centi": whole * GPU_CENTI,
    }
    if annotated.portion_centi or annotated.memory_mib:
        need = {
            "devices": annotated.devices,
            "portion_centi": annotated.portion_centi,
            "gpu_memory_mib": 0 if annotated.portion_centi else annotated.memory_mib,
            "kind": GpuKind.FRACTION if annotated.portion_centi else GpuKind.MEMORY,
            "gpu_centi": annotated.devices * annotated.portion_centi,
        }
    if annotated.mig:
        need = {"devices": 0, "gpu_centi": 0, "kind": GpuKind.MIG, "legacy_mig": True}
    if mig:
        need["kind"] = GpuKind.MIG
        need["gpu_centi"] += mig * GPU_CENTI
    if dra_gpus:
        need["dra_gpus"] = dra_gpus
        need["gpu_centi"] += dra_gpus * GPU_CENTI
    return need
