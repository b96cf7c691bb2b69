"""What would follow from a change, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kai_cli.output import Column, emit, table
from kai_cli.views import amounts

#: More pods are not listed for people.
_SHOWN: Final = 40
_WORDS: Final = {
    "started": "starts",
    "evicted": "is evicted",
    "deleted": "is deleted",
    "ended": "ends",
}


def print_answer(told: dict[str, Any]) -> None:
    """What to do, then queues, workloads and pods."""
    for change in told["changes"]:
        emit(change["text"] + (f": {change['command']}" if change["command"] else ""))
    if not told["events"] and not told["queues"] and not told["workloads"]:
        emit("nothing would change")
        return
    if told["queues"]:
        emit("", _queue_table(told["queues"]))
    if told["workloads"]:
        emit("", _workload_table(told["workloads"]))
    if told["events"]:
        emit("", _event_table(told["events"][:_SHOWN]))
        if len(told["events"]) > _SHOWN:
            emit(f"and {len(told['events']) - _SHOWN} more; -o json has all")
    if not told["events"]:
        emit("", "no pod would start or go")


def _queue_table(queues: Sequence[dict[str, Any]]) -> Any:
    headings = ("GPU QUOTA", "GPU LIMIT", "FAIR SHARE", "ALLOCATED", "REQUESTED")
    fields = ("quota", "limit", "fairShare", "allocated", "requested")
    rows = [
        [
            each["queue"],
            *(_change(*(_gpus(each[when], field) for when in ("before", "after"))) for field in fields),
        ]
        for each in queues
    ]
    return table([Column("QUEUE"), *(Column(heading, number=True) for heading in headings)], rows)


def _gpus(share: dict[str, Any] | None, field: str) -> str:
    return "-" if share is None else amounts.gpus(share[field]["gpu"])


def _workload_table(workloads: Sequence[dict[str, Any]]) -> Any:
    columns = [
        Column("WORKLOAD"),
        Column("QUEUE"),
        Column("RUNNING", number=True),
        Column("WAITING", number=True),
        Column("WHY IT WAITS", prose=True),
    ]
    rows = [
        [
            each["workload"],
            each["queue"],
            *(
                _change(*(_number(each[when], field) for when in ("before", "after")))
                for field in ("running", "waiting")
            ),
            each["reason"],
        ]
        for each in workloads
    ]
    return table(columns, rows)


def _number(pods: dict[str, int] | None, field: str) -> str:
    return "-" if pods is None else str(pods[field])


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _event_table(events: Sequence[dict[str, Any]]) -> Any:
    columns = [
        Column("AFTER", number=True),
        Column("POD"),
        Column(""),
        Column("NODE"),
        Column("WHY", prose=True),
    ]
    rows = [
        [
            f"{each['after']:g}s",
            each["pod"],
            _WORDS[each["what"]] + (" anyway" if each["anyway"] else ""),
            each["node"],
            each["why"].partition("\n")[0] or (f"for {each['by']}" if each["by"] else ""),
        ]
        for each in events
    ]
    return table(columns, rows)
