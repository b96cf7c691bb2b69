"""Scenarios for a job that a limit keeps out: what counts is the queue of victims, not where they run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kai.engine.queueing.batches import Batch
from kai.engine.queueing.requests import asked
from kai.engine.search.scenarios import Accumulation, Proposal
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.rows import Queue

#: What limits are off by rounding.
_NEAR: Final = 1e-6


def below_limits(state: Accumulation) -> Iterator[Proposal]:
    """Victims below the queues that have no room, in order, until they have; then twice as many, and so on.

    Wherever they run: the job goes to what is free, and whose room is not needed after all goes on.
    """
    lacking = _lacking(state)
    if not lacking:
        return
    for batch in state.recorded:
        _take(lacking, batch)
    found: list[int] = []
    seen = proposed = 0
    for any_potential in state.states():
        if not any_potential:
            if state.recorded:
                yield ()
            continue
        found += [batch.number for batch in state.drawn_since(seen) if _take(lacking, batch)]
        seen = state.drawn
        if len(found) >= max(2 * proposed, 1) and not any(map(_any_left, lacking.values())):
            proposed = len(found)
            yield state.chosen(found)
    if len(found) > proposed > 0:
        yield state.chosen(found)


def _lacking(state: Accumulation) -> dict[Queue, list[float]]:
    """By queue what it would hold above its limit: millicores, bytes and hundredths of GPUs.

    Only if none lacks room for these tasks all that have a limit: those for more of the job may lack it.
    """
    found: dict[Queue, list[float]] = {}
    job = state.tasks[0].job
    wanted = asked(state.tasks, gpu_memory_mib=state.session.state.max_gpu_memory_mib)
    for queue in job.queue.path if job is not None else ():
        held, (cpu, memory, gpus) = queue.allocated.amounts(), queue.limit
        most = (cpu, memory, gpus * GPU_CENTI)
        bound = [bool(more) and limit >= 0 for more, limit in zip(wanted, most, strict=True)]
        if any(bound):
            found[queue] = [
                have + more - limit if counts else 0.0
                for have, more, limit, counts in zip(held, wanted, most, bound, strict=True)
            ]
    some = {queue: over for queue, over in found.items() if _any_left(over)}
    return some or found


def _any_left(over: list[float]) -> bool:
    return max(over) > _NEAR


def _take(lacking: dict[Queue, list[float]], batch: Batch) -> bool:
    """Count a batch as gone; whether that helps any of the queues."""
    helped = False
    for queue in batch.job.queue.path:
        over = lacking.get(queue)
        if over is None:
            continue
        helped = True
        for task in batch.tasks:
            if task.charged is not None:
                over[:] = [have - less for have, less in zip(over, task.charged, strict=True)]
    return helped
