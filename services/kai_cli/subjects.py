"""What is meant by ``job/x``, any ``kind/name``, or a bare name, and the pods that belong to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.errors import ApiError, Forbidden, NotFound, Unanswered
from kai.kube.resources import POD_GROUPS, PODS, QUEUES, Resource
from kai.model import kinds, names
from kai.model.objects import ApiObject, Json, OwnerReference, Pod
from kai.model.spelling import nearest
from kai_cli.output import fail

POD, POD_GROUP, QUEUE = "Pod", "PodGroup", "Queue"
#: Kinds that are known without asking, in the order in which a name alone is looked for.
_BUILT_IN: Final = (
    PODS,
    POD_GROUPS,
    QUEUES,
    resources.JOBS,
    resources.CRON_JOBS,
    resources.DEPLOYMENTS,
    resources.REPLICA_SETS,
    resources.STATEFUL_SETS,
    resources.DAEMON_SETS,
)
#: Owners of owners of pods are looked for so far up.
_GENERATIONS: Final = 8


class NoSubject(Exception):
    """There is nothing of this name; ``kind`` is empty where none was named."""

    def __init__(self, text: str, *, kind: str, namespace: str, name: str) -> None:
        super().__init__(text)
        self.kind, self.namespace, self.name = kind, namespace, name


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is asked about."""

    kind: str
    namespace: str
    name: str
    #: The object itself where it is neither a pod nor a queue; None where it cannot be read.
    object: Json | None = None
    pods: Sequence[Pod] = ()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def groups(self) -> list[str]:
        """Names of the pod groups that its pods name, in order, each once."""
        if self.kind == POD_GROUP:
            return [self.name]
        named = {pod.annotations.get(names.POD_GROUP_ANNOTATION, "") for pod in self.pods}
        return sorted(named - {""})


def _meant(*near: str) -> str:
    some = " or ".join(repr(each) for each in near if each)
    return f" did you mean {some}?" if some else ""


async def found_subject(client: KubeClient, words: Sequence[str], *, namespace: str) -> Subject:
    """What one or two words mean: ``kind/name``, ``kind name``, or a name alone.

    Raises:
        NoSubject: there is no such thing.
        typer.Exit: it is no kind of object, or there are several; it has been told which.
    """
    kind, name = _split(words)
    search = _Search(client, namespace)
    if kind:
        return await search.of_kind(kind, name, instead=_in_namespace(words))
    return await search.of_any_kind(name)


def _split(words: Sequence[str]) -> tuple[str, str]:
    if len(words) > 2:
        raise fail(f"one thing is explained at a time, not {len(words)}: write kind/name", status=2)
    kind, slash, name = words[-1].rpartition("/")
    if slash and not name:
        raise fail(f"{words[-1]!r} has no name after the slash", status=2)
    # `kai explain podgroup pod/x` asks for the one named last, as kubectl's output gives it.
    return (kind or (words[0] if len(words) == 2 else "")).lower(), name or words[-1]


def _in_namespace(words: Sequence[str]) -> str:
    """What ``pod team/x`` means, as messages name a pod; empty for other words."""
    namespace, slash, name = words[-1].partition("/")
    return f"{words[0]}/{name} --namespace={namespace}" if len(words) == 2 and slash else ""


def _shown(resource: Resource) -> str:
    """The kind; with its group where it is another one than that of ours with the same name."""
    ours = {each.kind: each for each in (PODS, POD_GROUPS, QUEUES)}.get(resource.kind, resource)
    return resource.kind if ours.group == resource.group else f"{resource.kind}.{resource.group}"


