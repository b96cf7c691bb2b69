"""Pods as they were, so that a trial which goes on for a while can be taken back exactly."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from kai.model.faults import Fault
from kai.snapshot.accounts import Accounts, facts_of
from kai.snapshot.classes import TaskClass
from kai.snapshot.cluster import Cluster
from kai.snapshot.intake import Intake
from kai.snapshot.rows import PodFacts, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Memento:
    """What was known and decided of a pod that was there."""

    task: Task
    facts: PodFacts
    cls: TaskClass
    declared_cls: TaskClass | None
    nominated: str
    overruled: Fault | None


class Mementos:
    """Remembering pods, changing them without an object, and letting them be again what they were."""

    def __init__(self, cluster: Cluster, accounts: Accounts, intake: Intake) -> None:
        self._cluster = cluster
        self._accounts = accounts
        self._intake = intake

    def recall(self, task: Task) -> Memento:
        """A pod as it is now; nothing that happens to it later changes the memento."""
        facts = facts_of(task)
        return Memento(
            task=task,
            facts=copy.copy(facts),
            cls=task.cls,
            declared_cls=task.declared_cls,
            nominated=task.nominated,
            overruled=self._cluster.overruled.get(facts.key),
        )

    def reinstate(self, memento: Memento) -> None:
        """Let a pod be as it was, whether it is still there or not.

        Before: no other pod has its name. After: all sums have it as its facts of then say. A memento is
        used once.
        """
        cluster, task = self._cluster, memento.task
        if cluster.tasks.get(task.uid) is task:
            self._accounts.detach(task)
            self._intake.unindex(task)
        task.facts = memento.facts
        task.cls, task.declared_cls, task.nominated = memento.cls, memento.declared_cls, memento.nominated
        cluster.tasks[task.uid] = cluster.tasks_by_key[memento.facts.key] = task
        if memento.overruled is not None:
            cluster.overruled[memento.facts.key] = memento.overruled
        else:
            cluster.overruled.pop(memento.facts.key, None)
        self._intake.index(task)
        self._accounts.attach(task)

    def reclass(self, task: Task, cls: TaskClass) -> None:
        """Let a pod be of another class; all sums follow."""
        self._accounts.detach(task)
        self._intake.unindex(task)
        task.cls, task.declared_cls = cls, None
        self._intake.index(task)
        self._accounts.attach(task)

    def withdraw(self, task: Task) -> None:
        """Let a pod be gone, and all that is recorded of others on it stay: for a while, that is."""
        self._accounts.detach(task)
        self._intake.drop(task)

    def finish(self, task: Task) -> None:
        """Let a pod have succeeded: it holds nothing any more, and counts for its group."""
        self._accounts.detach(task)
        facts_of(task).phase = "Succeeded"
        self._accounts.attach(task)
