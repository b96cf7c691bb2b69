"""What pods ask for, and how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from kai.engine.packing.parts import part_worth
from kai.model.arrays import Floats

#: Shapes beyond these change nothing that one could measure.
_MOST_SHAPES: Final = 256


class Shape(NamedTuple):
    """The resources of a pod; ``portion`` is the part that it takes of each device, at most 1."""

    cpu_millis: float
    memory_bytes: float
    devices: int = 0
    portion: float = 1.0
    #: Groups of nodes that it may use; None for all.
    groups: frozenset[int] | None = None

    @property
    def is_shared(self) -> bool:
        """Whether it takes parts of devices."""
        return self.devices > 0 and self.portion < 1.0


#: What is to be placed is a shape too.
Request: TypeAlias = Shape


@dataclass(frozen=True, slots=True)
class Workload:
    """The shapes that want GPUs; arrays have one element for each.

    ``weight`` has a row for each group of nodes: 0 where a shape may not use the group.
    """

    cpu_millis: Floats
    memory_bytes: Floats
    devices: Floats
    portion: Floats
    weight: Floats  # [groups, shapes]
    part_worth: Floats  # [parts.STEPS + 1] devices that a free part of this many steps saves
    beside: Floats  # [2] CPU and memory that pods ask for beside each device, on the average

    @classmethod
    def of(cls, counts: Mapping[Shape, float], *, capacity: Floats | None = None) -> Workload:
        """Weigh shapes by how often they occur, times the square root of the GPUs that each takes.

        By number alone the few pods that need a whole node would lose it long before the cluster is full; by
        GPUs alone the many small ones would find only holes. Shapes without GPUs have no say, and the rarest
        of very many are dropped.

        A shape that may use some groups of nodes only weighs there as much more as it has fewer GPUs to
        choose from: all that wants it comes to these.

        Without any shape that wants GPUs, one whole device and little else is expected.

        Args:
            counts: how often each shape occurs.
            capacity: GPUs of each group of nodes; None is one group.
        """
        wanted = sorted(
            ((shape, count) for shape, count in counts.items() if shape.devices > 0 and count > 0),
            key=lambda each: (-each[1], each[0][:4], sorted(each[0].groups or ())),
        )[:_MOST_SHAPES]
        shapes = [shape for shape, _ in wanted] or [Shape(0.0, 0.0, 1)]
        count = np.array([float(count) for _, count in wanted] or [1.0])
        devices = _column(shape.devices for shape in shapes)
        portion = _column(shape.portion for shape in shapes)
        parts = part_worth(portion, count * devices)
        cpu_millis = _column(shape.cpu_millis for shape in shapes)
        memory_bytes = _column(shape.memory_bytes for shape in shapes)
        beside = np.array([count @ cpu_millis, count @ memory_bytes]) / (count @ (devices * portion))
        count *= np.sqrt([shape.devices * shape.portion for shape in shapes])
        gpus = np.ones(1) if capacity is None else capacity
        allowed = np.array(
            [
                [shape.groups is None or group in shape.groups for shape in shapes]
                for group in range(len(gpus))
            ]
        )
        reach = (allowed * gpus[:, None]).sum(axis=0)
        scarcity = np.divide(gpus.sum(), reach, out=np.zeros(len(shapes)), where=reach > 0)
        return cls(
            cpu_millis=cpu_millis,
            memory_bytes=memory_bytes,
            devices=devices,
            portion=portion,
            weight=allowed * (scarcity * count / count.sum()),
            part_worth=parts,
            beside=beside,
        )


def _column(values: Iterable[float]) -> Floats:
    return np.fromiter(values, dtype=np.float64)
