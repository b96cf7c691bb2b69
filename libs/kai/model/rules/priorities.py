"""What priority a pod group has, and whether others may take its resources back: the original's rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kai.model.objects import PriorityClass

PREEMPTIBLE: Final = "preemptible"
NON_PREEMPTIBLE: Final = "non-preemptible"
#: Of groups whose class does not exist, where no class is the default.
DEFAULT: Final = 50
#: Preemptible below, not preemptible from here on, unless a group says what it is.
NON_PREEMPTIBLE_FROM: Final = 100


def priority(name: str, classes: Mapping[str, PriorityClass]) -> int:
    """The priority of a group that names a class; one that does not exist counts as the default class."""
    known = classes.get(name)
    return known.value if known is not None else default_priority(classes.values())


def default_priority(classes: Iterable[PriorityClass]) -> int:
    """Of several default classes the lowest counts, as for pods in Kubernetes."""
    return min((each.value for each in classes if each.global_default), default=DEFAULT)


def is_preemptible(preemptibility: str, priority: int) -> bool:
    """As ``spec.preemptibility`` says; where it says neither, by priority."""
    if preemptibility in (PREEMPTIBLE, NON_PREEMPTIBLE):
        return preemptibility == PREEMPTIBLE
    return priority < NON_PREEMPTIBLE_FROM
