"""Logs: one event per line, a short lower-case phrase and key-value pairs.

JSON where nobody reads along (not a terminal) or if told so; colours otherwise. Everything that
logs through the standard library (aiohttp, grpc, asyncio) comes out the same way.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass

import structlog
from structlog.typing import Processor

#: Without local variables: those of a scheduling cycle are the whole cluster, and take minutes to render.
_TRACEBACKS = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


@dataclass(frozen=True, slots=True)
class ObserveSettings:
    """How loud, and in which form. ``json`` None means: unless stderr is a terminal."""

    level: int = logging.INFO
    json: bool | None = None


def configure(*, service: str, settings: ObserveSettings | None = None) -> None:
    """Set logging up for this process; every line carries ``service``."""
    settings = settings or ObserveSettings()
    as_json = settings.json if settings.json is not None else not sys.stderr.isatty()
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering: list[Processor] = (
        [_TRACEBACKS, structlog.processors.JSONRenderer()]
        if as_json
        else [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(settings.level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(service=service)
    _take_over_standard_library(shared, rendering, settings.level)


def _take_over_standard_library(shared: list[Processor], rendering: list[Processor], level: int) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    # Libraries are chatty at the levels at which we are not.
    root.setLevel(max(level, logging.WARNING))
