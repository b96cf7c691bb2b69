"""Pod groups with their queue, their pods and, where they wait, since when, behind whom and why."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from kai.model import names
from kai.model.decisions import QueuedGroup
from kai.model.objects import Pod, PodGroup, PodGroupSpec, SchedulingCondition
from kai.model.rules import minimums
from kai.model.verdicts import code_behind
from kai.model.words import counted
from kai.snapshot.times import seconds
from kai_cli.output import Column
from kai_cli.views import amounts
from kai_cli.views.pods import obstacle, waits

COLUMNS: Final = (
    Column("NAMESPACE"), Column("NAME"), Column("QUEUE"), Column("RUNNING", True), Column("STATE"),
    Column("AGE", True), Column("WAITING", True), Column("POSITION", True), Column("REASON"),
    Column("MIN", True, wide=True), Column("PENDING", True, wide=True), Column("PRIORITY", wide=True),
    Column("MESSAGE", wide=True, prose=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a group stands among those of its queue that wait: its place, 1 for the next, and how many are
    in line. ``ahead_by`` is what puts it before the next one.
    """

    place: int
    of: int
    ahead_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupRow:
    """One pod group. Times are Unix seconds."""

    namespace: str
    name: str
    queue: str
    priority_class: str
    #: Pods (or, as ``n subgroups``, children) that must run together.
    minimum: str
    pods: int
    running: int
    pending: int
    state: str
    created: float
    #: When the oldest of its pods that wait was made; None if none waits.
    waiting_since: float | None
    #: None if its turn does not come, or nobody can say.
    position: Position | None
    #: Why it waits, in a word and in sentences; empty if the scheduler has not said so.
    reason: str
    message: str
    #: When this was seen.
    at: float

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def waits(self) -> bool:
        """Whether any of its pods does."""
        return self.waiting_since is not None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        found = asdict(self)
        del found["at"]
        return found

    def cells(self) -> tuple[str, ...]:
        """As a row of the table."""
        position = self.position
        return (
            self.namespace,
            self.name,
            self.queue,
            f"{self.running}/{self.pods}",
            self.state,
            amounts.lasting(max(0.0, self.at - self.created)),
            "-" if self.waiting_since is None else amounts.lasting(max(0.0, self.at - self.waiting_since)),
            "-" if position is None else f"{position.place}/{position.of}",
            self.reason or "-",
            self.minimum,
            str(self.pending),
            self.priority_class,
            self.message.partition("\n")[0],
        )


def table_of(
    groups: Iterable[PodGroup], pods: Iterable[Pod], *, at: float, line: Iterable[QueuedGroup] = ()
) -> list[PodGroupRow]:
    """One row per pod group, by namespace and name, as of ``at``; ``line`` are those that wait, in order."""
    members: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in pods:
        if group := pod.annotations.get(names.POD_GROUP_ANNOTATION):
            members[pod.metadata.namespace, group].append(pod)
    positions = positions_in(line)
    return [
        _row(group, members[group.metadata.namespace, group.metadata.name], positions.get(group.key), at=at)
        for group in sorted(groups, key=lambda group: group.key)
    ]


def positions_in(line: Iterable[QueuedGroup]) -> Mapping[str, Position]:
    """By pod group, where each of a line stands in its queue."""
    by_queue: defaultdict[str, list[QueuedGroup]] = defaultdict(list)
    for each in line:
        by_queue[each.queue].append(each)
    return {
        each.pod_group: Position(place=place, of=len(queued), ahead_by=each.ahead_by)
        for queued in by_queue.values()
        for place, each in enumerate(queued, start=1)
    }


def _row(group: PodGroup, pods: list[Pod], position: Position | None, *, at: float) -> PodGroupRow:
    phases = Counter(pod.status.phase for pod in pods)
    condition = next(reversed((group.status and group.status.scheduling_conditions) or []), None)
    spec = group.spec
    reason, message = (_reason(condition), condition.message) if condition else _of_the_rest(pods)
    since = [seconds(pod.metadata.creation_timestamp) for pod in pods if waits(pod)]
    return PodGroupRow(
        namespace=group.metadata.namespace,
        name=group.metadata.name,
        queue=spec.queue,
        priority_class=spec.priority_class_name,
        minimum=_minimum(spec),
        pods=len(pods),
        running=phases["Running"],
        pending=phases["Pending"],
        state=_state(phases, unschedulable=condition is not None),
        created=seconds(group.metadata.creation_timestamp),
        waiting_since=min(since, default=None),
        position=position,
        reason=reason,
        message=message,
        at=at,
    )


def _minimum(spec: PodGroupSpec) -> str:
    if not spec.sub_groups:
        return str(minimums.pods_of_group(spec))
    needed = minimums.subgroups(spec.min_sub_group, minimums.children(spec.sub_groups)[""])
    return counted(needed, "subgroup")


def _reason(condition: SchedulingCondition) -> str:
    """The one that was proven, where it is told; else the first that the scheduler gives."""
    if code := code_behind(condition.message):
        return code
    told = next((str(each["reason"]) for each in condition.reasons or () if each.get("reason")), "")
    return told or condition.reason


def _of_the_rest(pods: Iterable[Pod]) -> tuple[str, str]:
    """What pods say that wait, where the group says nothing: while some of it runs it has no condition."""
    told = [why for pod in pods if waits(pod) and (why := obstacle(pod)) is not None]
    return (told[0].reason or "", told[0].message or "") if told else ("", "")


def _state(phases: Counter[str], *, unschedulable: bool) -> str:
    if phases["Pending"]:
        return "Unschedulable" if unschedulable else "Pending"
    if phases["Running"]:
        return "Running"
    return "Done" if phases["Succeeded"] or phases["Failed"] else "Empty"
