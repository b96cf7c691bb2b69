"""The plan of a life: what is done when, from a seed. Nothing here looks at a cluster.

What exists is known from what was planned. Something may have ended by itself meanwhile, or never have come
to be since the API server was down; who performs the plan bears that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from e2e.manifests import a_pod, a_queue
from e2e.soak import malformed, site, workloads
from e2e.soak.actions import (
    Action,
    Change,
    Deed,
    Drain,
    Evict,
    Json,
    Put,
    Refuse,
    Remove,
    Signal,
    subject,
)
from kai.model import names
from kai_local.kubelet.nodes import NodeShape, slice_manifest

#: Mean seconds between two deeds.
PACE_SECONDS = 1.2
#: Work beyond this many workloads makes room before more comes.
MOST_WORKLOADS = 36
PROBE_SECONDS = 4.0
TROUBLE_SECONDS = 11.0
#: Share of the time after which nothing is killed any more, so that what leaks can be told from what starts.
CALM_AFTER = 0.6
NEW_WORK = "new work: "
_KUBECTL_SHARE = 0.15
_NAMESPACES, _LEAVES = 4, 6
#: To which quotas and limits are changed, by resource: devices, millicores and 10^6 bytes. The smallest have
#: room for a few pods.
_QUOTAS = {
    "gpu": (0, 1, 2, 4, 8),
    "cpu": (-1, -1, 500, 2000),
    "memory": (-1, -1, 1500, 4000),
}
_LIMITS = {
    "gpu": (-1, -1, 2, 6, 12),
    "cpu": (-1, -1, 500, 1500, 4000),
    "memory": (-1, -1, 1500, 5000),
}
#: Processes that are killed, each as often as its weight says.
PROCESSES = {
    "scheduler": 3,
    "binder-1": 2,
    "binder-2": 2,
    "pod-grouper": 2,
    "podgroup-controller": 2,
    "queue-controller": 2,
    "admission": 1,
    "insight": 1,
    "node-scale-adjuster": 1,
    "redis": 2,
    "apiserver": 1,
}


@dataclass(slots=True)
class _Workload:
    manifests: tuple[Json, ...]
    scalable: Json | None
    later: list[tuple[Json, Json]]
    #: Those that its user made.
    groups: list[Json] = field(init=False)
    claims: list[Json] = field(init=False)

    def __post_init__(self) -> None:
        self.groups = [manifest for manifest in self.manifests if manifest["kind"] == "PodGroup"]
        self.claims = [manifest for manifest in self.manifests if manifest["kind"] == "ResourceClaim"]

    @property
    def namespace(self) -> str:
        return str(self.manifests[-1]["metadata"]["namespace"])

    @property
    def name(self) -> str:
        return str(self.manifests[0]["metadata"]["name"])


@dataclass(slots=True)
class _Queue:
    name: str
    parent: str
    children: list[str] = field(default_factory=list)


def plan(*, seed: int, seconds: float, kills: bool = True) -> list[Action]:
    """All that happens within so many seconds, by time. Equal arguments give equal plans."""
    found = [*Life(random.Random(seed), seconds).actions(), *_probes(seconds)]
    if kills:
        found += _troubles(random.Random(f"{seed}/troubles"), seconds * CALM_AFTER)
    return sorted(found, key=lambda action: action.at)


class Life:
    """Draws one deed after the other, each about what is there by then."""

    def __init__(self, rng: random.Random, seconds: float) -> None:
        self._rng = rng
        self._seconds = seconds
        self._count = 0
        self._queues: dict[str, _Queue] = {}
        self._workloads: list[_Workload] = []
        self._namespaces: list[str] = []
        self._nodes = [node.name for node in site.lasting_nodes()]
        self._away: list[site.NodePlan] = []
        self._cordoned: list[str] = []
        self._extra: list[site.NodePlan] = []

    def actions(self) -> Iterator[Action]:
        """The deeds in order."""
        yield from self._beginning()
        now = 1.0
        while True:
            now += self._rng.expovariate(1 / PACE_SECONDS)
            if now >= self._seconds:
                return
            what, deed, is_malformed = self._next()
            yield Action(round(now, 3), what, deed, _subjects(deed), is_malformed)

    # --- at first ------------------------------------------------------------------------------
    def _beginning(self) -> Iterator[Action]:
        for _ in range(_NAMESPACES):
            what, deed = self._new_namespace()
            yield Action(0.0, what, deed, _subjects(deed))
        for _ in range(_LEAVES):
            what, deed = self._new_queue()
            yield Action(0.0, what, deed, _subjects(deed))

    def _next(self) -> tuple[str, Deed, bool]:
        crowded = len(self._workloads) >= MOST_WORKLOADS
        choices: list[tuple[Callable[[], tuple[str, Deed] | None], float]] = [
            (self._new_work, 2 if crowded else 24),
            (self._end_work, 30 if crowded else 10),
            (self._scale, 5),
            (self._go_on, 5),
            (self._evict, 3),
            (self._change_group, 1.5),
            (self._end_group, 0.4),
            (self._end_claim, 0.4),
            (self._change_quota, 4),
            (self._change_limit, 5),
            (self._change_minimum_runtime, 1),
            (self._move_queue, 0.8),
            (self._new_queue, 1.5),
            (self._end_queue, 1),
            (self._cordon, 1.5),
            (self._uncordon, 3),
            (self._drain, 1),
            (self._lose_node, 0.8),
            (self._bring_node_back, 2.5),
            (self._move_node, 0.8),
            (self._change_devices, 0.8),
            (self._add_node, 1.5),
            (self._remove_node, 1.5),
            (self._end_namespace, 0.3),
        ]
        if self._rng.random() < 0.07:
            return self._something_wrong()
        while True:
            [choose] = self._rng.choices([c for c, _ in choices], weights=[w for _, w in choices])
            if (found := choose()) is not None:
                return (*found, False)

    # --- work ----------------------------------------------------------------------------------
    def _new_work(self) -> tuple[str, Deed] | None:
        name, namespace = self._name("w"), self._rng.choice(self._namespaces)
        form, work = workloads.draw(self._rng, name=name, namespace=namespace, queue=self._leaf())
        self._workloads.append(_Workload(work.manifests, work.scalable, list(work.later)))
        return f"{NEW_WORK}{form}", Put(work.manifests, self._by_hand())

    def _something_wrong(self) -> tuple[str, Deed, bool]:
        name, namespace = self._name("bad"), self._rng.choice(self._namespaces)
        what, manifests = malformed.draw(self._rng, name=name, namespace=namespace, queue=self._leaf())
        self._workloads.append(_Workload(manifests, None, []))
        return f"wrong: {what}", Put(manifests, self._by_hand()), True

    def _end_work(self) -> tuple[str, Deed] | None:
        if not self._workloads:
            return None
        work = self._workloads.pop(self._rng.randrange(len(self._workloads)))
        return "work deleted", Remove(work.manifests, self._by_hand(), force=self._rng.random() < 0.1)

    def _scale(self) -> tuple[str, Deed] | None:
        scalable = [work.scalable for work in self._workloads if work.scalable is not None]
        if not scalable:
            return None
        replicas = self._rng.randint(0, 5)
        return f"scaled: {replicas}", Change(
            self._rng.choice(scalable), {"spec": {"replicas": replicas}}, self._by_hand()
        )

    def _go_on(self) -> tuple[str, Deed] | None:
        """Open a gate, resume or suspend a Job."""
        waiting = [work for work in self._workloads if work.later]
        if not waiting:
            return None
        manifest, patch = self._rng.choice(waiting).later.pop(0)
        return f"changed: {patch['spec']}", Change(manifest, patch)

    def _evict(self) -> tuple[str, Deed] | None:
        if not self._workloads:
            return None
        work, count = self._rng.choice(self._workloads), self._rng.randint(1, 2)
        return f"{count} of its pods evicted", Evict(work.namespace, work.name, count)

    def _change_group(self) -> tuple[str, Deed] | None:
        """Another number of pods that a group needs, of one that its user made."""
        groups = [group for work in self._workloads for group in work.groups if "minMember" in group["spec"]]
        if not groups:
            return None
        needed = self._rng.randint(1, 4)
        patch = {"spec": {"minMember": needed}}
        return f"minimum changed: {needed}", Change(self._rng.choice(groups), patch, self._by_hand())

    def _end_group(self) -> tuple[str, Deed] | None:
        """Delete the group of pods that go on."""
        works = [work for work in self._workloads if work.groups]
        return ("group deleted", Remove((self._rng.choice(works).groups.pop(),))) if works else None

    def _end_claim(self) -> tuple[str, Deed] | None:
        """Delete a claim, whether pods use it or not."""
        works = [work for work in self._workloads if work.claims]
        return ("claim deleted", Remove((self._rng.choice(works).claims.pop(),))) if works else None

    # --- queues --------------------------------------------------------------------------------
    def _new_queue(self) -> tuple[str, Deed] | None:
        if len(self._queues) > 14:
            return None
        parents = [queue.name for queue in self._queues.values() if not queue.parent]
        if not parents or (len(parents) < 3 and self._rng.random() < 0.4):
            name = self._name("dep")
            self._queues[name] = _Queue(name, "")
            gpus = self._rng.choice([-1, 12, 24])
            department = a_queue(
                name,
                gpus=gpus,
                limit=self._rng.choice([-1, -1, 24]),
                cpu={"limit": self._rng.choice([-1, -1, 12000])},
                memory={"limit": self._rng.choice([-1, -1, 16000])},
            )
            child = self._child(name)
            return "new department with a queue", Put((department, child), self._by_hand())
        return "new queue", Put((self._child(self._rng.choice(parents)),), self._by_hand())

    def _child(self, parent: str) -> Json:
        name = self._name("q")
        self._queues[name] = _Queue(name, parent)
        self._queues[parent].children.append(name)
        more = {}
        if self._rng.random() < 0.25:
            more = {"reclaimMinRuntime": "20s", "preemptMinRuntime": "10s"}
        return a_queue(
            name,
            parent=parent,
            gpus=self._rng.choice([0, 2, 4, 8]),
            limit=self._rng.choice([-1, -1, -1, 8, 12]),
            cpu={"quota": self._rng.choice([-1, -1, 2000]), "limit": self._rng.choice([-1, -1, 1000, 4000])},
            memory={
                "quota": self._rng.choice([-1, -1, 4000]),
                "limit": self._rng.choice([-1, -1, 2000, 8000]),
            },
            weight=self._rng.choice([0, 1, 1, 2]),
            priority=self._rng.choice([100, 100, 100, 200]),
            **more,
        )

    def _bounds(self, *, quotas: Sequence[int], limits: Sequence[int]) -> dict[str, float]:
        return {"quota": self._rng.choice(quotas), "limit": self._rng.choice(limits)}

    def _end_queue(self) -> tuple[str, Deed] | None:
        """Delete a queue, also with work in it; its work gets nothing from then on."""
        leaves = self._leaves()
        if len(leaves) <= 3:
            return None
        queue = self._queues.pop(self._rng.choice(leaves))
        gone = [a_queue(queue.name)]
        siblings = self._queues[queue.parent].children
        siblings.remove(queue.name)
        if not siblings:
            del self._queues[queue.parent]
            gone.append(a_queue(queue.parent))
        return "queue deleted", Remove(tuple(gone), self._by_hand())

    def _move_queue(self) -> tuple[str, Deed] | None:
        """Under another department, with its work."""
        queue = self._queues[self._leaf()]
        others = [
            each.name for each in self._queues.values() if not each.parent and each.name != queue.parent
        ]
        if not others or len(self._queues[queue.parent].children) == 1:
            return None
        self._queues[queue.parent].children.remove(queue.name)
        queue.parent = self._rng.choice(others)
        self._queues[queue.parent].children.append(queue.name)
        patch = {"spec": {"parentQueue": queue.parent}}
        return f"queue moved: {queue.parent}", Change(a_queue(queue.name), patch, self._by_hand())

    def _change_quota(self) -> tuple[str, Deed] | None:
        return self._change_amount("quota", _QUOTAS)

    def _change_limit(self) -> tuple[str, Deed] | None:
        return self._change_amount("limit", _LIMITS)

    def _change_amount(self, key: str, amounts: Mapping[str, Sequence[int]]) -> tuple[str, Deed]:
        """Of one resource of a leaf; a limit may be lowered below what is held."""
        queue, resource = a_queue(self._leaf()), self._rng.choice(list(amounts))
        amount = self._rng.choice(amounts[resource])
        patch = {"spec": {"resources": {resource: {key: amount}}}}
        return f"{key} changed: {resource} {amount}", Change(queue, patch, self._by_hand())

    def _change_minimum_runtime(self) -> tuple[str, Deed] | None:
        runtime = self._rng.choice(["0s", "15s", "1m"])
        key = self._rng.choice(["reclaimMinRuntime", "preemptMinRuntime"])
        return f"{key} changed: {runtime}", Change(a_queue(self._leaf()), {"spec": {key: runtime}})

    def _leaves(self) -> list[str]:
        return [queue.name for queue in self._queues.values() if queue.parent]

    def _leaf(self) -> str:
        return self._rng.choice(self._leaves())

    # --- nodes ---------------------------------------------------------------------------------
    def _cordon(self) -> tuple[str, Deed] | None:
        node = self._rng.choice(self._nodes)
        if node in self._cordoned or len(self._cordoned) >= 2:
            return None
        self._cordoned.append(node)
        return "cordoned", Change(_node(node), {"spec": {"unschedulable": True}})

    def _uncordon(self) -> tuple[str, Deed] | None:
        if not self._cordoned:
            return None
        node = self._cordoned.pop(self._rng.randrange(len(self._cordoned)))
        return "uncordoned", Change(_node(node), {"spec": {"unschedulable": False}})

    def _drain(self) -> tuple[str, Deed] | None:
        node = self._rng.choice(self._nodes)
        if node in self._cordoned or len(self._cordoned) >= 2:
            return None
        self._cordoned.append(node)
        return "drained", Drain(node)

    def _lose_node(self) -> tuple[str, Deed] | None:
        name = self._rng.choice(self._nodes)
        if len(self._away) >= 2 or name in self._cordoned:
            return None
        [lost] = [each for each in site.lasting_nodes() if each.name == name]
        self._nodes.remove(lost.name)
        self._away.append(lost)
        return "node lost", Remove(tuple(lost.manifests))

    def _bring_node_back(self) -> tuple[str, Deed] | None:
        if not self._away:
            return None
        back = self._away.pop(0)
        self._nodes.append(back.name)
        return "node came back", Put(tuple(back.manifests))

    def _move_node(self) -> tuple[str, Deed] | None:
        """To another rack, with all that runs there."""
        rack = f"r{self._rng.randrange(4)}"
        patch = {"metadata": {"labels": {site.RACK: rack}}}
        return f"node moved: {rack}", Change(_node(self._rng.choice(self._nodes)), patch)

    def _change_devices(self) -> tuple[str, Deed] | None:
        """A driver publishes fewer devices of a node, or all of them again."""
        there = [node for node in site.lasting_nodes() if node.devices and node.name in self._nodes]
        if not there:
            return None
        devices = self._rng.randint(1, 4)
        published = slice_manifest(self._rng.choice(there).name, site.DRIVER, devices)
        return f"devices changed: {devices}", Put((published,))

    def _add_node(self) -> tuple[str, Deed] | None:
        if len(self._extra) >= 3:
            return None
        place = site.labels(zone=self._rng.randrange(2), rack=self._rng.randrange(4), pool="gpu")
        shape = NodeShape(
            gpus=self._rng.choice([1, 2, 4]), gpu_memory_mib=self._rng.choice([16000, 81559]), labels=place
        )
        node = site.NodePlan(self._name("soak-extra"), shape)
        self._extra.append(node)
        return "node added", Put(tuple(node.manifests))

    def _remove_node(self) -> tuple[str, Deed] | None:
        if not self._extra:
            return None
        return "node removed", Remove(tuple(self._extra.pop(0).manifests))

    # --- namespaces ----------------------------------------------------------------------------
    def _new_namespace(self) -> tuple[str, Deed]:
        name = self._name("soak")
        self._namespaces.append(name)
        return "new namespace", Put((_namespace(name),))

    def _end_namespace(self) -> tuple[str, Deed] | None:
        """Delete one with all that is in it, in favour of a new one."""
        if len(self._namespaces) > _NAMESPACES:
            name = self._namespaces.pop(0)
            self._workloads = [work for work in self._workloads if work.namespace != name]
            return "namespace deleted", Remove((_namespace(name),))
        return self._new_namespace()

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}-{self._count}"

    def _by_hand(self) -> bool:
        return self._rng.random() < _KUBECTL_SHARE


def _node(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def _namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _subjects(deed: Deed) -> tuple[str, ...]:
    match deed:
        case Put(manifests) | Remove(manifests):
            return tuple(subject(manifest) for manifest in manifests)
        case Change(manifest):
            return (subject(manifest),)
        case Evict(namespace, prefix):
            return (f"Pod {namespace}/{prefix}",)
        case Drain(node):
            return (f"Node {node}",)
        case Signal(process):
            return (f"process {process}",)
        case Refuse():
            return ("process apiserver",)


# --- probes ------------------------------------------------------------------------------------
def _probes(seconds: float) -> Iterator[Action]:
    """Pods that can always be placed, one after the other: how long they take is the cluster's latency."""
    number, now = 0, PROBE_SECONDS
    while now < seconds:
        name = f"probe-{number}"
        pod = _probe(name, number)
        yield Action(now, "probe", Put((pod,)), (subject(pod),))
        number, now = number + 1, now + PROBE_SECONDS


