"""What a PodGroup object says, as a tree of pod sets."""

from __future__ import annotations

from msgspec.structs import replace

from kai.model import names
from kai.model.ids import PodGroupKey
from kai.model.objects import PodGroup, SubGroup, TopologyConstraint
from kai.model.rules import minimums
from kai.snapshot.group_order import GroupOrder
from kai.snapshot.rows import (
    DEFAULT_POD_SET,
    NO_TIMES,
    GroupTimes,
    Job,
    JobFacts,
    PodSet,
    Queue,
    Standing,
    SubGroupSet,
)
from kai.snapshot.times import lasting, seconds


def facts(group: PodGroup, *, pool_name: str) -> JobFacts:
    """What rows depend on; ``pool_name`` is what conditions call the node pool that is scheduled here."""
    spec = group.spec
    conditions = group.status.scheduling_conditions if group.status else None
    return JobFacts(
        queue=spec.queue,
        priority_class=spec.priority_class_name,
        preemptibility=spec.preemptibility,
        mark_unschedulable=spec.mark_unschedulable is not False,
        preemption_delay=(lasting(delay, default=0.0) or 0.0) if (delay := spec.preemption_delay) else 0.0,
        staleness_grace=lasting(grace) if (grace := spec.staleness_grace_period) else None,
        attempted=bool(spec.scheduling_backoff == 1 and conditions and conditions[-1].node_pool == pool_name),
        conditions=bool(conditions),
        times=times(group.annotations),
        shape=shape(group),
    )


def shape(group: PodGroup) -> tuple[object, ...]:
    """What the tree of a group is made of, and who it is."""
    meta, spec = group.metadata, group.spec
    return (
        spec.min_member,
        spec.min_sub_group,
        spec.topology_constraint,
        spec.sub_groups,
        meta.creation_timestamp,
        meta.uid,
    )


def times(annotations: dict[str, str]) -> GroupTimes:
    """What annotations say of when something happened to a group."""
    if not annotations:
        return NO_TIMES
    said = annotations.get
    return GroupTimes(
        stale=said(names.STALE_TIMESTAMP),
        start=said(names.LAST_START_TIMESTAMP),
        eviction=said(names.LAST_EVICTION_TIMESTAMP),
    )


def tree(group: PodGroup) -> tuple[SubGroupSet, dict[str, PodSet], str]:
    """The tree of a pod group, its leaves by name, and what is wrong with it (empty if nothing).

    Parents are found by their names in any case of letters. What cannot be a tree is one pod set that needs
    one pod, so that there is something to count its pods in.
    """
    spec = group.spec
    root = SubGroupSet(
        name="", constraint=constraint(spec.topology_constraint), min_sub_group=spec.min_sub_group
    )
    leaves: dict[str, PodSet] = {}
    if not spec.sub_groups:
        leaf = PodSet(name=DEFAULT_POD_SET, min_member=minimums.pods_of_group(spec), parent=root)
        root.members.append(leaf)
        root.min_sub_group = None
        return root, {leaf.name: leaf}, ""
    error = _problem(spec.sub_groups)
    if error:
        leaf = PodSet(name=DEFAULT_POD_SET, min_member=1, parent=root)
        root.members.append(leaf)
        return root, {leaf.name: leaf}, error
    inner_names = minimums.children(spec.sub_groups)
    sets: dict[str, SubGroupSet] = {"": root}
    for sub in spec.sub_groups:
        if sub.name.lower() in inner_names:
            sets[sub.name.lower()] = SubGroupSet(
                name=sub.name, constraint=constraint(sub.topology_constraint), min_sub_group=sub.min_sub_group
            )
    for sub in spec.sub_groups:
        parent = sets[minimums.parent_of(sub)]
        inner = sets.get(sub.name.lower())
        if inner is not None:
            inner.parent = parent
            parent.members.append(inner)
        else:
            leaf = PodSet(
                name=sub.name,
                min_member=minimums.pods_of_leaf(sub),
                constraint=constraint(sub.topology_constraint),
                parent=parent,
            )
            parent.members.append(leaf)
            leaves[sub.name] = leaf
    return root, leaves, ""


