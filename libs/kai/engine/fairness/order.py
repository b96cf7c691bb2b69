"""Which of two sibling queues is served first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from kai.engine.fairness.queues import TOLERANCE, Floats, QueueColumns, QueueShares, Triple

NO_RESOURCES: Final[Triple] = (0.0, 0.0, 0.0)
#: A queue's key: compare with ``<``; the last element is the rank, so no two queues are equal.
QueueKey: TypeAlias = tuple[bool, bool, int, bool, float, float, float, float, float, int]

_NO_SHARE_PENALTY: Final = 1000.0
_LARGER_THAN_ANY: Final = float("inf")


class QueueOrder:
    """Keys of queues for one cycle; ``columns.allocated`` is read at each call.

    The steps, the first that decides: not over its fair share in all resources; deserves what its next job
    adds; higher priority; uses nothing of what it has no share in; smaller dominant share with that job and
    without the given victims; smaller dominant share; smaller allocatable share; older. Unlike the
    original's comparison this is a strict order: where allocatable shares cannot be compared, that of GPUs
    decides, then CPU, then memory.
    """

    __slots__ = ("_allocated", "_priority", "_rank", "_scale", "_shares", "_unshared", "_weakness")

    def __init__(
        self,
        columns: QueueColumns,
        shares: QueueShares,
        priority: Sequence[int],
        rank: Sequence[int],
        total: Floats,
    ) -> None:
        self._allocated = columns.allocated
        self._shares = shares
        self._priority = priority
        self._rank = rank
        #: Per queue: what turns an amount into a share; the resources of which it may have nothing.
        self._scale = [_scale(share, total.tolist()) for share in shares.allocatable]
        self._unshared = [tuple(i for i in (0, 1, 2) if share[i] == 0) for share in shares.allocatable]
        self._weakness = [
            tuple(share[resource] if share[resource] >= 0 else _LARGER_THAN_ANY for resource in (2, 0, 1))
            for share in shares.allocatable
        ]

    def key(self, queue: int, *, job: Triple = NO_RESOURCES, victims: Triple = NO_RESOURCES) -> QueueKey:
        """The key of a queue whose next job would add ``job``, less what its victims hold."""
        cpu, memory, gpu = self._allocated[queue].tolist()
        fair_cpu, fair_memory, fair_gpu = self._shares.fair[queue]
        over = fair_cpu < cpu - TOLERANCE and fair_memory < memory - TOLERANCE and fair_gpu < gpu - TOLERANCE
        with_job = (cpu + job[0], memory + job[1], gpu + job[2])
        gpus, cpus, memories = self._weakness[queue]
        by_cpu, by_memory, by_gpu = self._scale[queue]
        share = max(0.0, cpu * by_cpu, memory * by_memory, gpu * by_gpu)
        share_then = max(
            0.0,
            (with_job[0] - victims[0]) * by_cpu,
            (with_job[1] - victims[1]) * by_memory,
            (with_job[2] - victims[2]) * by_gpu,
        )
        return (
            over,
            not fits(with_job, self._shares.deserved[queue]),
            -self._priority[queue],
            bool(self._unshared[queue]) and self._uses_unshared(queue, with_job),
            round(share_then, 9),
            round(share, 9),
            gpus,
            cpus,
            memories,
            self._rank[queue],
        )

    def dominant_share(self, queue: int) -> float:
        """The largest part that the queue has of any resource it may allocate."""
        cpu, memory, gpu = self._allocated[queue].tolist()
        return self._dominant(queue, cpu, memory, gpu)

    def _dominant(self, queue: int, cpu: float, memory: float, gpu: float) -> float:
        scale = self._scale[queue]
        return round(max(0.0, cpu * scale[0], memory * scale[1], gpu * scale[2]), 9)

    def _uses_unshared(self, queue: int, amount: Triple) -> bool:
        return any(amount[resource] > TOLERANCE for resource in self._unshared[queue])


def _scale(share: Triple, total: list[float]) -> Triple:
    cpu, memory, gpu = (part if part >= 0 else most for part, most in zip(share, total, strict=True))
    return (_inverse(cpu), _inverse(memory), _inverse(gpu))


def _inverse(most: float) -> float:
    return 1.0 / most if most else _NO_SHARE_PENALTY


def fits(amount: Triple, bound: Triple) -> bool:
    """Whether the amount is within the bound in all resources; -1 bounds nothing."""
    return not (
        (amount[0] > bound[0] + TOLERANCE and bound[0] >= 0)
        or (amount[1] > bound[1] + TOLERANCE and bound[1] >= 0)
        or (amount[2] > bound[2] + TOLERANCE and bound[2] >= 0)
    )
