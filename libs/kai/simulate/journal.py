"""Doing something to a state that is taken back exactly, however much follows from it.

A state with many pods cannot be copied for each question: a copy of 100,000 pods takes a minute, while what
one question changes is little. So whatever is done is written down here, with what was there before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from kai.collector import paused
from kai.model.decisions import CycleResult
from kai.model.faults import Fault
from kai.model.ids import PodGroupKey, PodUid
from kai.model.objects import Pod
from kai.snapshot.kinds import Kind, object_key
from kai.snapshot.mementos import Memento
from kai.snapshot.rows import Task
from kai.snapshot.state import ClusterState


class Journal:
    """What is done to a state from now on. Nobody else may change the state until :meth:`undo`."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self._objects: dict[tuple[Kind, str], Any] = {}
        #: Pods that were there at first and are not as they were, and those that came since; by uid.
        self._mementos: dict[PodUid, Memento] = {}
        self._born: dict[PodUid, Task] = {}
        #: Pods that are gone since, in order.
        self.gone: list[Task] = []
        with paused(lasting=True):
            self._begin()

    def _begin(self) -> None:
        """Note what a cycle may change of every row, and lend it what cycles keep."""
        state = self.state
        self._standing = state.lend()
        self._asides: dict[PodGroupKey, Fault] = {}
        self._pasts = {key: job.past for key, job in state.jobs.items()}
        self._nominated = {uid: task.nominated for uid, task in state.tasks.items() if task.nominated}
        self._waiting = [
            task
            for job in state.pending_jobs.values()
            for pod_set in job.pod_sets.values()
            for task in pod_set.tasks.values()
        ]

    # --- objects -------------------------------------------------------------------------------
    def put(self, kind: Kind, obj: Any) -> None:
        """Take in an object, or another version of one; for pods there is :meth:`create`.

        Raises:
            OutOfBounds: a field has a value that cannot be worked with; nothing has changed.
        """
        self._note(kind, object_key(obj))
        self.state.apply(kind, obj)

    def drop(self, kind: Kind, key: str) -> None:
        """Forget an object by ``namespace/name`` or name; for pods there is :meth:`end`."""
        self._note(kind, key)
        self.state.remove(kind, key)

    def _note(self, kind: Kind, key: str) -> None:
        assert kind is not Kind.POD
        self._objects.setdefault((kind, key), self.state.known(kind, key))
        if kind is Kind.POD_GROUP:
            job = self.state.jobs.get(PodGroupKey(key))
            if job is not None and job.aside is not None:
                self._asides.setdefault(job.key, job.aside)

    # --- pods ----------------------------------------------------------------------------------
    def create(self, pod: Pod) -> Task:
        """A pod comes into being; returns its row. No other of its name is there."""
        assert pod.key not in self.state.tasks_by_key
        self.state.apply(Kind.POD, pod)
        task = self.state.tasks_by_key[pod.key]
        self._born[task.uid] = task
        return task

    def end(self, task: Task) -> None:
        """A pod is gone."""
        if self._born.pop(task.uid, None) is None:
            self._remember(task)
        self.gone.append(task)
        self.state.withdraw(task)

    def finish(self, task: Task) -> None:
        """A pod has succeeded."""
        self._remember(task)
        self.state.finish(task)

    def reclass(self, task: Task, pod: Pod) -> None:
        """A pod asks for what ``pod`` does, and may run where that may."""
        self._remember(task)
        self.state.reclass(task, self.state.classes.of(pod, claimed=task.cls.claimed))

    def decided(self, result: CycleResult) -> None:
        """A cycle was run over the state; what it decided is in the state already."""
        state = self.state
        for bind in result.binds:
            if self._is_new(bind.pod.uid):
                memento = state.recall(state.tasks[bind.pod.uid])
                facts = memento.facts
                facts.assumed_node, facts.assumed_groups, facts.assumed_allotment = "", (), None
                self._mementos[bind.pod.uid] = memento
        for eviction in result.evictions:
            if self._is_new(eviction.pod.uid):
                memento = state.recall(state.tasks[eviction.pod.uid])
                memento.facts.evicting = False
                self._mementos[eviction.pod.uid] = memento

    def _remember(self, task: Task) -> None:
        if self._is_new(task.uid):
            self._mementos[task.uid] = self.state.recall(task)

    def _is_new(self, uid: PodUid) -> bool:
        return uid not in self._born and uid not in self._mementos

    # --- the way back --------------------------------------------------------------------------
    def undo(self) -> None:
        """Let the state be as it was when the journal was opened. Costs time by what was done."""
        state = self.state
        for task in self._born.values():
            if state.tasks.get(task.uid) is task:
                state.withdraw(task)
        for (kind, key), obj in self._objects.items():
            if obj is not None:
                state.apply(kind, obj)
            else:
                state.remove(kind, key)
        for memento in self._mementos.values():
            state.reinstate(replace(memento, nominated=self._nominated.get(memento.task.uid, "")))
        for task in self._waiting:
            state.nominate(task, self._nominated.get(task.uid, ""))
        self._put_back()

    def _put_back(self) -> None:
        state = self.state
        for key, fault in self._asides.items():
            state.set_aside(state.jobs[key], fault)
        state.settle(self._standing.now)
        for key, past in self._pasts.items():
            state.inherit(state.jobs[key], past)
        state.take_back(self._standing)


@contextmanager
def journal(state: ClusterState) -> Iterator[Journal]:
    """A journal that is undone at the end of the block, whatever happens in it."""
    opened = Journal(state)
    try:
        yield opened
    finally:
        opened.undo()
