"""Warnings about pods, and about what makes pods: Deployments, Jobs and their like."""

from __future__ import annotations

from collections.abc import Iterator

from kai.advice import membership, metadata, sizes
from kai.advice.facts import Facts
from kai.advice.finding import Code, Finding
from kai.advice.spelling import is_scheduler_meant
from kai.advice.templates import KINDS, Workload, containers, limits
from kai.model import names, sharing
from kai.model.faults import OutOfBounds
from kai.model.objects import ObjectMeta, Pod
from kai.model.rules.gpu_shares import GPU_CENTI, asked_share
from kai.model.rules.gpus import is_mig

#: Annotations that say what a pod group is to be.
_OF_GROUPS = (
    names.PREEMPTION_DELAY,
    names.STALENESS_GRACE_PERIOD,
    names.TOPOLOGY,
    names.TOPOLOGY_REQUIRED,
    names.TOPOLOGY_PREFERRED,
)
_DEFAULT_SCHEDULERS = ("", "default-scheduler")


def findings(workload: Workload, facts: Facts) -> Iterator[Finding]:
    """All that surely is a mistake; of workloads of other schedulers only that they may be meant for ours."""
    scheduler = workload.spec.scheduler_name
    if scheduler != facts.scheduler_name:
        yield from _scheduler(workload, facts)
        return
    for meta in _metadata(workload):
        yield from metadata.findings(
            meta.labels or {}, meta.annotations or {}, queue_label_key=facts.queue_label_key
        )
    if workload.kind in KINDS:
        yield from _misplaced(workload)
        yield from _not_passed_on(workload, facts.queue_label_key)
    yield from _parts_of_gpus(workload.pod)
    owner, pod = workload.grouped_by.labels or {}, workload.pod.labels
    yield from membership.queue_of_workload(owner, pod, facts)
    yield from _priority(workload, facts)
    yield from sizes.findings(workload, facts)


def _metadata(workload: Workload) -> tuple[ObjectMeta, ...]:
    if workload.kind == "Pod":
        return (workload.metadata,)
    return (workload.metadata, *workload.owners, workload.pod.metadata)


def _scheduler(workload: Workload, facts: Facts) -> Iterator[Finding]:
    name, ours = workload.spec.scheduler_name, facts.scheduler_name
    if is_scheduler_meant(name, ours):
        yield Finding(
            Code.MISSPELT_SCHEDULER, f'schedulerName "{name}" is not known here; did you mean "{ours}"?'
        )
    elif name in _DEFAULT_SCHEDULERS and any(
        facts.queue_label_key in (meta.labels or {}) for meta in _metadata(workload)
    ):
        yield Finding(
            Code.OTHER_SCHEDULER,
            f"label {facts.queue_label_key} has no effect: its schedulerName is not {ours}",
        )


def _misplaced(workload: Workload) -> Iterator[Finding]:
    """What counts only on a Job, or only on pods."""
    key = names.BATCH_MIN_MEMBER
    if workload.kind in ("Pod", "Job"):
        if key in workload.pod.annotations:
            text = f"annotation {key} is ignored on pods; set it on the Job itself"
            yield Finding(Code.MISPLACED_KEY, text)
    elif any(key in (meta.annotations or {}) for meta in _metadata(workload)):
        ignored = f"annotation {key} is ignored on a {workload.kind} and what it makes"
        yield Finding(Code.MISPLACED_KEY, f"{ignored}, of which one pod is enough; create a Job for a gang")
    if workload.kind == "Pod":
        return
    told, passed_on = workload.metadata.annotations or {}, workload.pod.annotations
    for key in (names.GPU_FRACTION, names.GPU_MEMORY, names.GPU_FRACTION_NUM_DEVICES):
        if key in told and key not in passed_on:
            where = "spec.template.metadata" if workload.kind != "CronJob" else "the pod template"
            yield Finding(
                Code.MISPLACED_KEY, f"annotation {key} is ignored on a {workload.kind}; set it in {where}"
            )


def _not_passed_on(workload: Workload, queue_label_key: str) -> Iterator[Finding]:
    """What stands above the object that its pods are grouped by, where another value or none counts."""
    above, counts, pod = workload.metadata, workload.grouped_by, workload.pod
    if counts is above:
        return
    where = "spec.jobTemplate.metadata" if workload.kind == "CronJob" else "spec.template.metadata"
    labels = (queue_label_key, names.PRIORITY_CLASS_LABEL, names.PREEMPTIBILITY_LABEL)
    for what, keys, said, counted in (
        ("label", labels, above.labels, pod.labels | (counts.labels or {})),
        ("annotation", _OF_GROUPS, above.annotations, pod.annotations | (counts.annotations or {})),
    ):
        for key in keys:
            if key in (said or {}) and counted.get(key) != (said or {})[key]:
                yield Finding(
                    Code.MISPLACED_KEY, f"{what} {key} is ignored on a {workload.kind}; set it in {where}"
                )


def _parts_of_gpus(pod: Pod) -> Iterator[Finding]:
    shares = sharing.asks_for_fraction(pod)
    if names.GPU_FRACTION_CONTAINER in pod.annotations and not shares:
        yield Finding(
            Code.NO_EFFECT,
            f"annotation {names.GPU_FRACTION_CONTAINER} has no effect "
            f"without {names.GPU_FRACTION} or {names.GPU_MEMORY}",
        )
    text = pod.annotations.get(names.GPU_FRACTION)
    if text is not None and (counted := _rounded(text)):
        yield Finding(
            Code.ROUNDED_FRACTION,
            f"annotation {names.GPU_FRACTION} {text} counts as {counted}: parts of a GPU have two decimals",
        )
    if shares:
        for container in containers(pod.spec):
            for resource in limits(container):
                if is_mig(resource) or resource == names.AMD_GPU:
                    yield Finding(
                        Code.CHARGED_TWICE,
                        f'container "{container.name}" also asks for {resource}; both are charged',
                    )


def _rounded(text: str) -> str:
    """What a portion counts as, where that is something else; empty for what is refused anyway."""
    try:
        share = asked_share({names.GPU_FRACTION: text})
    except OutOfBounds:
        return ""
    if share is None or share.portion * GPU_CENTI == share.portion_centi:
        return ""
    return f"{share.portion_centi / GPU_CENTI:.2f}"


def _priority(workload: Workload, facts: Facts) -> Iterator[Finding]:
    key = names.PRIORITY_CLASS_LABEL
    label = f"priority class of label {key}"
    said = {workload.pod.labels.get(key, ""), *((m.labels or {}).get(key, "") for m in _metadata(workload))}
    for name in sorted(said):
        yield from membership.priority_findings(label, name, facts.priority_classes)
    # The API server itself looks after the field of a pod, but not of one that is yet to be made.
    if workload.kind != "Pod":
        name = workload.spec.priority_class_name
        yield from membership.priority_findings(
            "spec.priorityClassName of its pods", name, facts.priority_classes, effect="they will be refused"
        )
