"""Who ran where, from when to when: runs, as pods begin to hold their places, change, and end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from kai.history.records import Ending, Run
from kai.history.store import ended
from kai.kube.reflector import Change, Removed, Upserted
from kai_insight.pods import Placed, PodRecord, placed
from kai_insight.surroundings import NO_GROUP, Surroundings

T = TypeVar("T")

#: A pod that is asked to go so long after its eviction was decided goes for another reason.
EVICTION_SECONDS: Final = 300.0
#: A time that lies so far ahead was told by a clock that is wrong, and what is told of it is not believed.
_AHEAD_SECONDS: Final = 60.0
#: Runs that ended and evictions that were decided: one may be told before the other, and not so many apart.
_LATELY: Final = 10_000
#: Endings of pods that did not tell one themselves: when they went they had been asked to.
_GONE: Final = frozenset({Ending.DELETED, Ending.UNSEEN})


@dataclass(frozen=True, slots=True)
class _Over:
    """A run that ended, and when its pod was asked to go; 0 if it never was."""

    run: Run
    asked_to_go: float

    def evicted(self, *, at: float) -> _Over:
        """The same where an eviction was decided then: its end, if the pod was asked to go soon after that.

        A pod that was asked to go may still succeed, and one that ended by itself be asked to go after that.
        """
        run, asked = self.run, self.asked_to_go
        assert run.ended is not None
        if not 0 < asked <= run.ended or asked - at > EVICTION_SECONDS:
            return self
        until = max(run.ended, at) if run.ending == Ending.UNSEEN else run.ended
        return replace(self, run=replace(run, ended=until, ending=Ending.EVICTED))


class RunLedger:
    """The runs that last. ``put`` gets each run as it begins, is corrected, and ends.

    Pods that are told before :meth:`begin` are only known: what is in the store decides what is new of them.
    """

    def __init__(
        self, surroundings: Surroundings, *, put: Callable[[Run], None], now: Callable[[], float]
    ) -> None:
        self._surroundings = surroundings
        self._put = put
        self._now = now
        self._begun = False
        #: By uid, those that may hold their places.
        self._pods: dict[str, Placed] = {}
        self._members: dict[str, set[str]] = {}
        self._open: dict[str, Run] = {}
        #: Pods whose end is recorded, while they are still there to be told again.
        self._over: set[str] = set()
        self._evicted: OrderedDict[str, float] = OrderedDict()
        self._lately: OrderedDict[str, _Over] = OrderedDict()

    def get(self, uid: str) -> Run | None:
        """The run of a pod: the one that lasts, or one that ended lately; None if nothing is known of it."""
        over = self._lately.get(uid)
        return self._open.get(uid) or (over.run if over is not None else None)

    def strangers(self, known: Collection[str]) -> list[str]:
        """Uids of the pods that were told and are not ``known``."""
        return sorted(self._pods.keys() - set(known))

    def begin(self, running: Iterable[Run], *, recorded: Collection[str], seen: float | None) -> None:
        """Go on from what is in the store.

        Args:
            running: the runs that had not ended.
            recorded: pods (uids) with any run in it.
            seen: until when pods were looked at before.
        """
        self._take_up(running)
        self._begun = True
        for uid in self._open.keys() - self._pods.keys():
            self._end(uid, at=self._now() if seen is None else min(seen, self._now()), ending=Ending.UNSEEN)
        for pod in list(self._pods.values()):
            # Of one that was recorded before only what comes now is new.
            if pod.uid in self._open or pod.uid not in recorded:
                self._take(pod)
            elif pod.ending:
                self._done(pod.uid)
            else:
                self._start(pod, began=self._now())

    def _take_up(self, running: Iterable[Run]) -> None:
        """The last run of each pod lasts. One before it may last in the store as well: who led until now may
        have written after somebody else had begun, and nobody would ever end it.
        """
        self._open = {}
        for run in sorted(running, key=lambda run: run.began):
            before = self._open.get(run.pod_uid)
            if before is not None:
                self._put(ended(before, at=run.began, ending=Ending.CHANGED))
            self._open[run.pod_uid] = run

    def pod_sink(self, change: Change[PodRecord]) -> None:
        """Take in a change of a pod."""
        if isinstance(change, Upserted):
            pod = placed(change.obj)
            if pod is not None and pod.uid not in self._over:
                self._known(pod)
                if self._begun:
                    self._take(pod)
        elif isinstance(change, Removed):
            self._removed(change)

    def evicted(self, uid: str, *, at: float) -> None:
        """A scheduler decided to evict a pod; mostly before it goes, at times told after."""
        _remember(self._evicted, uid, at)
        over = self._lately.get(uid)
        if over is not None and (changed := over.evicted(at=at)) != over:
            self._lately[uid] = changed
            self._put(changed.run)

    def regrouped(self, group: str) -> None:
        """A pod group (key) is charged to somebody else now, or known at last."""
        if self._begun:
            for uid in sorted(self._members.get(group, ())):
                self._take(self._pods[uid])

    # --- pods ----------------------------------------------------------------------------------
    def _known(self, pod: Placed) -> None:
        old = self._pods.get(pod.uid)
        if old is not None and old.group != pod.group:
            self._forget_member(old)
        self._pods[pod.uid] = pod
        if pod.group:
            self._members.setdefault(pod.group, set()).add(pod.uid)

    def _leave(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._forget_member(pod)

    def _forget_member(self, pod: Placed) -> None:
        members = self._members.get(pod.group)
        if members is not None:
            members.discard(pod.uid)
            if not members:
                del self._members[pod.group]

    def _removed(self, change: Removed[PodRecord]) -> None:
        last = placed(change.last_known) if change.last_known is not None else None
        if last is not None and self._begun and last.uid in self._open:
            self._known(last)
            self._take(last)  # it may have ended, and have said so with its last word
        if change.uid in self._open:
            self._end(change.uid, at=self._now(), ending=Ending.DELETED)
        self._leave(change.uid)
        self._over.discard(change.uid)

    def _take(self, pod: Placed) -> None:
        run = self._open.get(pod.uid)
        if run is None:
            self._start(pod, began=self._moment(pod.bound))
        else:
            self._change(run, pod)
        if pod.ending:
            self._end(pod.uid, at=self._moment(pod.ended), ending=pod.ending)
            self._done(pod.uid)

    def _moment(self, said: float) -> float:
        """A time that a pod tells; now where it tells none, or the clock of its node is ahead."""
        now = self._now()
        return said if 0 < said <= now + _AHEAD_SECONDS else now

    def _done(self, uid: str) -> None:
        self._leave(uid)
        self._over.add(uid)

    # --- runs ----------------------------------------------------------------------------------
    def _start(self, pod: Placed, *, began: float) -> None:
        group = self._surroundings.group(pod.group)
        held = pod.holds(self._surroundings.devices)
        run = Run(
            pod_uid=pod.uid,
            began=began,
            created=pod.created or began,
            namespace=pod.namespace,
            pod=pod.name,
            pod_group=pod.group_name,
            queue=group.queue,
            user_name=group.user or pod.user,
            workload=group.workload,
            node=pod.node,
            cpu_millis=held.cpu_millis,
            memory_bytes=held.memory_bytes,
            gpus=held.gpus,
        )
        self._open[pod.uid] = run
        self._put(run)

    def _change(self, run: Run, pod: Placed) -> None:
        """Begin the next run where the pod holds other things now, or for somebody else."""
        group = self._surroundings.group(pod.group)
        held = pod.holds(self._surroundings.devices)
        changed = replace(
            run,
            pod_group=pod.group_name,
            node=pod.node,
            cpu_millis=held.cpu_millis,
            memory_bytes=held.memory_bytes,
            gpus=held.gpus,
        )
        if group is not NO_GROUP:  # a group may go before its pods
            user = group.user or pod.user
            changed = replace(changed, queue=group.queue, workload=group.workload, user_name=user)
        if changed == run:
            return
        if run.queue:  # else it is only now that its group is known
            now = self._now()
            self._put(ended(run, at=now, ending=Ending.CHANGED))
            changed = replace(changed, began=max(now, run.began))
        self._open[pod.uid] = changed
        self._put(changed)

    def _end(self, uid: str, *, at: float, ending: str) -> None:
        run = ended(self._open.pop(uid), at=at, ending=ending)
        pod, decided = self._pods.get(uid), self._evicted.get(uid)
        asked = pod.asked_to_go if pod is not None else 0.0
        if ending in _GONE:
            asked = min(asked or at, at)
        over = _Over(run, asked)
        if decided is not None:
            over = over.evicted(at=decided)
        _remember(self._lately, uid, over)
        self._put(over.run)


def _remember(lately: OrderedDict[str, T], uid: str, what: T) -> None:
    lately[uid] = what
    lately.move_to_end(uid)
    while len(lately) > _LATELY:
        lately.popitem(last=False)
