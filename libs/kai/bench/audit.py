"""Whether decisions are possible and permitted, judged from the API objects alone.

Nothing of the engine or of its columns is used here: what it says is checked by plain sums over pods.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kai.bench.worlds import LEVELS, World
from kai.model import names
from kai.model.decisions import CycleResult, Eviction
from kai.model.objects import Node, Pod, PodGroup, Queue, SubGroup
from kai.model.quantity import parse

_TINY = 1e-6
_PRIORITY = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
_RESOURCES = ("cpu", "memory", "gpu")
Amounts = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod is or will be, and which shared devices it has there."""

    pod: Pod
    node: str
    groups: tuple[str, ...]


def problems(world: World, result: CycleResult, *, taken_over: bool = False) -> list[str]:
    """What is wrong with a cycle's decisions about a world; empty if nothing is.

    ``taken_over``: what was promised to somebody was promised again to somebody else. Then those who were
    evicted for the one are told of the other, and nothing is asked of how these two stand to each other.
    """
    return list(_Audit(world, result, taken_over=taken_over).run())


class _Audit:
    def __init__(self, world: World, result: CycleResult, *, taken_over: bool) -> None:
        self.world = world
        self.taken_over = taken_over
        self.result = result
        self.pods = {pod.metadata.uid: pod for pod in world.pods}
        self.groups = {group.key: group for group in world.groups}
        self.nodes = {node.metadata.name: node for node in world.nodes}
        self.queues = {queue.metadata.name: queue for queue in world.queues}
        self.evicted = {each.pod.uid for each in result.evictions}
        self.bound = {bind.pod.uid for bind in result.binds}
        self.before = [
            Place(pod, pod.spec.node_name, groups_of(pod)) for pod in world.pods if pod.spec.node_name
        ]
        self.binds = [Place(self.pods[bind.pod.uid], bind.node, bind.gpu_groups) for bind in result.binds]
        self.nominated = [Place(self.pods[each.pod.uid], each.node, ()) for each in result.nominations]

    def run(self) -> Iterator[str]:
        yield from self._once()
        yield from self._room_now()
        yield from self._room_later()
        yield from self._filters()
        yield from self._gangs()
        yield from self._victims()
        yield from self._domains()
        yield from self._queues()
        yield from self._evictions()

    # --- pods ----------------------------------------------------------------------------------
    def _once(self) -> Iterator[str]:
        for what, uids in (
            ("bound", [bind.pod.uid for bind in self.result.binds]),
            ("evicted", [each.pod.uid for each in self.result.evictions]),
            ("nominated", [each.pod.uid for each in self.result.nominations]),
        ):
            for uid, count in Counter(uids).items():
                if count > 1:
                    yield f"{uid} is {what} {count} times"
        for place in self.binds:
            pod = place.pod
            if pod.spec.node_name or pod.spec.scheduling_gates or pod.metadata.deletion_timestamp:
                yield f"{pod.key} is bound, and was not pending"
        for uid in self.evicted:
            pod = self.pods[uid]
            if not pod.spec.node_name or pod.metadata.deletion_timestamp:
                yield f"{pod.key} is evicted, and was not running"
        going = Counter(each.pod.pod_group for each in self.result.evictions)
        for each in self.result.evictions:
            if not 1 <= each.gang_size <= going[each.pod.pod_group]:
                yield (
                    f"{each.pod.name} is said to go with a gang of {each.gang_size}, "
                    f"and {going[each.pod.pod_group]} of it go"
                )

    # --- nodes ---------------------------------------------------------------------------------
    def _room_now(self) -> Iterator[str]:
        """Binds fit beside everything that is still on the node, also what is leaving."""
        yield from self._overfull([*self.before, *self.binds], "now")

    def _room_later(self) -> Iterator[str]:
        """Nominated pods fit once all that is leaving has left. Their shared devices are not told."""
        staying = [place for place in self.before if not self._leaves(place.pod) and not reserves(place.pod)]
        whole = [place for place in self.nominated if not shared(place.pod)]
        yield from self._overfull([*staying, *self.binds, *whole], "later")

    def _leaves(self, pod: Pod) -> bool:
        return bool(pod.metadata.deletion_timestamp) or pod.metadata.uid in self.evicted

    def _overfull(self, places: Sequence[Place], when: str) -> Iterator[str]:
        by_node: dict[str, list[Place]] = defaultdict(list)
        for place in places:
            by_node[place.node].append(place)
        for name, here in by_node.items():
            node = self.nodes.get(name)
            if node is None:
                yield f"there is no node {name}"
                continue
            has = node.status.allocatable or {}
            cpu = sum(requests(place.pod)[0] for place in here)
            memory = sum(requests(place.pod)[1] for place in here)
            devices: dict[str, float] = defaultdict(float)
            for place in here:
                for group in place.groups:
                    devices[group] += portion(place.pod, node)
            gpus = sum(whole_gpus(place.pod) for place in here) + len(devices)
            for what, used, most in (
                ("CPU", cpu, float(parse(has["cpu"])) * 1000),
                ("memory", memory, float(parse(has["memory"]))),
                ("pods", len(here), int(has["pods"])),
                ("GPUs", gpus, int(has.get(names.NVIDIA_GPU, "0"))),
            ):
                if used > most + _TINY:
                    yield f"{name} has {most:g} {what} and needs {used:g} {when}"
            for group, used in devices.items():
                if used > 1 + 0.011:  # portions of memory requests are rounded to hundredths
                    yield f"device {group} of {name} is given {used:g} times {when}"

    def _filters(self) -> Iterator[str]:
        for place in (*self.binds, *self.nominated):
            node, pod = self.nodes[place.node], place.pod
            ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or ())
            if not ready or node.spec.unschedulable:
                yield f"{pod.key} is placed on {place.node}, which takes no pods"
            tolerated = {toleration.key for toleration in pod.spec.tolerations or ()}
            if any(taint.key not in tolerated for taint in node.spec.taints or ()):
                yield f"{pod.key} does not tolerate a taint of {place.node}"
            for key, value in (pod.spec.node_selector or {}).items():
                if node.labels.get(key) != value:
                    yield f"{pod.key} wants another {key} than that of {place.node}"
        yield from self._anti_affinity()

    def _anti_affinity(self) -> Iterator[str]:
        """Nobody with the label on the node of one that avoids it; checked for what was decided now."""
        after = [place for place in self.before if not self._leaves(place.pod)] + self.binds
        for place in self.binds:
            for other in after:
                if other.node != place.node or other.pod is place.pod:
                    continue
                if _avoids(place.pod, other.pod) or _avoids(other.pod, place.pod):
                    yield f"{place.pod.key} is bound beside {other.pod.key}, which must be apart"

    # --- pod groups ----------------------------------------------------------------------------
    def _members(self, group: PodGroup) -> list[Pod]:
        name, namespace = group.metadata.name, group.metadata.namespace
        return [
            pod
            for pod in self.world.pods
            if pod.annotations.get(names.POD_GROUP_ANNOTATION) == name and pod.metadata.namespace == namespace
        ]

    def _gangs(self) -> Iterator[str]:
        """Who is bound has its minimum beside it at once; who waits is promised all that is needed."""
        waiting = {place.pod.metadata.uid for place in self.nominated}
        for key in sorted({_group_key(place.pod) for place in self.binds}):
            active = self._active(key, self.bound | (waiting & self.evicted))
            if not _satisfied(self.groups[key], active):
                yield f"{key} is bound in part: {dict(active)}"
        for key in sorted({_group_key(place.pod) for place in self.nominated}):
            active = self._active(key, self.bound | waiting)
            if not _satisfied(self.groups[key], active) and not self._in_part_before(key):
                yield f"{key} is promised room in part: {dict(active)}"

    def _victims(self) -> Iterator[str]:
        """Who is evicted loses what exceeds its minimum, or everything."""
        placed = self.bound | {place.pod.metadata.uid for place in self.nominated}
        for key in sorted({each.pod.pod_group for each in self.result.evictions}):
            stays = self._active(key, placed, leaving=False)
            complete = _satisfied(self.groups[key], self._active(key, placed))
            if stays.total() and not complete and not self._in_part_before(key):
                yield f"{key} is evicted in part: {dict(stays)} are left"

    def _active(self, key: str, placed: set[str], *, leaving: bool = True) -> Counter[str]:
        """Pods of a group, by subgroup, that are on a node and not evicted, or are ``placed``."""
        return _by_part(
            pod
            for pod in self._members(self.groups[key])
            if pod.metadata.uid in placed
            or (
                pod.spec.node_name
                and pod.metadata.uid not in self.evicted
                and (leaving or not pod.metadata.deletion_timestamp)
            )
        )

    def _in_part_before(self, key: str) -> bool:
        """Whether some of it ran, and too few, before anything was decided."""
        group = self.groups[key]
        ran = [pod for pod in self._members(group) if pod.spec.node_name]
        active = _by_part(pod for pod in ran if not pod.metadata.deletion_timestamp)
        return bool(ran) and not _satisfied(group, active)

    def _domains(self) -> Iterator[str]:
        """What is placed now is all in one domain, also what waits."""
        placed = [*self.binds, *self.nominated]
        for key in sorted({_group_key(place.pod) for place in placed}):
            wanted = self.groups[key].spec.topology_constraint
            if wanted is None or not wanted.required_topology_level:
                continue
            depth = LEVELS.index(wanted.required_topology_level) + 1
            domains = {
                tuple(self.nodes[place.node].labels[level] for level in LEVELS[:depth])
                for place in placed
                if _group_key(place.pod) == key
            }
            if len(domains) > 1:
                yield f"{key} is spread over {sorted(domains)}"

    # --- queues --------------------------------------------------------------------------------
    def _queues(self) -> Iterator[str]:
        decided = [*self.binds, *self.nominated]
        staying = [place for place in self.before if not self._leaves(place.pod)]
        active = [place for place in self.before if not place.pod.metadata.deletion_timestamp]
        for name, queue in self.queues.items():
            after, before = self._held(name, [*staying, *decided]), self._held(name, active)
            firm = self._held(name, [*staying, *decided], firm=True)
            was_firm = self._held(name, active, firm=True)
            for i, resource in enumerate(_RESOURCES):
                quota, limit = bounds(queue)[i]
                if limit >= 0 and after[i] > max(limit, before[i]) + 0.02:
                    yield f"queue {name} holds {after[i]:g} {resource} over its limit {limit:g}"
                if quota >= 0 and firm[i] > max(quota, was_firm[i]) + 0.02:
                    yield f"queue {name} holds {firm[i]:g} {resource} non-preemptible, quota {quota:g}"

    def _held(self, queue: str, places: Sequence[Place], *, firm: bool = False) -> Amounts:
        total = [0.0, 0.0, 0.0]
        kept = self._kept(places) if firm else ()
        for place in places:
            if reserves(place.pod):
                continue
            group = self.groups[_group_key(place.pod)]
            if queue not in self._line(group.spec.queue) or (firm and place.pod.metadata.uid not in kept):
                continue
            cpu, memory = requests(place.pod)
            gpus = whole_gpus(place.pod) + portion(place.pod, self.nodes[place.node]) * device_count(
                place.pod
            )
            for i, amount in enumerate((cpu, memory, gpus)):
                total[i] += amount
        return (total[0], total[1], total[2])

    def _kept(self, places: Iterable[Place]) -> set[str]:
        """Uids of the pods that nobody may take, of those that are on these places."""
        by_group: dict[str, list[Pod]] = defaultdict(list)
        for place in places:
            if not reserves(place.pod):
                by_group[_group_key(place.pod)].append(place.pod)
        kept: set[str] = set()
        for key, pods in by_group.items():
            group = self.groups[key]
            if not preemptible(group):
                kept |= {pod.metadata.uid for pod in (core(group, pods) if semi(group) else pods)}
        return kept

    def _line(self, name: str) -> list[str]:
        """A queue and all above it."""
        found = []
        while name:
            found.append(name)
            name = self.queues[name].spec.parent_queue
        return found

    # --- evictions -----------------------------------------------------------------------------
    def _evictions(self) -> Iterator[str]:
        served = {_group_key(place.pod) for place in (*self.binds, *self.nominated)}
        ran = [place for place in self.before if not place.pod.metadata.deletion_timestamp]
        kept = self._kept(
            {place.pod.metadata.uid: place for place in (*ran, *self.binds, *self.nominated)}.values()
        )
        for each in self.result.evictions:
            if each.action == "stalegangeviction":
                continue
            taker = self.groups[each.evictor]
            if each.pod.uid in kept:
                yield f"{each.pod.name} must not be evicted"
            if each.evictor not in served:
                yield f"{each.pod.name} is evicted for {each.evictor}, which gets no place"
            if not self.taken_over:
                yield from self._reasons(each)
            if taker.spec.preemption_delay:
                yield f"{each.evictor} evicts before its delay is over"

    def _reasons(self, each: Eviction) -> Iterator[str]:
        """Whether what is said of an eviction can be."""
        victim, taker = self.groups[each.pod.pod_group], self.groups[each.evictor]
        same = taker.spec.queue == victim.spec.queue
        if each.action == "consolidation" and each.pod.uid not in {
            nomination.pod.uid for nomination in self.result.nominations
        }:
            yield f"{each.pod.name} is moved, and has no new place"
        if each.action == "reclaim" and same:
            yield f"{each.pod.name} is reclaimed within its own queue"
        if each.action == "preempt" and not same:
            yield f"{each.pod.name} is preempted from another queue"
        if each.action == "preempt" and _priority(victim) >= _priority(taker):
            yield f"{each.pod.name} is preempted by work of no higher priority"


