"""Traces: nodes and pods as CSV files.

Nodes have the columns ``sn`` (name), ``cpu_milli``, ``memory_mib``, ``gpu`` (devices) and ``model``; pods
``name``, ``cpu_milli``, ``memory_mib``, ``num_gpu``, ``gpu_milli`` (of each device, 1000 is a whole one) and
``gpu_spec`` (allowed models separated by ``|``, empty for any). Further columns are ignored.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from kai.engine.packing import Shape
from kai.model.arrays import Floats

T = TypeVar("T")

_WHOLE_MILLI: Final = 1000
_MIB: Final = 2**20


class InvalidTrace(ValueError):
    """A file is not a trace; the message names file, line and column."""


@dataclass(frozen=True, slots=True)
class TraceNode:
    """A node and its GPU devices."""

    name: str
    cpu_millis: float
    memory_bytes: float
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class Trace:
    """Nodes by name, and the shapes of the pods, one for each pod; node groups are GPU models."""

    nodes: tuple[TraceNode, ...]
    models: tuple[str, ...]
    pods: tuple[Shape, ...]

    @property
    def gpus(self) -> int:
        """Devices in the cluster."""
        return sum(node.gpus for node in self.nodes)

    @property
    def gpus_by_model(self) -> Floats:
        """Devices of each model, in the order of ``models``."""
        return np.array([sum(n.gpus for n in self.nodes if n.model == model) for model in self.models], float)


def bound_to_models(trace: Trace, part: float, *, seed: int = 0) -> Trace:
    """The trace with a part of the pods that want GPUs bound to a model each, as where users name one.

    A model is that of a node that can take the pod, drawn by its GPUs. ``part`` is from 0 to 1.
    """
    rng = np.random.default_rng(seed)
    group = {model: at for at, model in enumerate(trace.models)}
    of_node = np.array([group[node.model] for node in trace.nodes])
    gpus, cpu_millis, memory_bytes = (
        np.array([getattr(node, name) for node in trace.nodes], dtype=np.float64)
        for name in ("gpus", "cpu_millis", "memory_bytes")
    )

    def bound(pod: Shape) -> Shape:
        able = (gpus >= pod.devices) & (cpu_millis >= pod.cpu_millis) & (memory_bytes >= pod.memory_bytes)
        weight = np.where(able, gpus, 0.0)
        if not pod.devices or pod.groups is not None or rng.random() >= part or not weight.any():
            return pod
        return pod._replace(groups=frozenset({int(of_node[rng.choice(len(gpus), p=weight / weight.sum())])}))

    return replace(trace, pods=tuple(map(bound, trace.pods)))


def read_trace(nodes: Path, pods: Path) -> Trace:
    """Read both files.

    Raises:
        InvalidTrace: a column is missing, a value makes no sense, or there is nothing to pack.
    """
    found = sorted(_rows(nodes, _node), key=lambda node: node.name)
    models = tuple(sorted({node.model for node in found}))
    group = {model: at for at, model in enumerate(models)}
    shapes = tuple(_rows(pods, lambda row: _shape(row, group)))
    trace = Trace(tuple(found), models, shapes)
    if not trace.gpus:
        raise InvalidTrace(f"{nodes}: there are no GPUs (column gpu)")
    if not any(shape.devices for shape in shapes):
        raise InvalidTrace(f"{pods}: no pod asks for a GPU (columns num_gpu and gpu_milli)")
    return trace


def _rows(path: Path, read: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            for row in rows:
                try:
                    yield read(row)
                except KeyError as error:
                    raise InvalidTrace(f"{path}: column {error.args[0]!r} is missing") from None
                except ValueError as error:
                    raise InvalidTrace(f"{path}, line {rows.line_num}: {error}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidTrace(f"{path}: {error}") from None


def _node(row: dict[str, Any]) -> TraceNode:
    return TraceNode(
        _text(row, "sn"),
        _amount(row, "cpu_milli"),
        _amount(row, "memory_mib") * _MIB,
        _count(row, "gpu"),
        _text(row, "model"),
    )


def _shape(row: dict[str, Any], group: dict[str, int]) -> Shape:
    devices, milli = _count(row, "num_gpu"), _count(row, "gpu_milli")
    if devices and not 0 < milli <= _WHOLE_MILLI:
        raise ValueError(f"gpu_milli is {milli}; it must be within 1 and 1000")
    spec = _text(row, "gpu_spec") if "gpu_spec" in row else ""
    allowed = [model for model in spec.split("|") if model]
    return Shape(
        cpu_millis=_amount(row, "cpu_milli"),
        memory_bytes=_amount(row, "memory_mib") * _MIB,
        devices=devices,
        portion=milli / _WHOLE_MILLI if devices else 1.0,
        groups=frozenset(group[model] for model in allowed if model in group) if allowed else None,
    )


def _text(row: dict[str, Any], column: str) -> str:
    """
    Raises:
        KeyError: no row has the column.
        ValueError: this one ends before it.
    """
    if row[column] is None:
        raise ValueError(f"column {column!r} is missing")
    return str(row[column])


def _amount(row: dict[str, Any], column: str) -> float:
    """A number, 0 where nothing is written."""
    text = _text(row, column)
    try:
        amount = float(text or 0)
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount):
        raise ValueError(f"{column} is {text!r}, not a number")
    if amount < 0:
        raise ValueError(f"{column} is negative")
    return amount


def _count(row: dict[str, Any], column: str) -> int:
    amount = _amount(row, column)
    if not amount.is_integer():
        raise ValueError(f"{column} is {row[column]!r}, not a whole number")
    return int(amount)
