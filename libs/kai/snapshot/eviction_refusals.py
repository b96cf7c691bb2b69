"""Pods that were to go, and that the API server does not let go.

A disruption budget or a webhook may keep a pod where it is, for as long as it likes. Whoever chooses it anew
in every cycle gets nowhere, though others could make room. So the job of such a pod is left alone for a
while, and each time for longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from kai.model.ids import PodUid
from kai.model.pauses import doubled

#: How long it is left alone first, for a budget may allow it soon; it doubles each time.
FIRST_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """``times`` in a row a pod did not go, the last time for this reason; ``until`` in Unix seconds."""

    times: int
    until: float
    why: str


class EvictionRefusals:
    """Which pods were not let go lately, by uid. Times are Unix seconds."""

    def __init__(self) -> None:
        self._known: dict[PodUid, Refusal] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def refused(self, pod: PodUid, *, why: str, now: float) -> None:
        """A pod was not let go; it is left alone for twice as long as the last time, up to a bound."""
        known = self._known.get(pod)
        times = known.times + 1 if known is not None else 1
        seconds = doubled(FIRST_SECONDS, times - 1, most=LONGEST_SECONDS)
        self._known[pod] = Refusal(times, now + seconds, why)

    def forget(self, pod: PodUid) -> None:
        """The pod is gone."""
        self._known.pop(pod, None)

    def standing(self, now: float) -> dict[PodUid, Refusal]:
        """The pods that are left alone. One that was not asked to go for long is forgotten."""
        for pod, known in list(self._known.items()):
            if now > known.until + LONGEST_SECONDS:
                del self._known[pod]
            elif known.until > now + LONGEST_SECONDS:
                # Else it would be left alone until a clock that went back is again where it was.
                self._known[pod] = replace(known, until=now + LONGEST_SECONDS)
        return {pod: known for pod, known in self._known.items() if now < known.until}

    def told(self) -> dict[PodUid, tuple[int, float, str]]:
        """All of it as plain values, for :meth:`tell`."""
        return {pod: (known.times, known.until, known.why) for pod, known in self._known.items()}

    def tell(self, told: Mapping[PodUid, tuple[int, float, str]]) -> None:
        """Let all be as it was told, and nothing else."""
        self._known = {pod: Refusal(*each) for pod, each in told.items()}
