"""To whom an object belongs: to us, to nobody yet, or to somebody else."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from kai.kube.resources import Resource
from kai.model import names
from kai_operator.kinds import MANAGED_BY, OPERATOR, Manifest

_PART_OF: Final = "app.kubernetes.io/part-of"


class Ownership(Enum):
    """What may be done with an object that is there."""

    #: It has our owner as its controller.
    OURS = "ours"
    #: An earlier release of the product left it, or an owner of ours that is gone: it can be taken over.
    LEFT = "left"
    FOREIGN = "foreign"


def owner_reference(resource: Resource, name: str, uid: str) -> dict[str, Any]:
    """What makes an object that of a Config or a shard, so that it goes when that goes."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(manifest: Manifest) -> dict[str, Any] | None:
    """The owner that controls an object."""
    references = manifest["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def ownership(live: Manifest, owner: dict[str, Any]) -> Ownership:
    """Whose an object is, for somebody who wants it to be ``owner``'s.

    Of an owner that was deleted and made again only the uid differs. Its objects are on their way out, unless
    they are taken over first.
    """
    controller = controller_of(live)
    if controller is not None:
        same = all(controller.get(key) == owner[key] for key in ("apiVersion", "kind", "name"))
        if not same:
            return Ownership.FOREIGN
        return Ownership.OURS if controller.get("uid") == owner["uid"] else Ownership.LEFT
    labels = live["metadata"].get("labels") or {}
    left = labels.get(_PART_OF) == names.SCHEDULER_NAME or labels.get(MANAGED_BY) == OPERATOR
    return Ownership.LEFT if left else Ownership.FOREIGN


def runs_another_program(live: Manifest, wanted: Manifest) -> bool:
    """Whether this object runs pods of the KAI Scheduler, whose operator gives its objects our names.

    Two schedulers that place the same pods must not run side by side, as they would while one is rolled out
    over the other.
    """
    if "template" not in (wanted.get("spec") or {}) or not _marked(wanted):
        return False
    return not (_marked(live) or _marked(live["spec"].get("template") or {}))


def _marked(manifest: Manifest) -> bool:
    return _PART_OF in ((manifest.get("metadata") or {}).get("labels") or {})


def whose(live: Manifest) -> str:
    """Words for the owner of an object that is not ours."""
    controller = controller_of(live)
    if controller is not None:
        return f"{controller.get('kind')} {controller.get('name')}"
    manager = (live["metadata"].get("labels") or {}).get(MANAGED_BY)
    return f"whoever is {manager}" if manager else "somebody else"
