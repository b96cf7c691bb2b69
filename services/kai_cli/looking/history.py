"""The past over HTTP, as insight tells it over gRPC."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kai.wire.history import HistoryClient
from kai_cli.looking.knowledge import OwnKnowledge
from kai_insight.http.answers import document
from kai_insight.http.asked import Asked
from kai_insight.http.endpoints import Endpoint
from kai_insight.http.problems import Problem, Trouble
from kai_insight.live.knowledge import Unknown


async def answer(knowledge: OwnKnowledge, endpoint: Endpoint, asked: Asked) -> bytes:
    """The JSON of rows.

    Raises:
        Problem: insight does not answer (503).
    """

    async def rows(history: HistoryClient) -> Sequence[Any]:
        if endpoint.adds_up:
            until = time.time() if asked.until is None else asked.until
            return await history.usage(by=asked.by, since=asked.since, until=until, namespace=asked.namespace)
        kind: Any = endpoint.looks_at
        found, more = await history.find(kind, asked.selection, most=asked.limit)
        return [*found, None] if more else found

    try:
        return document(await knowledge.asked(rows), asked.limit, hidden=0)
    except Unknown as error:
        raise Problem(Trouble.STORE_AWAY, str(error)) from error
