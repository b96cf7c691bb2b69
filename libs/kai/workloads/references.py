"""Workloads that take what their pods are from other objects of the same file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kai.model.objects import Json
from kai.workloads.parts import at, listed


class Others:
    """The objects that may be referred to, and what was looked for in vain."""

    def __init__(self, objects: Iterable[Json]) -> None:
        self._specs: dict[tuple[Any, Any, Any], Json] = {}
        for body in objects:
            meta = at(body, "metadata")
            key = (body.get("kind"), meta.get("namespace") or "", meta.get("name"))
            if all(isinstance(each, str) for each in key):
                self._specs[key] = at(body, "spec")
        self.missing: dict[str, None] = {}

    def spec(self, kind: str, name: Any, namespace: str) -> Json:
        """The spec of what has this name in the namespace, or has none; empty where there is none."""
        for where in (namespace, ""):
            if _is_text(name) and (kind, where, name) in self._specs:
                return self._specs[kind, where, name]
        named = f"{kind} {name}" if _is_text(name) else f"a {kind}"
        self.missing[f"{named}, which the file does not have"] = None
        return {}


def filled(body: Json, objects: Iterable[Json]) -> tuple[Json, list[str]]:
    """The object with what it refers to written into it, and in words what could not be."""
    group, _, _ = str(body.get("apiVersion")).rpartition("/")
    fill = _FILLS.get((group, str(body.get("kind"))))
    if fill is None:
        return body, []
    others = Others(objects)
    spec = fill(at(body, "spec"), str(at(body, "metadata").get("namespace", "")), others)
    return {**body, "spec": spec}, list(others.missing)


def _task(taker: Json, namespace: str, others: Others) -> Json:
    """A run of a task, or a task of a pipeline, which names the task."""
    if at(taker, "taskSpec") or not at(taker, "taskRef"):
        return taker
    reference = at(taker, "taskRef")
    return {**taker, "taskSpec": others.spec(_kind(reference, "Task"), reference.get("name"), namespace)}


def _pipeline(spec: Json, namespace: str, others: Others) -> Json:
    pipeline = at(spec, "pipelineSpec")
    if not pipeline and (reference := at(spec, "pipelineRef")):
        pipeline = others.spec("Pipeline", reference.get("name"), namespace)
    tasks = {
        part: [_task(each, namespace, others) for each in listed(pipeline, part)]
        for part in ("tasks", "finally")
    }
    return {**spec, "pipelineSpec": {**pipeline, **tasks}}


def _workflow(spec: Json, namespace: str, others: Others) -> Json:
    """What it says itself goes before what its template says; templates of others are not followed."""
    if reference := at(spec, "workflowTemplateRef"):
        kind = "ClusterWorkflowTemplate" if reference.get("clusterScope") is True else "WorkflowTemplate"
        spec = {**others.spec(kind, reference.get("name"), namespace), **spec}
    for template in listed(spec, "templates"):
        groups = template.get("steps")
        steps = [listed({"group": each}, "group") for each in (groups if isinstance(groups, list) else ())]
        for step in [*listed(template, "dag", "tasks"), *(each for group in steps for each in group)]:
            if reference := at(step, "templateRef"):
                named = f"template {reference.get('template')} of {reference.get('name')}"
                others.missing[f"{named}, which is not looked into"] = None
    return spec


def _train_job(spec: Json, namespace: str, others: Others) -> Json:
    reference = at(spec, "runtimeRef")
    kind = _kind(reference, "ClusterTrainingRuntime")
    return {**spec, "runtime": others.spec(kind, reference.get("name"), namespace)}


def _graph(spec: Json, namespace: str, others: Others) -> Json:
    """Components, as the later version has them, take their pods from defaults of the operator, too."""
    if listed(spec, "components"):
        others.missing["its components, which are not looked into"] = None
    return spec


def _kind(reference: Json, usual: str) -> str:
    kind = reference.get("kind")
    return kind if isinstance(kind, str) and kind else usual


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


_Fill = Callable[[Json, str, Others], Json]
_FILLS: Final[dict[tuple[str, str], _Fill]] = {
    ("tekton.dev", "TaskRun"): _task,
    ("tekton.dev", "PipelineRun"): _pipeline,
    ("argoproj.io", "Workflow"): _workflow,
    ("trainer.kubeflow.org", "TrainJob"): _train_job,
    ("nvidia.com", "DynamoGraphDeployment"): _graph,
}
