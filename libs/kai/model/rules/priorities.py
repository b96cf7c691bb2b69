"""What priority a pod group has, and whether others may take its resources back: the original's rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kai.model.objects import PriorityClass

PREEMPTIBLE: Final = "preemptible"
NON_PREEMPTIBLE: Final = "non-preemptible"
#: Others may take what a group holds beyond its minimum.
SEMI_PREEMPTIBLE: Final = "semi-preemptible"
#: All that a group, or a label of its workload, may say.
PREEMPTIBILITIES: Final = (PREEMPTIBLE, NON_PREEMPTIBLE, SEMI_PREEMPTIBLE)
#: The classes that an installation brings, with their values.
CLASSES: Final[Mapping[str, int]] = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
#: Of groups whose class does not exist, where no class is the default.
DEFAULT: Final = 50
#: Preemptible below, not preemptible from here on, unless a group says what it is.
NON_PREEMPTIBLE_FROM: Final = 100


def description(priority: int) -> str:
    """What a class that an installation brings says of itself."""
    if priority < NON_PREEMPTIBLE_FROM:
        return "Workloads that others may take resources back from."
    return "Workloads that keep what they have, within the quota of their queue."


def priority(name: str, classes: Mapping[str, PriorityClass]) -> int:
    """The priority of a group that names a class; one that does not exist counts as the default class."""
    known = classes.get(name)
    return known.value if known is not None else default_priority(classes.values())


def default_priority(classes: Iterable[PriorityClass]) -> int:
    """Of several default classes the lowest counts, as for pods in Kubernetes."""
    return min((each.value for each in classes if each.global_default), default=DEFAULT)


def is_preemptible(preemptibility: str, priority: int) -> bool:
    """Whether all of it is, as ``spec.preemptibility`` says; where it says nothing known, by priority."""
    if preemptibility in PREEMPTIBILITIES:
        return preemptibility == PREEMPTIBLE
    return priority < NON_PREEMPTIBLE_FROM


def is_semi_preemptible(preemptibility: str) -> bool:
    """Whether its minimum is nobody's to take, and the rest is; only ``spec.preemptibility`` can say so."""
    return preemptibility == SEMI_PREEMPTIBLE
