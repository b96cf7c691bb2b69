"""Pod groups that wait alike: what is found of one holds for the others, in the names of each."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, TypeAlias

import msgspec

from kai.answers.answer import Code
from kai.engine.search.signatures import signature
from kai.model.verdicts import GroupVerdict
from kai.snapshot.rows import Job

Likeness: TypeAlias = tuple[object, ...]
#: Whoever is told this has its turn, or a place in sight: that says nothing of those alike behind it.
OF_ONE: Final = frozenset({Code.BEING_RELEASED, Code.PROTECTED, Code.PREEMPTION_DELAY})


def likeness(job: Job) -> Likeness | None:
    """Equal for groups that differ in names and age only; None for one that shares what is found with nobody.

    Alike are groups of a namespace and a queue of which nothing runs, and that ask for the same by the same
    rules. Of those the oldest is served first: where it does not start, the others do not. One that had its
    single attempt is served no more.
    """
    pods = job.single
    if pods is None or job.invalid or job.error or job.aside or job.active_allocated or job.succeeded:
        return None
    if job.facts.attempted:
        return None
    return (
        job.namespace,
        job.queue.name,
        job.priority,
        job.preemptible,
        job.facts.preemption_delay,
        pods.min_member,
        job.pending,
        job.gated,
        signature(job),
        tuple(sorted(Counter(task.cls.id for task in pods.tasks.values()).items())),
    )


def names_it(verdict: GroupVerdict, job: Job) -> bool:
    """Whether a text about another group names this one, which then is told something else."""
    return str(job.key) in verdict.text


def as_told_of(job: Job, other: Job, verdict: GroupVerdict) -> GroupVerdict:
    """What was found of ``other``, which is alike, as it is told of ``job``."""
    mine, others = _names(job), _names(other)
    instead = {theirs: own for theirs, own in zip(others, mine, strict=True) if theirs in verdict.text}
    text = verdict.text
    if instead:
        # The longest first, and whole names only: job-1 is in job-10 as well.
        either = "|".join(map(re.escape, sorted(instead, key=len, reverse=True)))
        text = re.sub(rf"(?<![\w.-])({either})(?![\w-])", lambda found: instead[found[1]], text)
    return msgspec.structs.replace(verdict, pod_group=job.key, text=text, uid=job.uid)


def _names(job: Job) -> list[str]:
    """Of the group and of its pods, in order."""
    assert job.single is not None
    return [job.name, *sorted(task.name for task in job.single.tasks.values())]
