"""What insight found about pod groups that wait; it is written behind what the scheduler says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Final

from kai.model.verdicts import SEPARATOR, GroupVerdict
from kai.wire.verdicts import VerdictNews
from kai_podgroup_controller.facts import WatchedGroup

#: Where insight says nothing for so long there is none, and what it said before may be wrong by now. As long
#: has one that begins to say again what another one said.
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
        #: Groups on which the insight that speaks now has said nothing yet, and since when it could have.
        self._unconfirmed: dict[str, float] = {}
        #: What was taken back since nobody had said it again: no news if somebody does after all.
        self._taken_back: dict[str, GroupVerdict] = {}
        self._heard_at = self._clock()
        self._silent = False
        #: When the first one began to speak, if one has.
        self._begun_at: float | None = None
        #: Whether that is long ago: what is not known by now insight does not know, either.
        self._settled = False

    def take(self, news: VerdictNews) -> set[str]:
        """Take in what insight says; the groups that it concerns."""
        self._heard_at, self._silent = self._clock(), False
        if news.anew:
            self._doubt()
        concerned: set[str] = set()
        for verdict in news.told:
            self._unconfirmed.pop(verdict.pod_group, None)
            before = self._known.get(verdict.pod_group)
            if before == verdict:
                continue
            before = before or self._taken_back.pop(verdict.pod_group, None)
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
            self._unconfirmed.pop(group, None)
            if self._known.get(group) is not None:
                self._known[group] = None
                self._news.pop(group, None)
                concerned.add(group)
        return concerned

    def lapsed(self) -> bool:
        """Whether something that insight said counts no more, since for long it has not said it again.

        Told once, of all that is shown.
        """
        now = self._clock()
        if now - self._heard_at >= SILENCE_SECONDS:
            return self._fall_silent()
        late = [group for group, since in self._unconfirmed.items() if now - since >= SILENCE_SECONDS]
        for group in late:
            del self._unconfirmed[group]
            if (verdict := self._known[group]) is not None:
                self._taken_back[group] = verdict
            self._known[group] = None
            self._news.pop(group, None)
        settles = not self._settled and self._begun_at is not None and now - self._begun_at >= SILENCE_SECONDS
        self._settled |= settles
        return bool(late) or settles

    def _fall_silent(self) -> bool:
        """Nothing that was said counts from now on; whether that is new."""
        before, self._silent = self._silent, True
        self._known.clear()
        self._news.clear()
        self._unconfirmed.clear()
        self._taken_back.clear()
        return not before

    def _doubt(self) -> None:
        """What was said may be of one that is gone; who speaks now has a while to say the same.

        It does not begin again with each stream: one that breaks all the time renews nothing.
        """
        now = self._clock()
        if self._begun_at is None:
            self._begun_at = now
        for group, verdict in self._known.items():
            if verdict is not None:
                self._unconfirmed.setdefault(group, now)

    def forget(self, group: str, *, but: str = "") -> None:
        """It does not wait, or is gone; what was found of another one of the name, of this uid, stays."""
        known = self._known.get(group)
        if known is not None and but and known.uid == but:
            return
        self._known.pop(group, None)
        self._news.pop(group, None)
        self._unconfirmed.pop(group, None)
        self._taken_back.pop(group, None)

    def take_news(self, group: WatchedGroup) -> Heard | None:
        """Whether there is another verdict on it, or another reason, since this was last asked."""
        return self._news.pop(group.key, None) if self._about(group) is not None else None

    def message(self, group: WatchedGroup, text: str, *, shown: str) -> str:
        """What is to be told of a group: what the scheduler says, and the verdict.

        As long as none can be known, that one stands which is ``shown`` behind the same text.
        """
        verdict = self._about(group)
        if verdict is not None:
            return verdict.after(text)
        unknown = group.key not in self._known and not (self._silent or self._settled)
        return shown if unknown and shown.startswith(text + SEPARATOR) else text

    def _about(self, group: WatchedGroup) -> GroupVerdict | None:
        """The verdict on just this group; None if there is none."""
        verdict = self._known.get(group.key)
        return verdict if verdict is not None and verdict.uid in ("", group.uid) else None
