"""What insight found about pod groups that wait; it is written behind what the scheduler says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Final

from kai.model.verdicts import SEPARATOR, GroupVerdict
from kai.wire.verdicts import VerdictNews
from kai_podgroup_controller.facts import WatchedGroup

#: Where insight says nothing for so long there is none, and what it said before may be wrong by now.
SILENCE_SECONDS: Final = 300.0


class Heard(Enum):
    """How a verdict is new."""

    #: Nothing was known of the group: a predecessor of ours may have told it.
    FIRST = "first"
    #: There was another one.
    ANOTHER = "another"


class VerdictBook:
    """The newest verdict on each group. Whoever starts knows none, and lets stand what the objects show."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or asyncio.get_running_loop().time
        #: None: insight has said that there is nothing to say.
        self._known: dict[str, GroupVerdict | None] = {}
        self._news: dict[str, Heard] = {}
        self._heard_at = self._clock()
        self._silent = False

    def take(self, news: VerdictNews) -> set[str]:
        """Take in what insight says; the groups that it concerns."""
        self._heard_at, self._silent = self._clock(), False
        concerned: set[str] = set()
        for verdict in news.told:
            before = self._known.get(verdict.pod_group)
            if before == verdict:
                continue
            if before is None or (before.uid, before.verdict, before.code) != (
                verdict.uid,
                verdict.verdict,
                verdict.code,
            ):
                known = verdict.pod_group in self._known
                self._news[verdict.pod_group] = Heard.ANOTHER if known else Heard.FIRST
            self._known[verdict.pod_group] = verdict
            concerned.add(verdict.pod_group)
        for group in news.forgotten:
            if self._known.get(group) is not None:
                self._known[group] = None
                self._news.pop(group, None)
                concerned.add(group)
        return concerned

    def fell_silent(self) -> bool:
        """Whether insight has said nothing for long: told once, and then nothing that it said counts."""
        if self._silent or self._clock() - self._heard_at < SILENCE_SECONDS:
            return False
        self._silent = True
        self._known.clear()
        self._news.clear()
        return True

    def forget(self, group: str, *, but: str = "") -> None:
        """It does not wait, or is gone; what was found of another one of the name, of this uid, stays."""
        known = self._known.get(group)
        if known is not None and but and known.uid == but:
            return
        self._known.pop(group, None)
        self._news.pop(group, None)

    def take_news(self, group: WatchedGroup) -> Heard | None:
        """Whether there is another verdict on it, or another reason, since this was last asked."""
        return self._news.pop(group.key, None) if self._about(group) is not None else None

    def message(self, group: WatchedGroup, text: str, *, shown: str) -> str:
        """What is to be told of a group: what the scheduler says, and the verdict.

        As long as none is known, that one stands which is ``shown`` behind the same text.
        """
        verdict = self._about(group)
        if verdict is not None:
            return verdict.after(text)
        stands = not self._silent and group.key not in self._known and shown.startswith(text + SEPARATOR)
        return shown if stands else text

    def _about(self, group: WatchedGroup) -> GroupVerdict | None:
        """The verdict on just this group; None if there is none."""
        verdict = self._known.get(group.key)
        return verdict if verdict is not None and verdict.uid in ("", group.uid) else None
