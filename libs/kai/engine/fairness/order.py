"""Which of two sibling queues is served first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from kai.engine.fairness.queues import RESOURCES, TOLERANCE, QueueColumns, QueueShares
from kai.model.arrays import Floats, Ints
from kai.model.decisions import CPU, GPU, MEMORY, ResourceVector
from kai.model.rules.gpu_shares import GPU_CENTI

NO_RESOURCES: Final[ResourceVector] = (0.0, 0.0, 0.0)
#: A queue's key: compare with ``<``. Of queues with equal keys the older comes first.
QueueKey: TypeAlias = tuple[float, ...]

#: What an amount counts times where its queue has no share at all; the original's number.
_NO_SHARE_PENALTY: Final = 1000.0
_BILLION: Final = 1e9
#: A share without bound, which elsewhere is -1.
_LARGER_THAN_ANY: Final = float("inf")


class _Constants(NamedTuple):
    fair: ResourceVector
    deserved: ResourceVector
    #: What turns an amount into a share.
    scale: ResourceVector
    #: The resources of which the queue may have nothing.
    unshared: tuple[int, ...]
    #: Its priority, the higher the smaller.
    order: int
    #: Allocatable GPUs, CPU and memory.
    weakness: tuple[float, ...]


class FairOrder:
    """Keys of queues for one cycle; ``columns.allocated`` is read at each call.

    The steps, the first that decides: not over its fair share in all resources; deserves what its next job
    adds; higher priority; uses nothing of what it has no share in; smaller dominant share with that job and
    without the given victims; smaller dominant share; smaller allocatable share. Unlike the
    original's comparison this is an order: where allocatable shares cannot be compared, that of GPUs
    decides, then CPU, then memory.
    """

    __slots__ = ("_allocated", "_constants", "_known")

    def __init__(
        self,
        columns: QueueColumns,
        *,
        shares: QueueShares,
        priority: Sequence[int],
        total: Floats,
    ) -> None:
        self._allocated = columns.allocated
        most = total.tolist()
        #: Per queue, what of its key does not change in a cycle.
        self._constants = [
            _Constants(
                fair=shares.fair[row],
                deserved=shares.deserved[row],
                scale=_scale(share, most),
                unshared=tuple([each for each in range(RESOURCES) if share[each] == 0]) if 0 in share else (),
                order=-priority[row],
                weakness=tuple(
                    share[each] if share[each] >= 0 else _LARGER_THAN_ANY for each in (GPU, CPU, MEMORY)
                ),
            )
            for row, share in enumerate(shares.allocatable)
        ]

        self._known: tuple[Any, ...] | None = None

    def key(
        self, queue: int, *, job: ResourceVector = NO_RESOURCES, victims: ResourceVector = NO_RESOURCES
    ) -> QueueKey:
        """The key of a queue whose next job would add ``job``, less what its victims hold."""
        cpu, memory, gpu = self._allocated[queue].tolist()
        fair, deserved, (by_cpu, by_memory, by_gpu), unshared, order, weakness = self._constants[queue]
        # In all three, as in the original: what is within its share of anything is not over.
        most_cpu, most_memory, most_gpu = fair
        over = most_gpu < gpu - TOLERANCE and most_cpu < cpu - TOLERANCE and most_memory < memory - TOLERANCE
        share = max(0.0, cpu * by_cpu, memory * by_memory, gpu * by_gpu)
        job_cpu, job_memory, job_gpu = job
        cpu, memory, gpu = cpu + job_cpu, memory + job_memory, gpu + job_gpu
        most_cpu, most_memory, most_gpu = deserved
        within = not (
            0 <= most_gpu < gpu - TOLERANCE
            or 0 <= most_cpu < cpu - TOLERANCE
            or 0 <= most_memory < memory - TOLERANCE
        )
        strays = False
        if unshared:
            amount = (cpu, memory, gpu)
            strays = any(amount[resource] > TOLERANCE for resource in unshared)
        if victims is not NO_RESOURCES:
            lost_cpu, lost_memory, lost_gpu = victims
            cpu, memory, gpu = cpu - lost_cpu, memory - lost_memory, gpu - lost_gpu
        then = max(0.0, cpu * by_cpu, memory * by_memory, gpu * by_gpu)
        return (over, not within, order, strays, _rounded(then), _rounded(share), *weakness)

    def columns(self, queues: Ints, *, held: Ints, jobs: Ints) -> tuple[Floats | Ints, ...]:
        """The parts of the keys of many queues, each with what it holds and its next job, as in :meth:`key`.

        ``held`` and ``jobs`` are ``[keys, 3]`` in millicores, bytes and hundredths of GPUs.
        """
        fair, deserved, scale, unshared, order, weakness = self._columns()
        units = np.array([1.0, 1.0, GPU_CENTI])
        now, added = held / units, jobs / units
        then = now + added
        deserved, scale = deserved[queues], scale[queues]
        return (
            (fair[queues] < now - TOLERANCE).all(axis=1),
            ((deserved >= 0) & (deserved < then - TOLERANCE)).any(axis=1),
            order[queues],
            (unshared[queues] & (then > TOLERANCE)).any(axis=1),
            np.floor((then * scale).max(axis=1, initial=0.0) * _BILLION + 0.5),
            np.floor((now * scale).max(axis=1, initial=0.0) * _BILLION + 0.5),
            *weakness[queues].T,
        )

    def _columns(self) -> tuple[Any, ...]:
        if self._known is None:
            fair, deserved, scale, unshared, order, weakness = zip(*self._constants, strict=True)
            mask = np.array([[number in each for number in range(RESOURCES)] for each in unshared])
            self._known = (*map(np.array, (fair, deserved, scale)), mask, *map(np.array, (order, weakness)))
        return self._known


def _rounded(share: float) -> float:
    """In billionths, so that what differs only by rounding is equal."""
    return (share * _BILLION + 0.5) // 1.0


def _scale(share: ResourceVector, total: list[float]) -> ResourceVector:
    cpu, memory, gpu = map(_inverse, share, total)
    return (cpu, memory, gpu)


def _inverse(share: float, total: float) -> float:
    most = share if share >= 0 else total
    return 1.0 / most if most else _NO_SHARE_PENALTY


def added(amount: ResourceVector, more: ResourceVector) -> ResourceVector:
    """The sum of two amounts in the same units."""
    cpu, memory, gpu = amount
    more_cpu, more_memory, more_gpu = more
    return (cpu + more_cpu, memory + more_memory, gpu + more_gpu)


def fits(amount: ResourceVector, *, bound: ResourceVector) -> bool:
    """Whether the amount is within the bound in all resources; -1 bounds nothing.

    Both in the same units, in the order of :data:`~kai.model.decisions.ResourceVector`. What exceeds a bound
    by no more than ``TOLERANCE`` is within it: sums of floats are not exact.
    """
    cpu, memory, gpu = amount
    most_cpu, most_memory, most_gpu = bound
    return not (
        (cpu > most_cpu + TOLERANCE and most_cpu >= 0)
        or (memory > most_memory + TOLERANCE and most_memory >= 0)
        or (gpu > most_gpu + TOLERANCE and most_gpu >= 0)
    )
