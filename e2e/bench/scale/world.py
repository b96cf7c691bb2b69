"""A cluster to be measured: what cases do to it, and how they see what becomes of that."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from rich.progress import Progress

from e2e.bench.scale.follower import BATCH_LABEL, Follower, Submission
from e2e.bench.scale.meter import LOOK_SECONDS, SURROUNDINGS, Meter
from e2e.harness import Cluster
from e2e.manifests import a_group, a_job, a_pod, a_queue, as_yaml
from kai.kube.errors import NotFound
from kai.kube.resources import DEPLOYMENTS, JOBS, LEASES, NODES, POD_GROUPS, PODS
from kai.model.names import NAMESPACE as KAI
from kai.model.names import NVIDIA_GPU, SCHEDULER_NAME
from kai.model.objects import ApiObject, Node, PodGroup
from kai.operands.redis import NAME as REDIS
from kai_local.box.state import ClusterFiles
from kai_local.processes.records import ProcessRecord

NAMESPACE = "scale"
#: The queue of what fills the cluster, the queue of who comes then, and the department of both.
FILLING, COMING, DEPARTMENT = "filling", "coming", "scale"
PATIENCE_SECONDS = 600.0
#: CPU cores that all processes together use at rest.
_RESTING_CORES = 0.15
_AT_ONCE = 16
_OPERATOR: Final = "kai-operator"


@dataclass(frozen=True, slots=True)
class Size:
    """Of the cluster."""

    nodes: int
    gpus_per_node: int = 8

    @property
    def gpus(self) -> int:
        """All together."""
        return self.nodes * self.gpus_per_node


class _Deployment(ApiObject, kw_only=True):
    spec: dict[str, Any]


class World:
    """One cluster while it is measured."""

    def __init__(self, cluster: Cluster, size: Size, progress: Progress) -> None:
        self.size = size
        self.meter = Meter(cluster.name)
        self.pods = Follower(cluster, NAMESPACE)
        self._cluster = cluster
        self._progress = progress

    async def furnish(self) -> None:
        """Make the namespace and the queues."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await self._cluster.apply(as_yaml(namespace, a_queue(DEPARTMENT)))
        await self.share(filling=self.size.gpus, coming=0)

    async def share(self, *, filling: float, coming: float) -> None:
        """Say how many GPUs each of the two queues deserves; both may use more."""
        shares = {FILLING: filling, COMING: coming}
        queues = [a_queue(name, parent=DEPARTMENT, gpus=gpus) for name, gpus in shares.items()]
        await self._cluster.apply(as_yaml(*queues))

    # --- work ----------------------------------------------------------------------------------
    async def submit_pods(self, batch: str, count: int, *, queue: str = FILLING, gpus: int = 1) -> None:
        """Pods without owner, as fast as the API server takes them."""
        bodies = (
            a_pod(f"{batch}-{number}", NAMESPACE, queue, gpus=gpus, labels={BATCH_LABEL: batch})
            for number in range(count)
        )
        await self._each(
            bodies, lambda body: self._cluster.client.create(PODS, body, namespace=NAMESPACE, type=ApiObject)
        )

    async def submit_bound_pods(self, batch: str, count: int, *, grouped: bool = False) -> None:
        """Pods without owner, each bound as soon as it exists to a node that has a GPU for it.

        ``grouped``: and as soon as a PodGroup is stored for it.
        """

        async def submit(number: int) -> None:
            name = f"{batch}-{number}"
            body = a_pod(name, NAMESPACE, FILLING, gpus=1, labels={BATCH_LABEL: batch})
            created = await self._cluster.client.create(PODS, body, namespace=NAMESPACE, type=ApiObject)
            if grouped:
                group = a_group(f"pg-{name}", NAMESPACE, FILLING, minMember=1)
                owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": created.metadata.uid}
                group["metadata"]["ownerReferences"] = [owner]
                await self._cluster.client.create(POD_GROUPS, group, namespace=NAMESPACE, type=ApiObject)
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "target": {"apiVersion": "v1", "kind": "Node", "name": nodes[number % len(nodes)]},
            }
            await self._cluster.client.create_subresource(PODS, name, "binding", binding, namespace=NAMESPACE)

        # One stands for this machine, where the services run.
        nodes = [
            node.metadata.name
            for node in await self._cluster.client.list(NODES, type=Node)
            if NVIDIA_GPU in (node.status.allocatable or ())
        ]
        await self._each(range(count), submit)

    async def submit_paced(self, batch: str, count: int, *, pause: float, wait: bool) -> dict[str, float]:
        """Pods without owner, one after the other; when each was there, by uid.

        ``pause``: seconds from one to the next. ``wait``: from when the one before is bound, and not from
        when it was to be created.
        """
        created: dict[str, float] = {}
        bound = self.pods.batch(batch).bound_at

        async def submit(number: int) -> str:
            body = a_pod(f"{batch}-{number}", NAMESPACE, FILLING, gpus=1, labels={BATCH_LABEL: batch})
            found = await self._cluster.client.create(PODS, body, namespace=NAMESPACE, type=ApiObject)
            created[found.metadata.uid] = time.monotonic()
            return found.metadata.uid

        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                began = time.monotonic()
                if wait:
                    uid = await submit(number)
                    await self.pods.until(lambda uid=uid: uid in bound, within=PATIENCE_SECONDS, what="bound")
                    began = time.monotonic()
                else:
                    tasks.create_task(submit(number))
                await asyncio.sleep(max(0.0, began + pause - time.monotonic()))
        return created

    async def submit_jobs(
        self, batch: str, count: int, *, pods: int, queue: str = FILLING, gpus: int = 1
    ) -> None:
        """Jobs, each of whose pods start together or not at all."""
        labels, gang = {BATCH_LABEL: batch}, pods if pods > 1 else 0
        bodies = (
            a_job(f"{batch}-{n}", NAMESPACE, queue, pods=pods, gang=gang, gpus=gpus, labels=labels)
            for n in range(count)
        )
        await self._each(
            bodies, lambda body: self._cluster.client.create(JOBS, body, namespace=NAMESPACE, type=ApiObject)
        )

    async def remove_jobs(self, names: Iterable[str]) -> None:
        """Delete Jobs with their pods."""

        async def remove(name: str) -> None:
            try:
                await self._cluster.client.delete(JOBS, name, namespace=NAMESPACE, propagation="Background")
            except NotFound:
                return

        await self._each(names, remove)

    async def remove_pods(self, names: Iterable[str]) -> None:
        """Delete pods."""

        async def remove(name: str) -> None:
            try:
                await self._cluster.client.delete(PODS, name, namespace=NAMESPACE)
            except NotFound:
                return

        await self._each(names, remove)

    async def _each(self, items: Iterable[Any], act: Callable[[Any], Awaitable[Any]]) -> None:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(item: Any) -> None:
            async with slots:
                await act(item)

        async with asyncio.TaskGroup() as tasks:
            for item in items:
                tasks.create_task(one(item))

    # --- the scheduler -------------------------------------------------------------------------
    def freeze_scheduler(self) -> None:
        """Have it decide nothing from now on."""
        os.kill(self._scheduler_pid(), signal.SIGSTOP)

    async def start_scheduler_anew(self) -> None:
        """End the frozen one; another is started in its place, and need not wait for the Lease."""
        os.kill(self._scheduler_pid(), signal.SIGKILL)
        given_up = {"spec": {"holderIdentity": ""}}
        await self._cluster.client.patch(LEASES, SCHEDULER_NAME, given_up, namespace=KAI)

    @asynccontextmanager
    async def services_away(self, *, but: Collection[str] = ()) -> AsyncIterator[None]:
        """Have none of our services but those do anything meanwhile.

        Where they are pods there are none: a kubelet starts anew what is frozen for longer than a minute.
        """
        listed = await self._cluster.client.list(DEPLOYMENTS, namespace=KAI, type=_Deployment)
        replicas = {
            one.metadata.name: one.spec["replicas"]
            for one in listed
            if one.metadata.name not in {*but, REDIS}
        }
        if not replicas:
            with self._frozen(but):
                yield
            return
        # First the operator, which would bring back the others.
        await self._scale({_OPERATOR: 0})
        await self._until_away({_OPERATOR})
        await self._scale(dict.fromkeys(replicas, 0))
        await self._until_away({one.name for one in self._processes()} - SURROUNDINGS.union(but))
        try:
            yield
        finally:
            await self._scale(replicas)

    async def _scale(self, replicas: Mapping[str, int]) -> None:
        for name, number in replicas.items():
            body = {"spec": {"replicas": number}}
            await self._cluster.client.patch(DEPLOYMENTS, name, body, namespace=KAI, type=ApiObject)

    async def _until_away(self, names: Collection[str]) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while left := [one.name for one in self._processes() if one.pid and one.name in names]:
            assert time.monotonic() < until, f"still there after {PATIENCE_SECONDS:g} s: {', '.join(left)}"
            await asyncio.sleep(LOOK_SECONDS)

    @contextmanager
    def _frozen(self, but: Collection[str]) -> Iterator[None]:
        spared = SURROUNDINGS.union(but)
        pids = [one.pid for one in self._processes() if one.pid and one.name not in spared]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def _scheduler_pid(self) -> int:
        [pid] = [one.pid for one in self._processes() if one.name == "scheduler"]
        assert pid, "the scheduler does not run"
        return pid

    def _processes(self) -> Sequence[ProcessRecord]:
        record = ClusterFiles.of(self._cluster.name).read()
        assert record is not None, "the cluster is gone"
        return record.processes

    # --- seeing --------------------------------------------------------------------------------
    async def all_bound(self, batch: Submission, count: int, *, what: str) -> float:
        """Wait until so many pods of a batch are bound; when the last one was."""
        await self._watched(what, count, lambda: len(batch.bound_at))
        return max(batch.bound_at.values())

    async def all_running(self, batch: Submission, count: int, *, what: str) -> None:
        """Wait until exactly so many pods of a batch exist, and all of them run."""
        await self._watched(what, count, lambda: len(batch.running))
        await self.pods.until(
            lambda: len(batch.running) == len(batch.existing) == count, within=PATIENCE_SECONDS, what=what
        )

    async def marked(self, batch: Submission, *, what: str) -> float:
        """Wait until a pod of a batch is marked unschedulable; when it was."""
        await self._watched(what, 1, lambda: min(len(batch.marked_at), 1))
        return min(batch.marked_at.values())

    async def gone(self, batch: Submission, *, left: int = 0, what: str) -> None:
        """Wait until no more than so many pods of a batch exist."""
        await self.pods.until(lambda: len(batch.existing) <= left, within=PATIENCE_SECONDS, what=what)

    async def reasons(self, prefix: str) -> set[str]:
        """Why pod groups of so named workloads do not run, as their conditions say."""
        groups = await self._cluster.client.list(POD_GROUPS, namespace=NAMESPACE, type=PodGroup)
        return {
            reason["reason"]
            for group in groups
            if group.metadata.name.startswith(f"pg-{prefix}")
            for condition in ((group.status and group.status.scheduling_conditions) or [])
            for reason in condition.reasons or []
        }

    async def at_rest(self) -> None:
        """Wait until the processes only keep their leases, so that a case bears its own load."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            async with self.meter.running() as reading:
                await asyncio.sleep(1.0)
            spent = {one.process: one.cpu_seconds for one in reading.usage}
            if sum(spent.values()) < _RESTING_CORES:
                return
            if time.monotonic() > deadline:
                busy = ", ".join(f"{name} {seconds:.2f}" for name, seconds in _most(spent))
                raise AssertionError(
                    f"the processes did not come to rest within {PATIENCE_SECONDS:g} s; CPU cores: {busy}"
                )

    async def _watched(self, what: str, count: int, number: Callable[[], int]) -> None:
        bar = self._progress.add_task(what, total=count)
        await self.pods.until(
            lambda: number() >= count,
            within=PATIENCE_SECONDS,
            what=what,
            show=lambda: self._progress.update(bar, completed=number()),
        )
        self._progress.remove_task(bar)


def _most(spent: Mapping[str, float]) -> list[tuple[str, float]]:
    """The three that spent most."""
    return sorted(spent.items(), key=lambda item: -item[1])[:3]
