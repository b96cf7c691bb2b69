"""Why something does not fit, as values that can be added up and rendered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kai.model.decisions import Explanation, Reason

NO_ROOM = "no node has enough resources for the pod"


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """One reason that keeps a pod group from running; ``counts`` are nodes by short reason."""

    reason: Reason
    message: str
    counts: tuple[tuple[str, int], ...] = ()
    details: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The message with its exact node counts."""
        if not self.counts:
            return self.message
        parts = sorted(f"{number} {short}" for short, number in self.counts)
        return f"{self.message}: " + ". \n".join(parts)


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
