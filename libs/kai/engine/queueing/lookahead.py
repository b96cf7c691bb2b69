"""The order in which jobs will be served if each of them gets what it asks for, found for all at once.

A queue's key depends only on what it holds and on its next job. So as long as nobody is refused, the keys
that a queue will have, job after job, are known beforehand, and serving the best queue each time is merging
sequences, level by level from the leaves up. A job with a smaller key than one before it in its own queue
follows that one directly, so sequences are merged by the largest key so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from kai.engine.queueing.chunks import only_task, tasks_to_allocate
from kai.engine.queueing.queue_order import QueueOrder
from kai.engine.queueing.requests import asked
from kai.model.arrays import Ints
from kai.snapshot.amounts import Amounts
from kai.snapshot.rows import Job, Queue, Task

#: A job that will be served, and its task if it has just one.
Foreseen: TypeAlias = tuple[Job, Task | None]


def look_ahead(
    leaves: Sequence[tuple[Queue, Sequence[Job]]], *, order: QueueOrder, gpu_memory_mib: int
) -> list[Foreseen] | None:
    """The jobs of leaf queues in the order of service, up to the first after which too little is known.

    None where nobody can tell the keys that queues will have.
    """
    jobs: list[Foreseen] = []
    #: Which of the amounts each job asks for: most ask for the same.
    chunks: list[int] = []
    amounts: dict[Amounts, int] = {}
    leaf: list[int] = []
    open_ends: list[int] = []
    for number, (_, waiting) in enumerate(leaves):
        begin = len(jobs)
        for job in waiting:
            task = only_task(job)
            jobs.append((job, task))
            if task is not None and not task.cls.gpu_memory_mib:
                chunks.append(amounts.setdefault(task.cls.charge(gpu_memory_mib), len(amounts)))
                continue
            tasks = tasks_to_allocate(job)
            chunks.append(amounts.setdefault(asked(tasks, gpu_memory_mib=gpu_memory_mib), len(amounts)))
            # With more chunks it competes again, and what memory of GPUs is charged depends on the node: the
            # keys after it are known only when it has its place.
            if len(tasks) != job.pending or any(task.cls.gpu_memory_mib for task in tasks):
                open_ends.append(len(jobs) - 1)
                break
        leaf += [number] * (len(jobs) - begin)
    if not jobs:
        return []
    paths = [queue.path[::-1] for queue, _ in leaves]
    asks = np.array(list(amounts), dtype=np.int64)[chunks]
    sequence = _merged(paths, order, np.array(leaf, dtype=np.int64), asks)
    if sequence is None:
        return None
    if open_ends:
        sequence = sequence[: int(np.isin(sequence, open_ends).argmax()) + 1]
    return [jobs[position] for position in sequence.tolist()]


def _merged(paths: Sequence[tuple[Queue, ...]], order: QueueOrder, leaf: Ints, chunks: Ints) -> Ints | None:
    """Positions of jobs in the order of service; ``paths`` lead from the top down to each leaf."""
    depths = max(map(len, paths))
    #: ``[depth + 1, leaves]`` rows of queues, above the top and below leaves -1.
    rows = np.full((depths + 1, len(paths)), -1, dtype=np.int64)
    held: dict[int, Amounts] = {}
    for number, path in enumerate(paths):
        for depth, queue in enumerate(path):
            rows[depth + 1, number] = queue.row
            held[queue.row] = queue.allocated.amounts()
    sequence = np.arange(len(leaf))
    for depth in range(depths, 0, -1):
        row = rows[depth][leaf[sequence]]
        here = np.flatnonzero(row >= 0)
        here = here[np.argsort(row[here], kind="stable")]
        jobs, row = sequence[here], row[here]
        if not len(jobs):
            continue
        first = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
        # What a queue will hold when each of its jobs is next: what it holds now, and all jobs before.
        group = np.repeat(np.arange(len(first)), np.diff(np.r_[first, len(row)]))
        before = np.cumsum(chunks[jobs], axis=0) - chunks[jobs]
        before += (np.array([held[each] for each in row[first].tolist()]) - before[first])[group]
        rank = order.ranks(row, held=before, jobs=chunks[jobs])
        if rank is None:
            return None
        # Ranks are less than there are rows, so with this the running maximum starts anew at each queue.
        largest = np.maximum.accumulate(rank + group * len(row)) - group * len(row)
        merged = np.lexsort((largest, rows[depth - 1][leaf[jobs]]))
        sequence = np.concatenate((jobs[merged], np.delete(sequence, here)))
    return sequence