def shared(pod: Pod) -> bool:
    """Whether it asks for parts of devices."""
    return names.GPU_FRACTION in pod.annotations or names.GPU_MEMORY in pod.annotations


def device_count(pod: Pod) -> int:
    """On how many devices it asks for a part."""
    return int(pod.annotations.get(names.GPU_FRACTION_NUM_DEVICES, "1")) if shared(pod) else 0


def portion(pod: Pod, node: Node) -> float:
    """Which part of each device it gets on a node."""
    if names.GPU_FRACTION in pod.annotations:
        return float(pod.annotations[names.GPU_FRACTION])
    if names.GPU_MEMORY in pod.annotations:
        return int(pod.annotations[names.GPU_MEMORY]) / int(node.labels.get(names.GPU_MEMORY_LABEL, "100"))
    return 0.0


def reserves(pod: Pod) -> bool:
    """Whether it only holds a device for others."""
    return pod.labels.get(names.APP_LABEL) == names.RESERVATION_APP


def whole_gpus(pod: Pod) -> int:
    """Devices of its own."""
    return 0 if reserves(pod) else sum(int(each.get(names.NVIDIA_GPU, "0")) for each in _requests(pod))


def requests(pod: Pod) -> tuple[float, float]:
    """CPU in millicores, memory in bytes."""
    found = _requests(pod)
    cpu = sum(float(parse(each.get("cpu", "0"))) * 1000 for each in found)
    return cpu, sum(float(parse(each.get("memory", "0"))) for each in found)


