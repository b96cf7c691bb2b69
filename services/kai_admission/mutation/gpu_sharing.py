"""Connects the container that shares a GPU with the ConfigMaps in which the binder will write what it got.

The ConfigMaps do not exist until the pod is bound, so the kubelet cannot start the container earlier. Their
names say where the container stands, and another webhook may put others before it once we have been called:
then we are called again.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from kai.model import names, sharing
from kai.model.objects import Json
from kai.model.sharing import ContainerPosition
from kai_admission.mutation.draft import PodDraft, from_config_map, set_variables

_VARIABLES: Final = (names.NVIDIA_VISIBLE_DEVICES, names.RUNAI_NUM_OF_GPUS, names.GPU_PORTION)


def mutate(draft: PodDraft) -> None:
    """Gives a pod that asks for a part of a GPU the annotation, variables and volume that it needs."""
    position = draft.sharing_container
    if position is None:
        return
    annotations = draft.annotations
    prefix = annotations.get(names.SHARED_GPU_CONFIGMAP)
    if prefix:
        position = _found_again(draft, prefix, position)
    else:
        prefix = sharing.config_map_prefix(draft.pod, position, draft.random())
        annotations[names.SHARED_GPU_CONFIGMAP] = prefix
    container = draft.container(position)
    capabilities = sharing.capabilities_config_map(prefix, position)
    set_variables(container, *(from_config_map(name, capabilities, optional=False) for name in _VARIABLES))
    _set_volume(draft.spec, capabilities)
    _add_environment(container, sharing.environment_config_map(prefix, position))


def _found_again(draft: PodDraft, prefix: str, position: ContainerPosition) -> ContainerPosition:
    """Where the container stands now that an earlier call has connected, if there was one.

    What names its ConfigMaps by its former place names them by the present one from now on, and where the
    first container was meant the annotation says which that is.
    """
    former = dict(_connected(draft, prefix))
    if position not in former and not draft.annotations.get(names.GPU_FRACTION_CONTAINER):
        position = next((known for known in former if not known.init), position)
    if position not in former:
        return position
    if position != draft.sharing_container:
        draft.annotations[names.GPU_FRACTION_CONTAINER] = draft.container(position).get("name", "")
        draft.sharing_container = position
    present = sharing.capabilities_config_map(prefix, position)
    if former[position] != present:
        _rename(draft, former[position], present)
    return position


def _connected(draft: PodDraft, prefix: str) -> Iterator[tuple[ContainerPosition, str]]:
    """Containers that were connected, and their capabilities ConfigMap.

    The volume tells that it was we who did it: who chose the prefix may let several containers read them.
    """
    volumes = {volume.get("name") for volume in draft.spec.get("volumes") or ()}
    for position, container in draft.containers():
        for source in container.get("envFrom") or ():
            environment = str((source.get("configMapRef") or {}).get("name"))
            capabilities = sharing.capabilities_beside(environment, prefix)
            if capabilities and sharing.volume_name(capabilities) in volumes:
                yield position, capabilities


def _rename(draft: PodDraft, former: str, present: str) -> None:
    """Names the ConfigMaps of a container otherwise wherever they are read; the volume of the former goes."""
    renamed = {
        former: present,
        sharing.environment_beside(former): sharing.environment_beside(present),
    }
    for _, container in draft.containers():
        if sources := container.get("envFrom"):
            container["envFrom"] = [_renamed(source, "configMapRef", renamed) for source in sources]
        if variables := container.get("env"):
            container["env"] = [_read_from(variable, renamed) for variable in variables]
    volume = sharing.volume_name(former)
    others = [known for known in draft.spec.get("volumes") or () if known.get("name") != volume]
    draft.spec["volumes"] = [_renamed(known, "configMap", renamed) for known in others]


def _read_from(variable: Json, renamed: Mapping[str, str]) -> Json:
    source = variable.get("valueFrom")
    return {**variable, "valueFrom": _renamed(source, "configMapKeyRef", renamed)} if source else variable


def _renamed(reader: Json, field: str, renamed: Mapping[str, str]) -> Json:
    reference = reader.get(field) or {}
    name = renamed.get(str(reference.get("name")))
    return reader if name is None else {**reader, field: {**reference, "name": name}}


def _set_volume(spec: Json, config_map: str) -> None:
    volume = {"name": sharing.volume_name(config_map), "configMap": {"name": config_map}}
    others = [known for known in spec.get("volumes") or () if known.get("name") != volume["name"]]
    spec["volumes"] = [*others, volume]


def _add_environment(container: Json, config_map: str) -> None:
    sources: list[Json] = container.get("envFrom") or []
    if any((source.get("configMapRef") or {}).get("name") == config_map for source in sources):
        return
    container["envFrom"] = [*sources, {"configMapRef": {"name": config_map, "optional": False}}]
