"""Placing a job's next chunk: subgroup by subgroup, pod by pod, all or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Final

import numpy as np

from kai.config.plugin_table import Weight
from kai.engine.framework import devices
from kai.engine.framework.devices import leaves
from kai.engine.framework.fit import fit_counts
from kai.engine.framework.protocols import Tie
from kai.engine.framework.resolved import Concerned
from kai.engine.framework.session import Session
from kai.engine.framework.statement import Statement
from kai.engine.kernel.room import free_slots
from kai.engine.kernel.view import NEVER, ClassView
from kai.engine.queueing.chunks import ordered_members, tasks_to_allocate
from kai.engine.reasons import NO_ROOM, Unschedulable
from kai.model.arrays import Floats, Mask
from kai.model.decisions import Reason
from kai.model.ids import GpuGroup
from kai.snapshot.classes import GpuKind
from kai.snapshot.rows import DEFAULT_POD_SET, Job, PodSet, SubGroupSet, Task

#: In so many other domains the first of several pods that must be together is tried.
OTHER_DOMAINS: Final = 8


def allocate_job(
    session: Session,
    statement: Statement,
    job: Job,
    *,
    simulation: bool = False,
    nodes: Mask | None = None,
    tasks: list[Task] | None = None,
) -> bool:
    """Place the next chunk of a job; False if there is none, or it found no place.

    What a failed attempt placed stays in the statement: the caller rolls it back. Why it failed is recorded
    with the session. In a simulation victims of the same statement are placed too, everything waits for
    resources being released, and no reasons are recorded.

    Args:
        session: whose plugins and nodes count.
        statement: gets a step for each pod placed.
        job: its quota is checked first.
        simulation: see above.
        nodes: ``[nodes]`` where its pods may go; None for anywhere.
        tasks: the chunk, if the caller has it already.
    """
    if tasks is None:
        tasks = tasks_to_allocate(job, simulation=simulation)
    if not tasks:
        return False
    over = session.over_capacity(job, tasks)
    if over is not None:
        if not simulation:
            session.error(job, over)
        return False
    attempt = _Attempt(session, statement, job, simulation)
    checkpoint = statement.checkpoint()
    if attempt.chunk(tasks, nodes):
        return True
    if len(tasks) == 1 or not session.plugins.ties:
        return False
    return attempt.elsewhere(tasks, nodes, checkpoint)


class _Attempt:
    def __init__(self, session: Session, statement: Statement, job: Job, simulation: bool) -> None:
        self.session = session
        self.statement = statement
        self.job = job
        self.simulation = simulation
        self.records = session.tells and not simulation
        #: By class: the first of its pods that got a place, and on which row; nodes left for it, if not all.
        self.firsts: dict[int, tuple[Task, int]] = {}
        self.left: dict[int, Mask] = {}
        #: The last that found no place.
        self.failed: Task | None = None

    def chunk(self, tasks: Sequence[Task], nodes: Mask | None) -> bool:
        """Place all tasks; after a no some may be placed."""
        job = self.job
        if job.single is not None and not job.has_constraint:
            return self.pod_set(job.single, tasks, nodes, None)
        return self.members(job.root, tasks, nodes, None)

    def elsewhere(self, tasks: Sequence[Task], nodes: Mask | None, checkpoint: int) -> bool:
        """Place tasks after an attempt that failed: the first of those tied together goes somewhere else.

        The best node for one pod may be in a domain that is too small for all. Why it failed at first stays
        recorded. After a no some may be placed.
        """
        self.records = False
        for _ in range(OTHER_DOMAINS):
            self.statement.rollback(checkpoint)
            if not self._leave_domain(tasks):
                return False
            self.firsts.clear()
            if self.chunk(tasks, nodes):
                return True
        return False

    def _leave_domain(self, tasks: Sequence[Task]) -> bool:
        """Keep the first of some pods tied together from its domain, and from all that are too small.

        Pods placed after it may go everywhere again. False if no pod that had a place ties others to itself.
        """
        found = self._tie_to_change(tasks)
        if found is None:
            return False
        first, row, tie = found
        placed = list(self.firsts)
        before = frozenset(placed[: placed.index(first.cls.id) + 1])
        self.left = {cls: left for cls, left in self.left.items() if cls in before}
        _, numbers = np.unique(tie.domains, return_inverse=True)
        left = numbers != numbers[row]
        for cls, count in Counter(task.cls for task in (first, *tie.others)).items():
            slots = free_slots(self.session.nodes, cls, np.ones(len(numbers), dtype=bool))
            left &= (np.bincount(numbers, weights=slots) >= count)[numbers]
        known = self.left.get(first.cls.id)
        self.left[first.cls.id] = left if known is None else left & known
        return True

    def _tie_to_change(self, tasks: Sequence[Task]) -> tuple[Task, int, Tie] | None:
        """The first of those tied to the pod that found no place, or else the last that was placed."""
        ties = (
            (first, row, tie)
            for first, row in reversed(self.firsts.values())
            if (
                tie := next(
                    filter(None, (each.tie(first, tasks) for each in self.session.plugins.ties)), None
                )
            )
        )
        # So many are looked at: each takes time by the number of pods.
        last = next(ties, None)
        for found in () if last is None else chain((last,), islice(ties, OTHER_DOMAINS - 1)):
            if self.failed in found[2].others:
                return found
        return last

    def members(
        self, group: SubGroupSet, tasks: Sequence[Task], nodes: Mask | None, extra: Floats | None
    ) -> bool:
        """Place the tasks of a set: in one of the node sets that its constraint allows, all or none.

        ``tasks`` all belong to pod sets below ``group``. ``nodes`` and ``extra`` come from the sets above:
        where they may go, and an addition to the order of nodes. After a no none of them is placed.
        """
        if not tasks:
            return True
        for subset, score in self._subsets(group, tasks, nodes, extra):
            checkpoint = self.statement.checkpoint()
            if all(self._member(member, tasks, subset, score) for member in ordered_members(group)):
                return True
            self.statement.rollback(checkpoint)
        return False

    def _member(
        self, member: PodSet | SubGroupSet, tasks: Sequence[Task], nodes: Mask | None, extra: Floats | None
    ) -> bool:
        if isinstance(member, PodSet):
            own = [task for task in tasks if task.pod_set is member]
            return self.pod_set(member, own, nodes, extra)
        own = [task for task in tasks if _within(task.pod_set, member)]
        return self.members(member, own, nodes, extra)

    def pod_set(
        self, pod_set: PodSet, tasks: Sequence[Task], nodes: Mask | None, extra: Floats | None
    ) -> bool:
        """Place the tasks of a pod set in order; the first that finds no place fails the node set.

        ``nodes`` and ``extra`` as for :meth:`members`. After a no what was placed is taken back if the pod
        set has a constraint; else that is left to the caller.
        """
        if not tasks:
            return True
        if pod_set.constraint is None:
            return self._all(tasks, nodes, extra)
        for subset, score in self._subsets(pod_set, tasks, nodes, extra):
            checkpoint = self.statement.checkpoint()
            if self._all(tasks, subset, score):
                return True
            self.statement.rollback(checkpoint)
        return False

    def _all(self, tasks: Sequence[Task], nodes: Mask | None, extra: Floats | None) -> bool:
        for task in tasks:
            if not self._task(task, nodes, extra):
                self.failed = task
                return False
        return True

    def _subsets(
        self, member: PodSet | SubGroupSet, tasks: Sequence[Task], nodes: Mask | None, extra: Floats | None
    ) -> Sequence[tuple[Mask | None, Floats | None]]:
        sets = self.session.plugins.node_sets
        if member.constraint is None or sets is None:
            return [(nodes, extra)]
        found = sets.subsets(self.job, member, tasks, nodes=nodes, extra=extra)
        if not isinstance(found, Unschedulable):
            return found
        self.session.error(self.job, found)
        return ()

    def _task(self, task: Task, nodes: Mask | None, extra: Floats | None) -> bool:
        session = self.session
        if self.left and (left := self.left.get(task.cls.id)) is not None:
            nodes = left if nodes is None else nodes & left
        concerned = session.concerned(task.cls)
        if concerned is not None:
            for pre_filter in concerned.pre_filters:
                if why := pre_filter.refuse(task, self.job):
                    return self._failed(task, Unschedulable(Reason.POD_SCHEDULING_ERRORS, why))
        view = session.view(task.cls)
        row = view.best()
        score = view.score
        masks: list[tuple[Mask, str]] = []
        #: Nodes that passed all masks, by the reason for which they were turned down one by one.
        rejected: dict[str, Mask] = {}
        if nodes is not None or extra is not None or concerned is not None or task.nominated:
            score, masks = self._narrow(task, score, nodes, extra, concerned)
            row = int(score.argmax()) if len(score) else -1
        while row >= 0 and score[row] != NEVER:
            if not (self.simulation or view.ready(row)) and leaves(session.nodes.nodes[row], to=task):
                row = self._sooner(task, row, score=score, view=view)
            if self._try(task, row, concerned, rejected):
                return True
            # The first node nearly always does, so the view's own array is copied only now.
            if score is view.score:
                score = score.copy()
            score[row] = NEVER
            row = int(score.argmax())
        if self.records:
            masks += [(mask, why) for why, mask in rejected.items()]
            counts = fit_counts(session, task, nodes=nodes, masks=masks)
            return self._failed(task, Unschedulable(Reason.POD_SCHEDULING_ERRORS, NO_ROOM, counts))
        return False

    def _sooner(self, task: Task, row: int, *, score: Floats, view: ClassView) -> int:
        """The best node where the pod can begin at once, in the place of one that others have to leave first.

        They may take as long as they like. What the pod itself prefers is worth waiting for, though, and so
        are its levels of a topology; then, or where there is no other node, it is ``row`` after all.

        Args:
            task: the pod.
            row: the best node for it, where it has to wait and a pod of another queue is leaving.
            score: ``[nodes]``, with all that counts for this pod.
            view: that of its class, refreshed.
        """
        best = int(np.where(view.ready_rows(), score, NEVER).argmax())
        promised = task.nominated == self.session.nodes.nodes[row].name and self.session.nominate
        lost = score[row] - score[best] - (Weight.NOMINATED_NODE if promised else 0.0)
        return best if lost < Weight.TOPOLOGY else row

    def _narrow(
        self,
        task: Task,
        score: Floats,
        nodes: Mask | None,
        extra: Floats | None,
        concerned: Concerned | None,
    ) -> tuple[Floats, list[tuple[Mask, str]]]:
        """Apply everything that is not a matter of the class alone."""
        session = self.session
        total = score.copy()
        masks: list[tuple[Mask, str]] = []
        if nodes is not None:
            total[~nodes] = NEVER
        if extra is not None:
            total += extra
        if task.nominated and session.nominate:
            node = session.nodes.by_name.get(task.nominated)
            if node is not None:
                total[node.row] += Weight.NOMINATED_NODE
        if concerned is None:
            return total, masks
        for each in concerned.filters:
            found = each.mask(task)
            if found is not None:
                total[~found[0]] = NEVER
                masks.append(found)
        if concerned.scorers:
            able = total != NEVER
            for scorer in concerned.scorers:
                bonus = scorer.score(task, able)
                if bonus is not None:
                    total += bonus
        return total, masks

    def _try(self, task: Task, row: int, concerned: Concerned | None, rejected: dict[str, Mask]) -> bool:
        session, cls = self.session, task.cls
        node = session.nodes.nodes[row]
        # Only of these the charge depends on the node: all else was looked at with the chunk.
        if cls.kind is GpuKind.MEMORY:
            for quota in session.plugins.quotas:
                over = quota.refuse_on(self.job, task, node)
                if over is not None:
                    self._reject(row, over.message, rejected)
                    return False
        if concerned is not None:
            for each in concerned.node_filters:
                if why := each.check(task, node):
                    self._reject(row, why, rejected)
                    return False
        groups: tuple[GpuGroup, ...] = ()
        if cls.shared:
            choice = devices.choose(session.nodes, node, task, options=session.options, wait=self.simulation)
            if choice is None:
                return False  # which is found out again where nodes are counted by their reasons
            groups, now = choice
        else:
            now = not self.simulation and session.fits_now(cls, row)
        if now and (concerned is None or not any(each.waits(task, node) for each in concerned.readiness)):
            self.statement.allocate(task, node, groups=groups)
        else:
            self.statement.pipeline(task, node, groups=groups)
        self.firsts.setdefault(cls.id, (task, row))
        return True

    def _reject(self, row: int, why: str, rejected: dict[str, Mask]) -> None:
        mask = rejected.get(why)
        if mask is None:
            mask = rejected[why] = np.ones(len(self.session.nodes), dtype=bool)
        mask[row] = False

    def _failed(self, task: Task, error: Unschedulable) -> bool:
        if not self.records:
            return False
        session, job, pod_set = self.session, self.job, task.pod_set
        assert pod_set is not None
        session.pod_error(job, task, message=error.text)
        gang = len(job.pod_sets) > 1 or pod_set.min_member > 1
        if not gang or pod_set.active_used >= pod_set.min_member > 0:
            session.error(job, replace(error, pod=task.key))
        else:
            where = "" if pod_set.name == DEFAULT_POD_SET else f" of subgroup {pod_set.name!r}"
            message = (
                f"{pod_set.active_allocated} of the {pod_set.min_member} pods{where} needed found room; "
                f"pod {task.key}: {error.message}"
            )
            session.error(job, Unschedulable(error.reason, message, error.counts))
        return False


def _within(pod_set: PodSet | None, group: SubGroupSet) -> bool:
    parent = pod_set.parent if pod_set is not None else None
    while parent is not None:
        if parent is group:
            return True
        parent = parent.parent
    return False
