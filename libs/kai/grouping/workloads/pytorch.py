"""PyTorchJob: a gang of a master and workers, these perhaps in segments that belong close together."""

from __future__ import annotations

from functools import lru_cache

from kai.grouping.draft import GroupDraft, inner, leaf, leaf_constraint
from kai.grouping.errors import InvalidWorkload
from kai.grouping.objects.documents import Document, Fields, template_annotation
from kai.grouping.objects.numbers import parse_int32
from kai.grouping.objects.pods import Pod
from kai.grouping.segments import check_count, segment_topology
from kai.grouping.workload import Kind, Workload
from kai.grouping.workloads.kubeflow import gang_size
from kai.model import names
from kai.model.objects import SubGroup, TopologyConstraint

REPLICA_TYPE_LABEL = "training.kubeflow.org/replica-type"
REPLICA_INDEX_LABEL = "training.kubeflow.org/replica-index"
_SIZE = f'annotation "{names.SEGMENT_SIZE}"'


async def group_pytorch_job(workload: Workload) -> GroupDraft:
    """Subgroups ``master`` and ``worker``; with a segment size ``worker`` has leaves ``worker-<i>``.

    The pod may be of a segment that was just added, so that our copy of the job does not have it.
    """
    job = workload.top
    draft = _group(workload, job)
    if draft.unlisted:
        draft = _group(workload, await workload.read(job.api_version, job.kind, job.name, fresh=True))
    return draft


def _group(workload: Workload, job: Document) -> GroupDraft:
    pod, draft = workload.pod, workload.draft()
    draft.min_member = _size(job, draft)
    specs = job.at("spec", "pytorchReplicaSpecs")
    if not job.has("spec", "pytorchReplicaSpecs"):
        raise specs.invalid(problem="is missing; give it a role Worker or Master")
    masters = specs.integer("Master", "replicas") or 0
    if masters:
        draft.sub_groups = (leaf("master", masters),)
        if pod.labels.get(REPLICA_TYPE_LABEL) == "master":
            draft.pod_sub_group = "master"
    if specs.has("Worker"):
        workers, member_of = _workers(workload, specs.at("Worker"), max(0, draft.min_member - masters))
        draft.sub_groups += workers
        draft.pod_sub_group = draft.pod_sub_group or member_of
        draft.unlisted = pod.labels.get(REPLICA_TYPE_LABEL) == "worker" and not member_of
    return draft


def _size(job: Document, draft: GroupDraft) -> int:
    """Replicas, but rather the elastic minimum, but rather the scheduling policy's."""
    size = gang_size(job, "pytorchReplicaSpecs")
    if job.at("spec").has("runPolicy", "schedulingPolicy", "minAvailable"):
        return size
    try:
        elastic = job.at("spec").integer("elasticPolicy", "minReplicas")
    except InvalidWorkload as error:
        draft.notes.append(f"{error}; ignored")
        return size
    return size if elastic is None else elastic


def _workers(workload: Workload, worker: Fields, needed: int) -> tuple[tuple[SubGroup, ...], str]:
    """The subgroups of the workers, and the pod's own if it is a worker."""
    pod, template = workload.pod, worker.at("template")
    is_worker = pod.labels.get(REPLICA_TYPE_LABEL) == "worker"
    replicas = worker.integer("replicas")
    replicas = 1 if replicas is None else replicas
    size = _segment_size(pod, template)
    count = -(-replicas // size) if size else 0
    if count <= 0:
        return (leaf("worker", needed),), "worker" if is_worker else ""
    check_count(count, of=workload.top.of)
    index = _replica_index(pod) // size if is_worker else count
    topology = leaf_constraint(*segment_topology(pod, template, workload.top))
    key = topology and (
        topology.topology,
        topology.required_topology_level,
        topology.preferred_topology_level,
    )
    return _segments(replicas, size, needed, key), f"worker-{index}" if index < count else ""


@lru_cache(maxsize=256)
def _segments(
    replicas: int, size: int, needed: int, topology: tuple[str, str, str] | None
) -> tuple[SubGroup, ...]:
    """Segments beyond the ones that ``needed`` workers fill are elastic."""
    together: TopologyConstraint | None = leaf_constraint(*topology) if topology else None
    count, mandatory = -(-replicas // size), -(-needed // size)
    sizes = [min(size, replicas - i * size) if i < mandatory else 0 for i in range(count)]
    leaves = (leaf(f"worker-{i}", n, parent="worker", topology=together) for i, n in enumerate(sizes))
    return (inner("worker", count), *leaves)


def _segment_size(pod: Pod, template: Fields) -> int:
    """0 if there are no segments. The pod's own annotation counts first."""
    of_pod = pod.annotations.get(names.SEGMENT_SIZE)
    if of_pod:
        return parse_int32(of_pod, of=f"Pod {pod.key}", what=_SIZE, at_least=1)
    of_template = template_annotation(template, names.SEGMENT_SIZE)
    if not of_template:
        return 0
    return parse_int32(of_template, of=template.of, what=f"{template.path} {_SIZE}", at_least=1)


def _replica_index(pod: Pod) -> int:
    label = pod.labels.get(REPLICA_INDEX_LABEL)
    if label is None:
        raise InvalidWorkload(f'Pod {pod.key}: label "{REPLICA_INDEX_LABEL}" is missing, which segments need')
    return parse_int32(label, of=f"Pod {pod.key}", what=f'label "{REPLICA_INDEX_LABEL}"', at_least=0)


KINDS = (
    Kind(
        "kubeflow.org/v1",
        "PyTorchJob",
        "as other Kubeflow jobs, or elasticPolicy.minReplicas; subgroups master and worker, the worker in "
        "segments where its template is annotated segment-size",
        group_pytorch_job,
    ),
)
