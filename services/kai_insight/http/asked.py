"""What somebody asks, read from the address; whatever is beyond bounds is refused by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from kai.history.questions import Selection
from kai.history.usage import By
from kai.model import spelling
from kai_insight.http.endpoints import (
    BY,
    LIMIT,
    LONGEST_NAMESPACE,
    LONGEST_TEXT,
    NAMESPACE_PATTERN,
    SINCE,
    UNTIL,
    USUAL_ROWS,
    USUAL_SPAN,
    Endpoint,
    Form,
    Parameter,
)
from kai_insight.http.problems import Problem, Trouble

#: Characters of all parameters together, as they are sent; keys, of which each may have so many, come on top.
LONGEST_QUERY: Final = 4096
_LONGEST_KEY: Final = len("999999999%2C")
MOST_PARAMETERS: Final = 32
_LONGEST_TIME: Final = 40
#: The end of the year 9999, after which there are no times.
_LAST_SECOND: Final = 253_402_300_799.0
_SECONDS: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")
_NAMESPACE: Final = re.compile(NAMESPACE_PATTERN)
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
#: So much of what somebody said is repeated to him.
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question within its bounds. Times are Unix seconds."""

    since: float
    until: float | None
    limit: int = USUAL_ROWS
    by: By = By.QUEUE
    #: Column -> what it has to say.
    equal: dict[str, str] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """The only one that is asked about; empty for all."""
        return self.equal.get("namespace", "")

    @property
    def span(self) -> Selection:
        """All that lies in its time."""
        return Selection(since=self.since, until=self.until)

    @property
    def selection(self) -> Selection:
        """What it is about."""
        return Selection(since=self.since, until=self.until, equal=self.equal)


def read(endpoint: Endpoint, pairs: Iterable[tuple[str, str]], *, now: float) -> Asked:
    """The question that these parameters are.

    Raises:
        Problem: one of them is not known, is there twice, or says what cannot be.
    """
    given = named(endpoint.parameters, pairs)
    times = {each.name: _time(each.name, given[each.name]) for each in (SINCE, UNTIL) if each.name in given}
    until = times.get(UNTIL.name)
    end = now if until is None else until
    since = times.get(SINCE.name, end - USUAL_SPAN)
    if end <= since:
        raise _refused(f"until ({end:.0f}) must be after since ({since:.0f})")
    limit = number(LIMIT, given[LIMIT.name]) if LIMIT.name in given else USUAL_ROWS
    by = choice(BY, given[BY.name]) if BY.name in given else By.QUEUE
    equal = {
        each.column: text(each.name, given[each.name])
        for each in endpoint.parameters
        if each.form is Form.TEXT and each.name in given
    }
    return Asked(since=since, until=until, limit=limit, by=By(by), equal=equal)


def bounded(query: str, parameters: Sequence[Parameter] = ()) -> None:
    """Look at the size of all that is said before it is read as these parameters.

    Raises:
        Problem: it is beyond bounds.
    """
    keys = sum(each.most for each in parameters if each.form is Form.KEYS)
    if len(query) > (longest := LONGEST_QUERY + keys * _LONGEST_KEY):
        raise _refused(f"the query has {len(query)} characters; at most {longest} are read")
    if (many := query.count("&") + 1) > MOST_PARAMETERS:
        raise _refused(f"the query has {many} parameters; at most {MOST_PARAMETERS} are read")


def none(pairs: Iterable[tuple[str, str]]) -> None:
    """For what takes no parameters.

    Raises:
        Problem: there are some.
    """
    for name, _ in pairs:
        raise _refused(f"there are no parameters here, and {_shown(name)} is none; leave it out")


def named(parameters: Sequence[Parameter], pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What these parameters say, by name.

    Raises:
        Problem: one is not known, is there twice, or is missing.
    """
    known = [each.name for each in parameters]
    given: dict[str, str] = {}
    for name, said in pairs:
        if name not in known:
            raise _refused(spelling.unknown("parameter", name[:_SHOWN], known))
        if name in given:
            raise _refused(f"{name} is there twice; say it once")
        given[name] = said
    for each in parameters:
        if each.required and not given.get(each.name):
            raise _refused(f"{each.name} is missing: {each.meaning}")
    return given


def _time(name: str, said: str) -> float:
    """Unix seconds."""
    if _SECONDS.fullmatch(said):
        return min(float(said), _LAST_SECOND)
    try:
        moment = datetime.fromisoformat(said) if len(said) <= _LONGEST_TIME else None
        if moment is not None and moment.tzinfo is not None:
            return min(max(moment.timestamp(), 0.0), _LAST_SECOND)
    except (ValueError, OverflowError):
        pass
    raise _refused(
        f"{name} is {_shown(said)}; write Unix seconds, or a time as in 2026-11-01T08:00:00Z (a + in an "
        "address is %2B)"
    )


def number(parameter: Parameter, said: str) -> int:
    """A number within bounds; raises as :func:`named`."""
    if not _NUMBER.fullmatch(said) or not 1 <= int(said) <= parameter.most:
        raise _refused(f"{parameter.name} is {_shown(said)}; write a number from 1 to {parameter.most}")
    return int(said)


def numbers(parameter: Parameter, said: str) -> tuple[int, ...]:
    """Numbers with commas between them; raises as :func:`named`."""
    parts = said.split(",", parameter.most)
    if len(parts) > parameter.most or not all(map(_NUMBER.fullmatch, parts)):
        raise _refused(
            f"{parameter.name} is {_shown(said)}; write at most {parameter.most} numbers with commas between"
        )
    return tuple(map(int, parts))


def choice(parameter: Parameter, said: str) -> str:
    """One of those that there are; raises as :func:`named`."""
    if said not in parameter.choices:
        raise _refused(f"{parameter.name} is {_shown(said)}; there are {', '.join(parameter.choices)}")
    return said


def text(name: str, said: str) -> str:
    """A text within bounds; raises as :func:`named`."""
    if len(said) > LONGEST_TEXT:
        raise _refused(f"{name} has {len(said)} characters; at most {LONGEST_TEXT} are compared")
    # No store has these: PostgreSQL takes no NUL, and halves of characters are no UTF-8.
    if any(each == "\0" or "\ud800" <= each <= "\udfff" for each in said):
        raise _refused(f"{name} holds a character that no name has; leave that out")
    if name == "namespace" and not said:
        raise _refused("namespace is empty; leave it out to ask about all")
    # Of each the API server is asked what somebody may see there, and what it says is remembered.
    if name == "namespace" and not (len(said) <= LONGEST_NAMESPACE and _NAMESPACE.fullmatch(said)):
        raise _refused(
            f"namespace is {_shown(said)}; a namespace has at most {LONGEST_NAMESPACE} lower case letters, "
            "digits and -, and begins and ends with none of the latter"
        )
    return said


def _shown(said: str) -> str:
    return repr(said[:_SHOWN] + ("…" if len(said) > _SHOWN else ""))


def _refused(message: str) -> Problem:
    return Problem(Trouble.BAD_PARAMETER, message)
