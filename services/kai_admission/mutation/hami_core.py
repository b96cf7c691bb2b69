"""Tells the container that shares a GPU how much memory of it it may use, for the HAMi-core library."""

from kai.model import names, sharing
from kai_admission.mutation.draft import PodDraft, from_config_map, set_variables


def mutate(draft: PodDraft) -> None:
    """Adds the memory limit, which the binder may leave open."""
    position = draft.sharing_container
    if position is None:
        return
    prefix = draft.annotations[names.SHARED_GPU_CONFIGMAP]
    capabilities = sharing.capabilities_config_map(prefix, position)
    limit = from_config_map(names.CUDA_DEVICE_MEMORY_LIMIT, capabilities, optional=True)
    set_variables(draft.container(position), limit)
