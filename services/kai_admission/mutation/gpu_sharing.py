"""Connects the container that shares a GPU with the ConfigMaps in which the binder will write what it got.

The ConfigMaps do not exist until the pod is bound, so the kubelet cannot start the container earlier.
"""

from typing import Final

from kai.model import names, sharing
from kai.model.objects import Json
from kai_admission.mutation.draft import PodDraft, from_config_map, set_variables

_VARIABLES: Final = (names.NVIDIA_VISIBLE_DEVICES, names.RUNAI_NUM_OF_GPUS, names.GPU_PORTION)


def mutate(draft: PodDraft) -> None:
    """Gives a pod that asks for a part of a GPU the annotation, variables and volume that it needs."""
    position = draft.sharing_container
    if position is None:
        return
    annotations = draft.annotations
    prefix = annotations.get(names.SHARED_GPU_CONFIGMAP)
    if not prefix:
        prefix = sharing.config_map_prefix(draft.pod, position, draft.random())
        annotations[names.SHARED_GPU_CONFIGMAP] = prefix
    container = draft.container(position)
    capabilities = sharing.capabilities_config_map(prefix, position)
    set_variables(container, *(from_config_map(name, capabilities, optional=False) for name in _VARIABLES))
    _set_volume(draft.spec, capabilities)
    _add_environment(container, sharing.environment_config_map(prefix, position))


def _set_volume(spec: Json, config_map: str) -> None:
    volume = {"name": sharing.volume_name(config_map), "configMap": {"name": config_map}}
    others = [known for known in spec.get("volumes") or () if known.get("name") != volume["name"]]
    spec["volumes"] = [*others, volume]


def _add_environment(container: Json, config_map: str) -> None:
    sources: list[Json] = container.get("envFrom") or []
    if any((source.get("configMapRef") or {}).get("name") == config_map for source in sources):
        return
    container["envFrom"] = [*sources, {"configMapRef": {"name": config_map, "optional": False}}]
