"""Records of the past and questions for them, between plain values and the wire."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from kai.history.questions import Found, Selection
from kai.history.records import Cycle, Decision, QueueState, Run, Taking, columns, texts
from kai.history.usage import By, Usage
from kai.wire.channel import MAX_MESSAGE_BYTES
from kai.wire.errors import MessageTooLarge
from kai.wire.v1 import history_pb2 as pb

#: What a list takes for an item beside the item.
_FRAME_BYTES: Final = 8
Record = Run | Taking | Cycle | Decision | QueueState


class InvalidSelection(ValueError):
    """Nothing can be looked for so; the message says why."""


@dataclass(frozen=True, slots=True)
class Call:
    """How rows of one kind are asked for: the method, the message of a row, and that of all of them."""

    method: str
    row: type[Any]
    rows: type[Any]


CALLS: Final[dict[type[Record], Call]] = {
    Run: Call("GetRuns", pb.Run, pb.Runs),
    Taking: Call("GetEvictions", pb.Taking, pb.Evictions),
    Decision: Call("GetDecisions", pb.Decision, pb.Decisions),
    Cycle: Call("GetCycles", pb.Cycle, pb.Cycles),
    QueueState: Call("GetQueueStates", pb.QueueState, pb.QueueStates),
}


def encode_selection(selection: Selection, *, most: int) -> pb.Selection:
    """The message of a question; ``most`` 0 is as many as are told at once. Namespaces go into ``equal``."""
    assert selection.namespaces is None
    return pb.Selection(since=selection.since, until=selection.until, equal=selection.equal, most=most)


def decode_selection(message: pb.Selection, kind: type[Record]) -> Selection:
    """The reverse of :func:`encode_selection`, for rows of a kind.

    Raises:
        InvalidSelection: rows of that kind have no such text, or a time is none.
    """
    known = texts(kind)
    for name in message.equal:
        if name not in known:
            raise InvalidSelection(f"{kind.__name__} has no text {name!r}; it has {', '.join(known)}")
    since = _moment("since", message.since) if message.HasField("since") else None
    until = _moment("until", message.until) if message.HasField("until") else None
    return Selection(since=since, until=until, equal=dict(message.equal))


def encode_rows(kind: type[Record], rows: Sequence[Record], *, more: bool) -> Any:
    """The message with these rows, or as many of the first as it has room for, and that there are more.

    Raises:
        MessageTooLarge: the first alone takes more, so that whoever asks on would never come past it.
    """
    call = CALLS[kind]
    told: list[Any] = []
    left = MAX_MESSAGE_BYTES - _FRAME_BYTES
    for row in rows:
        message = call.row(**_said(row))
        left -= message.ByteSize() + _FRAME_BYTES
        if left < 0 and not told:
            raise MessageTooLarge(f"a row of {kind.__name__} takes {message.ByteSize() >> 20} MiB")
        if left < 0:
            return call.rows(rows=told, more=True)
        told.append(message)
    return call.rows(rows=told, more=more)


def decode_rows(kind: type[Found], message: Any) -> list[Found]:
    """The reverse of :func:`encode_rows`."""
    return [kind(**{name: _value(row, name) for name in columns(kind)}) for row in message.rows]


def encode_usage(found: Iterable[Usage]) -> pb.GetUsageResponse:
    """The message of a report."""
    return pb.GetUsageResponse(usage=[pb.Usage(**asdict(each)) for each in found])


def decode_usage(message: pb.GetUsageResponse) -> list[Usage]:
    """The reverse of :func:`encode_usage`."""
    names = [each.name for each in fields(Usage)]
    return [Usage(**{name: getattr(each, name) for name in names}) for each in message.usage]


def decode_usage_request(message: pb.GetUsageRequest) -> tuple[By, float, float]:
    """What is to be reported, and the two ends of the time.

    Raises:
        InvalidSelection: there is no such report, or a time is none.
    """
    if message.by not in list(By):
        raise InvalidSelection(f"by {message.by!r} is not known; there are {', '.join(By)}")
    since, until = _moment("since", message.since), _moment("until", message.until)
    if until <= since:
        raise InvalidSelection(f"until ({until:.0f}) must be after since ({since:.0f})")
    return By(message.by), since, until


def _said(record: Record) -> dict[str, Any]:
    return {name: value for name, value in asdict(record).items() if value is not None}


def _value(row: Any, name: str) -> Any:
    if row.DESCRIPTOR.fields_by_name[name].has_presence and not row.HasField(name):
        return None
    return getattr(row, name)


def _moment(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise InvalidSelection(f"{name} is no time: {value}")
    return value
