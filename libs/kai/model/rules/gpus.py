"""Which resources are GPUs, how many of them amounts are, and how much memory the GPUs of a node have.

Whoever shares out counts a MIG device by its profile; the original's metric of what a queue has does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from kai.model import names
from kai.model.quantity import integer
from kai.model.resource_lists import parsed

_MIG: Final = re.compile(r"nvidia\.com/mig-([0-9]{1,3})g\.[0-9]+gb.*")
_MIB: Final = 1 << 20
_AMD_MB: Final = 10**6


def is_gpu(resource: str) -> bool:
    """Whether a resource counts whole GPUs, whoever made them."""
    return resource.endswith("gpu") and not resource.startswith("requests.")


def is_mig(resource: str) -> bool:
    """Whether a resource counts parts into which NVIDIA's GPUs were cut."""
    return resource.startswith(names.MIG_PREFIX)


def mig_gpus(resource: str) -> int:
    """How many GPUs of quota one device of a MIG profile costs; 0 for any other resource."""
    match = _MIG.fullmatch(resource)
    return int(match[1]) if match else 0


def whole_gpus(amounts: Mapping[str, Decimal]) -> Decimal:
    """Whole GPUs, and parts that were written as such, of all makers; no MIG devices."""
    return sum((amount for resource, amount in amounts.items() if is_gpu(resource)), Decimal(0))


def gpus_of_quota(amounts: Mapping[str, Decimal]) -> Decimal:
    """GPUs of quota that amounts cost: GPUs, and MIG devices by their profiles."""
    parts = (
        amount if is_gpu(resource) else amount * mig_gpus(resource) for resource, amount in amounts.items()
    )
    return sum(parts, Decimal(0))


def shared_memory_mib(labels: Mapping[str, str]) -> int | None:
    """MiB of each GPU of a node that pods can share; None if its labels do not tell.

    A number of 2^20 or more is in bytes, as some exporters write it: no GPU has a TiB. Only NVIDIA's are
    shared: a reservation pod asks for ``nvidia.com/gpu``.
    """
    value = integer(labels.get(names.GPU_MEMORY_LABEL))
    if value is None or value <= 0:
        return None
    return value if value < _MIB else value // _MIB


def gpu_memory_mib(labels: Mapping[str, str]) -> int | None:
    """MiB of each GPU of a node, whoever made it; None if its labels do not tell, or of two makers.

    AMD's size stands in the key, ``beta.amd.com/gpu.vram.64G``, and counts in 10^6 bytes as in the original.
    """
    nvidia, amd = shared_memory_mib(labels), _amd_memory(labels)
    return (nvidia or amd) if nvidia is None or amd is None else None


def _amd_memory(labels: Mapping[str, str]) -> int | None:
    for key in labels:
        if key.startswith(names.AMD_VRAM_LABEL_PREFIX):
            size = int(parsed(key.removeprefix(names.AMD_VRAM_LABEL_PREFIX))) // _AMD_MB
            if size > 0:
                return size
    return None
