"""Brings status, annotations and pod conditions in line with what is known.

A pod that can be placed at once costs one write here, and so does a gang: its group's status is written when
it has settled, that is when all its pods have been placed or a scheduler said that they cannot be, and then
resources and conditions together. Where a scheduler says nothing at all, what is known is written
after :data:`PATIENCE_SECONDS`. As long is waited where the last pods go: mostly their group goes with them,
and what was written to it would have been for nobody. A group that belongs to those pods is certain to go,
but where thousands are evicted they and the garbage collector take their time: :data:`FAREWELL_SECONDS`.

Timestamps are annotations, which a write of the status cannot carry (the API server takes only the
status from it). So that they do not cost every pod one more request, the time of the last start is
written only where somebody reads it: while some queue sets a minimum runtime, or together with another
timestamp that has to be written anyway, or if ``--persist-last-start`` asks for it because a minimum
runtime is set in the scheduler's own configuration. The scheduler itself knows the time as long as it
lives, and the next one goes by the pods that run. The times of staleness and eviction are always
written: they happen seldom and change decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from kai.kube import errors
from kai.kube.client import KubeClient, PatchKind
from kai.kube.resources import POD_GROUPS, PODS
from kai.model import names
from kai.model.decisions import PodGroupOutcome
from kai.model.objects import Json, PodGroup, SchedulingCondition
from kai_podgroup_controller import accounting, conditions
from kai_podgroup_controller.announcer import Announcer
from kai_podgroup_controller.cluster import Cluster
from kai_podgroup_controller.facts import PodRecord, WatchedGroup, WatchedPod
from kai_podgroup_controller.faults import WELL_AGAIN, faulty_pods, well_again
from kai_podgroup_controller.outcomes import OutcomeBook
from kai_podgroup_controller.pods import condition_patch, unschedulable_pods, wants_condition
from kai_podgroup_controller.verdicts import VerdictBook

#: How long a status is held back for pods that are about to be placed.
PATIENCE_SECONDS = 10.0
#: How long nothing is written to a group that is deleted with its pods.
FAREWELL_SECONDS = 120.0
#: How long a pod that is evicted may take until it is seen to go: thousands take their time. Else it stays.
EVICTING_SECONDS = 30.0
#: Time between two writes of the same status, of use where a scheduler changes its mind in every cycle.
PAUSE_SECONDS = 2.0
#: After a change a group is looked at so much later, for changes come in company.
SETTLING_SECONDS = 0.25
#: Writes to the pods of one group at the same time.
POD_WRITES = 16


class Reconciler:
    """Handles one pod group at a time, by key."""

    def __init__(
        self,
        client: KubeClient,
        cluster: Cluster,
        book: OutcomeBook,
        verdicts: VerdictBook,
        announcer: Announcer,
        *,
        persist_last_start: bool = False,
        clock: Callable[[], float] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._book = book
        self._verdicts = verdicts
        self._announcer = announcer
        self._persist_last_start = persist_last_start
        self._clock = clock or asyncio.get_running_loop().time
        self._now = now
        #: Which group it was that we looked at under a name.
        self._uids: dict[str, str] = {}
        #: Groups whose status is held back, and since when.
        self._held_back: dict[str, float] = {}
        self._written_at: dict[str, float] = {}
        self._pods_written_at: dict[str, float] = {}

    async def reconcile(self, key: str) -> float | None:
        """Write what differs. Seconds after which to look again, None if nothing is held back."""
        group = self._cluster.groups.get(key)
        if group is None:
            self._forget(key)
            return None
        if self._uids.get(key, group.uid) != group.uid:
            self._forget(key, but=group.uid)
        self._uids[key] = group.uid
        if (wait := self._wait_for_its_end(group)) > 0:
            return wait
        outcome = self._book.get(group)
        if outcome is not None:
            self._announce(group, outcome)
        waits: list[float] = []
        refused: errors.KubeError | None = None
        for part in (self._status, self._timestamps, self._pods):
            try:
                wait = await part(group, outcome) or 0.0
            except errors.NotFound:
                # Deleted meanwhile; the watch will say so.
                return None
            except (errors.ApiError, errors.DeadlineExceeded) as error:
                # One part that breaks a rule, or whose webhook is away or hangs, keeps no other from users.
                refused = refused or error
            else:
                waits += [wait] if wait > 0 else []
        if isinstance(refused, errors.Conflict):
            return SETTLING_SECONDS
        if refused is not None:
            raise refused
        return min(waits, default=None)

    def _forget(self, key: str, *, but: str = "") -> None:
        """Go by nothing that was of a group that is gone: one may be made anew under its name.

        What was found of that one (``but``, a uid) stays.
        """
        self._uids.pop(key, None)
        self._verdicts.forget(key, but=but)
        self._announcer.forget(key)
        self._held_back.pop(key, None)
        self._written_at.pop(key, None)
        self._pods_written_at.pop(key, None)

    def _announce(self, group: WatchedGroup, outcome: PodGroupOutcome) -> None:
        if not self._book.says_no(group):
            self._verdicts.forget(group.key)
        news = self._book.take_news(group)
        verdict = self._verdicts.take_news(group)
        if news is not None:
            message = self._message(group, outcome)
            self._announcer.announce_outcome(group, outcome, news, message=message)
            return
        if verdict is not None:
            message = self._message(group, outcome)
            self._announcer.announce_verdict(group, outcome, verdict, message=message)
        self._announcer.announce_to_more(group, outcome)

    def _message(self, group: WatchedGroup, outcome: PodGroupOutcome) -> str:
        """What users are told of a group."""
        text = conditions.message_of(group, outcome.message)
        return self._verdicts.message(group, text, shown=conditions.shown_by(group))

    # --- the group's status --------------------------------------------------------------------
    async def _status(self, group: WatchedGroup, outcome: PodGroupOutcome | None) -> float | None:
        patch = self._status_patch(group, outcome)
        if not patch:
            self._held_back.pop(group.key, None)
            return None
        wait = self._hold_back(group, told=bool(patch.get("schedulingConditions")))
        if wait > 0:
            return wait
        # Another group may have the name by now, and with a status the API server does not compare uids.
        as_known = {"resourceVersion": str(group.resource_version)} if group.resource_version else {}
        written = await self._client.patch(
            POD_GROUPS,
            group.name,
            {"metadata": as_known, "status": patch},
            namespace=group.namespace,
            subresource="status",
            type=PodGroup,
        )
        self._held_back.pop(group.key, None)
        self._written_at[group.key] = self._clock()
        self._cluster.take_written_group(written)
        return None

    def _wait_for_its_end(self, group: WatchedGroup) -> float:
        """Seconds for which a group that loses its last pods can be left alone."""
        if not self._cluster.is_ending(group.key):
            return 0.0
        foretold = self._cluster.is_foretold(group.key)
        if not self._cluster.goes_with_its_pods(group):
            patience = PATIENCE_SECONDS
        else:
            patience = EVICTING_SECONDS if foretold else FAREWELL_SECONDS
        now = self._clock()
        wait = self._held_back.setdefault(group.key, now) + patience - now
        if wait <= 0 and foretold:
            self._cluster.expect_no_end(group.key)
        return wait

    def _hold_back(self, group: WatchedGroup, *, told: bool) -> float:
        """Seconds for which the write can wait; not at all if it is the first to tell why the group waits."""
        if told and not group.conditions:
            return 0.0
        now = self._clock()
        since = self._held_back.setdefault(group.key, now)
        pause = self._written_at.get(group.key, now - PAUSE_SECONDS) + PAUSE_SECONDS - now
        patience = since + PATIENCE_SECONDS - now if self._is_settling(group) else 0.0
        return max(pause, patience)

    def _status_patch(self, group: WatchedGroup, outcome: PodGroupOutcome | None) -> Json:
        patch: Json = {}
        core = accounting.core_pods(group, outcome)
        wanted = accounting.resources_status(
            self._cluster.members(group.key),
            self._cluster.surroundings,
            preemptible=accounting.is_preemptible(group, self._cluster.priority_classes),
            core=core,
        )
        named = (core or ())[: accounting.MOST_NAMED]
        if named != group.core_pods:
            patch["schedulingState"] = {"corePods": list(named)} if named else None
        if outcome is None:
            wanted = accounting.as_far_as_named(wanted, group.resources, core=core)
        resources = accounting.difference(wanted, group.resources)
        if resources is not None:
            patch["resourcesStatus"] = resources
        if outcome is not None:
            message = self._message(group, outcome)
            found = conditions.updated(group, outcome, message=message, now=self._now())
            if found is not None:
                patch["schedulingConditions"] = _listed(found)
        return patch

    def _is_settling(self, group: WatchedGroup) -> bool:
        """Whether pods wait or are yet to come, and no scheduler has said that they have to.

        Most say only when they are bound that they belong to it, so those of a gang appear one by one.
        """
        if self._book.says_no(group):
            return False
        members = list(self._cluster.members(group.key))
        if any(pod.alive and not pod.allocated for pod in members):
            return True
        begun = group.resources is not None and bool(group.resources.allocated)
        return not begun and len(members) < group.pods_at_once

    # --- its annotations -----------------------------------------------------------------------
    async def _timestamps(self, group: WatchedGroup, outcome: PodGroupOutcome | None) -> None:
        if outcome is None:
            return
        wanted = self._book.annotations(group)
        changes = {key: value for key, value in wanted.items() if group.timestamps.get(key) != value}
        last_start_matters = self._persist_last_start or self._cluster.min_runtime_matters
        if not changes or (set(changes) == {names.LAST_START_TIMESTAMP} and not last_start_matters):
            return
        written = await self._client.patch(
            POD_GROUPS,
            group.name,
            {"metadata": {"uid": group.uid, "annotations": changes}},
            namespace=group.namespace,
            type=PodGroup,
        )
        self._cluster.take_written_group(written)

    # --- its pods ------------------------------------------------------------------------------
    async def _pods(self, group: WatchedGroup, outcome: PodGroupOutcome | None) -> float | None:
        now = self._now()
        patches = [
            (pod, condition_patch(pod, fault.message, reason=fault.reason, now=now))
            for pod, fault in faulty_pods(group, self._cluster)
        ]
        if outcome is not None:
            patches += [
                (pod, condition_patch(pod, message, now=now))
                for pod, message in unschedulable_pods(group, outcome, self._cluster)
                if wants_condition(group, outcome, pod)
            ]
        told = {pod.key for pod, _ in patches}
        patches += [
            (pod, condition_patch(pod, WELL_AGAIN, now=now))
            for pod in well_again(group, self._cluster)
            if pod.key not in told
        ]
        clock = self._clock()
        wait = self._pods_written_at.get(group.key, clock - PAUSE_SECONDS) + PAUSE_SECONDS - clock
        due = [(pod, patch) for pod, patch in patches if patch is not None]
        # Who says nothing yet is told at once.
        at_once = due if wait <= 0 else [each for each in due if each[0].scheduled[0] != "False"]
        if at_once:
            await self._write_pods(group, at_once)
        return wait if len(at_once) < len(due) else None

    async def _write_pods(self, group: WatchedGroup, patches: list[tuple[WatchedPod, Json]]) -> None:
        self._pods_written_at[group.key] = self._clock()
        turns = asyncio.Semaphore(POD_WRITES)
        async with asyncio.TaskGroup() as tasks:
            writes = [tasks.create_task(self._pod(pod, patch, turns)) for pod, patch in patches]
        for failure in (write.result() for write in writes):
            if failure is not None:
                raise failure  # nothing else may ever happen to that pod that would have it looked at again

    async def _pod(self, pod: WatchedPod, patch: Json, turns: asyncio.Semaphore) -> errors.KubeError | None:
        """Why it could not be written, if it has to be tried again; one that fails stops no other."""
        async with turns:
            try:
                written = await self._client.patch(
                    PODS,
                    pod.name,
                    patch,
                    namespace=pod.namespace,
                    subresource="status",
                    kind=PatchKind.STRATEGIC,
                    type=PodRecord,
                )
            except (errors.NotFound, errors.Conflict, errors.Invalid):
                # Gone, or changed since: the watch brings it here again as it is then.
                return None
            except errors.KubeError as error:
                return error
        self._cluster.take_written_pod(written)
        return None


def _listed(found: tuple[SchedulingCondition, ...]) -> list[Json]:
    return [msgspec.to_builtins(condition) for condition in found]
