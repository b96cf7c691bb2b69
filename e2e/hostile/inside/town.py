"""The services, their API server and a tenant, in one process and without waiting."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final
from unittest import mock

import msgspec

from e2e.hostile import site
from e2e.hostile.attacks import FORMS, Attack, Tenant
from e2e.hostile.footprint import footprint
from e2e.hostile.inside.apiserver import MemoryApiServer
from e2e.hostile.inside.leader import MadeUpLeader
from e2e.manifests import a_queue
from kai import observe
from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.exchange import Exchange
from kai.kube.metrics import RequestMetrics
from kai.kube.resources import JOBS, PODS, Resource
from kai.model import names
from kai.runtime import Host
from kai.runtime.service import Service
from kai.runtime.webhook import WebhookServer
from kai.tls import CertificateFiles
from kai.validation.registration import MUTATE_POD, VALIDATE_POD, WARN
from kai.wire.decisions import HEARTBEAT_SECONDS
from kai_admission.advisor import advisor
from kai_admission.cluster_watch import ClusterWatch
from kai_admission.handlers import handlers
from kai_admission.settings import AdmissionSettings
from kai_binder.executor import Executor
from kai_binder.link import Outbox
from kai_binder.service import BinderService
from kai_binder.settings import BinderSettings
from kai_pod_grouper.service import PodGrouperService
from kai_pod_grouper.settings import PodGrouperSettings
from kai_podgroup_controller.service import PodGroupControllerService
from kai_podgroup_controller.settings import PodGroupControllerSettings
from kai_queue_controller.service import QueueControllerService
from kai_queue_controller.settings import QueueControllerSettings

Json = dict[str, Any]
_KINDS: Final = {each.kind: each for each in vars(resources).values() if isinstance(each, Resource)}
_JOB_PODS: Final = 3
_ODD: Final = "odd-"
#: Longer than anything is remembered by time: events (360 s), owners (60 s), watches (600 s).
REST_SECONDS: Final = 1500.0
SERVICES: Final = ("admission", "pod-grouper", "podgroup-controller", "queue-controller", "binder")


class Town:
    """All of it; to be used on a loop whose time passes at once."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.server = MemoryApiServer(self._rng)
        self.leader = MadeUpLeader(self.server, self._rng)
        self.hosts: dict[str, Host] = {}
        self._reviews: WebhookServer | None = None
        self._watch: ClusterWatch | None = None
        self._tenant = Tenant(self._rng, site.TENANT_NAMESPACES)
        self._numbers = itertools.count()

    # --- services ------------------------------------------------------------------------------
    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Run the services; admission answers when asked."""
        self._furnish()
        services: list[Service] = [
            PodGrouperService(PodGrouperSettings(leader_elect=False)),
            PodGroupControllerService(
                PodGroupControllerSettings(leader_elect=False, enable_podgroup_webhook=False)
            ),
            QueueControllerService(QueueControllerSettings(leader_elect=False, enable_webhook=False)),
            BinderService(BinderSettings()),
        ]
        with contextlib.ExitStack() as patches:
            for where in ("kai_podgroup_controller", "kai_queue_controller"):
                patches.enter_context(
                    mock.patch(f"{where}.service.watch_sessions", self.leader.watch_sessions)
                )
            patches.enter_context(mock.patch("kai_binder.service.Link", self._link))
            async with contextlib.AsyncExitStack() as running:
                admission = self._host("admission", AdmissionSettings())
                patches.enter_context(mock.patch.object(KubeClient, "connect", return_value=admission.client))
                for service in services:
                    host = self._host(service.name, service.settings)
                    host.tasks = await running.enter_async_context(asyncio.TaskGroup())
                    host.start(service.run(host), name=service.name)
                admission.tasks = await running.enter_async_context(asyncio.TaskGroup())
                self._admit(admission)
                await asyncio.sleep(10.0)
                yield
                for host in self.hosts.values():
                    host.stop_background()

    def _host(self, name: str, settings: Any) -> Host:
        host = Host(name=name, settings=settings, metrics=observe.new_registry())
        host.client = KubeClient(Exchange(self.server, RequestMetrics(host.metrics)))
        self.hosts[name] = host
        return host

    def _link(self, executor: Executor, outbox: Outbox, **_: object) -> _Link:
        self.leader.executors.append(executor)
        return _Link(outbox)

    def _admit(self, host: Host) -> None:
        settings = host.settings
        assert isinstance(settings, AdmissionSettings)
        self._watch = watch = ClusterWatch(settings.known_names)
        answers = {**handlers(settings), WARN: advisor(watch.facts, watch.is_missing, watch.renewed)}
        self._reviews = WebhookServer(
            answers, listen=":0", certificates=CertificateFiles.in_directory("/"), registry=host.metrics
        )
        host.start(watch.run())

    # --- life ----------------------------------------------------------------------------------
    async def live(self, rounds: int) -> None:
        """So many attacks, one after the other; each is gone before the next comes."""
        for _ in range(rounds):
            await self._suffer(self._tenant.draw(FORMS)[1])

    async def rehearse(self) -> None:
        """Each form of attack once."""
        for form in FORMS:
            await self._suffer(self._tenant.draw([form])[1])

    async def _suffer(self, attack: Attack) -> None:
        self._put_odd_ones()
        put = [made for manifest in attack.manifests for made in self._made(manifest)]
        await self._pause()
        await self._live_on()
        for manifest in put[:20]:
            await self._review("CREATE", manifest)
        for change in attack.later:
            await self._pause()
            self.server.change(_plural(change.manifest), _key(change.manifest), change.patch)
        await self._live_on()
        await self._pause()
        if self._rng.random() < 0.3:
            await asyncio.sleep(self._rng.uniform(1.0, 60.0))
            await self._live_on()
        await self._clear()

    async def at_rest(self) -> dict[str, Counter[str]]:
        """By service, how much it holds when all is gone and forgotten."""
        for _ in range(3):
            await self._clear()
            await asyncio.sleep(REST_SECONDS / 3)
            self.leader.cycle()
        await asyncio.sleep(1.0)
        return {name: self._footprint(name) for name in SERVICES}

    def _footprint(self, name: str) -> Counter[str]:
        host = self.hosts[name]
        own = (self._watch, self._reviews) if name == "admission" else ()
        tasks = [task for task in asyncio.all_tasks() if task in host.background]
        return footprint(
            host.client, host.health, host.metrics, *tasks, *own, but=(MemoryApiServer, MadeUpLeader)
        )

    # --- objects -------------------------------------------------------------------------------
    def _furnish(self) -> None:
        for manifest in (*site.nodes(), *site.furniture()):
            if manifest["kind"] in _KINDS:
                self.server.put(_plural(manifest), manifest)
        for name in ("train", "build", "system-node-critical"):
            self.server.put("priorityclasses", {"metadata": {"name": name}, "value": 1})

    def _made(self, manifest: Json) -> list[Json]:
        """Put an object, and what a controller would make of it."""
        body = msgspec.json.decode(msgspec.json.encode(manifest))
        for owner in body["metadata"].get("ownerReferences") or ():
            if not owner.get("uid"):
                res = _KINDS[owner["kind"]]
                known = self.server.objects[res.plural].get(
                    f"{body['metadata']['namespace']}/{owner['name']}"
                )
                owner["uid"] = known["metadata"]["uid"] if known else "unknown"
        if body["kind"] == "Pod":
            body.setdefault("status", {})["phase"] = "Pending"
        made = self.server.put(_plural(body), body)
        if body["kind"] != JOBS.kind:
            return [made]
        return [made, *(self._pod_of(made, number) for number in range(_JOB_PODS))]

    def _pod_of(self, job: Json, number: int) -> Json:
        meta, template = job["metadata"], job["spec"]["template"]
        owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "controller": True}
        owner |= {"name": meta["name"], "uid": meta["uid"]}
        own = {"name": f"{meta['name']}-{number}"[-250:], "namespace": meta["namespace"]}
        pod = {
            "metadata": {**(template.get("metadata") or {}), **own, "ownerReferences": [owner]},
            "spec": template["spec"],
            "status": {"phase": "Pending"},
        }
        return self.server.put(PODS.plural, pod)

    def _put_odd_ones(self) -> None:
        """Queues, classes, namespaces and nodes come and go as well."""
        number = next(self._numbers)
        for plural, body in (
            ("queues", a_queue(f"{_ODD}{number}", parent=self._rng.choice(("", f"{_ODD}{number}")))),
            ("priorityclasses", {"metadata": {"name": f"{_ODD}{number}"}, "value": number}),
            ("namespaces", {"metadata": {"name": f"{_ODD}{number}", "labels": {f"l-{number}": "x"}}}),
            ("nodes", {**site.nodes()[0], "metadata": {"name": f"{_ODD}{number}"}}),
        ):
            self.server.put(plural, body)

    async def _live_on(self) -> None:
        """Kubelets start reservation pods, and the leader decides."""
        for key, pod in list(self.server.objects[PODS.plural].items()):
            if key.startswith(f"{names.RESERVATION_NAMESPACE}/") and not pod.get("status"):
                device = {names.RESERVED_GPU: f"GPU-{self._rng.randrange(10**6)}"}
                status = {"phase": self._rng.choice(("Running", "Running", "Running", "Failed"))}
                self.server.change(PODS.plural, key, {"metadata": {"annotations": device}, "status": status})
        self.leader.cycle()
        if self._rng.random() < 0.1:
            await self.leader.lead_no_more()

    async def _review(self, operation: str, manifest: Json) -> None:
        assert self._reviews is not None
        request = {
            "uid": "u",
            "operation": operation,
            "kind": {"kind": manifest["kind"]},
            "name": manifest["metadata"]["name"],
            "namespace": manifest["metadata"].get("namespace", ""),
            "object": manifest,
        }
        body = msgspec.json.encode({"request": request})
        for path in (MUTATE_POD, VALIDATE_POD, WARN) if manifest["kind"] == "Pod" else (WARN,):
            await self._reviews.answer(path, body)

    async def _clear(self) -> None:
        """Delete all that is the tenant's, also what is held by finalizers, in any order."""
        for _ in range(2):
            for plural, found in self.server.objects.items():
                gone = [key for key in found if key.startswith((*site.TENANT_NAMESPACES, _ODD))]
                self._rng.shuffle(gone)
                for key in gone:
                    self.server.delete(plural, key)
            await asyncio.sleep(self._rng.uniform(0.0, 0.2))

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.choice((0.0, 0.02, 0.1, 0.5, 3.0)))


class _Link:
    """In place of the stream to a scheduler."""

    connected_to = 1

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def run(self, tracker: object) -> None:
        """Hear the results, for ever."""
        stream = self._outbox.begin()
        while True:
            await self._outbox.take(stream, patience=HEARTBEAT_SECONDS)


def _plural(manifest: Json) -> str:
    return _KINDS[manifest["kind"]].plural


def _key(manifest: Json) -> str:
    meta = manifest["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
