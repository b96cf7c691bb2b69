"""KubeRay: a head and groups of workers; the cluster of a RayJob or RayService is a separate object."""

from __future__ import annotations

from kai.grouping.draft import GroupDraft, constraint, leaf
from kai.grouping.errors import InvalidWorkload
from kai.grouping.objects.documents import Document, Fields, template_annotation
from kai.grouping.workload import Rule, Workload, kinds
from kai.model import names
from kai.model.objects import SubGroup, TopologyConstraint
from kai.model.rules.minimums import pods_of_leaf

GROUP_LABEL = "ray.io/group"
PRIORITY_LABEL = "ray.io/priority-class-name"
HEAD = "headgroup"
_ACTIVE = ("status", "activeServiceStatus", "rayClusterName")
_PENDING = ("status", "pendingServiceStatus", "rayClusterName")


def cluster_named_by(*paths: tuple[str, ...]) -> Rule:
    """The rule for an owner that names its RayCluster at the first of ``paths`` that is present."""

    async def rule(workload: Workload) -> GroupDraft:
        return await _group(workload, await _cluster(workload, paths))

    return rule


async def group_ray_cluster(workload: Workload) -> GroupDraft:
    """The RayCluster is the owner itself."""
    return await _group(workload, workload.top)


async def _group(workload: Workload, cluster: Document) -> GroupDraft:
    """The pod may be of a group that just got its first worker, so that our copy does not have it."""
    draft = workload.draft()
    if PRIORITY_LABEL in workload.top.labels:
        draft.priority_class = workload.top.labels[PRIORITY_LABEL]
    group = workload.pod.labels.get(GROUP_LABEL, "")
    parts = _sub_groups(cluster)
    if not _has(parts, group):
        cluster = await workload.read(cluster.api_version, cluster.kind, cluster.name, fresh=True)
        parts = _sub_groups(cluster)
    draft.min_member = sum(map(pods_of_leaf, parts))
    existing = workload.cluster.pod_group(draft.namespace, draft.name)
    if existing is not None and not existing.spec.sub_groups:
        return draft  # made by a release before subgroups: stays flat
    draft.sub_groups = parts
    if _has(parts, group):
        draft.pod_sub_group = group
    else:
        draft.unlisted = True
        draft.notes.append(
            f'Pod {workload.pod.key}: label "{GROUP_LABEL}" names no group of {cluster.of}: {group!r}'
        )
    return draft


def _has(parts: tuple[SubGroup, ...], name: str) -> bool:
    return any(part.name == name for part in parts)


async def _cluster(workload: Workload, paths: tuple[tuple[str, ...], ...]) -> Document:
    """The RayCluster. The Ray operator fills in its name, perhaps after our copy of the owner was read."""
    owner = workload.top
    name = _cluster_name(owner, paths)
    if not name:
        owner = await workload.read(owner.api_version, owner.kind, owner.name, fresh=True)
        name = _cluster_name(owner, paths)
    if not name:
        fields = " or ".join(".".join(path) for path in paths)
        raise InvalidWorkload(f"{owner.of}: {fields} is not set yet; is the Ray operator running?")
    return await workload.read(owner.api_version, "RayCluster", name)


def _cluster_name(owner: Document, paths: tuple[tuple[str, ...], ...]) -> str:
    return next((name for name in (owner.text(*path) for path in paths) if name is not None), "")


def _sub_groups(cluster: Document) -> tuple[SubGroup, ...]:
    """The head, and each worker group that is not suspended and has workers."""
    parts = [leaf(HEAD, 1, topology=_topology(cluster.at("spec", "headGroupSpec", "template")))]
    for index, group in enumerate(cluster.parts("spec", "workerGroupSpecs")):
        replicas, minimum = _replicas(group)
        if replicas == 0 and minimum == 0:
            continue
        hosts = group.integer("numOfHosts")
        size = (1 if hosts is None else hosts) * (minimum if minimum > 0 else replicas)
        name = group.text("groupName") or f"worker-group-{index}"
        parts.append(leaf(name, size, topology=_topology(group.at("template"))))
    return tuple(parts)


def _replicas(group: Fields) -> tuple[int, int]:
    """Wanted and least replicas; a suspended group has none."""
    if group.boolean("suspend") or group.boolean("suspended"):
        return 0, 0
    replicas, minimum = group.integer("replicas") or 0, group.integer("minReplicas") or 0
    if minimum > replicas:
        raise group.invalid("minReplicas", problem=f"must be at most replicas ({replicas}), but is {minimum}")
    return replicas, minimum


def _topology(template: Fields) -> TopologyConstraint | None:
    keys = (names.TOPOLOGY, names.TOPOLOGY_REQUIRED, names.TOPOLOGY_PREFERRED)
    topology, required, preferred = (template_annotation(template, key) for key in keys)
    if not (required or preferred):
        return None
    if not topology:
        raise template.invalid(
            "metadata", "annotations", problem=f"ask for a topology level but not of which {names.TOPOLOGY}"
        )
    return constraint(topology, required, preferred)


_VERSIONS = ("ray.io/v1", "ray.io/v1alpha1")
_SHAPE = "one gang of head and least workers; subgroups headgroup and one for each worker group"

KINDS = (
    *kinds(_VERSIONS, ["RayCluster"], _SHAPE, group_ray_cluster),
    *kinds(_VERSIONS, ["RayJob"], f"{_SHAPE} of its cluster", cluster_named_by(("status", "rayClusterName"))),
    *kinds(_VERSIONS, ["RayService"], f"{_SHAPE} of its active cluster", cluster_named_by(_ACTIVE, _PENDING)),
)
