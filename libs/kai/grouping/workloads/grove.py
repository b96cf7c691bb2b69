"""Grove, and Dynamo above it: each PodGang is a group; the gang's own object says how it is made up."""

from __future__ import annotations

from kai.grouping.default_rule import PREEMPTIBILITIES, parse_period, queue_of
from kai.grouping.draft import GroupDraft, constraint, inner, leaf
from kai.grouping.errors import InvalidWorkload
from kai.grouping.objects.documents import Document, Fields
from kai.grouping.objects.pods import Pod
from kai.grouping.workload import Workload, kinds
from kai.model import names
from kai.model.objects import SubGroup, TopologyConstraint
from kai.model.rules.minimums import pods_of_leaf

POD_GANG_LABEL = "grove.io/podgang"
TOPOLOGY_NAME = "grove.io/topology-name"


async def group_pod_clique_set(workload: Workload) -> GroupDraft:
    """The PodGang that the pod names. It lists its pods later, so a pod may first be in no subgroup."""
    pod = workload.pod
    name = pod.labels.get(POD_GANG_LABEL)
    if name is None:
        raise InvalidWorkload(f'Pod {pod.key}: label "{POD_GANG_LABEL}" is missing, which names its PodGang')
    gang = await workload.read("scheduler.grove.io/v1alpha1", "PodGang", name)
    if not _leaf_of(gang, pod):
        gang = await workload.read("scheduler.grove.io/v1alpha1", "PodGang", name, fresh=True)
    draft = workload.under(gang).draft()
    topology = gang.annotations.get(TOPOLOGY_NAME, gang.annotations.get(names.TOPOLOGY, ""))
    whole = _pack(gang.at("spec"), topology)
    if whole:
        draft.topology = topology
        draft.required_level, draft.preferred_level = (
            whole.required_topology_level,
            whole.preferred_topology_level,
        )
    draft.priority_class = gang.text("spec", "priorityClassName") or draft.priority_class
    _inherit(draft, workload)
    draft.sub_groups = _sub_groups(gang, topology, pod.metadata.namespace)
    draft.min_member = sum(map(pods_of_leaf, draft.sub_groups))
    draft.pod_sub_group = _leaf_of(gang, pod)
    draft.unlisted = not draft.pod_sub_group
    return draft


def _inherit(draft: GroupDraft, workload: Workload) -> None:
    """Fill in what only the set says: Grove does not copy its labels and annotations to the gang."""
    top, labels, annotations = workload.top, draft.labels, draft.annotations
    for key, value in top.labels.items():
        labels.setdefault(key, value)
    for key, value in top.annotations.items():
        annotations.setdefault(key, value)
    if names.PRIORITY_CLASS_LABEL in labels:
        draft.priority_class = labels[names.PRIORITY_CLASS_LABEL]
    if names.PREEMPTIBILITY_LABEL in labels:
        wanted = labels[names.PREEMPTIBILITY_LABEL]
        if wanted not in PREEMPTIBILITIES:
            raise InvalidWorkload(
                f'{top.of}: label "{names.PREEMPTIBILITY_LABEL}" must be preemptible, non-preemptible'
                f" or semi-preemptible, but is {wanted!r}"
            )
        draft.preemptibility = wanted
    if names.PREEMPTION_DELAY in annotations:
        try:
            draft.preemption_delay = parse_period(annotations[names.PREEMPTION_DELAY], negative=False)
        except ValueError as error:
            draft.notes.append(f'{top.of}: annotation "{names.PREEMPTION_DELAY}" is ignored: {error}')
    draft.topology = draft.topology or annotations.get(names.TOPOLOGY, "")
    draft.required_level = draft.required_level or annotations.get(names.TOPOLOGY_REQUIRED, "")
    draft.preferred_level = draft.preferred_level or annotations.get(names.TOPOLOGY_PREFERRED, "")
    draft.queue = queue_of(labels, workload.pod, workload.options)


def _sub_groups(gang: Document, topology: str, namespace: str) -> tuple[SubGroup, ...]:
    """Groups of cliques with a common constraint, then the cliques."""
    parents: dict[str, str] = {}
    parts = []
    for config in gang.parts("spec", "topologyConstraintGroupConfigs"):
        name, members = config.needed("name"), config.texts("podGroupNames")
        if members:
            parents.update(dict.fromkeys(members, name))
            parts.append(inner(name, len(members), topology=_pack(config, topology)))
    for clique in gang.parts("spec", "podgroups"):
        name = clique.needed("name")
        size = clique.integer("minReplicas")
        if size is None or size <= 0:
            raise clique.invalid("minReplicas", problem=f"must be at least 1, but is {size or 0}")
        _check_references(clique, namespace)
        parts.append(leaf(name, size, parent=parents.get(name), topology=_pack(clique, topology)))
    return tuple(parts)


def _check_references(clique: Fields, namespace: str) -> None:
    if not clique.has("podReferences"):
        raise clique.invalid("podReferences", problem="is missing; it may be empty")
    for reference in clique.parts("podReferences"):
        reference.needed("name")
        if reference.needed("namespace") != namespace:
            raise reference.invalid("namespace", problem=f"must be the PodGang's own, {namespace}")


def _leaf_of(gang: Document, pod: Pod) -> str:
    for clique in gang.parts("spec", "podgroups"):
        if any(reference.text("name") == pod.metadata.name for reference in clique.parts("podReferences")):
            return clique.text("name") or ""
    return ""


def _pack(fields: Fields, topology: str) -> TopologyConstraint | None:
    pack = fields.at("topologyConstraint", "packConstraint")
    required, preferred = pack.text("required"), pack.text("preferred")
    if required is None and preferred is None:
        return None
    if not topology:
        raise pack.invalid(problem=f'needs a topology: set annotation "{TOPOLOGY_NAME}" on the PodGang')
    return constraint(topology, required or "", preferred or "")


KINDS = kinds(
    ["grove.io/v1alpha1"],
    ["PodCliqueSet", "PodGangSet"],
    "one gang for each PodGang, of its cliques' least replicas; a subgroup for each clique",
    group_pod_clique_set,
)
