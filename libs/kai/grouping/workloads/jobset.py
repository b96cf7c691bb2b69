"""JobSet: a tree of replicated jobs, their replicas, and the pods of each."""

from __future__ import annotations

from functools import lru_cache

from kai.grouping.default_rule import group_name
from kai.grouping.draft import GroupDraft, inner, leaf, leaf_constraint
from kai.grouping.errors import InvalidWorkload
from kai.grouping.objects.documents import Fields, template_annotation
from kai.grouping.objects.numbers import parse_int32
from kai.grouping.objects.pods import Pod
from kai.grouping.segments import check_count
from kai.grouping.workload import Kind, Workload
from kai.model import names
from kai.model.objects import SubGroup

REPLICATED_JOB_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX_LABEL = "jobset.sigs.k8s.io/job-index"
_MIN = f'annotation "{names.BATCH_MIN_MEMBER}"'


async def group_job_set(workload: Workload) -> GroupDraft:
    """A subgroup for each replicated job, with a leaf ``<job>-replica-<i>`` for each replica."""
    job_set, draft = workload.top, workload.draft()
    if not job_set.uid:
        raise job_set.invalid("metadata", "uid", problem="is missing")
    jobs = job_set.parts("spec", "replicatedJobs")
    if not jobs:
        raise job_set.invalid("spec", "replicatedJobs", problem="is empty; a JobSet needs at least one")
    if _has_flat_group(workload):
        return _flat(workload, draft)
    trees = [(job, tree) for job in jobs if (tree := _tree(job))]
    draft.sub_groups = tuple(part for _, tree in trees for part in tree)
    draft.min_member, draft.min_sub_group = None, _needed(workload, [job for job, _ in trees])
    draft.pod_sub_group = _leaf_of(workload.pod, draft.sub_groups)
    return draft


def _needed(workload: Workload, jobs: list[Fields]) -> int:
    """How many replicated jobs must be placed at once.

    Started in order, they come one by one. The pods of one that depends on others are made when those are
    ready or complete, which they never were if they waited for its pods.
    """
    job_set, count = workload.top, len(jobs)
    wanted = job_set.annotations.get(names.BATCH_MIN_MEMBER)
    if wanted is not None:
        return min(count, parse_int32(wanted, of=job_set.of, what=_MIN, at_least=1))
    if _in_order(workload):
        return 1
    return max(1, sum(not job.parts("dependsOn") for job in jobs))


def _in_order(workload: Workload) -> bool:
    return workload.top.text("spec", "startupPolicy", "startupPolicyOrder") == "InOrder"


def _tree(job: Fields) -> tuple[SubGroup, ...]:
    """The subgroups of a replicated job; none if it has no replicas."""
    name = job.needed("name")
    replicas, parallelism = job.integer("replicas"), job.integer("template", "spec", "parallelism")
    replicas = 1 if replicas is None else replicas
    if replicas < 0:
        raise job.invalid("replicas", problem=f"must not be negative, but is {replicas}")
    check_count(replicas, of=job.of, what=f"replicas of {name}", remedy="use fewer, with more pods each")
    template = job.at("template")
    wanted = template_annotation(template, names.BATCH_MIN_MEMBER)
    size = 1 if parallelism is None else parallelism
    if wanted:
        size = parse_int32(wanted, of=job.of, what=f"{template.path} {_MIN}", at_least=1)
    keys = (names.TOPOLOGY, names.TOPOLOGY_REQUIRED, names.TOPOLOGY_PREFERRED)
    topology, required, preferred = (template_annotation(template, key) for key in keys)
    return _leaves(name, replicas, size, topology, required, preferred) if replicas else ()


@lru_cache(maxsize=1024)
def _leaves(
    name: str, replicas: int, size: int, topology: str, required: str, preferred: str
) -> tuple[SubGroup, ...]:
    together = leaf_constraint(topology, required, preferred)
    leaves = (leaf(f"{name}-replica-{i}", size, parent=name, topology=together) for i in range(replicas))
    return (inner(name, replicas), *leaves)


def _label(pod: Pod, key: str) -> str:
    value = pod.labels.get(key)
    if not value:
        raise InvalidWorkload(f'Pod {pod.key}: label "{key}" is missing, which tells its part of the JobSet')
    return value


def _leaf_of(pod: Pod, sub_groups: tuple[SubGroup, ...]) -> str:
    name = f"{_label(pod, REPLICATED_JOB_LABEL)}-replica-{_label(pod, JOB_INDEX_LABEL)}"
    if not any(part.name == name for part in sub_groups):
        raise InvalidWorkload(
            f'Pod {pod.key}: labels "{REPLICATED_JOB_LABEL}" and "{JOB_INDEX_LABEL}" name {name},'
            " which the JobSet does not have"
        )
    return name


def _has_flat_group(workload: Workload) -> bool:
    """Whether a release before subgroups made a group for this JobSet; it is then kept as it is."""
    name, namespace = group_name(workload.top), workload.pod.metadata.namespace
    return any(
        not group.spec.sub_groups
        for group in workload.cluster.pod_groups_named_after(namespace, workload.top.uid)
        if group.metadata.name == name or group.metadata.name.startswith(f"{name}-")
    )


def _flat(workload: Workload, draft: GroupDraft) -> GroupDraft:
    job = _label(workload.pod, REPLICATED_JOB_LABEL)
    if _in_order(workload):
        draft.name = f"{draft.name}-{job}"
    wanted = workload.top.annotations.get(names.BATCH_MIN_MEMBER)
    if wanted is not None:
        draft.min_member = parse_int32(wanted, of=workload.top.of, what=_MIN)
    return draft


KINDS = (
    Kind(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "one group; a subgroup for each replicated job with a leaf of parallelism pods for each replica; "
        "started InOrder it needs one job at a time, with dependsOn those that wait for none",
        group_job_set,
    ),
)
