"""Kinds of projects of which one kind is known here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kai.model.objects import Json
from kai.workloads.parts import Maker, at, count, listed, numbers, owned, pod, text


def _runai_job(job: Json) -> Iterator[Json]:
    spec, name = at(job, "spec"), job["metadata"]["name"]
    for number in numbers(count(spec, "parallelism")):
        yield pod(job, at(spec, "template"), f"{name}-{number}-0")


def _seldon_deployment(owner: Json) -> Iterator[Json]:
    """A Deployment for each component of each predictor."""
    spec = at(owner, "spec")
    for predictor in listed(spec, "predictors"):
        replicas = count(predictor, "replicas", default=count(spec, "replicas"))
        for number, component in enumerate(listed(predictor, "componentSpecs")):
            yield owned(
                owner,
                "apps/v1",
                "Deployment",
                f"{owner['metadata']['name']}-{text(predictor, 'name')}-{number}",
                spec={"replicas": count(component, "replicas", default=replicas), "template": component},
            )


MAKERS: Final[dict[tuple[str, str], Maker]] = {
    ("run.ai", "RunaiJob"): _runai_job,
    ("machinelearning.seldon.io", "SeldonDeployment"): _seldon_deployment,
}
