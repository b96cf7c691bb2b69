"""What becomes of one pod: left alone, or a member of a pod group. Pure but for what the cluster is asked."""

from __future__ import annotations

from dataclasses import dataclass

from kai.grouping import rules
from kai.grouping.cluster import Cluster
from kai.grouping.errors import GroupingError
from kai.grouping.objects.pods import Pod, pod_document
from kai.grouping.options import GroupingOptions
from kai.grouping.walk import owners_of
from kai.grouping.workload import Workload
from kai.grouping.workloads.pod import group_of_its_own
from kai.model import names
from kai.model.objects import PodGroup

EXTERNAL = "Detected pod with no owner but with podgroup annotation"


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """The pod is not ours to group, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Membership:
    """The group that the pod's workload wants, and the pod's leaf in it (empty if it has none).

    ``warnings`` become events although the pod is grouped; ``notes`` are only logged. ``walk_note`` says
    which owner could not be read. ``unlisted``: look again soon, something may just be written.
    """

    pod_group: PodGroup
    sub_group: str
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    walk_note: str = ""
    unlisted: bool = False


async def group_pod(
    pod: Pod, cluster: Cluster, options: GroupingOptions, *, adrift: bool = False
) -> LeftAlone | Membership:
    """Decide, without changing anything.

    A pod that is ``adrift`` runs without a group that exists: it is given one, whoever else was to do so.

    Raises:
        GroupingError: the pod should be grouped but cannot be; the message is for the user.
    """
    if pod.spec.scheduler_name != options.scheduler_name:
        return LeftAlone("another scheduler's pod")
    if not adrift and _skipped(pod.annotations.get(names.SKIP_POD_GROUPER)):
        return LeftAlone("skip annotation on the pod")
    if not adrift and _is_external(pod, cluster):
        return LeftAlone(EXTERNAL)
    try:
        owners, walk_note = await owners_of(pod, cluster)
    except GroupingError:
        if pod.metadata.deletion_timestamp is not None:
            return LeftAlone("being deleted, and so is its owner")
        raise
    for owner in owners:
        if not adrift and _skipped(owner.annotations.get(names.SKIP_POD_GROUPER)):
            return LeftAlone(f"skip annotation on {owner.of}")
    top = owners[-1] if owners else pod_document(pod)
    workload = Workload(
        pod=pod, top=top, owners=owners, cluster=cluster, options=options, exact_rule=rules.exact_rule
    )
    draft = await rules.group(workload)
    pool = options.node_pool_label_key
    if pool and pool in pod.labels:
        draft.labels.setdefault(pool, pod.labels[pool])
    return Membership(
        pod_group=draft.pod_group(),
        sub_group=draft.pod_sub_group,
        warnings=tuple(draft.warnings),
        notes=tuple(draft.notes),
        walk_note=walk_note,
        unlisted=draft.unlisted,
    )


def _is_external(pod: Pod, cluster: Cluster) -> bool:
    """Whether somebody else gave the pod its group.

    The one made for it alone may have been deleted, or lack the queue that its owner was told to name.
    """
    group = pod.annotations.get(names.POD_GROUP_ANNOTATION)
    if pod.metadata.owner_references or group is None:
        return False
    if group != group_of_its_own(pod):
        return True
    own = cluster.pod_group(pod.metadata.namespace, group)
    return own is not None and bool(own.spec.queue)


def _skipped(annotation: str | None) -> bool:
    return annotation == "true"
