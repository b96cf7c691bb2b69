"""Knative services: the pods of a revision are a gang of its least scale."""

from __future__ import annotations

from kai.grouping.default_rule import INFERENCE, group_name
from kai.grouping.draft import GroupDraft
from kai.grouping.errors import GroupingError, InvalidWorkload
from kai.grouping.objects.documents import Document
from kai.grouping.objects.numbers import int32
from kai.grouping.objects.pods import pod_document
from kai.grouping.workload import Kind, Workload
from kai.model import names

REVISION_LABEL = "serving.knative.dev/revision"
MIN_SCALE = "autoscaling.knative.dev/min-scale"


async def group_service(workload: Workload) -> GroupDraft:
    """A group for each revision, or for each pod where that is wanted or was done before."""
    pod = workload.pod
    name = pod.labels.get(REVISION_LABEL)
    if name is None:
        raise InvalidWorkload(f'Pod {pod.key}: label "{REVISION_LABEL}" is missing, which names its revision')
    revision = await workload.read("serving.knative.dev/v1", "Revision", name)
    draft = workload.under(revision).draft(fallback_class=INFERENCE)
    draft.preemptibility, draft.preemption_delay, draft.staleness_grace_period = "", None, None
    draft.topology = draft.required_level = draft.preferred_level = ""
    if not workload.options.knative_gang_schedule or await _pods_were_grouped_alone(workload, revision):
        owner = pod_document(pod)
        draft.name, draft.owner, draft.priority_class = group_name(owner), owner.reference, INFERENCE
        return draft
    scale = int32(revision.annotations.get(MIN_SCALE, "1"))
    draft.min_member = 1 if scale is None else scale
    return draft


async def _pods_were_grouped_alone(workload: Workload, revision: Document) -> bool:
    """What the revision's pods have already decides; one group alone is decided by whom it belongs to."""
    groups: set[str] = set()
    for pod in await workload.pods({REVISION_LABEL: revision.name}):
        group = pod.annotations.get(names.POD_GROUP_ANNOTATION)
        if group in groups:
            return False
        if group is not None:
            groups.add(group)
    if len(groups) != 1:
        return len(groups) > 1
    only = workload.cluster.pod_group(workload.pod.metadata.namespace, groups.pop())
    if only is None:
        return False
    owners = only.metadata.owner_references or []
    kind = owners[0].kind if owners else ""
    if kind not in ("Revision", "Pod"):
        raise GroupingError(
            f"PodGroup {only.key}: its owner must be {revision.of} or a pod, but is {kind or 'missing'}"
        )
    return kind == "Pod"


KINDS = (
    Kind(
        "serving.knative.dev/v1",
        "Service",
        "one gang for each revision, of its min-scale; priority class inference",
        group_service,
    ),
)
