"""JobSet: Jobs that belong together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kai.model.objects import Json
from kai.workloads.parts import Maker, at, count, ending, labelled, listed, numbers, owned, text

_PREFIX: Final = "jobset.sigs.k8s.io/"


def _job_set(job_set: Json) -> Iterator[Json]:
    """A Job for each replica of each replicated job, all at once also where they are started in order."""
    if at(job_set, "spec").get("suspend") is True:
        return
    name = job_set["metadata"]["name"]
    for part in listed(job_set, "spec", "replicatedJobs"):
        template, replicas = at(part, "template"), count(part, "replicas")
        for number in numbers(replicas):
            labels = {
                f"{_PREFIX}jobset-name": name,
                f"{_PREFIX}replicatedjob-name": text(part, "name"),
                f"{_PREFIX}replicatedjob-replicas": str(replicas),
                f"{_PREFIX}job-index": str(number),
            }
            spec = at(template, "spec")
            pods = ending(labelled(at(spec, "template"), labels, labels), "OnFailure")
            yield owned(
                job_set,
                "batch/v1",
                "Job",
                f"{name}-{text(part, 'name')}-{number}",
                labels={**at(template, "metadata", "labels"), **labels},
                annotations={**at(template, "metadata", "annotations"), **labels},
                spec={
                    **spec,
                    "template": pods,
                },
            )


MAKERS: Final[dict[tuple[str, str], Maker]] = {("jobset.x-k8s.io", "JobSet"): _job_set}
