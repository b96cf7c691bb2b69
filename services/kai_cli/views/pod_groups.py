"""Pod groups with their queue, their pods and, where they wait, the reason."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from kai.model import names
from kai.model.objects import Pod, PodGroup
from kai_cli.output import Column

COLUMNS = (
    Column("NAMESPACE"), Column("NAME"), Column("QUEUE"), Column("RUNNING", True), Column("STATE"),
    Column("MIN", True, wide=True), Column("PENDING", True, wide=True), Column("PRIORITY", wide=True),
    Column("REASON", wide=True, prose=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupRow:
    """One pod group."""

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
    reason: str

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def cells(self) -> tuple[str, ...]:
        """As a row of the table."""
        return (
            self.namespace, self.name, self.queue, f"{self.running}/{self.pods}", self.state,
            self.minimum, str(self.pending), self.priority_class, self.reason.partition("\n")[0],
        )  # fmt: skip


def table_of(groups: Iterable[PodGroup], pods: Iterable[Pod]) -> list[PodGroupRow]:
    """One row per pod group, by namespace and name."""
    members: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in pods:
        if group := pod.annotations.get(names.POD_GROUP_ANNOTATION):
            members[pod.metadata.namespace, group].append(pod)
    return [
        _row(group, members[group.metadata.namespace, group.metadata.name])
        for group in sorted(groups, key=lambda group: group.key)
    ]


def _row(group: PodGroup, pods: list[Pod]) -> PodGroupRow:
    phases = Counter(pod.status.phase for pod in pods)
    condition = next(reversed((group.status and group.status.scheduling_conditions) or []), None)
    spec = group.spec
    minimum = (
        f"{spec.min_sub_group} subgroups" if spec.min_sub_group is not None else str(spec.min_member or 0)
    )
    return PodGroupRow(
        namespace=group.metadata.namespace,
        name=group.metadata.name,
        queue=spec.queue,
        priority_class=spec.priority_class_name,
        minimum=minimum,
        pods=len(pods),
        running=phases["Running"],
        pending=phases["Pending"],
        state=_state(phases, unschedulable=condition is not None),
        reason=condition.message if condition else "",
    )


def _state(phases: Counter[str], *, unschedulable: bool) -> str:
    if phases["Pending"]:
        return "Unschedulable" if unschedulable else "Pending"
    if phases["Running"]:
        return "Running"
    return "Done" if phases["Succeeded"] or phases["Failed"] else "Empty"
