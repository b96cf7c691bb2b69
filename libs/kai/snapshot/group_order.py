"""Which pods of a group go first, and which of its subgroups: victims are taken in the opposite order.

The labels that count, and whether subgroups in need come first, follow from the configuration; what is left
is decided by age and uid among pods, and by name among subgroups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kai.model import limits, names

#: Pods with the lower rank go first.
Rank: TypeAlias = float
#: ``(ranks..., created, uid)``.
TaskKey: TypeAlias = tuple[float | str, ...]

_LEADERS: Final = ("master", "launcher")


@dataclass(frozen=True, slots=True)
class LabelRank:
    """A rank by the value of one label, None where a pod lacks it. Taken once for each version of a pod."""

    label: str
    rank: Callable[[str | None], Rank]


def _leader(role: str | None) -> Rank:
    return 0 if role in _LEADERS else 1


def _head(node_type: str | None) -> Rank:
    return 0 if node_type == "head" else 1


def _priority(text: str | None) -> Rank:
    """Pods with a priority before those without, the highest first."""
    return float("inf") if text is None else -limits.TASK_PRIORITY.integer(text)


#: Masters and launchers of Kubeflow's jobs.
LEADERS_FIRST: Final = LabelRank(names.KUBEFLOW_JOB_ROLE_LABEL, _leader)
#: Heads of Ray's clusters.
HEADS_FIRST: Final = LabelRank(names.RAY_NODE_TYPE_LABEL, _head)
#: What users say.
BY_TASK_PRIORITY: Final = LabelRank(names.TASK_PRIORITY_LABEL, _priority)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOrder:
    """The order of pods and subgroups of every group; ``ranks`` count in turn."""

    ranks: tuple[LabelRank, ...] = (LEADERS_FIRST, HEADS_FIRST, BY_TASK_PRIORITY)
    #: Subgroups below their minimum first, then the emptier; off, they go by name alone.
    needy_first: bool = True
    #: Those that are looked at: pods without any of them are alike.
    _labels: frozenset[str] = field(init=False, compare=False)
    _unlabelled: tuple[Rank, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        labels = {names.TASK_PRIORITY_LABEL, *(each.label for each in self.ranks)}
        object.__setattr__(self, "_labels", frozenset(labels))
        object.__setattr__(self, "_unlabelled", tuple(each.rank(None) for each in self.ranks))

    def key(self, labels: Mapping[str, str] | None, created: float, uid: str) -> TaskKey:
        """The key by which the pods of a set are sorted, best first; ``created`` in Unix seconds.

        Raises:
            OutOfBounds: the label of its priority says no number of 32 bits, whether or not that counts.
        """
        if not labels or self._labels.isdisjoint(labels):
            return (*self._unlabelled, created, uid)
        if names.TASK_PRIORITY_LABEL in labels:
            limits.TASK_PRIORITY.integer(labels[names.TASK_PRIORITY_LABEL])
        return (*[each.rank(labels.get(each.label)) for each in self.ranks], created, uid)
