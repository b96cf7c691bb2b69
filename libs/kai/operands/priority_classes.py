"""The priority classes that an installation brings, for the workloads of its users."""

from __future__ import annotations

from typing import Final

from kai.model.rules.priorities import CLASSES, NON_PREEMPTIBLE_FROM
from kai.operands.manifests import PRODUCT, Installation, Manifest, an_object

_TAKEN: Final = "Workloads that others may take resources back from."
_KEPT: Final = "Workloads that keep what they have, within the quota of their queue."


def operands(installation: Installation) -> list[Manifest]:
    """All of them, unless somebody else brings them."""
    return classes() if installation.config.default_priority_classes.enabled else []


def classes() -> list[Manifest]:
    """The classes. None is the default of the cluster, which would change pods that are not ours."""
    return [
        an_object(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            name,
            app=PRODUCT,
            value=value,
            globalDefault=False,
            description=_TAKEN if value < NON_PREEMPTIBLE_FROM else _KEPT,
        )
        for name, value in CLASSES.items()
    ]
