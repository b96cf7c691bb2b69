"""How a pod asks for a part of a GPU, and how the ConfigMaps are named that tell its container what it got.

Admission writes these names into the pod, the binder creates the objects when it binds.
"""

import re
from dataclasses import dataclass

from kai.model import names
from kai.model.objects import Pod
from kai.model.words import listed

_SUFFIX = "-shared-gpu"
_ENVIRONMENT_SUFFIX = "-evar"
_RANDOM_LENGTH = 7
#: What a pod name may take of the 63 characters: the rest is for the random part, suffixes and the index.
_LONGEST_NAME = 63 - 13 - len("shared-gpu") - 1 - 5


class NoSuchContainer(ValueError):
    """The pod names a container for its part of a GPU, but has none of that name."""

    def __init__(self, pod: Pod, name: str) -> None:
        self.container = name
        have = listed([c.name for c in [*(pod.spec.init_containers or []), *pod.spec.containers]], most=8)
        super().__init__(
            f'annotation {names.GPU_FRACTION_CONTAINER} names container "{name}", which does not exist; '
            f"name one of {have or 'the containers'} or remove the annotation to use the first container"
        )


@dataclass(frozen=True, slots=True)
class ContainerPosition:
    """A container by its place in ``spec.containers`` or ``spec.initContainers``."""

    index: int
    init: bool = False

    @property
    def field(self) -> str:
        """The list of the pod's specification that it stands in."""
        return "initContainers" if self.init else "containers"


def asks_for_fraction(pod: Pod) -> bool:
    """Whether the pod wants a part of a GPU, however it says so and whether that makes sense or not."""
    return names.GPU_FRACTION in pod.annotations or names.GPU_MEMORY in pod.annotations


def fraction_container(pod: Pod) -> ContainerPosition:
    """The container that gets the part: the one that an annotation names, else the first regular one.

    Raises:
        NoSuchContainer: no container has the name that the annotation says.
    """
    wanted = pod.annotations.get(names.GPU_FRACTION_CONTAINER)
    if not wanted:
        return ContainerPosition(0)
    for index, container in enumerate(pod.spec.init_containers or []):
        if container.name == wanted:
            return ContainerPosition(index, init=True)
    for index, container in enumerate(pod.spec.containers):
        if container.name == wanted:
            return ContainerPosition(index)
    raise NoSuchContainer(pod, wanted)


def config_map_prefix(pod: Pod, position: ContainerPosition, random: str) -> str:
    """The common start of the pod's ConfigMap names: ``<owner or pod>-<random>-shared-gpu``.

    ``random`` is 7 lower-case letters and digits. A pod that gets its name from ``generateName`` has none
    yet, then that counts.
    """
    assert len(random) == _RANDOM_LENGTH
    meta = pod.metadata
    owner = meta.owner_references[0].name if meta.owner_references else ""
    base = (owner or meta.name or meta.generate_name).lower()
    base = base[: _LONGEST_NAME - len(str(position.index))].rstrip(".-")
    return f"{base or 'pod'}-{random}{_SUFFIX}"


def capabilities_config_map(prefix: str, position: ContainerPosition) -> str:
    """Name of the ConfigMap with the container's device ids and portion."""
    return f"{prefix}-{'i' if position.init else ''}{position.index}"


def environment_config_map(prefix: str, position: ContainerPosition) -> str:
    """Name of the ConfigMap whose entries all become environment variables of the container."""
    return environment_beside(capabilities_config_map(prefix, position))


def environment_beside(capabilities: str) -> str:
    """The ConfigMap for the environment to one with capabilities."""
    return f"{capabilities}{_ENVIRONMENT_SUFFIX}"


def capabilities_beside(environment: str, prefix: str) -> str | None:
    """The capabilities ConfigMap to one for the environment; None if that is not one of this prefix."""
    name = environment.removesuffix(_ENVIRONMENT_SUFFIX)
    ours = name != environment and re.fullmatch(rf"{re.escape(prefix)}-i?[0-9]+", name)
    return name if ours else None


def volume_name(config_map: str) -> str:
    """Name of the pod volume that a ConfigMap backs."""
    return re.sub(r"[^a-z0-9-]+", "-", f"{config_map}-vol".lower()).strip("-")
