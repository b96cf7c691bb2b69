"""The past as people and programs read it: one table for each kind of record."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from kai.history.records import AnyRecord, Cycle, Decision, QueueState, Run, Taking, columns
from kai.history.usage import Usage
from kai.snapshot.times import rfc3339
from kai_cli.output import Column
from kai_cli.views.amounts import gpus, lasting, number

_TIMES: Final = frozenset({"at", "began", "created", "ended"})
#: What fields are called where their own name would be read as something else.
_NAMES: Final[Mapping[str, str]] = {"user_name": "user"}


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of the table of one kind, and what of a record stands in it."""

    column: Column
    cell: Callable[[Any], str]


def _shown(heading: str, cell: Callable[[Any], str], **options: bool) -> Shown:
    return Shown(Column(heading, **options), cell)


TABLES: Final[Mapping[type[AnyRecord], tuple[Shown, ...]]] = {
    Run: (
        _shown("BEGAN", lambda run: rfc3339(run.began)),
        _shown("NAMESPACE", lambda run: run.namespace),
        _shown("POD", lambda run: run.pod),
        _shown("NODE", lambda run: run.node),
        _shown("GPUS", lambda run: number(run.gpus), number=True),
        _shown(
            "LASTED", lambda run: "" if run.ended is None else lasting(run.ended - run.began), number=True
        ),
        _shown("ENDED", lambda run: run.ending or "-"),
        _shown("QUEUE", lambda run: run.queue or "-"),
        _shown("USER", lambda run: run.user_name or "-"),
    ),
    Taking: (
        _shown("AT", lambda taking: rfc3339(taking.at)),
        _shown("NAMESPACE", lambda taking: taking.namespace),
        _shown("POD", lambda taking: taking.pod),
        _shown("QUEUE", lambda taking: taking.queue or "-"),
        _shown("GPUS", lambda taking: number(taking.gpus), number=True),
        _shown("ACTION", lambda taking: taking.action),
        _shown("FOR", lambda taking: _profiting(taking)),
        _shown("OF QUEUE", lambda taking: taking.for_queue or "-"),
        _shown("WHY", lambda taking: _first_line(taking.message), prose=True),
    ),
    Decision: (
        _shown("AT", lambda decision: rfc3339(decision.at)),
        _shown("NAMESPACE", lambda decision: decision.namespace),
        _shown("POD GROUP", lambda decision: decision.pod_group),
        _shown("OUTCOME", lambda decision: decision.outcome),
        _shown("REASON", lambda decision: decision.reason or "-"),
        _shown("MESSAGE", lambda decision: _first_line(decision.message), prose=True),
    ),
    Cycle: (
        _shown("AT", lambda cycle: rfc3339(cycle.at)),
        _shown("SHARD", lambda cycle: cycle.shard),
        _shown("CYCLE", lambda cycle: str(cycle.cycle), number=True),
        _shown("BINDS", lambda cycle: str(cycle.binds), number=True),
        _shown("EVICTIONS", lambda cycle: str(cycle.evictions), number=True),
        _shown("NOMINATIONS", lambda cycle: str(cycle.nominations), number=True),
        _shown("WAITING", lambda cycle: str(cycle.waiting), number=True),
    ),
    QueueState: (
        _shown("AT", lambda state: rfc3339(state.at)),
        _shown("QUEUE", lambda state: state.queue),
        _shown("QUOTA", lambda state: gpus(state.quota_gpus), number=True),
        _shown("LIMIT", lambda state: gpus(state.limit_gpus), number=True),
        _shown("FAIR SHARE", lambda state: gpus(state.fair_share_gpus), number=True),
        _shown("ALLOCATED", lambda state: gpus(state.allocated_gpus), number=True),
        _shown("REQUESTED", lambda state: gpus(state.requested_gpus), number=True),
    ),
}
USAGE: Final = (
    _shown("GPU HOURS", lambda each: number(each.gpu_hours), number=True),
    _shown("CPU HOURS", lambda each: number(each.cpu_hours), number=True),
    _shown("MEMORY GIB HOURS", lambda each: number(each.memory_gib_hours), number=True),
    _shown("PODS", lambda each: str(each.pods), number=True),
)


def usage_table(by: str) -> tuple[Shown, ...]:
    """The columns of a report by something."""
    return (_shown(by.upper(), lambda each: each.name or "-"), *USAGE)


def document(record: AnyRecord) -> dict[str, Any]:
    """A record as JSON: times in RFC 3339, amounts as they are."""
    return {_key(name): _value(name, getattr(record, name)) for name in columns(type(record))}


def usage_document(found: Usage, by: str) -> dict[str, Any]:
    """A row of a report as JSON; what it is about stands under its own name."""
    said = asdict(found)
    return {by: said.pop("name"), **{_key(name): value for name, value in said.items()}}


def as_csv(keys: Sequence[str], documents: Sequence[Mapping[str, Any]]) -> str:
    """The same documents as lines under their keys."""
    text = io.StringIO()
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    writer.writeheader()
    for each in documents:
        writer.writerow({key: "" if each[key] is None else each[key] for key in keys})
    return text.getvalue()


def keys_of(kind: type[AnyRecord]) -> list[str]:
    """The keys of a kind's documents, in order."""
    return [_key(name) for name in columns(kind)]


def _profiting(taking: Taking) -> str:
    return f"{taking.for_namespace}/{taking.for_pod_group}" if taking.for_pod_group else "-"


def _first_line(message: str) -> str:
    return message.partition("\n")[0]


def _key(name: str) -> str:
    first, *others = _NAMES.get(name, name).split("_")
    return first + "".join(part.capitalize() for part in others)


def _value(name: str, value: Any) -> Any:
    return rfc3339(value) if name in _TIMES and value is not None else value
