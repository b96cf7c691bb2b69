"""LeaderWorkerSet: each replica is a gang of a leader and its workers, perhaps in segments."""

from __future__ import annotations

from functools import lru_cache

from kai.grouping.draft import GroupDraft, inner, leaf, leaf_constraint
from kai.grouping.errors import InvalidWorkload
from kai.grouping.objects.documents import Document, Fields
from kai.grouping.objects.numbers import int32, parse_int32
from kai.grouping.objects.pods import Pod
from kai.grouping.segments import check_count, check_size, segment_topology
from kai.grouping.workload import Kind, Workload
from kai.model import names
from kai.model.objects import SubGroup, TopologyConstraint

NAME_LABEL = "leaderworkerset.sigs.k8s.io/name"
GROUP_INDEX_LABEL = "leaderworkerset.sigs.k8s.io/group-index"
WORKER_INDEX_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"
SIZE_ANNOTATION = "leaderworkerset.sigs.k8s.io/size"
LEADER_CREATED, LEADER_READY = "LeaderCreated", "LeaderReady"
LEADER_WORKER, LEADER_EXCLUDED = "LeaderWorker", "LeaderExcluded"
_SIZE = f'annotation "{names.SEGMENT_SIZE}"'


async def group_leader_worker_set(workload: Workload) -> GroupDraft:
    """Group ``…-group-<index>``; subgroups ``leader`` and ``workers``, or segments, the first with these."""
    lws, pod, draft = workload.top, workload.pod, workload.draft()
    template = lws.at("spec", "leaderWorkerTemplate")
    worker = _worker_index(pod)
    policy = lws.text("spec", "startupPolicy")
    policy = LEADER_CREATED if policy is None else policy
    index = int32(pod.labels.get(GROUP_INDEX_LABEL, ""))
    if index is not None:
        draft.name = f"{draft.name}-group-{index}"
    leader_alone = policy == LEADER_READY and worker == 0 and not await _has_had_workers(workload, draft)
    draft.min_member = size = _size(template, policy, pod, leader_alone=leader_alone)
    segment = 0 if policy == LEADER_READY and size == 1 else _segment_size(lws, template, size)
    if segment:
        draft.sub_groups, draft.pod_sub_group = _segmented(workload, template, size, segment, worker)
    else:
        draft.sub_groups, draft.pod_sub_group = _flat(size, worker)
    return draft


def _size(template: Fields, policy: str, pod: Pod, *, leader_alone: bool) -> int:
    """How many pods are needed: with ``LeaderReady`` only the leader, until there is a worker."""
    size = template.integer("size")
    if size is None or size <= 0:
        raise template.invalid(
            "size", problem="is missing" if size is None else f"must be at least 1, but is {size}"
        )
    if policy == LEADER_CREATED:
        return size
    if policy != LEADER_READY:
        lws = Fields(template.of, "spec", {})
        raise lws.invalid(
            "startupPolicy", problem=f"must be {LEADER_CREATED} or {LEADER_READY}, but is {policy!r}"
        )
    if leader_alone:
        return 1
    of_pod = int32(pod.annotations.get(SIZE_ANNOTATION, ""))
    return size if of_pod is None else of_pod


async def _has_had_workers(workload: Workload, draft: GroupDraft) -> bool:
    """Whether this leader has workers, or had: then the group has grown, and still needs those it lost.

    They are made when the leader is ready, which may take minutes from when it has a node: meanwhile a group
    that asked for them would be given up as one that lost them.
    """
    pod = workload.pod
    if not pod.spec.node_name:
        return False
    group = workload.cluster.pod_group(draft.namespace, draft.name)
    if group is not None and any(part.name != "leader" for part in group.spec.sub_groups or ()):
        return True
    labels = {key: pod.labels.get(key, "") for key in (NAME_LABEL, GROUP_INDEX_LABEL)}
    return any(
        each.labels.get(WORKER_INDEX_LABEL) != "0" and each.metadata.deletion_timestamp is None
        for each in await workload.pods(labels)
    )


def _worker_index(pod: Pod) -> int | None:
    label = pod.labels.get(WORKER_INDEX_LABEL)
    if label is None:
        return None
    return parse_int32(label, of=f"Pod {pod.key}", what=f'label "{WORKER_INDEX_LABEL}"', at_least=0)


