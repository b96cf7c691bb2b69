"""The pod group that a rule wants, while it is being put together."""

from __future__ import annotations

from dataclasses import dataclass, field

from kai.model.objects import ObjectMeta, OwnerReference, PodGroup, PodGroupSpec, SubGroup, TopologyConstraint


@dataclass(slots=True)
class GroupDraft:
    """What a rule says about one pod: its group, and which subgroup (leaf) it belongs to.

    Exactly one of ``min_member`` and ``min_sub_group`` is set. ``warnings`` become events on the pod,
    ``notes`` are logged: labels and annotations that were ignored because they make no sense.
    """

    namespace: str
    name: str
    owner: OwnerReference
    labels: dict[str, str]
    annotations: dict[str, str]
    queue: str
    priority_class: str
    preemptibility: str = ""
    preemption_delay: str | None = None
    staleness_grace_period: str | None = None
    topology: str = ""
    required_level: str = ""
    preferred_level: str = ""
    min_member: int | None = 1
    min_sub_group: int | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    pod_sub_group: str = ""
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: What says where the pod belongs does not name it yet, as far as we have read.
    unlisted: bool = False

    def pod_group(self) -> PodGroup:
        """The object to be created; labels and annotations are its own copies."""
        return PodGroup(
            metadata=ObjectMeta(
                name=self.name,
                namespace=self.namespace,
                labels=dict(self.labels) or None,
                annotations=dict(self.annotations) or None,
                owner_references=[self.owner],
            ),
            spec=PodGroupSpec(
                min_member=self.min_member,
                min_sub_group=self.min_sub_group,
                queue=self.queue,
                priority_class_name=self.priority_class,
                preemptibility=self.preemptibility,
                topology_constraint=constraint(self.topology, self.required_level, self.preferred_level),
                sub_groups=list(self.sub_groups),
                preemption_delay=self.preemption_delay,
                staleness_grace_period=self.staleness_grace_period,
            ),
        )


def constraint(topology: str, required: str, preferred: str) -> TopologyConstraint | None:
    """The constraint, or ``None`` if nothing is said."""
    if not (topology or required or preferred):
        return None
    return TopologyConstraint(
        topology=topology, required_topology_level=required, preferred_topology_level=preferred
    )


def leaf_constraint(topology: str, required: str, preferred: str) -> TopologyConstraint | None:
    """A constraint of a subgroup, which counts only with a topology and at least one level."""
    return constraint(topology, required, preferred) if topology and (required or preferred) else None


def leaf(
    name: str, min_member: int, *, parent: str | None = None, topology: TopologyConstraint | None = None
) -> SubGroup:
    """A subgroup that holds pods."""
    return SubGroup(name=name, min_member=min_member, parent=parent, topology_constraint=topology)


def inner(name: str, min_sub_group: int, *, topology: TopologyConstraint | None = None) -> SubGroup:
    """A subgroup that holds subgroups."""
    return SubGroup(name=name, min_sub_group=min_sub_group, topology_constraint=topology)
