"""RunaiJob: a group for each pod template of the job, told by the pod's name."""

from kai.grouping.draft import GroupDraft
from kai.grouping.errors import InvalidWorkload
from kai.grouping.workload import Kind, Workload


async def group_runai_job(workload: Workload) -> GroupDraft:
    """Named by the pod without its last segment; a group with the name of earlier releases is kept."""
    job, draft, pod_name = workload.top, workload.draft(), workload.pod.metadata.name
    if workload.options.search_legacy_pg:
        legacy = f"pg-{pod_name if _parallelism(workload) > 1 else job.name}-{job.uid}"
        if workload.cluster.pod_group(draft.namespace, legacy) is not None:
            draft.name = legacy
            return draft
    base = pod_name.rpartition("-")[0] if "-" in pod_name else pod_name
    draft.name = f"pg-{base}-{job.uid}"
    return draft


def _parallelism(workload: Workload) -> int:
    """Decides only which name an earlier release gave, so a wrong value counts as none."""
    try:
        return workload.top.integer("spec", "parallelism") or 0
    except InvalidWorkload:
        return 0


KINDS = (
    Kind(
        "run.ai/v1",
        "RunaiJob",
        "one group, named by its pods without their last segment, at least 1 pod",
        group_runai_job,
    ),
)
