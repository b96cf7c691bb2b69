"""Whoever made a mistake is told: refused, or warned by an event."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from e2e.soak.frame import Breach, Frame

#: On an idle machine.
PATIENCE_SECONDS = 45.0


@dataclass(frozen=True, slots=True)
class Mistake:
    """Objects that the API server took, and in which something is wrong. ``name`` is that of all of them."""

    at: float
    what: str
    name: str
    subject: str


def mistakes_are_told(
    mistakes: Iterable[Mistake], frame: Frame, warned: Collection[str], *, load: float
) -> Iterator[Breach]:
    """Where pods of a mistake are still there after a while, there is a warning about one of its objects."""
    for mistake in mistakes:
        if frame.at - mistake.at < PATIENCE_SECONDS * load:
            continue
        of_it = re.compile(rf"(?:.*[/-])?{re.escape(mistake.name)}(?:-.*)?")
        there = any(of_it.fullmatch(pod.metadata.name) for pod in frame.pods.values())
        if there and not any(of_it.fullmatch(subject.partition(" ")[2]) for subject in warned):
            yield Breach("nobody is told", mistake.subject, mistake.what)
