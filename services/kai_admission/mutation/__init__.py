"""Completion of pods: one module for each thing that is added, applied in a fixed order.

All of it may be applied to its own result again, since the API server calls us a second time when another
webhook has changed the pod after us.
"""

from collections.abc import Callable

from kai_admission.mutation import device_access, gpu_sharing, hami_core, runtime_class
from kai_admission.mutation.draft import PodDraft
from kai_admission.settings import AdmissionSettings

#: Changes the draft in place.
Mutator = Callable[[PodDraft], None]


def mutators(settings: AdmissionSettings) -> tuple[Mutator, ...]:
    """What to apply in this installation, in order."""
    chain: list[Mutator] = [gpu_sharing.mutate]
    if settings.hami_core_enabled:
        chain.append(hami_core.mutate)
    if settings.block_nvidia_visible_devices:
        chain.append(device_access.mutate)
    if settings.runtime_class:
        chain.append(runtime_class.enforce(settings.runtime_class))
    return tuple(chain)
