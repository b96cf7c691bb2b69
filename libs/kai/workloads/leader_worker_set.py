"""LeaderWorkerSet: replicas of a leader and its workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kai.model.objects import Json
from kai.workloads.parts import Maker, at, count, numbers, pod

_PREFIX: Final = "leaderworkerset.sigs.k8s.io/"


def _leader_worker_set(owner: Json) -> Iterator[Json]:
    """All pods of each replica, the leader first; workers that wait for a leader are made with it."""
    name, spec = owner["metadata"]["name"], at(owner, "spec")
    templates = at(spec, "leaderWorkerTemplate")
    size = count(templates, "size")
    for number in numbers(count(spec, "replicas") * size):
        group, worker = divmod(number, size)
        leads = worker == 0 and "leaderTemplate" in templates
        labels = {
            f"{_PREFIX}name": name,
            f"{_PREFIX}group-index": str(group),
            f"{_PREFIX}worker-index": str(worker),
        }
        yield pod(
            owner,
            at(templates, "leaderTemplate" if leads else "workerTemplate"),
            f"{name}-{group}-{worker}" if worker else f"{name}-{group}",
            labels=labels,
            annotations={f"{_PREFIX}size": str(size)},
        )


MAKERS: Final[dict[tuple[str, str], Maker]] = {
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set
}
