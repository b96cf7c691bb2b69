"""Jobs and CronJobs of Kubernetes itself."""

from kai.grouping.draft import GroupDraft
from kai.grouping.errors import InvalidWorkload
from kai.grouping.objects.numbers import parse_int32
from kai.grouping.workload import Kind, Workload
from kai.model import names


async def group_job(workload: Workload) -> GroupDraft:
    """One group; how many pods it needs at once is said by an annotation on the Job.

    Groups of earlier releases were one per pod, ``pg-<pod>-<job uid>``; a pod that has one keeps it.
    """
    draft = workload.draft()
    legacy = f"pg-{workload.pod.metadata.name}-{workload.top.uid}"
    if (
        workload.options.search_legacy_pg
        and legacy != draft.name
        and workload.cluster.pod_group(draft.namespace, legacy) is not None
    ):
        draft.name = legacy
        return draft
    wanted = workload.top.annotations.get(names.BATCH_MIN_MEMBER)
    if wanted is not None:
        draft.min_member = parse_int32(
            wanted, of=workload.top.of, what=f'annotation "{names.BATCH_MIN_MEMBER}"'
        )
    return draft


async def group_cron_job(workload: Workload) -> GroupDraft:
    """Each run, a Job, is a group of its own."""
    for owner in workload.pod.metadata.owner_references or ():
        if owner.kind == "Job":
            job = await workload.read("batch/v1", "Job", owner.name)
            return workload.under(job).draft()
    raise InvalidWorkload(
        f"Pod {workload.pod.key}: metadata.ownerReferences name no Job, which pods of {workload.top.of} need"
    )


KINDS = (
    Kind("batch/v1", "Job", "one group, at least 1 pod or as annotation batch-min-member says", group_job),
    Kind("batch/v1", "CronJob", "one group for each Job, at least 1 pod", group_cron_job),
)