def _probe(name: str, number: int) -> Json:
    sizes: list[dict[str, Any]] = [{}, {"gpus": 1}, {"annotations": {names.GPU_FRACTION: "0.5"}}]
    spec = {
        "nodeSelector": {site.POOL: site.PROBE_POOL},
        "tolerations": [{"key": site.POOL, "operator": "Exists"}],
        "restartPolicy": "Never",
    }
    return a_pod(name, site.PROBE_NAMESPACE, site.PROBE_QUEUE, spec=spec, **sizes[number % len(sizes)])


# --- trouble -----------------------------------------------------------------------------------
def _troubles(rng: random.Random, seconds: float) -> Iterator[Action]:
    """Processes that are killed or frozen, and an API server that refuses."""
    now = 10.0
    while True:
        now += rng.expovariate(1 / TROUBLE_SECONDS)
        if now >= seconds:
            return
        what, deed = _trouble(rng)
        yield Action(round(now, 3), what, deed, _subjects(deed))


def _trouble(rng: random.Random) -> tuple[str, Deed]:
    if rng.random() < 0.12:
        status, lasts = rng.choice([429, 503, 410]), rng.choice([1.0, 3.0])
        return f"services are answered {status} for {lasts:g} s", Refuse(status, lasts)
    [process] = rng.choices(list(PROCESSES), weights=list(PROCESSES.values()))
    kind = rng.choice(["SIGKILL", "SIGKILL", "SIGTERM", "SIGSTOP"])
    if kind == "SIGSTOP":
        lasts = rng.choice([1.0, 3.0, 8.0])
        return f"frozen for {lasts:g} s", Signal(process, kind, lasts)
    return kind, Signal(process, kind)
