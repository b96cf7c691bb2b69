"""The queue and the priority class that a workload names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kai.advice.facts import Facts
from kai.advice.finding import Code, Finding, Reference
from kai.advice.spelling import nearest
from kai.model import names
from kai.model.queue_labels import queue_named


def queue_of_workload(
    owner_labels: Mapping[str, str], pod_labels: Mapping[str, str], facts: Facts
) -> Iterator[Finding]:
    """What is wrong with the queue that labels name, or that stands in for one."""
    key = facts.queue_label_key
    said = key in owner_labels or key in pod_labels
    queue = queue_named(
        owner_labels, pod_labels, queue_label_key=key, node_pool_label_key=facts.node_pool_label_key
    )
    if said and pod_labels.get(key, queue) != queue:
        ignored = f'label {key} "{pod_labels[key]}" of its pods is ignored'
        yield Finding(Code.IGNORED_VALUE, f'{ignored}, its own counts: "{queue}"; name one queue')
    if not queue:
        yield Finding(Code.NO_QUEUE, f"label {key} is empty, so nothing is scheduled; name a leaf queue")
    elif said or queue != names.DEFAULT_QUEUE:
        yield from queue_findings(queue, facts)
    elif facts.queues is not None and queue not in facts.queues:
        yield Finding(
            Code.NO_QUEUE,
            f"it has no label {key}, and there is no {names.DEFAULT_QUEUE} to stand in; name a leaf queue",
            Reference("Queue", queue),
        )


def queue_findings(queue: str, facts: Facts) -> Iterator[Finding]:
    """What is wrong with a queue that is named."""
    if facts.queues is None:
        return
    if queue not in facts.queues:
        text = f'queue "{queue}" does not exist{_instead(queue, facts.queues)}; nothing of it is scheduled'
        yield Finding(Code.UNKNOWN_QUEUE, text, Reference("Queue", queue))
        return
    below = sorted(name for name, each in facts.queues.items() if each.spec.parent_queue == queue)
    if below:
        shown = ", ".join(below[:3]) + (" …" if len(below) > 3 else "")
        text = f'queue "{queue}" has queues below it ({shown}), and work runs in leaf queues only; name one'
        yield Finding(Code.QUEUE_NOT_LEAF, text)


def priority_findings(
    what: str, name: str, known: Collection[str] | None, *, effect: str = "it is ignored"
) -> Iterator[Finding]:
    """A priority class that does not exist; ``what`` says where it is named."""
    if name and known is not None and name not in known:
        text = f'{what} "{name}" does not exist{_instead(name, known)}; {effect}'
        yield Finding(Code.UNKNOWN_PRIORITY_CLASS, text, Reference("PriorityClass", name))


def _instead(name: str, known: Collection[str]) -> str:
    meant = nearest(name, known) if len(known) <= 2000 else ""
    return f' (did you mean "{meant}"?)' if meant else ""