def bounds(queue: Queue) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
    """Quota and limit of CPU (millicores), memory (bytes) and GPUs; -1 is unlimited."""
    resources = queue.spec.resources
    assert resources is not None
    cpu, memory, gpu = resources.cpu, resources.memory, resources.gpu
    return (
        (cpu.quota, cpu.limit),
        (
            memory.quota * 1e6 if memory.quota >= 0 else -1.0,
            memory.limit * 1e6 if memory.limit >= 0 else -1.0,
        ),
        (gpu.quota, gpu.limit),
    )


def preemptible(group: PodGroup) -> bool:
    """Whether it may be evicted."""
    if group.spec.preemptibility:
        return group.spec.preemptibility == "preemptible"
    return _priority(group) < 100


def semi(group: PodGroup) -> bool:
    """Whether only what exceeds its minimum may be evicted."""
    return group.spec.preemptibility == "semi-preemptible"


def core(group: PodGroup, pods: Sequence[Pod]) -> list[Pod]:
    """Of a group's pods that have a place those that make up its minimum.

    The oldest of each part; of the parts those that are complete first, then by name.
    """
    by_age = sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.uid))
    parts = group.spec.sub_groups or []
    if not parts:
        return by_age[: group.spec.min_member or 1]

    def of(part: SubGroup) -> list[Pod]:
        return [pod for pod in by_age if pod.labels.get(names.SUBGROUP_LABEL, "") == part.name]

    def below(name: str) -> list[SubGroup]:
        return [part for part in parts if (part.parent or "") == name]

    def complete(part: SubGroup) -> bool:
        if part.min_member is not None:
            return len(of(part)) >= part.min_member
        return sum(map(complete, below(part.name))) >= needed(part.name, part.min_sub_group)

    def needed(name: str, said: int | None) -> int:
        return len(below(name)) if said is None else said

    def kept(name: str, said: int | None) -> list[Pod]:
        ranked = sorted(below(name), key=lambda part: (not complete(part), part.name))
        found: list[Pod] = []
        for part in ranked[: needed(name, said)]:
            found += (
                kept(part.name, part.min_sub_group)
                if part.min_member is None
                else of(part)[: part.min_member]
            )
        return found

    return kept("", group.spec.min_sub_group)