@dataclass(slots=True)
class _Search:
    client: KubeClient
    namespace: str
    #: Of each object that owns others, by uid: what is above it.
    _owners: dict[str, list[OwnerReference]] = field(default_factory=dict)
    #: Kinds of owners (``apiVersion``, ``kind``) of which all are in ``_owners``.
    _listed: dict[tuple[str, str], bool] = field(default_factory=dict)
    _pods: list[Pod] | None = None

    async def of_kind(self, word: str, name: str, *, instead: str = "") -> Subject:
        """``instead`` is what else may have been meant, where ``word`` is no kind."""
        called = (
            each for each in _BUILT_IN if kinds.is_called(word, kind=each.kind, api_version=each.api_version)
        )
        resource = next(called, None)
        resource = resource or await self._served(word)
        if resource is None:
            near = nearest(word, [each for words in kinds.WORDS.values() for each in words])
            if near and instead:
                near = f"{near}/{name}"
            raise fail(
                f"{word!r} is no kind of object here;{_meant(near, instead)} see kubectl api-resources"
            )
        if resource is QUEUES:
            return await self._queue(name)
        if resource is PODS:
            return self._of_pod(await self._pod(name))
        try:
            found = await self.client.get(
                resource, name, namespace=self.namespace if resource.namespaced else ""
            )
        except NotFound:
            raise await self._missing(resource, name) from None
        return await self._workload(resource, found)

    async def of_any_kind(self, name: str) -> Subject:
        found: dict[str, Subject] = {}
        for resource in _BUILT_IN:
            try:
                if resource is QUEUES:
                    await self.client.get(QUEUES, name)
                    found[f"queue/{name}"] = Subject(kind=QUEUE, namespace="", name=name)
                elif resource is PODS:
                    found[f"pod/{name}"] = self._of_pod(
                        await self.client.get(PODS, name, namespace=self.namespace, type=Pod)
                    )
                else:
                    obj = await self.client.get(resource, name, namespace=self.namespace)
                    found[f"{resource.kind.lower()}/{name}"] = await self._workload(resource, obj)
            except ApiError:  # there is none, or one may not see it
                continue
        for owner in await self._owners_named(name):
            found.setdefault(f"{owner.kind.lower()}/{name}", await self._owned(owner))
        if not found:
            near = nearest(name, await self._names())
            raise NoSubject(
                f"nothing in namespace {self.namespace} is called {name!r}: no workload, pod, pod group or "
                f"queue;{_meant(near)} see kai get podgroups -n {self.namespace}",
                kind="", namespace=self.namespace, name=name,
            )  # fmt: skip
        if len(found) > 1:
            raise fail(
                f"{name!r} is the name of several things; say which: {', '.join(sorted(found))}", status=2
            )
        return next(iter(found.values()))

    # --- pods --------------------------------------------------------------------------------------
    async def _pod(self, name: str) -> Pod:
        try:
            return await self.client.get(PODS, name, namespace=self.namespace, type=Pod)
        except NotFound:
            raise await self._missing(PODS, name) from None

    def _of_pod(self, pod: Pod) -> Subject:
        return Subject(kind=POD, namespace=pod.metadata.namespace, name=pod.metadata.name, pods=[pod])

    async def _all_pods(self) -> list[Pod]:
        if self._pods is None:
            self._pods = await self.client.list(PODS, namespace=self.namespace, type=Pod)
        return self._pods

    # --- what is not there -------------------------------------------------------------------------
    async def _queue(self, name: str) -> Subject:
        try:
            await self.client.get(QUEUES, name)
        except NotFound as error:
            if error.reason != "NotFound" or not error.details.get("name"):  # there are no queues at all
                raise
            near = nearest(name, await self._names_of(QUEUES))
            raise fail(f"there is no queue {name!r};{_meant(near)} see kai get queues") from None
        return Subject(kind=QUEUE, namespace="", name=name)

    async def _missing(self, resource: Resource, name: str) -> NoSubject:
        near = nearest(name, await self._names_of(resource))
        where = f"{self.namespace}/" if resource.namespaced else ""
        flag = f" -n {self.namespace}" if resource.namespaced else ""
        return NoSubject(
            f"{resource.kind.lower()} {where}{name} does not exist;{_meant(near)} "
            f"see kubectl get {resource.plural}{flag}",
            kind=resource.kind, namespace=self.namespace, name=name,
        )  # fmt: skip

    async def _names_of(self, resource: Resource) -> list[str]:
        try:
            found = await self.client.list(resource, namespace=self.namespace if resource.namespaced else "")
        except ApiError:  # one may not see them
            return []
        return [str(each["metadata"]["name"]) for each in found]

    async def _names(self) -> list[str]:
        """Of the pods here, and of all that is above them."""
        pods = await self._all_pods()
        owners = {owner.name for pod in pods for owner in (await self._above(pod)).values()}
        return sorted(owners | {pod.metadata.name for pod in pods})

    # --- workloads ---------------------------------------------------------------------------------
    async def _workload(self, resource: Resource, obj: Json) -> Subject:
        meta = obj.get("metadata") or {}
        name, uid = str(meta.get("name", "")), str(meta.get("uid", ""))
        if resource is POD_GROUPS:
            pods = [
                pod
                for pod in await self._all_pods()
                if pod.annotations.get(names.POD_GROUP_ANNOTATION) == name
            ]
        else:
            pods = await self._pods_below(uid)
        return Subject(
            kind=_shown(resource),
            namespace=self.namespace,
            name=name,
            object={**obj, "kind": resource.kind, "apiVersion": resource.api_version},
            pods=pods,
        )

    async def _owned(self, owner: OwnerReference) -> Subject:
        pods = await self._pods_below(owner.uid)
        return Subject(kind=owner.kind, namespace=self.namespace, name=owner.name, pods=pods)

    async def _pods_below(self, uid: str) -> list[Pod]:
        return [pod for pod in await self._all_pods() if uid in await self._above(pod, until=uid)]

    async def _owners_named(self, name: str) -> list[OwnerReference]:
        found: dict[str, OwnerReference] = {}
        for pod in await self._all_pods():
            above = await self._above(pod)
            found |= {uid: owner for uid, owner in above.items() if owner.name == name}
        return list(found.values())

    async def _above(self, pod: Pod, *, until: str = "") -> dict[str, OwnerReference]:
        """All that a pod belongs to, by uid; no more than up to the uid ``until``."""
        found: dict[str, OwnerReference] = {}
        front = list(pod.metadata.owner_references or ())
        for _ in range(_GENERATIONS):
            front = [owner for owner in front if owner.uid not in found]
            found |= {owner.uid: owner for owner in front}
            if not front or until in found:
                break
            front = [above for owner in front for above in await self._owners_of(owner)]
        return found

    async def _owners_of(self, owner: OwnerReference) -> list[OwnerReference]:
        """Whole kinds are read at once: a namespace has a Job for each of its pods at times."""
        if owner.uid not in self._owners:
            kind = (owner.api_version, owner.kind)
            if kind not in self._listed:
                self._listed[kind] = await self._list_owners(*kind)
            if not self._listed[kind]:
                self._owners[owner.uid] = await self._read_owners(owner)
        return self._owners.get(owner.uid, [])

    async def _list_owners(self, api_version: str, kind: str) -> bool:
        """Whether all objects of a kind are in ``_owners`` now."""
        try:
            resource = await self.client.discover(api_version, kind)
            if resource is None:
                return True
            where = self.namespace if resource.namespaced else ""
            pages = self.client.pages(resource, namespace=where, type=ApiObject, metadata_only=True)
            async for page in pages:
                for each in page.items or ():
                    self._owners[each.metadata.uid] = list(each.metadata.owner_references or ())
        except ApiError:  # one may not list them, and get each one perhaps
            return False
        return True

    async def _read_owners(self, owner: OwnerReference) -> list[OwnerReference]:
        try:
            resource = await self.client.discover(owner.api_version, owner.kind)
            if resource is None:
                return []
            where = self.namespace if resource.namespaced else ""
            obj = await self.client.get(resource, owner.name, namespace=where)
        except ApiError:  # it is gone, or one may not see it
            return []
        meta = obj.get("metadata") or {}
        return msgspec.convert(meta.get("ownerReferences") or [], list[OwnerReference])

    async def _served(self, word: str) -> Resource | None:
        """A kind that is not known without asking, by any of its names."""
        try:
            return await self.client.resource_called(word)
        except (Forbidden, Unanswered) as error:
            raise fail(f"whether {word!r} is a kind of object here cannot be seen: {error}") from error
