"""The live cluster as the rules see it: what is watched costs nothing, owners cost a read each."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from typing import Any, Final

import structlog

from kai.grouping import type_defaults
from kai.grouping.cluster import KARTA_LABELS
from kai.grouping.errors import ReadForbidden
from kai.grouping.objects.documents import Document, ObjectRef
from kai.grouping.objects.pods import Pod, pod_document
from kai.grouping.type_defaults import TypeDefaults
from kai.grouping.workloads.knative import REVISION_LABEL
from kai.grouping.workloads.kubeflow import JOB_NAME_LABEL
from kai.grouping.workloads.leader_worker_set import GROUP_INDEX_LABEL, NAME_LABEL
from kai.kube import errors as kube
from kai.kube.client import KubeClient
from kai.kube.reflector import Reflector
from kai.kube.resources import CONFIG_MAPS, NAMESPACES, POD_GROUPS, PODS, PRIORITY_CLASSES
from kai.kube.store import Indexer, Store
from kai.model import flag_values, names
from kai.model.objects import ApiObject, Json, PodGroup, PriorityClass
from kai_pod_grouper.live.owner_cache import FRESH_SECONDS, IMPATIENT_SECONDS, OwnerCache
from kai_pod_grouper.settings import PodGrouperSettings

#: Labels by which rules look for other pods of a workload; what is of one replica is found by two.
_INDEXED: Final = ((REVISION_LABEL,), (JOB_NAME_LABEL,), (NAME_LABEL, GROUP_INDEX_LABEL))
_BY_LABEL: Final = "label"
_BY_UID: Final = "uid in the name"
_BY_GROUP: Final = "group"
_BY_NAMESPACE: Final = "namespace"
#: API groups of kinds of which no rule reads a size: for a new pod they need not be read again.
_SIZELESS: Final = frozenset({"apps", "batch"})
_UID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KARTA: Final = ("run.ai/v1alpha1", "Karta")
#: Longer values no label has, and an API server refuses to look for them.
_LONGEST_LABEL: Final = 63

log = structlog.get_logger(__name__)


class ConfigMap(ApiObject):
    """core/v1 ConfigMap."""

    data: dict[str, str] | None = None


def _label_values(pod: Pod) -> Iterable[str]:
    return [
        _index_value(pod.metadata.namespace, keys, pod.labels)
        for keys in _INDEXED
        if all(key in pod.labels for key in keys)
    ]


def _index_value(namespace: str, keys: Iterable[str], labels: Mapping[str, str]) -> str:
    return f"{namespace}/{','.join(f'{key}={labels[key]}' for key in keys)}"


def _group_of(pod: Pod) -> Iterable[str]:
    name = pod.annotations.get(names.POD_GROUP_ANNOTATION)
    return [f"{pod.metadata.namespace}/{name}"] if name else ()


def _namespace_of(pod: Pod) -> Iterable[str]:
    return (pod.metadata.namespace,)


def _uids_in_name(group: PodGroup) -> Iterable[str]:
    return [f"{group.metadata.namespace}/{uid}" for uid in _UID.findall(group.metadata.name)]


class Watches:
    """What is followed: pods of our scheduler, pod groups, priority classes, and what is configured."""

    def __init__(self, client: KubeClient, settings: PodGrouperSettings) -> None:
        self._wanted_namespace = flag_values.labels(settings.namespace_label_selector)
        indexes: dict[str, Indexer[Pod]] = {_BY_LABEL: _label_values, _BY_GROUP: _group_of}
        if self._wanted_namespace:
            indexes[_BY_NAMESPACE] = _namespace_of
        self.pods: Store[Pod] = Store(indexes=indexes)
        self.pod_groups: Store[PodGroup] = Store(indexes={_BY_UID: _uids_in_name})
        self.defaults = TypeDefaults()
        self._priority_classes: Store[PriorityClass] = Store()
        self._namespaces: Store[ApiObject] = Store()
        self._namespaces.listen(self._heard_of_namespace)
        #: Is called with each pod that is ours from now on, since its namespace is.
        self.covered: Callable[[Pod], None] = lambda pod: None
        self._running: list[tuple[Reflector[Any], Store[Any]]] = [
            (self._pods(client, settings), self.pods),
            (Reflector(client, POD_GROUPS, PodGroup), self.pod_groups),
            (Reflector(client, PRIORITY_CLASSES, PriorityClass), self._priority_classes),
        ]
        if self._wanted_namespace:
            self._running.append((Reflector(client, NAMESPACES, ApiObject), self._namespaces))
        name = settings.default_priorities_configmap_name
        namespace = settings.default_priorities_configmap_namespace
        if name and namespace:
            config_maps: Store[ConfigMap] = Store()
            config_maps.listen(self._read_defaults)
            field = f"metadata.name={name}"
            reflector = Reflector(client, CONFIG_MAPS, ConfigMap, namespace=namespace, field_selector=field)
            self._running.append((reflector, config_maps))

    @staticmethod
    def _pods(client: KubeClient, settings: PodGrouperSettings) -> Reflector[Pod]:
        return Reflector(
            client,
            PODS,
            Pod,
            field_selector=f"spec.schedulerName={settings.scheduler_name}",
            label_selector=settings.pod_label_selector,
        )

    async def run(self) -> None:
        """Follow everything until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector, store in self._running:
                group.create_task(reflector.run(store), name=f"watch {reflector.resource.plural}")

    async def wait_until_synced(self) -> None:
        """Wait until each watch has told all that exists."""
        for reflector, _ in self._running:
            await reflector.synced.wait()

    def members(self, group: str) -> list[Pod]:
        """The pods that name a group (``namespace/name``), whether it exists or not."""
        return list(self.pods.by_index(_BY_GROUP, group))

    @property
    def synced(self) -> bool:
        """Whether each watch has told all that exists."""
        return all(reflector.synced.is_set() for reflector, _ in self._running)

    def covers(self, namespace: str) -> bool:
        """Whether pods of the namespace are ours; those of one that we cannot see are not."""
        return not self._wanted_namespace or self._selects(self._namespaces.get(namespace))

    @property
    def priority_classes(self) -> Collection[str]:
        """Names of the classes that exist."""
        return self._priority_classes.keys()

    def has_priority_class(self, name: str) -> bool:
        """Whether the class exists."""
        return name in self._priority_classes

    def _selects(self, namespace: ApiObject | None) -> bool:
        return namespace is not None and self._wanted_namespace.items() <= namespace.labels.items()

    def _heard_of_namespace(self, old: ApiObject | None, new: ApiObject | None) -> None:
        """Its pods may have been told before it, or before it got the label."""
        if new is not None and self._selects(new) and not self._selects(old):
            for pod in self.pods.by_index(_BY_NAMESPACE, new.metadata.name):
                self.covered(pod)

    def _read_defaults(self, _: ConfigMap | None, new: ConfigMap | None) -> None:
        types = (new.data or {}).get("types") if new is not None else None
        try:
            self.defaults = type_defaults.parse(types) if types is not None else TypeDefaults()
        except ValueError as error:
            self.defaults = TypeDefaults()
            log.warning("defaults by kind ignored, key types must be a JSON list", error=str(error))
        for problem in self.defaults.problems:
            log.warning("the defaults by kind are not all understood", problem=problem)


