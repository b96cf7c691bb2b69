"""Many pods that come at once, as when a cluster is read for the first time.

Most of them are new, and nothing counts of them but class, group and node. Rows of such pods are put into
sums hundreds at a time. All others are taken in one by one, between those that come before and after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from msgspec.structs import replace

from kai.model import limits, names
from kai.model.ids import PodGroupKey, PodUid
from kai.model.objects import Pod
from kai.snapshot.accounts import Accounts
from kai.snapshot.cluster import Cluster
from kai.snapshot.exclusion import Exclusion
from kai.snapshot.intake import Intake
from kai.snapshot.kinds import Kind
from kai.snapshot.likeness import Likenesses
from kai.snapshot.rows import Job, Task
from kai.snapshot.times import seconds

#: So many rows are put into sums together; what was made of them is still at hand then.
_AT_ONCE: Final = 256

#: Takes in one pod, whatever it is.
Alone: TypeAlias = Callable[[Pod], object]


class Arrivals:
    """Takes in many pods, each as if it had come alone."""

    def __init__(self, cluster: Cluster, accounts: Accounts, intake: Intake, exclusion: Exclusion) -> None:
        self._cluster = cluster
        self._accounts = accounts
        self._intake = intake
        self._exclusion = exclusion
        self._likenesses = Likenesses(cluster)
        #: The last group that was looked at, and its job if its pods join the only pod set of that; as long
        #: as nobody was taken in alone.
        self._asked: tuple[str, str] | None = None
        self._plain: Job | None = None

    def take_in(self, arriving: Iterable[Pod], *, alone: Alone) -> None:
        """Take in pods in this order, those that are not simple by ``alone``.

        Before: the ledger enters at once, and nothing waits to be brought up to date.
        """
        came: list[Pod] = []
        rows: list[Task] = []
        self._asked = None
        self._likenesses.clear()
        for pod in arriving:
            task = self._row(pod)
            if task is not None:
                came.append(pod)
                rows.append(task)
                if len(rows) < _AT_ONCE:
                    continue
            if rows:
                self._enter(came, rows, alone=alone)
                came, rows = [], []
            if task is None:
                alone(pod)
            self._asked = None  # a group may be full by now, or another one
        if rows:
            self._enter(came, rows, alone=alone)
        self._likenesses.clear()

    def _row(self, pod: Pod) -> Task | None:
        """A row for a pod of which nothing counts but class, group and node, to be found by uid and key.

        None, and nothing is changed, for any other.
        """
        cluster, meta = self._cluster, pod.metadata
        uid: PodUid = meta.uid  # type: ignore[assignment]
        if not uid or uid in cluster.tasks:
            return None
        try:
            job = self._job(pod)
            if job is None:
                return None
            like = self._likenesses.of(pod)
            if like is None:
                return None
            key = pod.key
            if key in cluster.tasks_by_key or uid in cluster.grants.of_pods:
                return None
            created = seconds(meta.creation_timestamp) if meta.creation_timestamp else 0.0
            facts = replace(
                like.facts,
                key=key,
                node_name=pod.spec.node_name,
                group_key=job.key,
                started=pod.status.start_time,
            )
        except Exception:  # noqa: BLE001 (whoever takes it in alone tells what is wrong with it)
            return None
        task = Task(
            uid=uid,
            namespace=meta.namespace,
            name=meta.name,
            cls=like.cls,
            created=created,
            order=(*like.ranks, created, uid),
            labels=like.labels,
            status=like.status,
            job=job,
            pod_set=job.single,
            nominated=facts.nominated,
            facts=facts,
        )
        cluster.tasks[uid] = cluster.tasks_by_key[key] = task
        if like.cls.affine:
            cluster.affine[uid] = task
        return task

    def _job(self, pod: Pod) -> Job | None:
        """The job of a pod, if the pods of that join its only pod set, and take part as they say."""
        meta, annotations = pod.metadata, pod.metadata.annotations
        name = annotations.get(names.POD_GROUP_ANNOTATION) if annotations else None
        if not name or pod.spec.scheduler_name != self._cluster.params.scheduler_name:
            return None
        asked = (meta.namespace, name)
        if asked != self._asked:
            job = self._cluster.jobs.get(PodGroupKey(f"{meta.namespace}/{name}"))
            self._plain = job if job is not None and self._is_plain(job) else None
            self._asked = asked
        return self._plain

    def _is_plain(self, job: Job) -> bool:
        cluster, key = self._cluster, job.key
        return (
            job.single is not None
            and job.aside is None
            and not job.usurps
            and not job.elsewhere
            and job.queue.exists
            and not cluster.access.restricted
            and key not in cluster.elsewhere
            and len(cluster.members.get(key, ())) + _AT_ONCE <= limits.GROUP_PODS.most
        )

    def _enter(self, came: list[Pod], rows: list[Task], *, alone: Alone) -> None:
        """Put rows into all sums; where that fails each of these pods is taken in alone instead."""
        cluster = self._cluster
        try:
            self._accounts.attach_all(rows)
        except Exception:  # noqa: BLE001 (whoever takes them in one by one tells which it was)
            for task in rows:
                self._intake.drop(task)
            self._exclusion.mend()
            for pod in came:
                alone(pod)
            return
        cluster.version += len(rows)
        if cluster.faults:
            for pod in came:
                cluster.faults.pop((Kind.POD, pod.key), None)
