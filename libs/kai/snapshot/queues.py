"""What a Queue object says, and the hierarchy of queues."""

from __future__ import annotations

from collections.abc import Iterable

from kai.model import limits
from kai.model.objects import Queue as QueueObject
from kai.model.objects import QueueResources
from kai.model.rules.queue_amounts import UNLIMITED, bound, priority
from kai.snapshot.rows import Queue
from kai.snapshot.times import lasting, seconds

TOP_QUEUE = "default"
#: The account of what runs without a queue: names of queues cannot have blanks.
NO_QUEUE = "no queue"


def describe(queue: Queue, obj: QueueObject) -> None:
    """Fill a row from an object.

    CPUs in thousandths, memory in bytes where manifests say millions of them, GPUs in devices; -1 is
    unlimited. Parent, children and path are for :func:`link` to find.
    """
    spec = obj.spec
    amounts = spec.resources or QueueResources()
    queue.exists = True
    queue.display_name = spec.display_name or queue.name
    queue.uid = obj.metadata.uid
    queue.parent_name = spec.parent_queue
    queue.priority = priority(spec.priority)
    queue.created = seconds(obj.metadata.creation_timestamp)
    cpu, memory, gpu = amounts.cpu, amounts.memory, amounts.gpu
    queue.deserved = (bound("cpu", cpu.quota), bound("memory", memory.quota), bound("gpu", gpu.quota))
    queue.limit = (bound("cpu", cpu.limit), bound("memory", memory.limit), bound("gpu", gpu.limit))
    queue.weight = (
        max(cpu.over_quota_weight, 0.0),
        max(memory.over_quota_weight, 0.0),
        max(gpu.over_quota_weight, 0.0),
    )
    queue.preempt_min_runtime = lasting(spec.preempt_min_runtime)
    queue.reclaim_min_runtime = lasting(spec.reclaim_min_runtime)


def link(queues: Iterable[Queue], *, full_hierarchy: bool) -> list[Queue]:
    """Set parents, children and paths; returns the queues that take part, parents before children.

    A queue on a deeper level than queues may have takes no part. Without the full hierarchy every leaf
    stands below one unlimited queue of our own. What is held without a queue has an account beside the
    others, which deserves nothing.
    """
    rows = list(queues)
    for queue in rows:
        queue.parent, queue.children, queue.path, queue.too_deep = None, [], (), False
    by_name = {queue.name: queue for queue in rows if queue.exists}
    lost = [queue for queue in rows if queue.name == NO_QUEUE and queue.jobs]
    for queue in lost:
        queue.path = (queue,)
    if not full_hierarchy:
        return [*_flatten(by_name), *lost]
    for queue in by_name.values():
        parent = by_name.get(queue.parent_name)
        if queue.parent_name and parent is not None:
            queue.parent = parent
            parent.children.append(queue)
    # Level by level from the top: whoever is in a circle, or below a queue that is missing, is never reached.
    ordered: list[Queue] = []
    front = [queue for queue in by_name.values() if not queue.parent_name]
    for _ in range(limits.QUEUE_DEPTH.most):
        last = sorted(front, key=lambda each: each.name)
        front = []
        for queue in last:
            queue.path = (queue, *(queue.parent.path if queue.parent else ()))
            ordered.append(queue)
            front.extend(queue.children)
    # Those above the ones that are too deep are leaves, and may have jobs.
    if front:
        for queue in last:
            queue.children = []
    while front:
        for queue in front:
            queue.too_deep = True
        front = [child for queue in front for child in queue.children]
    return [*ordered, *lost]


def _flatten(by_name: dict[str, Queue]) -> list[Queue]:
    inner = {queue.parent_name for queue in by_name.values()}
    unlimited = (UNLIMITED, UNLIMITED, UNLIMITED)
    top = Queue(
        name=TOP_QUEUE, row=0, exists=True, display_name=TOP_QUEUE, deserved=unlimited, limit=unlimited
    )
    top.path = (top,)
    leaves = sorted((q for q in by_name.values() if q.name not in inner), key=lambda each: each.name)
    for leaf in leaves:
        leaf.parent = top
        leaf.path = (leaf, top)
    top.children = leaves
    return [top, *leaves] if leaves else []
