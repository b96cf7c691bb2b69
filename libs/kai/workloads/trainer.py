"""Kubeflow Trainer: jobs that are made by a runtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kai.model.objects import Json
from kai.workloads.parts import Maker, at, count, listed, owned, text

_STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
#: What a patch of the pods does not say.
_OF_CONTAINERS: Final = ("containers", "initContainers")


def _train_job(job: Json) -> Iterator[Json]:
    """The JobSet of its runtime, with the numbers and resources of the job itself."""
    spec, runtime = at(job, "spec"), at(job, "spec", "runtime")
    template = at(runtime, "template")
    parts = [_part(spec, runtime, each) for each in listed(template, "spec", "replicatedJobs")]
    if parts:
        yield owned(
            job,
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            job["metadata"]["name"],
            labels={**at(template, "metadata", "labels"), **at(spec, "labels")},
            annotations={**at(template, "metadata", "annotations"), **at(spec, "annotations")},
            spec={
                **at(template, "spec"),
                "suspend": spec.get("suspend") is True,
                "replicatedJobs": parts,
            },
        )


def _part(spec: Json, runtime: Json, part: Json) -> Json:
    template, job = at(part, "template"), at(part, "template", "spec")
    pods, pod_spec = at(job, "template"), at(job, "template", "spec")
    mpi = at(runtime, "mlPolicy", "mpi")
    launches = mpi.get("runLauncherAsNode") is True
    sized = ("node", "launcher") if launches else ("node",)
    amounts = at(spec, "trainer", "resourcesPerNode")
    containers = [
        {**each, "resources": amounts} if amounts and each.get("name") in sized else each
        for each in listed(pod_spec, "containers")
    ]
    said: Json = {
        "template": {**pods, "spec": {**pod_spec, **_patches(spec, part), "containers": containers}}
    }
    number = _number(spec, runtime, part, launches=launches)
    if number:
        said |= {"parallelism": number, "completions": number}
    return {**part, "template": {**template, "spec": {**job, **said}}}


def _number(spec: Json, runtime: Json, part: Json, *, launches: bool) -> int:
    """How many pods a part has by the number of nodes; 0 where that does not say it."""
    policy = at(runtime, "mlPolicy")
    nodes = count(at(spec, "trainer"), "numNodes", default=count(policy, "numNodes"))
    if at(policy, "mpi"):
        return (max(nodes - 1, 1) if launches else nodes) if part.get("name") == "node" else 0
    return nodes if at(part, "template", "metadata", "labels").get(_STEP) == "trainer" else 0


def _patches(spec: Json, part: Json) -> Json:
    """What the job says of the pods of this part, or of all."""
    found: Json = {}
    for patch in listed(spec, "podTemplateOverrides"):
        targets = {text(each, "name") for each in listed(patch, "targetJobs")}
        if not targets or text(part, "name") in targets:
            found |= at(patch, "spec")
    return {key: value for key, value in found.items() if key not in _OF_CONTAINERS}


MAKERS: Final[dict[tuple[str, str], Maker]] = {("trainer.kubeflow.org", "TrainJob"): _train_job}
