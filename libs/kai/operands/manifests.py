"""What all objects of an installation have in common: labels, places, names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from kai.operands.facts import Facts
from kai.operands.spec.config import ConfigSpec
from kai.operands.spec.pods import ImageSpec
from kai.operands.spec.shards import Shard

Manifest = dict[str, Any]

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
PART_OF: Final = "app.kubernetes.io/part-of"
PRODUCT: Final = "kai-scheduler"
OPERATOR: Final = "kai-operator"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
_DIGEST: Final = "sha256:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """All that operands are made of."""

    config: ConfigSpec
    facts: Facts = field(default_factory=Facts)
    shards: tuple[Shard, ...] = ()

    @property
    def namespace(self) -> str:
        """Where the components run."""
        return self.config.namespace

    @property
    def openshift(self) -> bool:
        """Whether the cluster gives out user ids by itself."""
        return self.config.everywhere.openshift or self.facts.openshift

    def image(self, image: ImageSpec) -> str:
        """Where an image is; a tag may be a digest alone."""
        repository, tag = image.repository or self.facts.repository, image.tag or self.facts.tag
        return f"{repository}/{image.name}{'@' if tag.startswith(_DIGEST) else ':'}{tag}"


def labels(app: str, **more: str) -> dict[str, str]:
    """Labels of every object."""
    return {"app": app, PART_OF: PRODUCT, MANAGED_BY: OPERATOR, **more}


def an_object(
    version: str, kind: str, name: str, *, app: str = "", namespace: str = "", **fields: Any
) -> Manifest:
    """An object with our labels; without a namespace one of the whole cluster."""
    metadata: Manifest = {"name": name, "labels": labels(app or name)}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def yes(said: bool) -> str:
    """A switch as the value of a flag."""
    return "true" if said else "false"


def without_empty(**fields: Any) -> Manifest:
    """The fields that say something."""
    return {name: said for name, said in fields.items() if said}
