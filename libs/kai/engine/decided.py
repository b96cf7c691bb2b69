"""What a cycle decided so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from kai.model.decisions import BindDecision, Eviction, Nomination


@dataclass(slots=True)
class Decisions:
    """What a cycle decided so far, in order."""

    binds: list[BindDecision] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    nominations: list[Nomination] = field(default_factory=list)
    counters: dict[tuple[str, ...], float] = field(default_factory=dict)
    #: Seconds of searches, by action, generator and result.
    searches: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    #: Jobs that got binds, and those that wait.
    placed: set[str] = field(default_factory=set)
    #: When jobs that started or lost pods in this cycle had done so before.
    started_before: dict[str, float] = field(default_factory=dict)
    evicted_before: dict[str, float] = field(default_factory=dict)
    pipelined: set[str] = field(default_factory=set)

    def count(self, *name: str, by: float = 1) -> None:
        """Add to a counter."""
        self.counters[name] = self.counters.get(name, 0) + by
