"""Answers a question with what its caller may see of it.

Rows that lie in namespaces are asked for by the namespaces that the caller may see, so that as many come as
he asked for. What is hidden is counted over the whole time that was asked about, whatever else was asked:
else somebody could ask by name what there is where he may not look.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kai.history.databases import Database
from kai.history.questions import Selection, count, find, known_namespaces, namespaces
from kai.history.records import Decision
from kai.history.usage import usage
from kai.kube.resources import POD_GROUPS, QUEUES
from kai.live.redaction import named, redacted
from kai_insight.http.access import Access, Caller
from kai_insight.http.asked import Asked
from kai_insight.http.endpoints import Endpoint
from kai_insight.http.problems import Problem, Trouble
from kai_insight.http.spelling import as_json, encode
from kai_insight.http.store import AskedStore

#: Of so many it is asked which ones somebody may see.
MOST_NAMESPACES: Final = 1000


@dataclass(frozen=True, slots=True)
class Sight:
    """Which namespaces count (None: all of those that were asked about), and which are hidden."""

    namespaces: frozenset[str] | None = None
    hidden: frozenset[str] = frozenset()


class Answers:
    """Answers from one database, as far as one API server lets people see it."""

    def __init__(self, database: Database, store: AskedStore, access: Access) -> None:
        self._database = database
        self._store = store
        self._access = access

    async def answer(self, endpoint: Endpoint, asked: Asked, caller: Caller, *, now: float) -> bytes:
        """The JSON of an answer.

        Raises:
            Problem: the caller may not see this, or somebody who is to be asked does not answer.
        """
        sight = await self._sight(endpoint, asked, caller)

        def look() -> tuple[Sequence[Any], int]:
            return self._rows(endpoint, asked, sight, now=now), self._hidden(endpoint, asked, sight)

        def told(unseen: Container[str], rows: Sequence[Any], hidden: int) -> bytes:
            return document(list(_as_told(rows, asked, unseen)), asked.limit, hidden=hidden)

        if endpoint.looks_at is not Decision or await self._access.may_list(caller, POD_GROUPS):
            return await self._store.ask(lambda: told((), *look()), asker=caller.asker)
        rows, hidden = await self._store.ask(look, asker=caller.asker)
        unseen = await self._unseen(rows, caller)
        return await self._store.ask(lambda: told(unseen, rows, hidden), asker=caller.asker)

    async def _unseen(self, decisions: Sequence[Decision], caller: Caller) -> frozenset[str]:
        """Namespaces that the messages name, and whose pod groups somebody may not list."""
        said = {namespace for each in decisions for namespace in named(each.message)}
        if not said:
            return frozenset()
        if len(said) > MOST_NAMESPACES:
            return frozenset(said)
        # Not everything with a slash in it is of a namespace.
        there = await self._store.ask(lambda: known_namespaces(self._database, said), asker=caller.asker)
        return there - await self._access.visible(caller, there)

    # --- who may see what ----------------------------------------------------------------------------
    async def _sight(self, endpoint: Endpoint, asked: Asked, caller: Caller) -> Sight:
        """What somebody may see of what he asks."""
        by_queue = endpoint.names_queues(asked.by)
        if by_queue:
            await self._access.require(caller, QUEUES)
        if asked.namespace:
            await self._access.require(caller, POD_GROUPS, asked.namespace)
            return Sight()
        if by_queue or await self._access.may_list(caller, POD_GROUPS):
            return Sight()
        there = await self._namespaces(endpoint, asked, caller)
        seen = await self._access.visible(caller, there)
        return Sight(seen, frozenset(there) - seen)

    async def _namespaces(self, endpoint: Endpoint, asked: Asked, caller: Caller) -> list[str]:
        """Those that have rows in the time that is asked about."""
        there = await self._store.ask(
            lambda: namespaces(self._database, endpoint.looks_at, asked.span, most=MOST_NAMESPACES + 1),
            asker=caller.asker,
        )
        if len(there) > MOST_NAMESPACES:
            raise Problem(
                Trouble.TOO_MANY_NAMESPACES,
                f"more than {MOST_NAMESPACES} namespaces have rows in this time; name one with namespace, or "
                "ask about less time",
            )
        return there

    # --- rows ----------------------------------------------------------------------------------------
    def _rows(self, endpoint: Endpoint, asked: Asked, sight: Sight, *, now: float) -> Sequence[Any]:
        """One more than is wanted, if there is."""
        if endpoint.adds_up:
            only = frozenset({asked.namespace}) if asked.namespace else sight.namespaces
            until = now if asked.until is None else asked.until
            return usage(
                self._database, by=asked.by, since=asked.since, until=until, now=now, namespaces=only
            )
        selection = replace(asked.selection, namespaces=sight.namespaces)
        kind: Any = endpoint.looks_at
        return find(self._database, kind, selection, most=asked.limit + 1)

    def _hidden(self, endpoint: Endpoint, asked: Asked, sight: Sight) -> int:
        if not sight.hidden:
            return 0
        selection = Selection(since=asked.since, until=asked.until, namespaces=sight.hidden)
        return count(self._database, endpoint.looks_at, selection)


def _as_told(rows: Sequence[Any], asked: Asked, unseen: Container[str]) -> Iterator[Any]:
    """Rows as somebody may read them; what he is not told he cannot guess by asking for it either."""
    if not unseen:
        yield from rows
        return
    said = asked.selection.equal.get("message")
    for each in rows:
        told = redacted(each.message, unseen)
        if said is None or told == said:
            yield replace(each, message=told)


def document(rows: Sequence[Any], limit: int, *, hidden: int) -> bytes:
    """The JSON of rows, of which so many were wanted; ``hidden``: those that the caller may not see."""
    items = [as_json(row) for row in rows[:limit]]
    return encode({"items": items, "more": len(rows) > limit, "hidden": hidden})
