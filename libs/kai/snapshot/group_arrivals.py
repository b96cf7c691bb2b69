"""Many pod groups that come at once: most of them are new, and say what others of their queue say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from kai.model.ids import PodGroupKey
from kai.model.objects import PodGroup, PodGroupSpec
from kai.snapshot import bounds, jobs
from kai.snapshot.cluster import Cluster
from kai.snapshot.groups import GroupIntake
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Job, Queue

#: Takes in one pod group, whatever it is.
Alone: TypeAlias = Callable[[PodGroup], object]


class _Alike(NamedTuple):
    """What holds for all groups that say this in a namespace."""

    spec: PodGroupSpec
    namespace: str
    #: As that of the first would be: nobody finds it, and nothing becomes of it.
    row: Job


class GroupArrivals:
    """Takes in many pod groups, each as if it had come alone."""

    def __init__(self, cluster: Cluster, groups: GroupIntake) -> None:
        self._cluster = cluster
        self._groups = groups
        #: The last of each queue that takes part; what they go by stays as it is while groups come.
        self._known: dict[str, _Alike] = {}

    def take_in(self, arriving: Iterable[PodGroup], *, alone: Alone) -> None:
        """Take in groups in this order, by ``alone`` those that are known, have pods, or are not simple."""
        self._known.clear()
        for group in arriving:
            try:
                entered = self._enter(group)
            except Exception:  # noqa: BLE001 (whoever takes it in alone tells what is wrong with it)
                entered = False
            if not entered:
                alone(group)
        self._known.clear()

    def _enter(self, group: PodGroup) -> bool:
        """Whether a group was taken in; else nothing is changed."""
        cluster = self._cluster
        key = PodGroupKey(group.key)
        if (
            key in cluster.jobs
            or key in cluster.members
            or group.spec.sub_groups
            or (group.status is not None and group.status.scheduling_conditions)
            or not cluster.params.in_pool(group.labels)
        ):
            return False
        like = self._known.get(group.spec.queue)
        if like is None or like.namespace != group.metadata.namespace or like.spec != group.spec:
            home = cluster.queues.get(group.spec.queue)
            if home is None or not home.exists or not home.path:
                return False  # what it is charged to then changes while groups come
            like = self._known[group.spec.queue] = self._alike(group, home)
        facts = replace(like.row.facts, times=jobs.times(group.annotations), shape=jobs.shape(group))
        job = jobs.row_like(like.row, group, facts)
        cluster.version += 1
        cluster.elsewhere.pop(key, None)
        cluster.group_objects[key] = group
        self._groups.add(job)
        if cluster.faults:
            cluster.faults.pop((Kind.POD_GROUP, key), None)
        return True

    def _alike(self, group: PodGroup, home: Queue) -> _Alike:
        bounds.check(Kind.POD_GROUP, group)
        namespace = group.metadata.namespace
        facts = jobs.facts(group, pool_name=self._cluster.params.pool_name)
        standing = self._groups.standing(facts, namespace, home=home)
        row = jobs.row(group, facts, home=home, standing=standing, elsewhere=False)
        jobs.arrange(row, self._cluster.group_order)
        return _Alike(spec=group.spec, namespace=namespace, row=row)
