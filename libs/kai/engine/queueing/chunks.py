"""Which tasks of a pod group come next, and which go first."""

from __future__ import annotations

from functools import partial

from kai.model.ids import PodUid
from kai.snapshot.core import Holdings, Member, filled
from kai.snapshot.rows import Job, PodSet, SubGroupSet, Task
from kai.snapshot.status import ACTIVE_ALLOCATED, Status


def member_key(member: Member, count: int | None = None) -> tuple[int, int, float, str]:
    """Subgroups in need first, then required before optional ones, the emptier first; then by name.

    ``count`` is what one has, where that is not what is placed.
    """
    if count is None:
        count = member.count
    threshold = member.threshold
    if count < threshold:
        return (0, 0, 0.0, member.name)
    if threshold > 0:
        return (1, 0, count / threshold, member.name)
    return (1, 1, float(count), member.name)


def ordered_members(group: SubGroupSet) -> list[Member]:
    """Members in subgroup order, of equal ones by name. The list may be the set's own: don't change it."""
    members = group.members
    if len(members) == 1:
        return members
    return sorted(members, key=member_key if group.needy_first else _name)


def _name(member: Member) -> str:
    return member.name


def may_allocate(task: Task, *, simulation: bool) -> bool:
    """Whether a task waits for a place; in simulations victims of the same statement do.

    A victim to which its queue is not open any more would not be given another place.
    """
    return task.status is Status.PENDING or (
        simulation and task.status is Status.RELEASING and task.virtual and not task.shut_out
    )


def tasks_to_allocate(job: Job, *, simulation: bool = False) -> list[Task]:
    """The next chunk of a job: what its gang still needs, else one step of growth; empty if there is none.

    All of it is placed, or nothing. Kept on the job until that changes, so the list must not be changed. With
    ``simulation`` victims of the statement count as waiting.
    """
    known = job.next_tasks.get(simulation)
    if known is not None and known[0] == job.version:
        return known[1]
    single = job.single
    if single is not None:
        tasks = _of_pod_set(single, simulation=simulation)
    else:
        tasks = _collect(job.root, simulation=simulation)
    job.next_tasks[simulation] = (job.version, tasks)
    return tasks


def only_task(job: Job) -> Task | None:
    """The task of a job that has just one, if it waits.

    None for a job with subgroups, with several tasks, or whose task is gated, placed or done. Costs nothing.
    """
    single = job.single
    if single is None or len(single.tasks) != 1:
        return None
    (task,) = single.tasks.values()
    return task if task.status is Status.PENDING else None


def _collect(group: SubGroupSet, *, simulation: bool) -> list[Task]:
    members = ordered_members(group)
    if not group.satisfied:
        # Members that are satisfied count; the original takes as many others as if none was.
        needed = group.threshold - group.count
        found: list[Task] = []
        for member in members:
            if tasks := _of_member(member, simulation=simulation):
                found += tasks
                needed -= 1
                if not needed:
                    return found
        return []
    for member in members:
        if tasks := _of_member(member, simulation=simulation):
            return tasks
    return []


def _of_member(member: Member, *, simulation: bool) -> list[Task]:
    if isinstance(member, PodSet):
        return _of_pod_set(member, simulation=simulation)
    return _collect(member, simulation=simulation)


def _of_pod_set(pod_set: PodSet, *, simulation: bool) -> list[Task]:
    """None where the pods that wait are fewer than are needed still: a part of a gang does no work.

    Those that are done need not come again. Victims that lose their places in a simulation get them back
    however few they were.
    """
    if not simulation and not pod_set.pending:
        return []
    floor = max(pod_set.min_member - pod_set.active_allocated, 0)
    if len(pod_set.tasks) == 1:
        (only,) = pod_set.tasks.values()
        if only.status is Status.PENDING:
            return [only] if floor - 1 <= pod_set.succeeded else []
        return [only] if may_allocate(only, simulation=simulation) else []
    wanted = floor or 1  # one that has what it needs grows pod by pod
    ordered = pod_set.sorted_tasks()
    if simulation:
        found = [task for task in ordered if may_allocate(task, simulation=True)]
        if floor - len(found) > pod_set.succeeded and not any(task.virtual for task in found):
            return []
        return found[:wanted]
    if floor - pod_set.pending > pod_set.succeeded:
        return []
    tasks: list[Task] = []
    # Nobody before it waits: whoever makes a pod wait again sets it back.
    start = pod_set.cursor
    for position in range(start, len(ordered)):
        task = ordered[position]
        if task.status is Status.PENDING:
            if not tasks:
                pod_set.cursor = position
            tasks.append(task)
            if len(tasks) == wanted:
                break
    return tasks