def row(group: PodGroup, facts: JobFacts, *, home: Queue, standing: Standing, elsewhere: bool) -> Job:
    """A row for a pod group that nobody finds yet, without pods.

    ``facts`` are its own, ``home`` and ``standing`` those that follow from them; ``elsewhere``: it is of
    another node pool.
    """
    meta, spec = group.metadata, group.spec
    root, leaves, error = tree(group)
    job = Job(
        key=PodGroupKey(group.key),
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        queue=home,
        priority=standing.priority,
        preemptible=standing.preemptible,
        semi_preemptible=standing.semi_preemptible,
        usurps=standing.usurps,
        unwelcome=standing.unwelcome,
        elsewhere=elsewhere,
        created=seconds(meta.creation_timestamp),
        root=root,
        pod_sets=leaves,
        facts=facts,
        error=error,
    )
    # Where no subgroups are named, pods need not say to which they belong.
    if (len(leaves) == 1 and not spec.sub_groups) or error:
        (job.single,) = leaves.values()
    whole, subs = spec.topology_constraint, spec.sub_groups
    if whole is not None or subs:
        constraints = (whole, *(sub.topology_constraint for sub in subs or ()))
        job.has_constraint = any(map(constraint, constraints))
    return job


def row_like(mould: Job, group: PodGroup, facts: JobFacts) -> Job:
    """:func:`row` of a group that says what another one says, by a new row of that one.

    Before: neither names subgroups. After: only who it is, when it was made, and ``facts`` are its own, and
    the two share nothing that changes.
    """
    assert mould.single is not None
    meta = group.metadata
    root = replace(mould.root, members=[])
    leaf = replace(mould.single, parent=root, tasks={})
    root.members.append(leaf)
    return replace(
        mould,
        key=PodGroupKey(group.key),
        name=meta.name,
        uid=meta.uid,
        created=seconds(meta.creation_timestamp),
        root=root,
        pod_sets={leaf.name: leaf},
        single=leaf,
        facts=facts,
        invalid={},
        next_tasks={},
    )


def running_since(job: Job) -> float:
    """Since when it has run, as kubelets say of the pods that it has now; Unix seconds, 0 where none says it.

    Pods that it had before may have started earlier. Costs time by the number of its pods.
    """
    told = (
        seconds(task.facts.started)
        for pod_set in job.pod_sets.values()
        for task in pod_set.tasks.values()
        if task.facts is not None and task.facts.node_name and task.facts.phase != "Succeeded"
    )
    return min(filter(None, told), default=0.0)


def arrange(job: Job, order: GroupOrder) -> None:
    """Let the pods and subgroups of a job go by an order."""
    for pod_set in job.pod_sets.values():
        pod_set.ordered = None
    job.next_tasks.clear()
    sets = [job.root]
    while sets:
        each = sets.pop()
        each.needy_first = order.needy_first
        sets += [member for member in each.members if isinstance(member, SubGroupSet)]


def fell(job: Job) -> None:
    """Let nothing in the tree of a job that is gone know what is above it: it would wait for a collection.

    What was alive when garbage collection began to leave it out would wait for ever.
    """
    sets = [job.root]
    while sets:
        for member in sets.pop().members:
            member.parent = None
            if isinstance(member, SubGroupSet):
                sets.append(member)


def constraint(given: TopologyConstraint | None) -> TopologyConstraint | None:
    """A constraint that says something; clients write empty ones too."""
    says = given is not None and (
        given.required_topology_level or given.preferred_topology_level or given.topology
    )
    return given if says else None


def _problem(subs: list[SubGroup]) -> str:
    """Why the subgroups do not form a tree; empty if they do."""
    parents: dict[str, str] = {}
    for sub in subs:
        if sub.name.lower() in parents:
            return f"subgroup {sub.name!r} is named twice; names must be unique"
        parents[sub.name.lower()] = minimums.parent_of(sub)
    sound = {""}
    for sub in subs:
        path: set[str] = set()
        name = sub.name.lower()
        while name not in sound:
            if name in path:
                return f"subgroup {sub.name!r} is its own ancestor; a parent must be above its children"
            path.add(name)
            if name not in parents:
                return f"subgroup {sub.name!r} names parent {name!r}, which does not exist; add or remove it"
            name = parents[name]
        sound |= path
    return ""
