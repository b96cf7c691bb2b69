"""What is wrong with how things are named and connected, which no room and no waiting will mend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kai.engine.framework.session import Session
from kai.engine.reasons.amounts import amount_text
from kai.model.decisions import Explanation, Reason
from kai.snapshot.rows import Job, Task


def blocks(job: Job) -> bool:
    """Whether a job is not even tried: its queue, its tree or its pods are not as they have to be.

    One that was set aside may fail wherever it is asked.
    """
    return job.aside is not None or bool(job.error) or not job.queue.leaf or not job.ready


def findings(session: Session, job: Job, tasks: Sequence[Task]) -> Iterator[Explanation]:
    """Names that nothing has, and amounts that no node offers."""
    name = job.facts.priority_class
    if name and name not in session.state.priority_classes:
        text = f"priority class {name!r} does not exist; the pod group counts as priority {job.priority}"
        yield Explanation(reason=str(Reason.PRIORITY_CLASS_DOES_NOT_EXIST), message=text)
    for text in dict.fromkeys(text for task in tasks for text in _of_pod(session, task)):
        yield Explanation(reason=str(Reason.POD_SCHEDULING_ERRORS), message=text)


def _of_pod(session: Session, task: Task) -> Iterator[str]:
    for key, value in task.cls.constraints.node_selector:
        if not session.static.labels.selector(((key, value),)).any():
            yield f"no node has the label {key}={value}"
    offered = session.nodes.allocatable
    for column, amount in task.cls.items:
        most = int(offered[:, column].max()) if len(offered) else 0
        if most >= amount:
            continue
        resources = session.state.resources
        for resource, each in resources.named_amounts(column, amount=amount, unoffered=task.cls.unoffered):
            if not most:
                yield f"no node offers {resource}"
                continue
            unit = resources.unit(resource)
            wanted, largest = (amount_text(column, every, name=resource, unit=unit) for every in (each, most))
            yield f"no node offers {wanted}; the largest has {largest}"