def _flat(size: int, worker: int | None) -> tuple[tuple[SubGroup, ...], str]:
    if size <= 1:
        return (leaf("leader", 1),), "leader" if worker == 0 else ""
    return (leaf("leader", 1), leaf("workers", size - 1)), "leader" if worker == 0 else "workers"


def _segment_size(lws: Document, template: Fields, size: int) -> int:
    """0 if there are no segments."""
    segment = template.integer("subGroupPolicy", "subGroupSize")
    if segment is None and names.SEGMENT_SIZE in lws.annotations:
        segment = parse_int32(lws.annotations[names.SEGMENT_SIZE], of=lws.of, what=_SIZE)
    if segment is None:
        of_template = template.at("workerTemplate").text("metadata", "annotations", names.SEGMENT_SIZE)
        if of_template is not None:
            segment = parse_int32(of_template, of=lws.of, what=f"{template.path}.workerTemplate {_SIZE}")
    if segment is None:
        return 0
    if not 1 < segment <= size:
        raise InvalidWorkload(
            f"{lws.of}: the segment size must be greater than 1 and at most the {size} pods of the group,"
            f" but is {segment}"
        )
    return segment


def _segmented(
    workload: Workload, template: Fields, size: int, segment: int, worker: int | None
) -> tuple[tuple[SubGroup, ...], str]:
    lws, pod = workload.top, workload.pod
    policy = template.text("subGroupPolicy", "subGroupPolicyType") or LEADER_WORKER
    check_size(size, of=lws.of)
    check_count(_segment_of(size - 1, size, segment) + 1, of=lws.of)
    if worker is None:
        raise InvalidWorkload(f'Pod {pod.key}: label "{WORKER_INDEX_LABEL}" is missing, which segments need')
    if worker >= size:
        raise InvalidWorkload(
            f'Pod {pod.key}: label "{WORKER_INDEX_LABEL}" must be less than the {size} pods of the group,'
            f" but is {worker}"
        )
    if policy not in (LEADER_WORKER, LEADER_EXCLUDED):
        raise template.invalid(
            "subGroupPolicy",
            "subGroupPolicyType",
            problem=f"must be {LEADER_WORKER} or {LEADER_EXCLUDED}, but is {policy!r}",
        )
    if policy == LEADER_EXCLUDED and (size - 1) % segment:
        raise InvalidWorkload(
            f"{lws.of}: with {LEADER_EXCLUDED} the {size - 1} workers must fill segments of {segment}"
        )
    topology = (
        segment_topology(pod, template.at("workerTemplate"), lws)
        if template.has("workerTemplate")
        else ("",) * 3
    )
    parts = _segments(size, segment, policy == LEADER_EXCLUDED, *topology)
    if worker == 0:
        return parts, "leader"
    index = _segment_of(worker, size, segment)
    return parts, "workers" if index == 0 and policy == LEADER_WORKER else f"segment-{index}"


def _segment_of(worker: int, size: int, segment: int) -> int:
    """The segment of a worker. Where workers alone fill all segments, the leader is one more in the first."""
    if worker == 0:
        return 0
    return (worker - 1) // segment if (size - 1) % segment == 0 else worker // segment


@lru_cache(maxsize=256)
def _segments(
    size: int, segment: int, leader_excluded: bool, topology: str, required: str, preferred: str
) -> tuple[SubGroup, ...]:
    together: TopologyConstraint | None = leaf_constraint(topology, required, preferred)
    count = _segment_of(size - 1, size, segment) + 1
    workers = [0] * count
    for worker in range(1, size):
        workers[_segment_of(worker, size, segment)] += 1
    rest = tuple(leaf(f"segment-{i}", n, topology=together) for i, n in enumerate(workers))
    if leader_excluded:
        return (leaf("leader", 1), *rest)
    return (
        inner("segment-0", 2, topology=together),
        *rest[1:],
        leaf("leader", 1, parent="segment-0"),
        leaf("workers", workers[0], parent="segment-0"),
    )


KINDS = (
    Kind(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "one gang for each replica (LeaderReady: the leader alone until there is a worker); subgroups leader "
        "and workers, or segments by subGroupPolicy or annotation segment-size",
        group_leader_worker_set,
    ),
)
