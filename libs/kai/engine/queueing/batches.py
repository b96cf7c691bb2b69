"""What victims give up, chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from kai.model.ids import PodGroupKey
from kai.snapshot.rows import Job, Task


class Batch(msgspec.Struct, eq=False, gc=False):
    """What a victim gives up at once; nobody changes it."""

    number: int
    job: Job
    tasks: tuple[Task, ...]


class ChunkSizes(NamedTuple):
    """What any of several jobs can lose at once: a multiple of the grain, and not more than the largest."""

    grain_centi: int
    largest_centi: int


def by_job(victims: Sequence[Batch]) -> dict[PodGroupKey, list[Batch]]:
    """Victims by the key of their job, in order."""
    found: dict[PodGroupKey, list[Batch]] = {}
    for batch in victims:
        found.setdefault(batch.job.key, []).append(batch)
    return found
