"""Arrivals on a cluster, one after the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from kai.engine.packing import FreeNodes, Shape
from kai.model.arrays import Floats, Ints
from kai.pack import strategies
from kai.pack.trace import Trace

#: Arrivals stop when they ask for this part of the cluster's GPUs.
FULL_DEMAND: Final = 1.3
#: What has arrived is learned anew whenever it has grown by this factor.
_LEARN_AT_GROWTH: Final = 2.0
_NEVER: Final = -np.inf


@dataclass(frozen=True, slots=True)
class Packing:
    """One run. Percentages of the cluster's GPUs: what had arrived, and what was allocated then."""

    demanded: Floats
    allocated: Floats

    def at(self, percent: float) -> float:
        """Allocated when no more than this demand had arrived; 0 if nothing had."""
        before = int(np.searchsorted(self.demanded, percent + 1e-9, side="right"))
        return float(self.allocated[before - 1]) if before else 0.0


class _Class:
    """The pods of one shape, and the scores of all nodes for them at a position in the log."""

    __slots__ = ("allowed", "device", "position", "score", "shape")

    def __init__(self, shape: Shape, group: Ints) -> None:
        self.shape = shape
        self.allowed = (
            np.ones(len(group), dtype=bool) if shape.groups is None else np.isin(group, list(shape.groups))
        )
        self.score = np.full(len(group), _NEVER)
        self.device = np.full(len(group), -1, dtype=np.int64)
        self.position = -1


class Simulation:
    """One cluster that fills up by one strategy."""

    def __init__(self, trace: Trace, strategy: strategies.Strategy) -> None:
        nodes = trace.nodes
        widest = max(node.gpus for node in nodes)
        group = {model: at for at, model in enumerate(trace.models)}
        self._strategy = strategy
        self._gpus = trace.gpus
        self._free = FreeNodes(
            cpu_millis=np.array([node.cpu_millis for node in nodes]),
            memory_bytes=np.array([node.memory_bytes for node in nodes]),
            whole=np.array([float(node.gpus) for node in nodes]),
            shared=np.zeros((len(nodes), widest)),
            group=np.array([group[node.model] for node in nodes]),
        )
        self._capacity = self._free.rows(np.arange(len(nodes)))
        self._classes: dict[Shape, _Class] = {}
        self._touched: list[int] = []

    def run(self, arrivals: list[Shape]) -> Packing:
        """Place the arrivals in order; those that do not fit are lost."""
        demanded: list[float] = []
        allocated: list[float] = []
        seen: Counter[Shape] = Counter()
        demand = held = 0.0
        learn_at = 1.0
        for number, shape in enumerate(arrivals, 1):
            gpus = shape.devices * shape.portion
            demand += gpus
            seen[shape] += 1
            if number >= learn_at:
                learn_at = number * _LEARN_AT_GROWTH
                self._learn(seen)
            if self._place(shape):
                held += gpus
            demanded.append(demand)
            allocated.append(held)
        scale = 100.0 / self._gpus
        return Packing(np.array(demanded) * scale, np.array(allocated) * scale)

    def _learn(self, seen: Counter[Shape]) -> None:
        self._strategy.learn(seen)
        for each in self._classes.values():
            each.position = -1

    def _place(self, shape: Shape) -> bool:
        found = self._classes.get(shape)
        if found is None:
            found = self._classes[shape] = _Class(shape, self._free.group)
        self._refresh(found)
        row = int(found.score.argmax())
        if found.score[row] == _NEVER:
            return False
        self._take(row, shape, int(found.device[row]))
        return True

    def _refresh(self, cls: _Class) -> None:
        """Score again the nodes that were touched since the class was last used."""
        if cls.position < 0:
            rows = np.flatnonzero(cls.allowed)
        else:
            rows = np.unique(np.array(self._touched[cls.position :], dtype=np.int64))
            rows = rows[cls.allowed[rows]]
        cls.position = len(self._touched)
        if rows.size:
            free, capacity = self._free.rows(rows), self._capacity.rows(rows)
            cls.score[rows], cls.device[rows] = self._strategy.score(free, capacity, cls.shape)

    def _take(self, row: int, shape: Shape, device: int) -> None:
        free = self._free
        free.cpu_millis[row] -= shape.cpu_millis
        free.memory_bytes[row] -= shape.memory_bytes
        if not shape.is_shared:
            free.whole[row] -= shape.devices
        elif device >= 0:
            self._take_part(row, device, shape.portion)
        else:
            self._take_parts(row, shape)
        self._touched.append(row)

    def _take_parts(self, row: int, shape: Shape) -> None:
        """Parts of devices in use, fullest first where there are several to take, then of whole ones."""
        shared = self._free.shared[row]
        room = [
            device for device in np.argsort(shared, kind="stable") if shared[device] >= shape.portion - 1e-6
        ]
        joined = room[: shape.devices] if shape.devices > 1 else []
        for device in joined:
            self._take_part(row, int(device), shape.portion)
        unused = np.flatnonzero(shared == 0.0)
        for _, device in zip(range(shape.devices - len(joined)), unused, strict=False):
            self._free.whole[row] -= 1
            shared[device] = round(1.0 - shape.portion, 6)

    def _take_part(self, row: int, device: int, portion: float) -> None:
        self._free.shared[row, device] = round(max(self._free.shared[row, device] - portion, 0.0), 6)


def arrivals_of(trace: Trace, seed: int) -> list[Shape]:
    """Pods drawn with replacement until they ask for more than :data:`FULL_DEMAND` of the GPUs."""
    rng = np.random.default_rng(seed)
    drawn: list[Shape] = []
    left = FULL_DEMAND * trace.gpus
    while left >= 0:
        shape = trace.pods[int(rng.integers(len(trace.pods)))]
        left -= shape.devices * shape.portion
        drawn.append(shape)
    return drawn


def pack(trace: Trace, strategy: str, seed: int) -> Packing:
    """One run of a strategy, by name."""
    made = strategies.make(strategy, capacity=trace.gpus_by_model)
    return Simulation(trace, made).run(arrivals_of(trace, seed))
