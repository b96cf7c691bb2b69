"""What a pod asks for, by its specification and its annotations, as far as it is within bounds."""

from __future__ import annotations

from typing import NamedTuple

from kai.model import limits, names
from kai.model.objects import Pod
from kai.model.requests import pod_requests
from kai.model.rules.gpus import is_gpu
from kai.snapshot.gpu_need import NOT_ANNOTATED, Annotated, annotated
from kai.snapshot.resources import ResourceTable, Wanted


class Asked(NamedTuple):
    """Amounts by resource, and the GPUs that annotations ask for."""

    wanted: Wanted
    gpus: Annotated
    #: Names of the whole GPUs among them.
    gpu_names: frozenset[str]


def asked(pod: Pod, resources: ResourceTable) -> Asked:
    """All that a pod asks for.

    Raises:
        OutOfBounds: an amount cannot be read, or there is too much of it.
    """
    amounts = pod_requests(pod, resources.wanted)
    gpus = annotated(pod)
    if gpus is not NOT_ANNOTATED and any(
        amount and (is_gpu(name) or name.startswith(names.MIG_PREFIX)) for name, amount in amounts.items()
    ):
        gpus = NOT_ANNOTATED  # what the specification asks for is the pod's, and nobody can change it
    if gpus.mig:
        amounts |= gpus.mig
    limits.RESOURCES.check_count(amounts)
    gpu_names = frozenset([name for name, amount in amounts.items() if amount and is_gpu(name)])
    return Asked(resources.split(amounts), gpus, gpu_names)
