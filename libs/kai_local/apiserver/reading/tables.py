"""Tables: what ``kubectl get`` prints is computed by the server, as rows of cells."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from kai_local.apiserver.calls.requests import Target
from kai_local.apiserver.clock import Clock, seconds_of
from kai_local.apiserver.errors import Obj
from kai_local.apiserver.reading import jsonpath, printers
from kai_local.apiserver.store.storage import Change, ChangeKind, Record

_encode: Final = msgspec.json.Encoder().encode
_TABLE_API: Final = "meta.k8s.io/v1"


def partial_metadata(obj: Obj) -> Obj:
    """The object's metadata alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": _TABLE_API, "metadata": obj["metadata"]}


def conversion(http: web.BaseRequest, target: Target) -> Callable[[Obj], Obj] | None:
    """How stored objects become what this request wants; None when they are that already."""
    if "as=PartialObjectMetadata" in http.headers.get("Accept", ""):
        return partial_metadata
    return target.version.from_storage


def view_of(http: web.BaseRequest, target: Target, clock: Clock) -> "TableView | None":
    """The table that the request asks for, or None when it wants objects."""
    if "as=Table" not in http.headers.get("Accept", ""):
        return None
    return TableView(target, http.query.get("includeObject", "Metadata"), clock)


class TableView:
    """Rows for the objects of one resource; also renders watch events as tables."""

    def __init__(self, target: Target, include: str, clock: Clock) -> None:
        self._target = target
        self._include = include
        self._clock = clock
        resource = target.resource
        if resource.custom:
            self._columns, self._cells = _custom_columns(target.version.columns)
        else:
            self._columns, self._cells = printers.columns_of(resource.group, resource.kind)
        self._first = True

    def document(self, records: list[Record], metadata: Obj) -> bytes:
        """The table of these objects."""
        return _encode(self._table([record.obj for record in records], metadata, header=True))

    def lines(self, events: list[tuple[ChangeKind, Change]]) -> bytes:
        """Watch events, each with a table of one row; only the first names the columns."""
        return b"".join([self._line(kind, change.seen_as(kind)) for kind, change in events])

    def added(self, records: list[Record]) -> bytes:
        """ADDED events of the objects that are there."""
        return b"".join([self._line("ADDED", record) for record in records])

    def _line(self, kind: str, record: Record) -> bytes:
        header, self._first = self._first, False
        table = self._table([record.obj], {"resourceVersion": str(record.version)}, header=header)
        return _encode({"type": kind, "object": table}) + b"\n"

    def _table(self, objects: list[Obj], metadata: Obj, *, header: bool) -> Obj:
        now = self._clock.now()
        return {
            "kind": "Table",
            "apiVersion": _TABLE_API,
            "metadata": metadata,
            "columnDefinitions": self._columns if header else [],
            "rows": [{"cells": self._cells(obj, now), "object": self._object(obj)} for obj in objects],
        }

    def _object(self, obj: Obj) -> Obj | None:
        if self._include == "None":
            return None
        if self._include == "Object":
            convert = self._target.version.from_storage
            return convert(obj) if convert is not None else obj
        return partial_metadata(obj)


def _custom_columns(columns: tuple[Obj, ...]) -> tuple[list[Obj], Callable[[Obj, float], list[Any]]]:
    """Columns of a custom resource: its name, then what the definition lists, the age by default."""
    extra = columns or (printers.AGE,)
    definitions = [printers.NAME]
    readers = []
    for column in extra:
        shown = {key: column[key] for key in ("name", "type", "format", "description") if key in column}
        definitions.append({"format": "", "description": "", "priority": column.get("priority", 0), **shown})
        readers.append((jsonpath.compile_path(column.get("jsonPath", "")), column["type"]))

    def cells(obj: Obj, now: float) -> list[Any]:
        return [obj["metadata"]["name"], *(_cell(read(obj), kind, now) for read, kind in readers)]

    return definitions, cells


def _cell(values: list[Any], kind: str, now: float) -> Any:
    if not values:
        return None
    value = values[0]
    if kind == "date":
        return printers.duration(now - seconds_of(str(value))) if value else "<unknown>"
    if kind in ("integer", "number", "boolean"):
        return value
    return value if isinstance(value, str) else _encode(value).decode()
