"""Warnings about Queues: what they are promised, what they may use, and what their deletion leaves behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, isfinite
from typing import Final

from kai.advice.facts import Capacity, Facts
from kai.advice.finding import Code, Finding, Reference
from kai.advice.spelling import nearest
from kai.model import access, resource_lists
from kai.model.access import User
from kai.model.objects import Queue, QueueResource, QueueResources, QueueStatus, ResourceList
from kai.model.rules.queue_amounts import MEMORY_BYTES, UNLIMITED, written

_RESOURCES: Final = ("gpu", "cpu", "memory")
#: Quotas of so many times the cluster are not plans but bytes.
_ABSURD: Final = 100
#: With nodes of so many bytes or cores, a quota of less than 1 GB or one core was meant otherwise.
_LARGE_NODE_BYTES: Final = 8e9
_LARGE_NODE_CORES: Final = 8


def findings(queue: Queue, facts: Facts) -> Iterator[Finding]:
    """All that surely is a mistake."""
    yield from _without_users(queue, facts)
    resources = queue.spec.resources
    if resources is None:
        return
    for kind in _RESOURCES:
        yield from _amounts(kind, getattr(resources, kind))
    yield from _units(resources, facts.capacity)
    if facts.queues is not None:
        yield from _in_the_tree(queue, facts.queues, facts.node_pool_label_key)


def _without_users(queue: Queue, facts: Facts) -> Iterator[Finding]:
    """A rule of access that lets nobody in, by itself or with those of the queues above."""
    rule = queue.spec.access
    if rule is None:
        return
    if access.admitted(rule) == "nobody":
        text = "spec.access is empty, so nobody may use it; list namespaces, or remove it to admit everybody"
        yield Finding(Code.NOBODY_ADMITTED, text)
        return
    if facts.namespaces is None or facts.queues is None:
        return
    name, others = queue.metadata.name, {**facts.queues, queue.metadata.name: queue}
    users = [User(namespace=each, labels=labels) for each, labels in facts.namespaces.items()]
    if not any(access.admits(rule, user) for user in users):
        text = f"spec.access admits {access.admitted(rule)}, and there is no such namespace"
        yield Finding(Code.NOBODY_ADMITTED, f"{text}; nothing is scheduled in it until there is one")
    elif all(access.barrier(name, others, user) for user in users):
        text = "no namespace is admitted by its spec.access and by those of the queues above it alike"
        yield Finding(Code.NOBODY_ADMITTED, f"{text}; admit it everywhere")


def children(name: str, queues: Iterable[Queue]) -> list[str]:
    """Names of the queues below a queue, in order."""
    return sorted(q.metadata.name for q in queues if q.spec.parent_queue == name and q.metadata.name != name)


def deletion(queue: Queue, below: Sequence[str]) -> Iterator[Finding]:
    """What goes wrong where a queue is deleted of which others are children, or in which there is work."""
    if below:
        listed = ", ".join(below[:5]) + (f" and {len(below) - 5} more" if len(below) > 5 else "")
        yield Finding(
            Code.PARENT_DELETED,
            f"it is the parent of {listed}, where nothing is scheduled without it; "
            "delete those too or give them another spec.parentQueue",
        )
    yield from _abandoned_work(queue.status)


def _abandoned_work(status: QueueStatus | None) -> Iterator[Finding]:
    """Work by what the status says, which counts the queues below, too."""
    if status is None:
        return
    held, asked = _listed(status.allocated), _listed(status.requested)
    if held:
        yield Finding(
            Code.WORK_ABANDONED,
            f"work in it holds {held}; its pods run on until another queue needs that, count in no "
            "queue and get no successors until a queue of this name exists again",
        )
    elif asked:
        yield Finding(
            Code.WORK_ABANDONED,
            f"work in it waits for {asked}; it will go on waiting until a queue of this name exists again",
        )


def _listed(amounts: ResourceList | None) -> str:
    return ", ".join(
        f"{amount} {resource}"
        for resource, amount in sorted((amounts or {}).items())
        if resource_lists.parsed(amount) > 0
    )


# --- amounts of one queue ----------------------------------------------------------------------
def _amounts(kind: str, amount: QueueResource) -> Iterator[Finding]:
    where = f"spec.resources.{kind}"
    for field, value in (("quota", amount.quota), ("limit", amount.limit)):
        if value < 0 and value != UNLIMITED:
            yield Finding(Code.NEGATIVE_AMOUNT, f"{where}.{field} is {value:g}; write -1 for no bound")
    if amount.over_quota_weight < 0:
        yield Finding(
            Code.NEGATIVE_WEIGHT,
            f"{where}.overQuotaWeight is {amount.over_quota_weight:g} and counts as 0; write 0 or more",
        )
    asked_for = kind != "gpu" or amount.quota or amount.over_quota_weight
    if amount.limit == 0 and asked_for:
        yield Finding(
            Code.NOTHING_ALLOWED,
            f"{where}.limit is 0, so its workloads may use no {kind} at all; write -1 for no bound",
        )
    elif 0 <= amount.limit < amount.quota:
        yield Finding(
            Code.LIMIT_BELOW_QUOTA,
            f"{where}.limit {amount.limit:g} is below the quota {amount.quota:g}, never to be used up",
        )


def _units(resources: QueueResources, capacity: Capacity | None) -> Iterator[Finding]:
    """CPU is in millicores, memory in 10^6 bytes; amounts that only make sense in other units."""
    node_cores = capacity.largest.get("cpu", 0) if capacity else 0
    small_cpu = 1000 if node_cores >= _LARGE_NODE_CORES else 100
    for field, value in _bounds(resources.cpu):
        if 0 < value < small_cpu:
            yield Finding(
                Code.WRONG_UNIT,
                f"spec.resources.cpu.{field} is {value:g} millicores; {value:g} cores are {value * 1000:g}",
            )
    for field, value in _bounds(resources.memory):
        meant = _memory_meant(value, capacity)
        if meant:
            where = f"spec.resources.memory.{field}"
            yield Finding(
                Code.WRONG_UNIT, f"{where} is in MB, so {value:.15g} is {_readable(value)}; {meant}"
            )


def _bounds(amount: QueueResource) -> Iterator[tuple[str, float]]:
    return (
        (field, value) for field, value in (("quota", amount.quota), ("limit", amount.limit)) if value > 0
    )


def _memory_meant(megabytes: float, capacity: Capacity | None) -> str:
    """What an amount of memory was surely meant to be; empty where it may be meant as it is."""
    cluster = capacity.total.get("memory", 0) if capacity else 0
    node = capacity.largest.get("memory", 0) if capacity else 0
    if not isfinite(megabytes):
        return ""
    if megabytes > max(_ABSURD * cluster / MEMORY_BYTES, 1e8):
        return f"as bytes it would be {megabytes / MEMORY_BYTES:.6g}"
    if megabytes < 1000 and node >= _LARGE_NODE_BYTES:
        binary = written("memory", megabytes * 2**30)
        return f"{megabytes:g} GB are {megabytes * 1000:g}, {megabytes:g} GiB are {binary:.0f}"
    return ""


def _readable(megabytes: float) -> str:
    for unit, size in (("EB", 1e12), ("PB", 1e9), ("TB", 1e6), ("GB", 1e3)):
        if megabytes >= size:
            return f"{megabytes / size:.4g} {unit}"
    return f"{megabytes:.4g} MB"


# --- the tree ----------------------------------------------------------------------------------
def _in_the_tree(queue: Queue, queues: Mapping[str, Queue], node_pool_label_key: str) -> Iterator[Finding]:
    others = {**queues, queue.metadata.name: queue}
    parent = others.get(queue.spec.parent_queue)
    if queue.spec.parent_queue and parent is None:
        meant = nearest(queue.spec.parent_queue, queues) if len(queues) <= 2000 else ""
        hint = f' (did you mean "{meant}"?)' if meant else ""
        yield Finding(
            Code.UNKNOWN_PARENT,
            f'spec.parentQueue "{queue.spec.parent_queue}" does not exist{hint}; '
            "nothing is scheduled in this queue until that one is created",
            Reference("Queue", queue.spec.parent_queue),
        )
    if parent is not None:
        yield from _other_node_pool(queue, parent, node_pool_label_key)
        yield from _quota_above_parent(queue, parent)
    yield from _quotas_below(queue, others)


def _other_node_pool(queue: Queue, parent: Queue, key: str) -> Iterator[Finding]:
    own, above = queue.labels.get(key, ""), parent.labels.get(key, "")
    if own != above:
        yield Finding(
            Code.OTHER_NODE_POOL,
            f'label {key} is "{own}" but "{above}" on its parent {parent.metadata.name}, '
            "so no scheduler sees both; give them the same label",
        )


def _quota_above_parent(queue: Queue, parent: Queue) -> Iterator[Finding]:
    if parent.spec.resources is None:
        return
    above = _quotas(parent)
    for kind, own in _quotas(queue).items():
        if own > above[kind]:
            yield Finding(
                Code.QUOTA_ABOVE_PARENT,
                f"{kind} quota {_text(own)} is more than the {above[kind]:g} "
                f"of its parent {parent.metadata.name}",
            )


def _quotas_below(queue: Queue, queues: Mapping[str, Queue]) -> Iterator[Finding]:
    """Compares the sums of a queue's children, and of its siblings and itself, with what is above them."""
    for above in (queues.get(queue.spec.parent_queue), queue):
        if above is None or above.spec.resources is None:
            continue
        name = above.metadata.name
        below = [q for q in queues.values() if q.spec.parent_queue == name]
        for kind, own in _quotas(above).items():
            promised = [_quotas(child)[kind] for child in below]
            # One that is too large by itself is told as such.
            if sum(promised) > own and max(promised, default=0) <= own:
                total = _text(sum(promised))
                text = f"{kind} quotas of the children of {name} sum up to {total}, over its {own:g}"
                yield Finding(Code.CHILDREN_ABOVE_QUOTA, text)
        if above is queue:
            yield from _children_above(queue, below)


def _children_above(queue: Queue, below: Sequence[Queue]) -> Iterator[Finding]:
    own = _quotas(queue)
    for child in sorted(below, key=lambda each: each.metadata.name)[:5]:
        for kind, promised in _quotas(child).items():
            if promised > own[kind]:
                yield Finding(
                    Code.QUOTA_ABOVE_PARENT,
                    f"{kind} quota {own[kind]:g} is less than the {_text(promised)} "
                    f"of its child {child.metadata.name}",
                )


def _bound(amount: float) -> float:
    return inf if amount < 0 else amount


def _text(amount: float) -> str:
    return "unlimited" if amount == inf else f"{amount:g}"


def _quotas(queue: Queue) -> dict[str, float]:
    """Quotas by resource, with no bound as infinity; all 0 if the queue has no resources."""
    resources = queue.spec.resources or QueueResources()
    return {kind: _bound(getattr(resources, kind).quota) for kind in _RESOURCES}
