"""Why something does not fit, as values that can be added up and rendered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Final

from kai.model.decisions import Explanation, Reason
from kai.model.ids import PodGroupKey

NO_ROOM = "no node has enough resources for the pod"
#: Reasons for which nodes turn a pod down, as many as somebody reads.
_TOLD: Final = 32


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """One reason that keeps a pod group from running; ``counts`` are nodes by short reason.

    ``pod`` (``namespace/name``) is the one that it is about, where it is about one.
    """

    reason: Reason
    message: str
    counts: tuple[tuple[str, int], ...] = ()
    details: dict[str, Any] | None = None
    pod: str = ""

    @property
    def sentence(self) -> str:
        """The message, and which pod it is about."""
        return f"pod {self.pod}: {self.message}" if self.pod else self.message

    @property
    def text(self) -> str:
        """The sentence with its exact node counts."""
        if not self.counts:
            return self.sentence
        counts, more = self.counts, []
        if len(counts) > _TOLD:  # each node may have a taint of its own
            more = [f"and {len(counts) - _TOLD} more reasons"]
            counts = tuple(sorted(counts, key=itemgetter(1), reverse=True)[:_TOLD])  # of the most nodes
        parts = sorted(f"{number} {short}" for short, number in counts)
        return f"{self.sentence}: " + ". \n".join([*parts, *more])


@dataclass(slots=True)
class JobErrors:
    """What was found about one pod group in a cycle."""

    entries: list[Unschedulable] = field(default_factory=list)
    #: Pod key -> message.
    pods: dict[str, str] = field(default_factory=dict)

    def add(self, error: Unschedulable) -> None:
        """Record a reason; the same one counts once."""
        if error not in self.entries:
            self.entries.append(error)

    def update(self, more: JobErrors) -> None:
        """Record what else was found."""
        for entry in more.entries:
            self.add(entry)
        self.pods.update(more.pods)

    def message(self) -> str:
        """All reasons in one text."""
        if not self.entries:
            return ""
        head = str(self.entries[0].reason) if len(self.entries) == 1 else "the pod group cannot be scheduled"
        texts = Counter(entry.text for entry in self.entries)
        parts = sorted(text if number == 1 else f"{number} {text}" for text, number in texts.items())
        return f"{head}: " + ". \n".join(parts)

    def explanations(self) -> tuple[Explanation, ...]:
        """One for each reason."""
        return tuple(
            Explanation(reason=str(entry.reason), message=entry.text, details=entry.details)
            for entry in self.entries
        )


@dataclass(frozen=True, slots=True)
class Common:
    """What was found about several pod groups of one pod each, without the names of the pods."""

    entries: tuple[Unschedulable, ...]
    #: Which of these are about the pod.
    about_pod: tuple[bool, ...]
    #: What the pod's owner is told, if anything.
    pod_message: str | None

    @classmethod
    def of(cls, errors: JobErrors) -> Common:
        """What was found about one of them."""
        return cls(
            entries=tuple(replace(entry, pod="") for entry in errors.entries),
            about_pod=tuple(bool(entry.pod) for entry in errors.entries),
            pod_message=next(iter(errors.pods.values()), None),
        )

    def errors(self, pod: str) -> JobErrors:
        """The same, about the group of this pod (``namespace/name``)."""
        entries = [
            replace(entry, pod=pod) if about else entry
            for entry, about in zip(self.entries, self.about_pod, strict=True)
        ]
        return JobErrors(entries, {} if self.pod_message is None else {pod: self.pod_message})


class Errors:
    """What was found about pod groups in a cycle; some have it in common, until something is found of one."""

    def __init__(self) -> None:
        self._own: dict[PodGroupKey, JobErrors] = {}
        #: With the pod (``namespace/name``) of each.
        self._common: dict[PodGroupKey, tuple[Common, str]] = {}
        self._of_first: dict[PodGroupKey, Common] = {}

    def __contains__(self, key: PodGroupKey) -> bool:
        return key in self._own or key in self._common

    def get(self, key: PodGroupKey) -> JobErrors | None:
        """What was found about a pod group, to be read only; None if nothing was."""
        own = self._own.get(key)
        if own is None and (common := self._common.get(key)) is not None:
            return common[0].errors(common[1])
        return own

    def of(self, key: PodGroupKey) -> JobErrors:
        """The same, to be added to."""
        own = self._own.get(key)
        if own is None:
            common = self._common.pop(key, None)
            own = self._own[key] = JobErrors() if common is None else common[0].errors(common[1])
        return own

    @property
    def shared(self) -> bool:
        """Whether pod groups have something in common."""
        return bool(self._common)

    def common(self, key: PodGroupKey) -> Common | None:
        """What was found about a pod group and others alike; None where it has errors of its own, or none."""
        found = self._common.get(key)
        return None if found is None else found[0]

    def share(self, first: PodGroupKey, others: Iterable[tuple[PodGroupKey, str]]) -> None:
        """All that was found about the ``first`` holds for others: pod groups, and the one pod of each."""
        found = self._own.get(first)
        if found is None:
            return
        common = self._of_first.get(first)
        if common is None or len(common.entries) != len(found.entries):
            common = self._of_first[first] = Common.of(found)
        for key, pod in others:
            if key in self:
                self.of(key).update(common.errors(pod))
            else:
                self._common[key] = common, pod

    def all(self) -> Iterator[JobErrors]:
        """Those of every pod group, to be added to."""
        for key in list(self._common):
            self.of(key)
        yield from self._own.values()
