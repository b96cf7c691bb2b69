"""The pods of a benchmark as the API server tells them, in batches by label, and when it was."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from e2e.harness import Cluster
from kai.kube.reflector import Reflector
from kai.kube.resources import PODS
from kai.kube.store import Store
from kai.model import names
from kai.model.objects import Pod
from kai.model.resource_lists import parsed

BATCH_LABEL = "bench.kai.scheduler/batch"
LOOK_SECONDS = 0.01


@dataclass(slots=True)
class Submission:
    """Pods that were submitted together, by uid. Times are monotonic."""

    bound_at: dict[str, float] = field(default_factory=dict)
    node_of: dict[str, str] = field(default_factory=dict)
    #: When it was first said that no node can take the pod.
    marked_at: dict[str, float] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    existing: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    #: What must not happen, in words.
    faults: list[str] = field(default_factory=list)


class Follower:
    """Follows all pods of a namespace while :meth:`run` runs."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._batches: dict[str, Submission] = {}
        self._store: Store[Pod] = Store()
        self._store.listen(self._note)
        self._reflector = Reflector(cluster.client, PODS, Pod, namespace=namespace)
        self.synced = self._reflector.synced

    async def run(self) -> None:
        """Follow until cancelled."""
        await self._reflector.run(self._store)

    def batch(self, name: str) -> Submission:
        """The pods with this label."""
        return self._batches.setdefault(name, Submission())

    def __iter__(self) -> Iterator[Pod]:
        return iter(self._store)

    async def until(
        self,
        met: Callable[[], bool],
        *,
        within: float,
        what: str,
        show: Callable[[], None] = lambda: None,
    ) -> None:
        """Wait for a condition; ``show`` is called now and then meanwhile."""
        deadline = time.monotonic() + within
        while not met():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {within:g} s\n{await self._cluster.report()}")
            show()
            await asyncio.sleep(LOOK_SECONDS)
        show()

    def faults(self, gpus_per_node: int) -> list[str]:
        """What is wrong with the pods that exist, and what went wrong before."""
        found = [fault for batch in self._batches.values() for fault in batch.faults]
        used = Counter[str]()
        for pod in self._store:
            if pod.status.phase in ("Pending", "Running") and pod.spec.node_name:
                used[pod.spec.node_name] += _gpus(pod)
        found += [
            f"node {node} has {count} GPUs in use" for node, count in used.items() if count > gpus_per_node
        ]
        return found

    def _note(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            batch, uid = self._batch_of(old), old.metadata.uid
            batch.existing.discard(uid)
            batch.running.discard(uid)
            batch.ended.add(uid)
        if new is None:
            return
        batch, uid, now = self._batch_of(new), new.metadata.uid, time.monotonic()
        batch.existing.add(uid)
        if node := new.spec.node_name:
            batch.bound_at.setdefault(uid, now)
            if batch.node_of.setdefault(uid, node) != node:
                batch.faults.append(f"pod {new.key} was bound twice")
        elif _is_marked(new):
            batch.marked_at.setdefault(uid, now)
        if new.status.phase == "Running" and not new.metadata.deletion_timestamp:
            batch.running.add(uid)
        else:
            batch.running.discard(uid)
        if new.status.phase == "Failed" and (old is None or old.status.phase != "Failed"):
            batch.faults.append(f"pod {new.key} failed on node {node}: it had no device for it")

    def _batch_of(self, pod: Pod) -> Submission:
        return self.batch(pod.labels.get(BATCH_LABEL, ""))


def _is_marked(pod: Pod) -> bool:
    return any(
        (one.type, one.status, one.reason) == ("PodScheduled", "False", "Unschedulable")
        for one in pod.status.conditions or ()
    )


def _gpus(pod: Pod) -> int:
    return sum(
        int(parsed(((one.resources and one.resources.limits) or {}).get(names.NVIDIA_GPU, "0")))
        for one in pod.spec.containers
    )
