"""The priority classes that an installation brings, for the workloads of its users."""

from __future__ import annotations

from kai.model.rules.priorities import CLASSES, description
from kai.operands.manifests import PRODUCT, Installation, Manifest, an_object


def operands(installation: Installation) -> list[Manifest]:
    """All of them, unless somebody else brings them."""
    if not installation.config.default_priority_classes.enabled:
        return []
    # None is the default of the cluster: that would change pods that are not ours.
    return [
        an_object(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            name,
            app=PRODUCT,
            value=value,
            globalDefault=False,
            description=description(value),
        )
        for name, value in CLASSES.items()
    ]