def tasks_to_evict(
    job: Job, *, without: frozenset[PodUid] | set[PodUid] = frozenset()
) -> tuple[list[Task], bool]:
    """The next chunk that a victim gives up, and whether it has more.

    One surplus pod, else one surplus subgroup, else everything; of a semi-preemptible job never its core.
    Tasks in ``without`` (uids) count as gone.
    """
    if job.semi_preemptible:
        chunk = _beyond_core(job, without)
        return chunk, bool(chunk and _beyond_core(job, {*without, *(task.uid for task in chunk)}))
    single = job.single
    if single is not None:
        if len(single.tasks) == 1 and single.active_allocated and not without:
            return list(single.tasks.values()), False
        tasks = _active(single, without)
        if len(tasks) > single.min_member and tasks:
            tasks.sort(key=lambda task: task.order)
            return [tasks[-1]], len(tasks) > 1
        return sorted(tasks, key=lambda task: task.order), False
    active = [task for pod_set in job.pod_sets.values() for task in _tasks_below(pod_set, without)]
    chosen = _surplus(job.root, without)
    if not chosen:
        chosen = active
    return chosen, len(active) > len(chosen)


def _beyond_core(job: Job, without: frozenset[PodUid] | set[PodUid]) -> list[Task]:
    """What is of no use where it is, else surplus as of any job; nothing once only the core is left."""
    holdings = Holdings(job, gone=without)
    if job.single is not None:
        tasks = holdings.below(job.single)
        return tasks[-1:] if len(tasks) > job.single.min_member else []
    core = frozenset(task.uid for task in holdings.core())
    return _idle_members(job.root, holdings) or _surplus(job.root, without, core)


def _idle_members(group: SubGroupSet, holdings: Holdings) -> list[Task]:
    """The pods of a member that is not needed and lacks some itself, in a set that has what it needs."""
    if not holdings.satisfied(group):
        return []
    for member in holdings.other_members(group):
        if not holdings.satisfied(member) and (tasks := holdings.below(member)):
            return tasks
    for member in holdings.core_members(group):
        if isinstance(member, SubGroupSet) and (tasks := _idle_members(member, holdings)):
            return tasks
    return []


def _active(pod_set: PodSet, without: frozenset[PodUid] | set[PodUid]) -> list[Task]:
    return [
        task for task in pod_set.tasks.values() if ACTIVE_ALLOCATED[task.status] and task.uid not in without
    ]


def _surplus(
    group: SubGroupSet,
    without: frozenset[PodUid] | set[PodUid],
    core: frozenset[PodUid] = frozenset(),
) -> list[Task]:
    """Surplus below a set: deep first, then a whole member that is not required, but for pods of the core.

    Members that need nothing are satisfied as well, so the last one in order may be one that is kept.
    """

    left = partial(_active, without=without)

    def key(member: Member) -> tuple[int, int, float, str]:
        return member_key(member, filled(member, left)) if group.needy_first else (0, 0, 0.0, member.name)

    members = sorted(group.members, key=key, reverse=True)
    for member in members:
        if isinstance(member, PodSet):
            tasks = _active(member, without)
            if len(tasks) > member.min_member:
                tasks.sort(key=lambda task: task.order)
                return [tasks[-1]]
        elif found := _surplus(member, without, core):
            return found
    if filled(group, left) > group.threshold:
        for member in members:
            if tasks := [task for task in _tasks_below(member, without) if task.uid not in core]:
                return tasks
    return []


def _tasks_below(member: Member, without: frozenset[PodUid] | set[PodUid]) -> list[Task]:
    if isinstance(member, PodSet):
        return sorted(_active(member, without), key=lambda task: task.order)
    return [task for each in member.members for task in _tasks_below(each, without)]
