"""An answer as a page that one can read at 80 columns."""

from __future__ import annotations

from typing import Final

from kai.answers.answer import Answer, StageState
from kai_cli.output import Column, emit, table

_MARKS: Final = {StageState.PASSED: "✓", StageState.FAILED: "✗", StageState.NOT_REACHED: "·"}


def show(answer: Answer) -> None:
    """Print it: verdict and reason, how far it got, what would help, and what it lost."""
    where = f"{answer.namespace}/{answer.name}" if answer.namespace else answer.name
    emit(f"{answer.kind.lower()} {where}: {answer.verdict} ({answer.reason.code})", answer.reason.text)
    if answer.pod_group and (answer.kind, answer.name) != ("PodGroup", answer.pod_group):
        emit(f"pod group: {answer.pod_group}")
    if (position := answer.position) is not None:
        emit(f"position in queue {position.queue}: {position.ahead} of {position.of} that wait are before it")
    rows = [
        (_MARKS[each.state], each.stage, "" if each.text == answer.reason.text else each.text)
        for each in answer.stages
    ]
    emit("", table([Column(""), Column("STAGE"), Column("", prose=True)], rows))
    if answer.changes:
        emit("", "what would help, each by itself, tried on a copy of the cluster:")
        for change in answer.changes:
            emit(f"  - {change.text}", *([f"      {change.command}"] if change.command else []))
    if answer.evictions:
        lost = [(each.at, each.by or "-", each.action, each.why) for each in answer.evictions]
        columns = [Column("EVICTED"), Column("BY"), Column("ACTION"), Column("WHY", prose=True)]
        emit("", table(columns, lost))
