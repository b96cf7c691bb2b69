"""Logs: one event per line, a short lower-case phrase and key-value pairs.

JSON where nobody reads along (not a terminal) or if told so; colours otherwise. Everything that
logs through the standard library (aiohttp, grpc, asyncio) comes out the same way. How loud each part is
can be changed at any time.
"""

from __future__ import annotations

import io
import logging
import sys
from dataclasses import dataclass, field
from typing import Any, TextIO

import structlog
from structlog.typing import Processor

from kai.model.log_levels import LogLevels
from kai.model.visible import visible

#: Without local variables: those of a scheduling cycle are the whole cluster, and take minutes to render.
_TRACEBACKS = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


@dataclass(frozen=True, slots=True)
class ObserveSettings:
    """How loud, and in which form. ``json`` None means: unless stderr is a terminal."""

    levels: LogLevels = field(default_factory=LogLevels)
    json: bool | None = None


class _Loudness:
    """The levels in force. Loggers ask for their own with each event, so it is remembered by name."""

    def __init__(self) -> None:
        self.levels = LogLevels()
        self._known: dict[str, int] = {}

    def of(self, name: str) -> int:
        try:
            return self._known[name]
        except KeyError:
            level = self._known[name] = self.levels.of(name)
            return level

    def change(self, levels: LogLevels) -> None:
        for part, _ in self.levels.parts:
            logging.getLogger(part).setLevel(logging.NOTSET)
        self.levels = levels
        self._known = {}
        # Libraries are chatty at the levels at which we are not.
        logging.getLogger().setLevel(max(levels.default, logging.WARNING))
        for part, level in levels.parts:
            logging.getLogger(part).setLevel(level)


_LOUDNESS = _Loudness()


def log_levels() -> LogLevels:
    """The levels in force."""
    return _LOUDNESS.levels


def change_log_levels(levels: LogLevels) -> None:
    """Be so loud from now on."""
    _LOUDNESS.change(levels)


def configure(*, service: str, settings: ObserveSettings | None = None) -> None:
    """Set logging up for this process; every line carries ``service``, and the module that says it."""
    settings = settings or ObserveSettings()
    as_json = settings.json if settings.json is not None else not sys.stderr.isatty()
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        _add_logger,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering: list[Processor] = (
        [_TRACEBACKS, structlog.processors.JSONRenderer()]
        if as_json
        else [
            _spelled,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_traceback),
        ]
    )
    stderr = sys.stderr
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=_Logger,
        logger_factory=lambda *name: _Output(*name, file=stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(service=service)
    _take_over_standard_library(shared, rendering)
    change_log_levels(settings.levels)


class _Output(structlog.WriteLogger):
    """Writes lines of one module."""

    def __init__(self, name: str = "", *, file: TextIO) -> None:
        super().__init__(file)
        self.name = name


class _Logger(structlog.BoundLoggerBase):
    """Says an event if its module is that loud at this moment."""

    def debug(self, event: str, **values: Any) -> None:
        self._say("debug", logging.DEBUG, event, values)

    def info(self, event: str, **values: Any) -> None:
        self._say("info", logging.INFO, event, values)

    def warning(self, event: str, **values: Any) -> None:
        self._say("warning", logging.WARNING, event, values)

    def error(self, event: str, **values: Any) -> None:
        self._say("error", logging.ERROR, event, values)

    def critical(self, event: str, **values: Any) -> None:
        self._say("critical", logging.CRITICAL, event, values)

    def exception(self, event: str, **values: Any) -> None:
        self._say("error", logging.ERROR, event, {"exc_info": True, **values})

    def _say(self, method: str, level: int, event: str, values: dict[str, Any]) -> None:
        if level >= _LOUDNESS.of(self._logger.name):
            self._proxy_to_logger(method, event, **values)


def _add_logger(logger: Any, method: str, event: Any) -> Any:
    """The module, which is what one names to make it louder."""
    del method
    named = event.get("_record", logger)  # a record of the standard library
    if named is not None and named.name:
        event["logger"] = named.name
    return event


def _spelled(logger: Any, method: str, event: Any) -> Any:
    """What others wrote commands no terminal. The renderer sees only to blanks and ends of lines."""
    del logger, method
    return {key: visible(said, lines=True) if isinstance(said, str) else said for key, said in event.items()}


def _traceback(out: TextIO, exc_info: Any) -> None:
    written = io.StringIO()
    structlog.dev.plain_traceback(written, exc_info)
    out.write(visible(written.getvalue(), lines=True))


def _take_over_standard_library(shared: list[Processor], rendering: list[Processor]) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    logging.getLogger().handlers = [handler]