class LiveCluster:
    """See :class:`~kai.grouping.cluster.Cluster`.

    ``max_age``: how old an owner may be, in seconds; ``since``: not read before, if its size may matter.
    """

    def __init__(
        self,
        client: KubeClient,
        watches: Watches,
        owners: OwnerCache,
        *,
        existing: Callable[[str], PodGroup | None],
        max_age: float = FRESH_SECONDS,
        since: float = -math.inf,
    ) -> None:
        self._client = client
        self._watches = watches
        self._owners = owners
        self._existing = existing
        self._max_age = max_age
        self._since = since
        self._definitions: dict[tuple[str, str, str], tuple[float, list[Document] | ReadForbidden]] = {}

    def impatient(self) -> LiveCluster:
        """The same cluster, for trying again: owners are read anew."""
        return LiveCluster(
            self._client, self._watches, self._owners, existing=self._existing, max_age=IMPATIENT_SECONDS
        )

    def now(self) -> float:
        """The moment, by the clock of :meth:`as_of`."""
        return self._owners.now()

    def as_of(self, moment: float) -> LiveCluster:
        """The same cluster for pods that came until then: their owner may have been scaled just before."""
        seen = copy(self)
        seen._since = moment - IMPATIENT_SECONDS
        return seen

    async def get(self, ref: ObjectRef, *, fresh: bool = False) -> Document:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        if ref.kind == "Pod" and ref.api_version == "v1":
            pod = self._watches.pods.get(f"{ref.namespace}/{ref.name}")
            if pod is not None:
                return pod_document(pod)
        max_age = IMPATIENT_SECONDS if fresh else self._max_age
        return await self._owners.get(
            ref, max_age=max_age, since=-math.inf if ref.group in _SIZELESS else self._since
        )

    async def pod_body(self, pod: Pod) -> Json:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        return await self._client.get(PODS, pod.metadata.name, namespace=pod.metadata.namespace)

    async def definitions(self, owner: Document) -> Iterable[Document]:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        wanted = (owner.group, owner.version, owner.kind)
        now = asyncio.get_running_loop().time()
        read_at, found = self._definitions.get(wanted, (now - 2 * FRESH_SECONDS, []))
        if now - read_at > self._max_age:
            found = await self._read_definitions(wanted)
            self._definitions[wanted] = (now, found)
        if isinstance(found, ReadForbidden):
            raise ReadForbidden(str(found))
        return found

    def pods(self, namespace: str, labels: Mapping[str, str]) -> Iterable[Pod]:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        keys = next(keys for keys in _INDEXED if labels.keys() >= set(keys))
        found = self._watches.pods.by_index(_BY_LABEL, _index_value(namespace, keys, labels))
        return [pod for pod in found if labels.items() <= pod.labels.items()]

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        return self._existing(f"{namespace}/{name}")

    def pod_groups_named_after(self, namespace: str, uid: str) -> Iterable[PodGroup]:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        return self._watches.pod_groups.by_index(_BY_UID, f"{namespace}/{uid}")

    def has_priority_class(self, name: str) -> bool:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        return self._watches.has_priority_class(name)

    def type_defaults(self) -> TypeDefaults:
        """See :class:`~kai.grouping.cluster.Cluster`."""
        return self._watches.defaults

    async def _read_definitions(self, wanted: tuple[str, str, str]) -> list[Document] | ReadForbidden:
        resource = await self._client.discover(*_KARTA, max_age=FRESH_SECONDS)
        if resource is None or max(map(len, wanted)) > _LONGEST_LABEL:
            return []
        selector = ",".join(f"{key}={value}" for key, value in zip(KARTA_LABELS, wanted, strict=True))
        try:
            bodies = await self._client.list(resource, label_selector=selector)
        except kube.NotFound:  # the kind was there, and was removed since
            return []
        except kube.Forbidden:
            return ReadForbidden(f"Karta definitions ({_KARTA[0]}) may not be read by our role")
        api_version, kind = _KARTA
        return [Document.of_body({"apiVersion": api_version, "kind": kind} | body) for body in bodies]
