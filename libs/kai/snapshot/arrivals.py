"""Many pods that come at once, as when a cluster is read for the first time.

Most of them are new, and nothing counts of them but class, group and node. Rows of such pods are put into
sums hundreds at a time. All others are taken in one by one, between those that come before and after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from kai.model import limits, names
from kai.model.ids import PodGroupKey, PodUid
from kai.model.objects import Pod
from kai.snapshot import pod_bounds, pods
from kai.snapshot.accounts import Accounts
from kai.snapshot.cluster import Cluster
from kai.snapshot.exclusion import Exclusion
from kai.snapshot.intake import Intake
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import PodFacts, Task
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
        #: Whether pods of a group join its only pod set, as long as nobody was taken in alone.
        self._plain: dict[PodGroupKey, bool] = {}

    def take_in(self, arriving: Iterable[Pod], *, alone: Alone) -> None:
        """Take in pods in this order, those that are not simple by ``alone``.

        Before: the ledger enters at once, and nothing waits to be brought up to date.
        """
        came: list[Pod] = []
        rows: list[Task] = []
        self._plain.clear()
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
            self._plain.clear()  # a group may be full by now, or another one
        if rows:
            self._enter(came, rows, alone=alone)

    def _row(self, pod: Pod) -> Task | None:
        """A row for a pod of which nothing counts but class, group and node, to be found by uid and key.

        None, and nothing is changed, for any other.
        """
        cluster, meta = self._cluster, pod.metadata
        labels, annotations = meta.labels, meta.annotations
        uid: PodUid = meta.uid  # type: ignore[assignment]
        if not uid or uid in cluster.tasks:
            return None
        try:
            facts = pods.facts(pod, cluster.params)
            plain = self._plain.get(facts.group_key)
            if plain is None:
                plain = self._plain[facts.group_key] = self._is_plain(facts.group_key)
            if (
                not plain
                or _is_odd(pod, facts)
                or (
                    annotations
                    and (names.NUMA_OBSERVED in annotations or names.NUMA_PREDICTED in annotations)
                )
                or facts.key in cluster.tasks_by_key
                or uid in cluster.grants.of_pods
            ):
                return None
            if labels:
                pod_bounds.check_devices(labels)
            created = seconds(meta.creation_timestamp) if meta.creation_timestamp else 0.0
            order = cluster.group_order.key(labels, created, meta.uid)
            cls = cluster.classes.of(pod)
        except Exception:  # noqa: BLE001 (whoever takes it in alone tells what is wrong with it)
            return None
        if cls.vast:
            return None
        task = Task(
            uid=uid,
            namespace=meta.namespace,
            name=meta.name,
            cls=cls,
            created=created,
            order=order,
            labels=labels,
            nominated=facts.nominated,
            facts=facts,
        )
        cluster.tasks[uid] = cluster.tasks_by_key[facts.key] = task
        if cls.affine:
            cluster.affine[uid] = task
        return task

    def _is_plain(self, key: PodGroupKey) -> bool:
        """Whether pods of a group join its only pod set, and take part as they say."""
        cluster = self._cluster
        job = cluster.jobs.get(key)
        return (
            job is not None
            and job.single is not None
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


def _is_odd(pod: Pod, facts: PodFacts) -> bool:
    """Whether more counts of a pod, by what it says, than class, group and node."""
    return (
        facts.utility
        or bool(facts.deleted_at)
        or facts.phase == "Failed"
        or bool(pod.spec.resource_claims)
        or pod.status.extended_resource_claim_status is not None
    )
