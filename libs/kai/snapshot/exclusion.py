"""Objects that take no part in decisions for now, and hold what they hold all the same."""

from __future__ import annotations

from kai.model.faults import Fault
from kai.model.objects import Pod, PodGroup
from kai.snapshot import pods, recount
from kai.snapshot.accounts import facts_of
from kai.snapshot.intake import Intake
from kai.snapshot.rows import Job, Task
from kai.snapshot.times import seconds


class Exclusion(Intake):
    """Leaving objects out, and finding all sums anew where something failed half-way."""

    def keep_pod(self, pod: Pod, stand_in: Pod) -> None:
        """A pod on a node holds what it held, or else what ``stand_in`` asks for; others are forgotten."""
        uid = pod.metadata.uid or pod.key
        facts = pods.facts(stand_in, self.params)
        facts.deleted_at = seconds(pod.metadata.deletion_timestamp)
        old = self._tasks_by_key.get(facts.key)
        known = old if old is not None and old.uid == uid else None
        if not (facts.node_name or (known is not None and facts_of(known).assumed_node)):
            if old is not None:
                self._forget(old)
            return
        cls = self.classes.of(stand_in) if known is None else self.classes.bare(known.cls)
        facts.gated = True  # where else it may run is not known
        self._enter_pod(stand_in, uid, facts, cls, known.claims if known is not None else ())
        self._tasks_by_key[facts.key].bare = True

    def keep_pod_group(self, group: PodGroup, fault: Fault) -> None:
        """The group's pods stay charged to its queue, and nothing is decided about it."""
        key = group.key
        if not self._in_pool(group.labels):
            return
        self.group_objects[key] = group
        if key not in self.jobs:
            self._put_job(group)
        self.set_aside(self.jobs[key], fault)

    def bare(self, job: Job) -> None:
        """Of a job's pods nothing is known any more but what they hold, until their next version."""
        for pod_set in job.pod_sets.values():
            for task in list(pod_set.tasks.values()):
                self._bare(task)

    def bare_pod(self, key: str) -> None:
        """The same for one pod."""
        if (task := self._tasks_by_key.get(key)) is not None:
            self._bare(task)

    def _bare(self, task: Task) -> None:
        cls = self.classes.bare(task.cls)
        self._detach(task)
        self._unindex(task)
        facts_of(task).pod = None
        facts_of(task).gated = True  # where it may run is not known any more
        task.cls, task.bare = cls, True
        self._attach(task)

    def recount(self) -> list[tuple[Task, Exception]]:
        """Build all sums anew from what is known of each pod, whatever became of them.

        What only a cycle knows is gone. Pods that cannot be put into the sums are left out, and returned.
        """
        touched = dict(self.touched_jobs)
        left_out: list[tuple[Task, Exception]] = []
        while True:
            recount.clear(self)
            self._members, self._on_node, self._releasing = {}, {}, {}
            failed = self._attach_all()
            if failed is None:
                break
            self._drop(failed[0])
            left_out.append(failed)
        self.unsound = False
        self.touched_jobs.clear()
        self.touched_jobs.update((key, job) for key, job in touched.items() if self.jobs.get(key) is job)
        for task, _ in left_out:
            if (job := self.jobs.get(facts_of(task).group_key)) is not None:
                self.touched_jobs[job.key] = job
        return left_out

    def _attach_all(self) -> tuple[Task, Exception] | None:
        for task in self.tasks.values():
            try:
                self._attach(task)
            except Exception as error:  # noqa: BLE001 (one pod must not cost all others their sums)
                return task, error
        return None
