"""The indexes of the pods of an Indexed Job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kai_local.controllers.objects import Workload
from kai_local.parts.objects import LocalPod

INDEX = "batch.kubernetes.io/job-completion-index"


def is_indexed(job: Workload) -> bool:
    """Whether each pod has an index of its own."""
    return job.spec.get("completionMode") == "Indexed"


def index_of(pod: LocalPod) -> int | None:
    """The index of a pod of an Indexed Job."""
    text = pod.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() else None


def parse_indexes(text: str) -> Iterator[int]:
    """``0-2,5`` as numbers."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def format_indexes(indexes: Iterable[int]) -> str:
    """Numbers as ``0-2,5``."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
