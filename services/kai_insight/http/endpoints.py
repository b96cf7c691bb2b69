"""What can be asked: one table, of which routes, parameters, answers and their description are made.

It is made itself of the records: their tables are the paths, their texts the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from kai.history.questions import MOST_ROWS
from kai.history.records import RECORDS, AnyRecord, Run, columns, meaning_of, texts
from kai.history.usage import By, Usage
from kai_insight.http.spelling import camel, fields_of

ROOT: Final = "/api/v1"
OPENAPI: Final = f"{ROOT}/openapi.json"
#: Rows that are told where nobody says how many.
USUAL_ROWS: Final = 1000
#: Of a text that a row has to say.
LONGEST_TEXT: Final = 1000
#: A namespace is a DNS label: of these characters, and so many.
LONGEST_NAMESPACE: Final = 63
NAMESPACE_PATTERN: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#: Without ``since`` so much is looked at, in seconds.
USUAL_SPAN: Final = 86400.0


class Form(Enum):
    """How a parameter is written."""

    TEXT = "text"
    TIME = "time"
    ROWS = "rows"
    CHOICE = "choice"
    KEYS = "keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """Something that a question may say."""

    name: str
    meaning: str
    form: Form = Form.TEXT
    #: The column that has to say the same; empty where it is about something else.
    column: str = ""
    #: Of a choice the usual one comes first.
    choices: tuple[str, ...] = ()
    #: Of a number, or of how many there may be.
    most: int = MOST_ROWS
    usual: int = USUAL_ROWS
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A question: what a row of its answer is, and which rows of the store it looks at."""

    name: str
    summary: str
    row: type[AnyRecord | Usage]
    looks_at: type[AnyRecord]
    parameters: tuple[Parameter, ...]

    @property
    def path(self) -> str:
        """Where it is asked."""
        return f"{ROOT}/{self.name}"

    @property
    def adds_up(self) -> bool:
        """Whether its rows are sums of what it looks at."""
        return self.row is not self.looks_at

    def names_queues(self, by: By) -> bool:
        """Whether it tells of queues of everybody, where a report is ``by`` something."""
        return by is By.QUEUE if self.adds_up else not self.of_namespaces

    @property
    def of_namespaces(self) -> bool:
        """Whether what it looks at lies in namespaces, of which somebody may see some and others not."""
        return "namespace" in columns(self.looks_at)


SINCE: Final = Parameter(
    name="since",
    form=Form.TIME,
    meaning="From here on; of what lasts any part of its time counts. A day before until if left out. Unix "
    "seconds, or as in 2026-11-01T08:00:00Z.",
)
UNTIL: Final = Parameter(
    name="until", form=Form.TIME, meaning="Before that; now if left out. Written as since."
)
LIMIT: Final = Parameter(
    name="limit", form=Form.ROWS, meaning=f"The most rows, up to {MOST_ROWS}; {USUAL_ROWS} if left out."
)
BY: Final = Parameter(
    name="by",
    form=Form.CHOICE,
    choices=tuple(By),
    meaning="What there is a row for; queue if left out.",
)


def _of_records(kind: type[AnyRecord]) -> Endpoint:
    known = texts(kind)
    told = [
        Parameter(name=camel(each.name), column=each.name, meaning=f"Only these. {meaning_of(each)}")
        for each in fields_of(kind)
        if each.name in known
    ]
    summary = (kind.__doc__ or "").partition("\n")[0]
    return Endpoint(
        name=kind.table.removeprefix("kai_").replace("_", "-"),
        summary=summary,
        row=kind,
        looks_at=kind,
        parameters=(SINCE, UNTIL, LIMIT, *told),
    )


def _of_usage() -> Endpoint:
    (namespace,) = (each for each in _of_records(Run).parameters if each.column == "namespace")
    return Endpoint(
        name="usage",
        summary="Who used how much: what pods held, times how long they held it; the most GPUs first.",
        row=Usage,
        looks_at=Run,
        parameters=(BY, SINCE, UNTIL, LIMIT, namespace),
    )


ENDPOINTS: Final = (*map(_of_records, RECORDS), _of_usage())
