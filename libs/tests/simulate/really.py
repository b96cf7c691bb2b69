"""A cluster in which things really happen: servers, kubelets and owners change objects."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from kai.bench.audit import reserves
from kai.bench.worlds import World
from kai.engine import Engine
from kai.model.decisions import CycleResult
from kai.model.objects import Pod, PodStatus
from kai.model.rules.gpu_groups import gpu_group_labels, gpu_groups, is_gpu_group_label
from kai.snapshot.state import ClusterState, Kind
from kai.snapshot.times import rfc3339, seconds

GRACE = 30.0
#: Who is still there so long after its end is not let go by its node, which nobody can foresee.
STUCK = 120.0


class Cluster:
    """The scheduler's state, told of everything by objects only, and the pods as an API server has them."""

    def __init__(self, world: World, *, now: float) -> None:
        self.now = now
        self.state: ClusterState = world.state()
        self.pods = {pod.key: pod for pod in world.pods}
        self.evicted: set[str] = set()
        self.started: set[str] = set()
        self._engine = Engine()
        self._gone = {
            pod.key: max(seconds(pod.metadata.deletion_timestamp), now)
            for pod in world.pods
            if pod.metadata.deletion_timestamp
            and pod.spec.node_name
            and now - seconds(pod.metadata.deletion_timestamp) <= STUCK
        }

    def apply(self, objects: Sequence[tuple[Kind, Any]]) -> None:
        """What somebody does with kubectl."""
        for kind, obj in objects:
            self.state.apply(kind, obj)

    def live(self, until: float) -> None:
        """Run the scheduler as its service does: soon where something is under way, else when due."""
        due = self.now
        while (moment := min([due, *self._gone.values()])) <= until:
            self.now = max(self.now, moment)
            for key in [key for key, at in self._gone.items() if at <= self.now]:
                self._leave(key)
            result = self._engine.run(self.state, self.now)
            self._carry_out(result)
            busy = not result.next_due and (self.state.pending_jobs or self._gone or result.binds)
            due = self.now + 1 if busy else max(result.next_due or math.inf, self.now + 1)

    def _carry_out(self, result: CycleResult) -> None:
        for bind in result.binds:
            pod = self.pods[f"{bind.pod.namespace}/{bind.pod.name}"]
            labels = {**pod.labels, **gpu_group_labels(bind.gpu_groups)}
            self._put(
                msgspec.structs.replace(
                    pod,
                    metadata=msgspec.structs.replace(pod.metadata, labels=labels),
                    spec=msgspec.structs.replace(pod.spec, node_name=bind.node),
                    status=PodStatus(phase="Running"),
                )
            )
            self.started.add(first(pod.key))
        for eviction in result.evictions:
            pod = self.pods[f"{eviction.pod.namespace}/{eviction.pod.name}"]
            at = rfc3339(self.now + GRACE)
            self._put(
                msgspec.structs.replace(
                    pod, metadata=msgspec.structs.replace(pod.metadata, deletion_timestamp=at)
                )
            )
            self._gone[pod.key] = self.now + GRACE
            self.evicted.add(first(pod.key))

    def _put(self, pod: Pod) -> None:
        self.pods[pod.key] = pod
        self.state.apply(Kind.POD, pod)

    def _leave(self, key: str) -> None:
        """A pod is gone; what made it makes another one."""
        del self._gone[key]
        pod = self.pods.pop(key)
        self.state.remove(Kind.POD, key)
        self._end_reservations(pod)
        if reserves(pod):
            return
        name, _, number = pod.metadata.name.partition("~")
        name = f"{name}~{int(number or 0) + 1}"
        labels = {key: text for key, text in pod.labels.items() if not is_gpu_group_label(key)}
        meta = msgspec.structs.replace(
            pod.metadata,
            name=name,
            uid=f"{pod.metadata.namespace}-{name}",
            labels=labels or None,
            creation_timestamp=rfc3339(self.now),
            deletion_timestamp=None,
        )
        spec = msgspec.structs.replace(pod.spec, node_name="", scheduling_gates=None)
        self._put(Pod(metadata=meta, spec=spec, status=PodStatus(phase="Pending")))

    def _end_reservations(self, gone: Pod) -> None:
        """Nobody reserves a device of which nobody has a part."""
        for group in gpu_groups(gone.labels):
            users = [pod for pod in self.pods.values() if group in gpu_groups(pod.labels)]
            if all(map(reserves, users)):
                for pod in users:
                    del self.pods[pod.key]
                    self.state.remove(Kind.POD, pod.key)


def first(key: str) -> str:
    """The pod that was there first, of all that came for it."""
    return key.partition("~")[0]
