"""What the soak itself did: its deeds with what became of them, and the trouble it made."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from dataclasses import dataclass, field

from e2e.soak.actions import Action

_CORES = os.cpu_count() or 1
_MOST_LOAD = 8.0


class Clock:
    """Seconds since the beginning, and how busy the machine is."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """From here on it counts."""
        self.started_at = time.time()
        self._started = time.monotonic()

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._started

    def at(self, unix_seconds: float) -> float:
        """A time of a log as seconds since the beginning."""
        return unix_seconds - self.started_at

    @staticmethod
    def load() -> float:
        """By how much longer things take than on an idle machine, at least 1; deadlines are stretched so."""
        return min(_MOST_LOAD, max(1.0, os.getloadavg()[0] / _CORES))


@dataclass(frozen=True, slots=True)
class Entry:
    """A deed that was done, or not."""

    at: float
    what: str
    subjects: tuple[str, ...]
    outcome: str
    malformed: bool = False

    @property
    def taken(self) -> bool:
        """Whether the API server took it."""
        return self.outcome == "done"

    def __str__(self) -> str:
        outcome = "" if self.taken else f" -> {self.outcome}"
        return f"{self.at:8.1f} s  {self.what}: {', '.join(self.subjects[:4])}{outcome}"


@dataclass(slots=True)
class Trouble:
    """Something that the soak made fail, from when until when; it has no end while it lasts."""

    process: str
    what: str
    begin: float
    end: float = math.inf


@dataclass(slots=True)
class Journal:
    """All of it, in order of time."""

    entries: list[Entry] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    #: How often each process was made to end: killed, or kept from renewing its lease.
    killed: Counter[str] = field(default_factory=Counter)

    def note(self, action: Action, at: float, outcome: str) -> None:
        """A deed was tried."""
        self.entries.append(Entry(round(at, 2), action.what, action.subjects, outcome, action.malformed))

    def trouble(self, process: str, what: str, at: float) -> Trouble:
        """Trouble begins."""
        found = Trouble(process, what, at)
        self.troubles.append(found)
        return found

    def troubled(self, begin: float, end: float, *, grace: float) -> bool:
        """Whether there was trouble between, or so shortly before that it may still be felt."""
        return any(one.begin <= end and begin <= one.end + grace for one in self.troubles)

    def about(self, subject: str, *, last: int = 8) -> list[str]:
        """What was last done to an object, and what was killed around then."""
        name = subject.partition(" ")[2]
        found = [entry for entry in self.entries if _concerns(entry, subject, name)]
        return [str(entry) for entry in found[-last:]]

    def around(self, at: float, *, last: int = 6) -> list[str]:
        """The trouble that came before a time."""
        before = [one for one in self.troubles if one.begin <= at]
        return [f"{one.begin:8.1f} s  {one.process} {one.what}" for one in before[-last:]]

    def outcomes(self) -> dict[str, Counter[str]]:
        """How often deeds of each kind were done, refused or failed."""
        found: dict[str, Counter[str]] = {}
        for entry in self.entries:
            counts = found.setdefault(entry.what.partition(":")[0], Counter())
            counts[entry.outcome.partition(":")[0]] += 1
        return found


def _concerns(entry: Entry, subject: str, name: str) -> bool:
    """Whether an entry is about an object, or about what made it (whose name its name begins with)."""
    for one in entry.subjects:
        kind, _, other = one.partition(" ")
        if one == subject or (kind != "Node" and other and (name == other or name.startswith(f"{other}-"))):
            return True
    return False
