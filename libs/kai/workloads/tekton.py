"""Tekton: runs of tasks, a pod each, and of pipelines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from kai.model.objects import Json
from kai.workloads.parts import Maker, at, listed, owned, pod, text

_PREFIX: Final = "tekton.dev/"
#: Runs that nobody carries out, or not yet.
_STOPPED: Final = ("TaskRunCancelled", "Cancelled", "PipelineRunCancelled", "PipelineRunPending")


def _task_run(run: Json) -> Iterator[Json]:
    """One pod, with a container for each step: they come one after the other, and their requests add up."""
    spec, meta = at(run, "spec"), run["metadata"]
    task = at(spec, "taskSpec")
    if spec.get("status") in _STOPPED or not listed(task, "steps"):
        return
    usual = at(task, "stepTemplate")
    steps = [
        _container({**usual, **step}, f"step-{text(step, 'name') or f'unnamed-{number}'}")
        for number, step in enumerate(listed(task, "steps"))
    ]
    if whole := at(spec, "computeResources"):
        # Given for the run they are divided among its steps; together they are what is given.
        steps = [{**step, "resources": {} if number else whole} for number, step in enumerate(steps)]
    sidecars = [_container(each, f"sidecar-{text(each, 'name')}") for each in listed(task, "sidecars")]
    template = {key: value for key, value in at(spec, "podTemplate").items() if key != "env"}
    body = {
        "metadata": {"labels": at(meta, "labels"), "annotations": at(meta, "annotations")},
        "spec": {**template, "restartPolicy": "Never", "containers": [*steps, *sidecars]},
    }
    yield pod(run, body, f"{meta['name']}-pod", labels={f"{_PREFIX}taskRun": meta["name"]})


def _container(step: Json, name: str) -> Json:
    resources = at(step, "computeResources") or at(step, "resources")
    return {"name": name, "image": step.get("image", ""), "resources": resources}


def _pipeline_run(run: Json) -> Iterator[Json]:
    """A run of each task, all at once also where they are started in order; conditions are taken to hold."""
    spec, meta = at(run, "spec"), run["metadata"]
    if spec.get("status") in _STOPPED:
        return
    usual = at(spec, "taskRunTemplate", "podTemplate") or at(spec, "podTemplate")
    own = {text(each, "pipelineTaskName"): each for each in listed(spec, "taskRunSpecs")}
    pipeline = at(spec, "pipelineSpec")
    for task in [*listed(pipeline, "tasks"), *listed(pipeline, "finally")]:
        said = own.get(text(task, "name"), {})
        taken = {
            "taskSpec": at(task, "taskSpec"),
            "podTemplate": {**usual, **at(said, "podTemplate")},
            "computeResources": at(said, "computeResources"),
        }
        labels = {
            **at(meta, "labels"),
            **at(task, "taskSpec", "metadata", "labels"),
            f"{_PREFIX}pipelineRun": meta["name"],
            f"{_PREFIX}pipelineTask": text(task, "name"),
        }
        times = _times(task)
        for number in range(times):
            name = f"{meta['name']}-{text(task, 'name')}" + (f"-{number}" if times > 1 else "")
            yield owned(
                run,
                str(run.get("apiVersion", "")),
                "TaskRun",
                name,
                labels=labels,
                annotations=at(meta, "annotations"),
                spec=taken,
            )


def _times(task: Json) -> int:
    """For each combination of the values in its matrix."""
    lists = [each.get("value") for each in listed(task, "matrix", "params")]
    return math.prod(len(each) for each in lists if isinstance(each, list))


MAKERS: Final[dict[tuple[str, str], Maker]] = {
    ("tekton.dev", "TaskRun"): _task_run,
    ("tekton.dev", "PipelineRun"): _pipeline_run,
}