def groups_of(pod: Pod) -> tuple[str, ...]:
    """Shared devices by its labels."""
    many = [value for key, value in pod.labels.items() if key.startswith(names.MULTI_GPU_GROUP_PREFIX)]
    one = pod.labels.get(names.GPU_GROUP_LABEL)
    return tuple(many) or ((one,) if one else ())


def _priority(group: PodGroup) -> int:
    return _PRIORITY[group.spec.priority_class_name]


def _requests(pod: Pod) -> list[dict[str, str]]:
    return [
        container.resources.requests or {}
        for container in pod.spec.containers
        if container.resources is not None
    ]


def _group_key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.annotations[names.POD_GROUP_ANNOTATION]}"


def _avoids(pod: Pod, other: Pod) -> bool:
    """Whether a pod must not be on a node with another, by the only terms that worlds have."""
    terms = ((pod.spec.affinity or {}).get("podAntiAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or ()
    wanted = [term["labelSelector"]["matchLabels"] for term in terms]
    return any(all(other.labels.get(key) == value for key, value in each.items()) for each in wanted)


def _by_part(pods: Iterable[Pod]) -> Counter[str]:
    return Counter(pod.labels.get(names.SUBGROUP_LABEL, "") for pod in pods)


def _satisfied(group: PodGroup, active: Counter[str]) -> bool:
    parts = group.spec.sub_groups
    if not parts:
        return sum(active.values()) >= (group.spec.min_member or 1)
    leaves = [part for part in parts if part.min_member is not None]
    good = sum(active[part.name] >= (part.min_member or 0) for part in leaves)
    top = [part for part in parts if not part.parent]
    needed = len(leaves)
    if group.spec.min_sub_group is not None and len(top) == len(leaves):
        needed = group.spec.min_sub_group
    return good >= needed
