"""A pod while it is changed: the JSON as it came, and what we understand of it."""

import secrets
import string
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from kai.model import sharing
from kai.model.objects import Json, Pod
from kai.model.sharing import ContainerPosition

_CONTAINERS: Final = ("initContainers", "containers")
_ALPHABET: Final = string.ascii_lowercase + string.digits


def random_suffix() -> str:
    """Seven lower-case letters and digits, so that pods of one owner get different names."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(7))


class PodDraft:
    """A pod's JSON to be changed: metadata, annotations, the specification and each container are its own.

    What lies below them is the original's, so it is replaced and never changed: a tenant may write a megabyte
    there, and others wait while it is copied.

    Raises:
        msgspec.ValidationError: it is not a pod.
        NoSuchContainer: the pod names a container for its part of a GPU that it does not have.
    """

    def __init__(self, pod: Json, *, random: Callable[[], str] = random_suffix) -> None:
        self.pod = msgspec.convert(pod, Pod)
        self.json = _copied(pod)
        self.random = random
        self.sharing_container: ContainerPosition | None = (
            sharing.fraction_container(self.pod)
            if sharing.asks_for_fraction(self.pod) and self.pod.spec.containers
            else None
        )
        """Where the container stands that gets a part of a GPU, if the pod asks for one."""

    @property
    def annotations(self) -> Json:
        """The pod's annotations, to be changed."""
        metadata: Json = self.json.setdefault("metadata", {})
        return _filled(metadata, "annotations", {})

    @property
    def spec(self) -> Json:
        """The pod's specification, to be changed."""
        spec: Json = self.json["spec"]
        return spec

    def container(self, position: ContainerPosition) -> Json:
        """One container, to be changed."""
        container: Json = self.spec[position.field][position.index]
        return container

    def containers(self) -> Iterator[tuple[ContainerPosition, Json]]:
        """All containers with their places, init containers first."""
        for init in (True, False):
            field = ContainerPosition(0, init=init).field
            for index, container in enumerate(self.spec.get(field) or ()):
                yield ContainerPosition(index, init=init), container


def _copied(pod: Json) -> Json:
    copied = dict(pod)
    if metadata := copied.get("metadata"):
        copied["metadata"] = dict(metadata)
        if annotations := metadata.get("annotations"):
            copied["metadata"]["annotations"] = dict(annotations)
    if spec := copied.get("spec"):
        lists = {field: [dict(one) for one in spec.get(field) or ()] for field in _CONTAINERS}
        copied["spec"] = {**spec, **{field: own for field, own in lists.items() if own}}
    return copied


def set_variables(container: Json, *variables: Json) -> None:
    """Makes these the last environment variables, and the only ones of their names."""
    names = {variable["name"] for variable in variables}
    others = [known for known in container.get("env") or () if known.get("name") not in names]
    container["env"] = [*others, *variables]


def from_config_map(name: str, config_map: str, *, optional: bool) -> Json:
    """An environment variable whose value is the entry of the same name in a ConfigMap."""
    reference = {"name": config_map, "key": name, "optional": optional}
    return {"name": name, "valueFrom": {"configMapKeyRef": reference}}


def _filled(parent: Json, field: str, empty: Json) -> Json:
    """The field's value, put there first if it is absent or null."""
    if parent.get(field) is None:
        parent[field] = empty
    value: Json = parent[field]
    return value
