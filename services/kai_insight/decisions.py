"""What schedulers decided, from the sessions that they publish: cycles, evictions, how pod groups stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kai.history.records import AnyRecord, Cycle, Decision, Run, Taking, cut
from kai.model.decisions import Eviction, Outcome, PodGroupOutcome
from kai.wire.sessions import SessionUpdate
from kai_insight.surroundings import Surroundings

#: Of a pod group that does not exist any more.
GONE: Final = "Gone"
#: As a record says them.
OUTCOMES: Final[Mapping[Outcome, str]] = {
    Outcome.SETTLED: "Settled",
    Outcome.PLACED: "Placed",
    Outcome.PIPELINED: "Pipelined",
    Outcome.UNSCHEDULABLE: "Unschedulable",
    Outcome.NOT_READY: "NotReady",
}
#: No two decisions about a name have one time; so much before the first about a group is its forerunner gone.
_BEFORE_SECONDS: Final = 0.001
_WAITING: Final = frozenset({"Pipelined", "Unschedulable", "NotReady"})
_CONTENT: Final = frozenset({"Placed", "Settled"})


@dataclass(frozen=True, slots=True)
class Standing:
    """How a pod group stands. Messages have numbers that change with every cycle, so they do not count."""

    outcome: str
    reason: str = ""
    #: Of the group that it was said of; empty where that is not known.
    uid: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class _Left:
    """That a group is gone, to be told if it is, and how it stood."""

    decision: Decision
    last: Standing


class SessionBook:
    """Turns sessions into records, which ``put`` gets; one for all shards."""

    def __init__(
        self,
        surroundings: Surroundings,
        *,
        put: Callable[[AnyRecord], None],
        run_of: Callable[[str], Run | None],
        evicted: Callable[[str, float], None],
        now: Callable[[], float],
    ) -> None:
        """``run_of`` knows the run of a pod (uid); ``evicted`` is told of each pod that is.

        ``now`` gives Unix seconds.
        """
        self._surroundings = surroundings
        self._put = put
        self._run_of = run_of
        self._evicted = evicted
        self._now = now
        #: Epoch and number of the last cycle of each shard.
        self._last: dict[str, tuple[int, int]] = {}
        #: Of each shard, by pod group (``namespace/name``).
        self._standing: dict[str, dict[str, Standing]] = {}
        #: That groups are gone which are still there, as far as we have seen. They may be another scheduler's
        #: now, and we may be late: it is told once they are seen to be gone.
        self._left: dict[str, _Left] = {}

    def begin(self, shard: str, decisions: Iterable[Decision]) -> None:
        """Go on from what a shard's pod groups were found to be last."""
        self._standing[shard] = {
            f"{each.namespace}/{each.pod_group}": Standing(each.outcome, each.reason) for each in decisions
        }

    def gone(self, group: str) -> None:
        """A pod group does not exist any more."""
        if (left := self._left.pop(group, None)) is not None:
            said = left.decision
            epoch, cycle = self._last[said.shard]
            self._put(replace(said, at=max(said.at, self._now()), epoch=epoch, cycle=cycle))

    def take(self, shard: str, update: SessionUpdate) -> None:
        """Take in what the scheduler of a shard publishes.

        It forgets a group that is deleted, and one that is another scheduler's now.
        """
        standing = self._standing.setdefault(shard, {})
        self._last[shard] = (update.epoch, update.version)
        forgotten: list[str] = []
        for group in update.forgotten:  # another one of the name may be told of in the same session
            if (last := standing.pop(group, None)) is not None:
                self._left[group] = _Left(self._decision(shard, update, group, Standing(GONE), ""), last)
                forgotten.append(group)
        for outcome in update.outcomes:
            self._found(shard, update, outcome, standing)
        for group in forgotten:
            if group in self._left and group not in self._surroundings.groups:
                self._put(self._left.pop(group).decision)
        if update.full or update.version == 1:  # the first session of a leader tells of everything, too
            self._compare(shard, update, standing)
        if update.full:
            return  # what it did in that cycle it does not say
        for eviction in update.evictions:
            self._eviction(shard, update, eviction)
        self._put(
            Cycle(
                shard=shard,
                epoch=update.epoch,
                cycle=update.version,
                at=update.opened_at,
                binds=update.binds,
                evictions=len(update.evictions),
                nominations=len(update.nominations),
                outcomes=len(update.outcomes),
                waiting=sum(each.outcome in _WAITING for each in standing.values()),
            )
        )

    def _found(
        self, shard: str, update: SessionUpdate, outcome: PodGroupOutcome, standing: dict[str, Standing]
    ) -> None:
        reason = outcome.explanations[0].reason if outcome.explanations else ""
        now = Standing(OUTCOMES[outcome.outcome], reason, outcome.uid)
        before = standing.get(outcome.pod_group)
        left = self._left.pop(outcome.pod_group, None)
        former = before or (left.last if left is not None else None)
        if former is not None and self._is_gone(former, update, outcome):
            gone = self._decision(shard, update, outcome.pod_group, Standing(GONE), "")
            self._put(replace(gone, at=gone.at - _BEFORE_SECONDS))
            before = None
        standing[outcome.pod_group] = now
        settles = now.outcome == "Settled" and (before is None or before.outcome in _CONTENT)
        if now != before and not settles:
            message = outcome.message or next((each.message for each in outcome.explanations), "")
            self._put(self._decision(shard, update, outcome.pod_group, now, message))

    def _is_gone(self, former: Standing, update: SessionUpdate, outcome: PodGroupOutcome) -> bool:
        """Whether ``former`` was said of a group that had the name before.

        Where not both uids are known, it is one that was forgotten before this outcome and that is not there:
        the watch has told of its removal, and not yet of the one that has its name now.
        """
        if former.uid and outcome.uid:
            return former.uid != outcome.uid
        return outcome.pod_group in update.forgotten and outcome.pod_group not in self._surroundings.groups

    def _compare(self, shard: str, update: SessionUpdate, standing: dict[str, Standing]) -> None:
        """It tells of all that it has something to say about: the others are content, or gone."""
        told = {outcome.pod_group for outcome in update.outcomes}
        for group in sorted(standing.keys() - told):
            if group not in self._surroundings.groups:
                del standing[group]
                self._put(self._decision(shard, update, group, Standing(GONE), ""))
            elif standing[group].outcome in _WAITING:
                standing[group] = Standing(OUTCOMES[Outcome.SETTLED], uid=standing[group].uid)
                self._put(self._decision(shard, update, group, standing[group], ""))

    def _decision(
        self, shard: str, update: SessionUpdate, group: str, standing: Standing, message: str
    ) -> Decision:
        namespace, _, name = group.partition("/")
        return Decision(
            namespace=namespace,
            pod_group=name,
            at=update.opened_at,
            shard=shard,
            epoch=update.epoch,
            cycle=update.version,
            queue=self._surroundings.group(group).queue,
            outcome=standing.outcome,
            reason=standing.reason,
            message=cut(message),
        )

    def _eviction(self, shard: str, update: SessionUpdate, eviction: Eviction) -> None:
        pod, run = eviction.pod, self._run_of(eviction.pod.uid)
        profiting_namespace, _, profiting = eviction.evictor.partition("/")
        self._put(
            Taking(
                pod_uid=pod.uid,
                at=update.opened_at,
                shard=shard,
                epoch=update.epoch,
                cycle=update.version,
                namespace=pod.namespace,
                pod=pod.name,
                pod_group=pod.pod_group.partition("/")[2],
                queue=self._surroundings.group(pod.pod_group).queue or (run.queue if run else ""),
                action=eviction.action,
                gpus=run.gpus if run else 0.0,
                for_namespace=profiting_namespace,
                for_pod_group=profiting,
                for_queue=self._surroundings.group(eviction.evictor).queue,
                message=cut(eviction.message),
            )
        )
        self._evicted(pod.uid, update.opened_at)
