"""Objects that take no part in decisions for now, and hold what they hold all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kai.model.faults import INVALID_OBJECT, Fault, OutOfBounds
from kai.model.ids import PodGroupKey, PodUid
from kai.model.objects import Pod, PodGroup
from kai.snapshot import pods, recount, refused
from kai.snapshot.accounts import Accounts, facts_of
from kai.snapshot.cluster import Cluster
from kai.snapshot.groups import GroupIntake
from kai.snapshot.intake import Intake
from kai.snapshot.kinds import Kind, object_uid
from kai.snapshot.rows import Job, Task
from kai.snapshot.times import seconds


class Exclusion:
    """Leaving objects out, and finding all sums anew where something failed half-way."""

    def __init__(self, cluster: Cluster, accounts: Accounts, intake: Intake, groups: GroupIntake) -> None:
        self._cluster = cluster
        self._accounts = accounts
        self._intake = intake
        self._groups = groups

    def refuse(self, kind: Kind, key: str, *, obj: Any, error: Exception) -> Fault:
        """Go on without a version of an object, which holds what it holds; returns the fault that is told."""
        message = str(error) if isinstance(error, OutOfBounds) else f"it cannot be taken in ({_named(error)})"
        fault = Fault(
            kind=kind.kubernetes, key=key, uid=object_uid(obj), reason=INVALID_OBJECT, message=message
        )
        try:
            self._keep(kind, obj, fault)
        except Exception as failed:  # noqa: BLE001 (then nothing of it is known, which is told as well)
            message += f"; what it holds cannot be counted either ({_named(failed)})"
            fault = replace(fault, message=message)
        if self._cluster.unsound:
            self.mend()
        self._cluster.faults[kind, key] = fault
        return fault

    def unread(self, kind: Kind, key: str, *, uid: str, reason: str) -> Fault:
        """Go on with what was taken in before of an object that nobody can read; returns the fault."""
        message = f"it cannot be read ({reason}); leave out what is nested too deep, and numbers out of range"
        fault = Fault(kind=kind.kubernetes, key=key, uid=uid, reason=INVALID_OBJECT, message=message)
        self._cluster.faults[kind, key] = fault
        return fault

    def mend(self) -> None:
        """Find all sums anew after something failed half-way; pods that cannot be in them are faults."""
        for task, error in self.recount():
            message = f"it cannot be put into the sums of its node and queue ({_named(error)})"
            self._cluster.faults[Kind.POD, task.key] = Fault(
                kind=Kind.POD.kubernetes, key=task.key, uid=task.uid, reason=INVALID_OBJECT, message=message
            )

    def _keep(self, kind: Kind, obj: Any, fault: Fault) -> None:
        """Let an object hold what it holds, and go on without it otherwise."""
        cluster = self._cluster
        match kind:
            case Kind.POD:
                self._keep_pod(obj, stand_in=refused.pod_stand_in(obj, cluster.resources))
            case Kind.NODE:
                known = cluster.nodes.by_name.get(fault.key)
                if known is not None:
                    cluster.version += 1
                    self._intake.take_in(Kind.NODE, refused.node_stand_in(known.object))
            case Kind.POD_GROUP:
                self._keep_pod_group(
                    cluster.group_objects.get(PodGroupKey(fault.key)) or refused.group_stand_in(obj), fault
                )
            case _:
                pass

    def _keep_pod(self, pod: Pod, *, stand_in: Pod) -> None:
        """A pod on a node holds what it held, or else what ``stand_in`` asks for; others are forgotten."""
        cluster = self._cluster
        uid = PodUid(pod.metadata.uid or pod.key)
        facts = pods.facts(stand_in, cluster.params)
        facts.deleted_at = seconds(pod.metadata.deletion_timestamp)
        old = cluster.tasks_by_key.get(facts.key)
        known = old if old is not None and old.uid == uid else None
        if not (facts.node_name or (known is not None and facts_of(known).assumed_node)):
            if old is not None:
                self._intake.forget(old)
            return
        cls = cluster.classes.of(stand_in) if known is None else cluster.classes.bare(known.cls)
        facts.gated = True  # where else it may run is not known
        self._intake.enter_pod(
            stand_in, uid, facts, cls, gpu_claims=known.claims if known is not None else ()
        )
        cluster.tasks_by_key[facts.key].bare = True

    def _keep_pod_group(self, group: PodGroup, fault: Fault) -> None:
        """The group's pods stay charged to its queue, and nothing is decided about it."""
        cluster = self._cluster
        key = PodGroupKey(group.key)
        if not cluster.params.in_pool(group.labels):
            self._groups.apply(group)
            return
        cluster.elsewhere.pop(key, None)
        cluster.group_objects[key] = group
        if key not in cluster.jobs:
            self._groups.put_job(group)
        self._accounts.set_aside(cluster.jobs[key], fault)

    def bare(self, job: Job) -> None:
        """Of a job's pods nothing is known any more but what they hold, until their next version."""
        for pod_set in job.pod_sets.values():
            for task in list(pod_set.tasks.values()):
                self._bare(task)

    def bare_pod(self, key: str) -> None:
        """The same for one pod."""
        if (task := self._cluster.tasks_by_key.get(key)) is not None:
            self._bare(task)

    def _bare(self, task: Task) -> None:
        cls = self._cluster.classes.bare(task.cls)
        self._accounts.detach(task)
        self._intake.unindex(task)
        facts_of(task).pod = None
        facts_of(task).gated = True  # where it may run is not known any more
        task.cls, task.bare = cls, True
        self._accounts.attach(task)

    def recount(self) -> list[tuple[Task, Exception]]:
        """Build all sums anew from what is known of each pod, whatever became of them.

        What only a cycle knows is gone. Pods that cannot be put into the sums are left out, and returned.
        """
        cluster = self._cluster
        touched = dict(cluster.touched_jobs)
        left_out: list[tuple[Task, Exception]] = []
        while True:
            recount.clear(cluster)
            cluster.members, cluster.on_node, cluster.deleted = {}, {}, {}
            failed = self._attach_all()
            if failed is None:
                break
            # It may be in some of the sums, so all of them are built again without it.
            self._intake.drop(failed[0])
            left_out.append(failed)
        cluster.unsound = False
        cluster.touched_jobs.clear()
        cluster.touched_jobs.update(
            (key, job) for key, job in touched.items() if cluster.jobs.get(key) is job
        )
        for task, _ in left_out:
            if (job := cluster.jobs.get(facts_of(task).group_key)) is not None:
                cluster.touched_jobs[job.key] = job
        return left_out

    def _attach_all(self) -> tuple[Task, Exception] | None:
        for task in self._cluster.tasks.values():
            try:
                self._accounts.attach(task)
            except Exception as error:  # noqa: BLE001 (one pod must not cost all others their sums)
                return task, error
        return None


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
