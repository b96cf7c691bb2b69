"""Kinds that only wrap another workload: the owner below decides, and inherits from the wrapper."""

from __future__ import annotations

from dataclasses import replace

from kai.grouping.draft import GroupDraft
from kai.grouping.objects.documents import Document
from kai.grouping.objects.pods import pod_document
from kai.grouping.workload import ANY_VERSION, Kind, Workload, kinds
from kai.model import names


async def skip_top_owner(workload: Workload) -> GroupDraft:
    """Group as if the owner below were the top, with the labels and annotations that only the top has."""
    below = workload.owners[:-1]
    lower = below[-1] if below else pod_document(workload.pod)
    lower = _enriched(lower, workload)
    inherited = replace(workload, top=lower, owners=(*below[:-1], lower) if below else ())
    rule = workload.exact_rule(lower)
    return await rule(inherited) if rule else inherited.draft(all_owners=True)


def _enriched(lower: Document, workload: Workload) -> Document:
    """First the defaults of the skipped kind, then what the skipped owner itself says."""
    skipped, labels = workload.top, dict(lower.labels)
    default = workload.cluster.type_defaults().of(skipped)
    if default.priority_name and workload.cluster.has_priority_class(default.priority_name):
        labels.setdefault(names.PRIORITY_CLASS_LABEL, default.priority_name)
    if default.preemptibility:
        labels.setdefault(names.PREEMPTIBILITY_LABEL, default.preemptibility.lower())
    return replace(
        lower,
        labels=dict(skipped.labels) | labels,
        annotations=dict(skipped.annotations) | dict(lower.annotations),
    )


_SKIPPED = "as the owner below it, which inherits its labels and annotations"

KINDS = (
    Kind("argoproj.io/v1alpha1", "Workflow", _SKIPPED, skip_top_owner),
    Kind("trainer.kubeflow.org/v1alpha1", "TrainJob", _SKIPPED, skip_top_owner),
    Kind(f"nvidia.com/{ANY_VERSION}", "DynamoGraphDeployment", _SKIPPED, skip_top_owner),
    *kinds(
        [f"run.ai/{ANY_VERSION}"],
        [
            "TrainingWorkload",
            "InteractiveWorkload",
            "DistributedWorkload",
            "InferenceWorkload",
            "DistributedInferenceWorkload",
        ],
        _SKIPPED,
        skip_top_owner,
    ),
)
