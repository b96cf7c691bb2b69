"""Writes of pod groups and pods: the least that is needed, one at a time for each object."""

from __future__ import annotations

import asyncio
from typing import Final
from weakref import WeakValueDictionary

import structlog
from prometheus_client import CollectorRegistry, Counter

from kai.grouping.objects.pods import Pod
from kai.grouping.options import GroupingOptions
from kai.grouping.upsert import body_of, pod_group_patch, pod_patch
from kai.kube import errors as kube
from kai.kube.client import KubeClient
from kai.kube.endings import Endings
from kai.kube.resources import POD_GROUPS, PODS
from kai.kube.store import Store
from kai.model import names
from kai.model.objects import PodGroup

_ATTEMPTS: Final = 4
#: Pods annotated at the same time, over all workloads.
_PARALLEL_PATCHES: Final = 32

log = structlog.get_logger(__name__)


class Writer:
    """Knows what it wrote before the watches tell, so that nothing is written twice."""

    def __init__(
        self,
        client: KubeClient,
        pod_groups: Store[PodGroup],
        options: GroupingOptions,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._client = client
        self._pod_groups = pod_groups
        self._options = options
        self._written: dict[str, PodGroup] = {}
        #: Uids of groups that do not exist any more, though the watch has not told so yet.
        self._gone: dict[str, str] = {}
        self._endings = Endings()
        self._assigned: dict[str, tuple[str, str, str]] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._slots = asyncio.Semaphore(_PARALLEL_PATCHES)
        self._writes = Counter(
            "kai_podgrouper_writes",
            "Objects written, by kind and verb",
            ("kind", "verb"),
            registry=registry or CollectorRegistry(),
        )
        pod_groups.listen(self._heard_of_group)

    def existing(self, key: str) -> PodGroup | None:
        """The pod group as last written or told."""
        found = self._written.get(key) or self._pod_groups.get(key)
        return None if found is None or self._gone.get(key) == found.metadata.uid else found

    async def is_gone(self, key: str) -> bool:
        """Whether there is no such pod group, as the API server has it at this moment.

        Raises:
            KubeError: nobody can tell.
        """
        namespace, _, name = key.partition("/")
        try:
            await self._client.get(POD_GROUPS, name, namespace=namespace, type=PodGroup)
        except kube.NotFound:
            return True
        return False

    async def apply(self, wanted: PodGroup) -> None:
        """Make the pod group what is wanted. Writes nothing if it is.

        Raises:
            KubeError: it cannot be written.
        """
        lock = self._locks.setdefault(wanted.key, asyncio.Lock())
        async with lock:
            with self._endings.writing(wanted.key):
                for _ in range(_ATTEMPTS):
                    if await self._apply_once(wanted):
                        return
        raise kube.Conflict(f"PodGroup {wanted.key} is being changed by others")

    async def assign(self, pod: Pod, group: str, sub_group: str) -> None:
        """Make the pod a member. Writes nothing if it is; a pod that is gone does not matter.

        Raises:
            KubeError: it cannot be written.
        """
        patch = pod_patch(pod, group, sub_group)
        if patch is None or self.is_member(pod, group, sub_group):
            return
        membership = (pod.metadata.uid, group, sub_group)
        # The uid keeps a later pod of the same name from being taken for this one.
        patch["metadata"]["uid"] = pod.metadata.uid
        async with self._slots:
            self._assigned[pod.key] = membership
            try:
                await self._client.patch(
                    PODS, pod.metadata.name, patch, namespace=pod.metadata.namespace, type=Pod
                )
            except BaseException as error:
                self._assigned.pop(pod.key, None)
                if not _is_of_another_pod(error):
                    raise
            else:
                self._writes.labels("Pod", "patch").inc()

    def is_member(self, pod: Pod, group: str, sub_group: str) -> bool:
        """Whether the pod is one, or is just being made one."""
        assigned = self._assigned.get(pod.key)
        return assigned == (pod.metadata.uid, group, sub_group) or pod_patch(pod, group, sub_group) is None

    def is_own_echo(self, old: Pod, new: Pod) -> bool:
        """Whether the pod changed just as we changed it. To be told each change of a pod once."""
        assigned = self._assigned.get(new.key)
        if assigned is None:
            return False
        uid, group, sub_group = assigned
        if new.metadata.uid != uid:
            del self._assigned[new.key]
            return False
        if new.annotations.get(names.POD_GROUP_ANNOTATION) != group:
            return False
        if sub_group and new.labels.get(names.SUBGROUP_LABEL) != sub_group:
            return False
        del self._assigned[new.key]
        return old.annotations.get(names.POD_GROUP_ANNOTATION) != group or (
            sub_group != "" and old.labels.get(names.SUBGROUP_LABEL) != sub_group
        )

    def forget_pod(self, key: str) -> None:
        """The pod is gone."""
        self._assigned.pop(key, None)

    async def _apply_once(self, wanted: PodGroup) -> bool:
        existing = self.existing(wanted.key)
        name, namespace = wanted.metadata.name, wanted.metadata.namespace
        try:
            if existing is None:
                found = await self._client.create(
                    POD_GROUPS, body_of(wanted), namespace=namespace, type=PodGroup
                )
                self._writes.labels("PodGroup", "create").inc()
            else:
                patch = pod_group_patch(existing, wanted, self._options)
                if patch is None:
                    return True
                found = await self._client.patch(POD_GROUPS, name, patch, namespace=namespace, type=PodGroup)
                self._writes.labels("PodGroup", "patch").inc()
        except (kube.AlreadyExists, kube.Conflict):
            await self._read_again(wanted)
            return False
        except kube.NotFound:
            if existing is None:
                raise  # the namespace is gone, or the kind not installed
            if not self._endings.has_ended(wanted.key, existing.metadata.uid):
                self._gone[wanted.key] = existing.metadata.uid
            self._written.pop(wanted.key, None)
            return False
        self._remember(found)
        return True

    async def _read_again(self, wanted: PodGroup) -> None:
        name, namespace = wanted.metadata.name, wanted.metadata.namespace
        try:
            found = await self._client.get(POD_GROUPS, name, namespace=namespace, type=PodGroup)
        except kube.NotFound:
            self._written.pop(wanted.key, None)
        else:
            self._remember(found)

    def _remember(self, written: PodGroup) -> None:
        """Until the watch tells as much. It may have told even more already."""
        if self._endings.has_ended(written.key, written.metadata.uid):
            return
        told = self._pod_groups.get(written.key)
        if told is None or told.metadata.uid != written.metadata.uid or _version(told) < _version(written):
            self._written[written.key] = written
        else:
            self._written.pop(written.key, None)

    def _heard_of_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        told = new or old
        assert told is not None
        if new is None:
            self._endings.told(told.key, told.metadata.uid)
        if new is None or new.metadata.uid != self._gone.get(told.key):
            self._gone.pop(told.key, None)
        written = self._written.get(told.key)
        if written is None:
            return
        if new is None:
            if written.metadata.uid == told.metadata.uid:
                del self._written[told.key]
        elif _version(new) >= _version(written):
            del self._written[told.key]


def _is_of_another_pod(error: BaseException) -> bool:
    """Whether the pod that was meant is gone, or replaced by another of its name.

    A conflict with status 409 is one of somebody else's writes, over which the server has given the patch up.
    """
    if isinstance(error, kube.Invalid):
        return "metadata.uid" in error.message
    return isinstance(error, kube.NotFound) or (isinstance(error, kube.Conflict) and error.status != 409)


def _version(group: PodGroup) -> int:
    """Resource versions of one kind may be compared since they count writes (KEP-5504)."""
    text = group.metadata.resource_version
    return int(text) if text.isdecimal() else 0
