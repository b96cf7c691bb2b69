"""What the schedulers found last about each pod group, by scheduler (shard)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kai.model import names
from kai.model.decisions import Outcome, PodGroupOutcome
from kai.wire.sessions import SessionUpdate
from kai_podgroup_controller.facts import WatchedGroup


@dataclass(frozen=True, slots=True)
class News:
    """An outcome that is to be announced."""

    #: By a session before this one, and nothing else was known: a predecessor of ours may have announced it.
    found_earlier: bool
    #: That it is stale, or how much it lacks now.
    staleness: bool


@dataclass(frozen=True, slots=True)
class _Word:
    """What a shard's scheduler said last about a group."""

    node_pool: str
    outcome: PodGroupOutcome
    #: Until it is taken.
    news: News | None


class OutcomeBook:
    """The newest outcome of each pod group.

    A group belongs to one shard at a time, and its word counts. A shard that the group has left, or that only
    has pods of it on its nodes, counts while the other has said nothing. What was said of a group counts for
    none that is made anew under its name.
    """

    def __init__(self) -> None:
        #: By group and shard; who spoke last comes last.
        self._words: dict[str, dict[str, _Word]] = {}

    def get(self, group: WatchedGroup) -> PodGroupOutcome | None:
        """The outcome that counts of a group; None if no scheduler said anything about it."""
        found = self._counting(group)
        return found[1].outcome if found else None

    def annotations(self, group: WatchedGroup) -> dict[str, str | None]:
        """What is to change in the group's annotations, by whoever knows: others may take pods of it."""
        words = [word for _, word in self._about(group)]
        return {
            key: value
            for word in sorted(words, key=lambda word: word.node_pool == group.node_pool)
            for key, value in word.outcome.annotations.items()
        }

    def take(self, shard: str, update: SessionUpdate) -> set[str]:
        """Take in an update of a shard's scheduler; the groups that it concerns."""
        concerned: set[str] = set()
        if update.full:
            told = {outcome.pod_group for outcome in update.outcomes}
            concerned |= {
                group for group, words in self._words.items() if shard in words and group not in told
            }
        concerned |= {group for group in update.forgotten if shard in self._words.get(group, ())}
        for group in concerned:
            self._forget(group, shard)
        for outcome in update.outcomes:
            if self._take(shard, update, outcome):
                concerned.add(outcome.pod_group)
        return concerned

    def take_news(self, group: WatchedGroup) -> News | None:
        """What is new about a group since this was last asked; None if nothing is."""
        found = self._counting(group)
        if found is None:
            return None
        shard, word = found
        self._words[group.key][shard] = replace(word, news=None)
        return word.news

    def says_no(self, group: WatchedGroup) -> bool:
        """Whether a scheduler found that the group does not run now."""
        outcome = self.get(group)
        return outcome is not None and outcome.outcome in (
            Outcome.UNSCHEDULABLE,
            Outcome.NOT_READY,
            Outcome.PIPELINED,
        )

    def _about(self, group: WatchedGroup) -> list[tuple[str, _Word]]:
        """What shards said of just this group; who spoke last comes last."""
        words = self._words.get(group.key, {})
        return [(shard, word) for shard, word in words.items() if word.outcome.uid in ("", group.uid)]

    def _counting(self, group: WatchedGroup) -> tuple[str, _Word] | None:
        words = self._about(group)
        own = (each for each in words if each[1].node_pool == group.node_pool)
        return next(own, words[-1] if words else None)

    def _take(self, shard: str, update: SessionUpdate, outcome: PodGroupOutcome) -> bool:
        """Whether it is another one than that of who spoke last."""
        words = self._words.setdefault(outcome.pod_group, {})
        last = next(reversed(words.values()), None)
        before = words.pop(shard, last)
        known = before.outcome if before is not None else None
        if before is not None and known == outcome:
            news = before.news
        else:
            lacked = known.staleness if known is not None else ""
            earlier = update.full and before is None
            news = News(found_earlier=earlier, staleness=outcome.staleness not in ("", lacked))
        words[shard] = _Word(update.node_pool or names.DEFAULT_NODE_POOL, outcome, news)
        return known != outcome

    def _forget(self, group: str, shard: str) -> None:
        words = self._words[group]
        del words[shard]
        if not words:
            del self._words[group]
