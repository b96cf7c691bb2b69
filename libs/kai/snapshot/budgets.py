"""Which budgets for disruptions apply to a pod: read once from each budget, and found once for each pod.

Whoever may create budgets and pods may have each pod compared with each budget, in as many words as a
selector may have. What a namespace's comparisons take of one turn is therefore bounded, and how many
budgets count for a pod: what is beyond is found in later turns, and protects nobody before. Budgets only
tell victims apart that are alike otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from kai.model.ids import PodUid
from kai.model.rules.selectors import label_selector
from kai.snapshot.rows import Task

Label: TypeAlias = tuple[str, str]

#: What a namespace may compare in one turn, in requirements of selectors: about a tenth of a second.
REQUIREMENTS: Final = 200_000
#: So many budgets count for one pod. The eviction API refuses to evict a pod to which more than one applies.
COUNTED: Final = 16


class Budget:
    """Whom a PodDisruptionBudget means, and how many of them may be evicted now."""

    __slots__ = ("allowed", "meaning", "place", "requirements", "selects")

    def __init__(self, selector: Mapping[str, Any] | None, meaning: object, *, allowed: int) -> None:
        self.allowed = allowed
        #: All of the selector that matters, to be compared.
        self.meaning = meaning
        self.selects = label_selector(selector)
        #: What a comparison with it takes, at most.
        self.requirements = 1 + _requirements(selector or {})
        #: The label below which it is found; None if its selector names no label with a value.
        self.place: Label | None = None


class _Answer(NamedTuple):
    """Which budgets apply to a pod: those found so far, and the search for others, None where it rests."""

    found: list[Budget]
    others: Iterator[Budget | None]


class _Namespace:
    """The budgets of one namespace."""

    __slots__ = ("answers", "below", "by_name", "left")

    def __init__(self) -> None:
        #: Requirements that may still be compared in this turn.
        self.left = REQUIREMENTS
        self.by_name: dict[str, Budget] = {}
        #: By a label that all pods have which they mean; None: those that name none.
        self.below: dict[Label | None, dict[str, Budget]] = {}
        self.answers: dict[PodUid, _Answer] = {}

    def put(self, name: str, obj: Mapping[str, Any]) -> None:
        """Take in a budget. Where it means whom it meant, no answer is void: its status changes often."""
        selector = (obj.get("spec") or {}).get("selector")
        meaning = _meaning(selector)
        allowed = int((obj.get("status") or {}).get("disruptionsAllowed") or 0)
        old = self.by_name.get(name)
        if old is not None and old.meaning == meaning:
            old.allowed = allowed
            return
        budget = Budget(selector, meaning, allowed=allowed)
        self.drop(name)
        self.by_name[name] = budget
        if selector is None:
            return  # it means nobody
        labels = (selector.get("matchLabels") or {}).items()
        # Budgets often have most labels in common: it stands below the one that tells it best from others.
        budget.place = min(labels, key=lambda label: len(self.below.get(label, ())), default=None)
        self.below.setdefault(budget.place, {})[name] = budget
        self.answers.clear()

    def drop(self, name: str) -> None:
        """Forget a budget; one that is not known is ignored."""
        budget = self.by_name.pop(name, None)
        if budget is None:
            return
        self.answers.clear()
        if budget.meaning is not None:
            del self.below[budget.place][name]
            if not self.below[budget.place]:
                del self.below[budget.place]

    def of(self, task: Task) -> Iterator[Budget]:
        """Those that apply to a pod, each found when it is asked for: the first is often enough."""
        answer = self.answers.get(task.uid)
        if answer is None:
            answer = self.answers[task.uid] = _Answer([], self._find(task.labels or {}))
        yield from answer.found
        while len(answer.found) < COUNTED and (budget := next(answer.others, None)) is not None:
            answer.found.append(budget)
            yield budget

    def _find(self, labels: Mapping[str, str]) -> Iterator[Budget | None]:
        for place in (None, *labels.items()):
            for budget in self.below.get(place, {}).values():
                while self.left <= 0:
                    yield None
                self.left -= budget.requirements
                if budget.selects(labels):
                    yield budget


class Budgets:
    """The budgets of all namespaces. Whoever changes budgets or labels of pods says so."""

    def __init__(self, objects: Mapping[str, Mapping[str, Any]]) -> None:
        self._objects = objects
        self._namespaces: dict[str, _Namespace] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._namespaces)

    def begin_turn(self) -> None:
        """Compare as much again in each namespace."""
        for here in self._namespaces.values():
            here.left = REQUIREMENTS

    def changed(self, key: str) -> None:
        """A budget, by ``namespace/name``, came, went or says something else."""
        namespace, _, name = key.rpartition("/")
        obj = self._objects.get(key)
        here = self._namespaces.get(namespace)
        if obj is not None:
            if here is None:
                here = self._namespaces[namespace] = _Namespace()
            here.put(name, obj)
        elif here is not None:
            here.drop(name)
            if not here.by_name:
                del self._namespaces[namespace]

    def forget_pod(self, task: Task) -> None:
        """A pod is gone, or is to get other labels."""
        here = self._namespaces.get(task.namespace)
        if here is not None:
            here.answers.pop(task.uid, None)

    def forget_answers(self) -> None:
        """Find anew for each pod which apply to it."""
        for here in self._namespaces.values():
            here.answers.clear()

    def remembered(self) -> int:
        """For how many pods it is known which apply to them."""
        return sum(len(here.answers) for here in self._namespaces.values())

    def of(self, task: Task) -> Iterable[Budget]:
        """The budgets that apply to a pod; to be gone through before anything changes."""
        here = self._namespaces.get(task.namespace)
        return () if here is None else here.of(task)


def _requirements(selector: Mapping[str, Any]) -> int:
    return len(selector.get("matchLabels") or ()) + len(selector.get("matchExpressions") or ())


def _meaning(selector: Mapping[str, Any] | None) -> object:
    if selector is None:
        return None
    return (
        dict(selector.get("matchLabels") or {}),
        [
            (each.get("key", ""), each.get("operator", ""), list(each.get("values") or ()))
            for each in selector.get("matchExpressions") or ()
        ],
    )
