"""What the schedulers found last about each pod group, by scheduler (shard)."""

from __future__ import annotations

from dataclasses import dataclass

from kai.model.decisions import Outcome, PodGroupOutcome
from kai.wire.sessions import SessionUpdate


@dataclass(frozen=True, slots=True)
class News:
    """An outcome that is to be announced."""

    #: By a session before this one: we or a predecessor of ours may have announced it.
    found_earlier: bool
    #: That it is stale, or how much it lacks now.
    staleness: bool


class OutcomeBook:
    """The newest outcome of each pod group.

    A group belongs to one shard at a time; where it moved, the newest word counts until the shard that it
    left forgets it.
    """

    def __init__(self) -> None:
        self._outcomes: dict[str, tuple[str, PodGroupOutcome]] = {}
        self._news: dict[str, News] = {}

    def get(self, group: str) -> PodGroupOutcome | None:
        """The newest outcome of a group; None if no scheduler has said anything about it."""
        found = self._outcomes.get(group)
        return found[1] if found else None

    def take(self, shard: str, update: SessionUpdate) -> set[str]:
        """Take in an update of a shard's scheduler; the groups that it concerns."""
        concerned: set[str] = set()
        if update.full:
            told = {outcome.pod_group for outcome in update.outcomes}
            concerned |= {
                group
                for group, (origin, _) in self._outcomes.items()
                if origin == shard and group not in told
            }
        concerned |= {
            group for group in update.forgotten if self._outcomes.get(group, ("", None))[0] == shard
        }
        for group in concerned:
            del self._outcomes[group]
            self._news.pop(group, None)
        for outcome in update.outcomes:
            group, known = outcome.pod_group, self.get(outcome.pod_group)
            if known == outcome:
                self._outcomes[group] = (shard, outcome)  # it counts until this shard forgets it
                continue
            lacked = known.staleness if known is not None else ""
            self._news[group] = News(
                found_earlier=update.full, staleness=outcome.staleness not in ("", lacked)
            )
            self._outcomes[group] = (shard, outcome)
            concerned.add(group)
        return concerned

    def take_news(self, group: str) -> News | None:
        """What is new about a group since this was last asked; None if nothing is."""
        return self._news.pop(group, None)

    def says_no(self, group: str) -> bool:
        """Whether a scheduler found that the group does not run now."""
        outcome = self.get(group)
        return outcome is not None and outcome.outcome in (
            Outcome.UNSCHEDULABLE,
            Outcome.NOT_READY,
            Outcome.PIPELINED,
        )
