"""Controllers of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kai.model.objects import Json
from kai.workloads.parts import Maker, at, count, numbers, owned, pod

INDEX: Final = "batch.kubernetes.io/job-completion-index"


def _job(job: Json) -> Iterator[Json]:
    spec, name = at(job, "spec"), job["metadata"]["name"]
    if spec.get("suspend") is True:
        return
    parallel = count(spec, "parallelism")
    indexed = spec.get("completionMode") == "Indexed"
    for number in numbers(min(parallel, count(spec, "completions", default=parallel))):
        index = {INDEX: str(number)} if indexed else {}
        labels = {"batch.kubernetes.io/job-name": name, **index}
        yield pod(job, at(spec, "template"), f"{name}-{number}", labels=labels, annotations=index)


def _cron_job(cron_job: Json) -> Iterator[Json]:
    """Its next Job."""
    template = at(cron_job, "spec", "jobTemplate")
    if at(cron_job, "spec").get("suspend") is not True:
        yield owned(
            cron_job,
            "batch/v1",
            "Job",
            f"{cron_job['metadata']['name']}-new",
            labels=at(template, "metadata", "labels"),
            annotations=at(template, "metadata", "annotations"),
            spec=at(template, "spec"),
        )


def _replicas(owner: Json) -> Iterator[Json]:
    spec = at(owner, "spec")
    for number in numbers(count(spec, "replicas")):
        yield pod(owner, at(spec, "template"), f"{owner['metadata']['name']}-{number}")


def _deployment(deployment: Json) -> Iterator[Json]:
    name = f"{deployment['metadata']['name']}-new"
    yield owned(deployment, "apps/v1", "ReplicaSet", name, spec=at(deployment, "spec"))


MAKERS: Final[dict[tuple[str, str], Maker]] = {
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("", "ReplicationController"): _replicas,
    ("apps", "ReplicaSet"): _replicas,
    ("apps", "StatefulSet"): _replicas,
    ("apps", "Deployment"): _deployment,
}
