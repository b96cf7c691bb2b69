"""What victims give up, chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kai.model.ids import PodGroupKey
from kai.snapshot.rows import Job, Task


class Batch(msgspec.Struct, eq=False):
    """What a victim gives up at once; nobody changes it."""

    number: int
    job: Job
    tasks: tuple[Task, ...]


def by_job(victims: Sequence[Batch]) -> dict[PodGroupKey, list[Batch]]:
    """Victims by the key of their job, in order."""
    found: dict[PodGroupKey, list[Batch]] = {}
    for batch in victims:
        found.setdefault(batch.job.key, []).append(batch)
    return found
