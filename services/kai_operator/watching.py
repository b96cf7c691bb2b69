"""Follows everything that an installation consists of and depends on, for one term."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import structlog

from kai.kube.client import KubeClient
from kai.kube.leases import Lease
from kai.kube.reflector import Change, Reflector, Removed, Synced, Upserted
from kai.kube.resources import (
    CONFIGS,
    CRDS,
    LEASES,
    NODES,
    PODS,
    SCHEDULING_SHARDS,
    SECRETS,
    Resource,
)
from kai.model import names
from kai.model.objects import ApiObject
from kai_operator.cache import Cache, version_of
from kai_operator.facts import Definition, EndpointSlice, Surroundings
from kai_operator.former_endpoints import OF_KUBERNETES, SERVICE_NAME
from kai_operator.kinds import (
    CLUSTER_POLICIES,
    ENDPOINT_SLICES,
    KINDS,
    SELECTOR,
    Kind,
    Manifest,
    definition_name,
)
from kai_operator.leaders import SchedulerPod

_API_SERVER: Final = f"{SERVICE_NAME}=kubernetes"
_FAKE: Final = f"{names.FAKE_GPU_LABEL}=true"
_SCHEDULERS: Final = "app.kubernetes.io/part-of=kai-scheduler"
#: How long a term waits for Secrets, and for optional kinds that are served, before it does without what they
#: tell.
OPTIONAL_SECONDS: Final = 10.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class World:
    """What the watches have told. ``changed`` is called whenever a pass could come to another result."""

    changed: Callable[[], None]
    configs: dict[str, Manifest] = field(default_factory=dict)
    shards: dict[str, Manifest] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    pods: dict[str, SchedulerPod] = field(default_factory=dict)
    #: Those that Kubernetes keeps of Services with a selector, and of some that had one.
    slices: dict[str, ApiObject] = field(default_factory=dict)
    cache: Cache = field(init=False)
    surroundings: Surroundings = field(init=False)

    def __post_init__(self) -> None:
        self.cache = Cache(lambda _: self.changed())
        self.surroundings = Surroundings(self.changed)

    def take(self, manifest: Manifest) -> None:
        """Take in a Config or a shard that we wrote, unless it is gone by now, or older than what is known.

        The watch may be faster than the answer: what somebody changed right after our write is told but once.
        """
        meta = manifest["metadata"]
        into = self.configs if manifest["kind"] == CONFIGS.kind else self.shards
        known = into.get(meta["name"])
        if known is None or known["metadata"]["uid"] != meta["uid"]:
            return
        if version_of(known) <= version_of(manifest):
            into[meta["name"]] = manifest

    def forget(self, resource: Resource) -> None:
        """There are no objects of this kind any more."""
        if resource == CLUSTER_POLICIES:
            self.surroundings.cluster_policies.clear()
        else:
            self.cache.forget_all(resource.kind)
        self.changed()

    def keep(self, into: dict[str, Any]) -> Callable[[Change[Any]], None]:
        """A sink that keeps objects by name."""

        def take(change: Change[Any]) -> None:
            if isinstance(change, Upserted):
                obj = change.obj
                into[obj["metadata"]["name"] if isinstance(obj, dict) else obj.metadata.name] = obj
            elif isinstance(change, Removed):
                into.pop(change.obj_key.rpartition("/")[2], None)
            if not isinstance(change, Synced):
                self.changed()

        return take


class _Watch(NamedTuple):
    reflector: Reflector[Any]
    task: asyncio.Task[None]


class Watching:
    """The watches. Optional kinds are followed from when their definition is there until it goes."""

    def __init__(self, client: KubeClient, world: World, *, namespace: str, secrets: Sequence[str]) -> None:
        self._client = client
        self._world = world
        self._namespace = namespace
        self._definitions: Reflector[Definition] = Reflector(client, CRDS, Definition)
        self._always = list(self._plan())
        self._secret_watches = {f"secret {name}": self._of_secret(name) for name in secrets}
        self._optional: dict[str, _Watch] = {}
        self._definitions_changed = asyncio.Event()
        self._definitions_followed = asyncio.Event()

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector, sink in (*self._always, *self._secret_watches.values()):
                tasks.create_task(reflector.run(sink), name=f"watch {reflector.resource.plural}")
            await self._follow_optional(tasks)

    @property
    def synced(self) -> bool:
        """Whether everything that always is there has been told."""
        return all(reflector.synced.is_set() for reflector, _ in self._always)

    async def until_synced(self) -> None:
        """Wait until everything has been told that a pass goes by.

        Secrets and optional kinds count, too: who does not know yet what they say would write it, and take it
        back. But what the API server does not tell of holds nobody up for long.
        """
        for reflector, _ in self._always:
            await reflector.synced.wait()
        await self._definitions_followed.wait()
        watches = {name: reflector.synced for name, (reflector, _) in self._secret_watches.items()}
        watches |= {name: watch.reflector.synced for name, watch in self._optional.items()}
        try:
            async with asyncio.timeout(OPTIONAL_SECONDS):
                for synced in watches.values():
                    await synced.wait()
        except TimeoutError:
            missing = sorted(name for name, synced in watches.items() if not synced.is_set())
            _log.warning("going on without what these say", missing=missing)

    def _plan(self) -> list[tuple[Reflector[Any], Callable[[Any], None]]]:
        client, world, home = self._client, self._world, self._namespace
        surroundings = world.surroundings
        plan: list[tuple[Reflector[Any], Callable[[Any], None]]] = [
            (Reflector(client, CONFIGS, dict), world.keep(world.configs)),
            (Reflector(client, SCHEDULING_SHARDS, dict), world.keep(world.shards)),
            (self._definitions, self._take_definition),
            (Reflector(client, LEASES, Lease, namespace=home), self._take_lease),
            (
                Reflector(client, PODS, SchedulerPod, namespace=home, label_selector=_SCHEDULERS),
                world.keep(world.pods),
            ),
            (
                Reflector(
                    client,
                    ENDPOINT_SLICES,
                    EndpointSlice,
                    namespace="default",
                    label_selector=_API_SERVER,
                    optional=True,
                ),
                surroundings.take_slice,
            ),
            (
                Reflector(
                    client,
                    ENDPOINT_SLICES,
                    ApiObject,
                    namespace=home,
                    label_selector=OF_KUBERNETES,
                    metadata_only=True,
                    optional=True,
                ),
                self._take_slice,
            ),
            (
                Reflector(client, NODES, ApiObject, label_selector=_FAKE, metadata_only=True),
                surroundings.take_fake,
            ),
        ]
        plan += [self._of_kind(kind) for kind in KINDS if not kind.optional and kind.resource is not SECRETS]
        return plan

    def _of_secret(self, name: str) -> tuple[Reflector[Any], Callable[[Any], None]]:
        """One by one: so a role can allow these and no others of the namespace."""
        reflector = Reflector(
            self._client,
            SECRETS,
            dict,
            namespace=self._namespace,
            label_selector=SELECTOR,
            field_selector=f"metadata.name={name}",
        )
        return reflector, self._world.cache.sink(SECRETS)

    def _of_kind(self, kind: Kind) -> tuple[Reflector[Any], Callable[[Any], None]]:
        place = "" if kind.everywhere or not kind.resource.namespaced else self._namespace
        reflector = Reflector(self._client, kind.resource, dict, namespace=place, label_selector=SELECTOR)
        return reflector, self._world.cache.sink(kind.resource)

    def _take_lease(self, change: Change[Lease]) -> None:
        """Renewals come every two seconds; only who holds a Lease matters."""
        leases = self._world.leases
        if isinstance(change, Upserted):
            lease = change.obj
            before = leases.get(lease.metadata.name)
            leases[lease.metadata.name] = lease
            if before is None or before.spec.holder_identity != lease.spec.holder_identity:
                self._world.changed()
        elif isinstance(change, Removed):
            leases.pop(change.obj_key.rpartition("/")[2], None)
            self._world.changed()

    def _take_slice(self, change: Change[ApiObject]) -> None:
        """They change with each pod that comes or goes; only that there is one matters."""
        slices = self._world.slices
        before = slices.keys() | ()
        if isinstance(change, Upserted):
            slices[change.obj.metadata.name] = change.obj
        elif isinstance(change, Removed):
            slices.pop(change.obj_key.rpartition("/")[2], None)
        if slices.keys() != before:
            self._world.changed()

    def _take_definition(self, change: Change[Definition]) -> None:
        self._world.surroundings.take_definition(change)
        self._definitions_changed.set()

    async def _follow_optional(self, tasks: asyncio.TaskGroup) -> None:
        optional = [kind for kind in KINDS if kind.optional]
        policies = self._world.surroundings.take_cluster_policy
        while True:
            for kind in optional:
                self._follow(tasks, *self._of_kind(kind))
            self._follow(tasks, Reflector(self._client, CLUSTER_POLICIES, dict), policies)
            if self._definitions.synced.is_set():
                self._definitions_followed.set()
            await self._definitions_changed.wait()
            self._definitions_changed.clear()

    def _follow(
        self, tasks: asyncio.TaskGroup, reflector: Reflector[Any], sink: Callable[[Any], None]
    ) -> None:
        name = definition_name(reflector.resource)
        served, running = self._world.surroundings.serves(name), self._optional.get(name)
        if served and running is None:
            task = tasks.create_task(reflector.run(sink), name=f"watch {reflector.resource.plural}")
            self._optional[name] = _Watch(reflector, task)
        elif not served and running is not None:
            self._optional.pop(name).task.cancel()
            # Nobody will tell that they are gone; where they are wanted they are made again with their kind.
            self._world.forget(reflector.resource)
