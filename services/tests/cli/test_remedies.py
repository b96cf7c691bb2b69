"""What helps work that never reached the scheduler is submitted to a copy of the cluster first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kai.answers import objects
from kai.answers.answer import Answer, Code, Ladder, Reason, Verdict
from kai.model import names
from kai.model.objects import Json
from kai_cli.remedies import with_remedies
from libs.tests.answers.test_groups import TWO, team, the_situation
from libs.tests.engine.builders import a_job


def a_template(*, gpus: int, scheduler: str = names.SCHEDULER_NAME) -> Json:
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i", "resources": limits}]}


def an_object(kind: str, spec: Json, **annotations: str) -> Json:
    group = {"Job": "batch/v1", "Deployment": "apps/v1"}.get(kind, "v1")
    meta = {
        "name": "x",
        "namespace": "default",
        "labels": {names.QUEUE_LABEL: "team"},
        "annotations": annotations,
    }
    return {"apiVersion": group, "kind": kind, "metadata": meta, "spec": spec}


def told(body: Json, code: Code, *things: Any) -> list[tuple[str, str | None]]:
    reason = Reason(code=code, text="")
    answer = Answer(
        kind=body["kind"], namespace="default", name="x", pod_group="", verdict=Verdict.CHANGE, reason=reason,
        stages=Ladder().failed(reason),
    )  # fmt: skip
    situation = the_situation(*(things or (team(), TWO)))
    return [(each.text, each.command) for each in asyncio.run(with_remedies(answer, situation, body)).changes]


def test_a_suspended_job_is_resumed() -> None:
    spec = {"suspend": True, "parallelism": 1, "template": {"spec": a_template(gpus=1)}}
    body = an_object("Job", spec)
    assert objects.without_pods(body).reason.code is Code.SUSPENDED
    command = 'kubectl patch job/x -n default --type=merge -p \'{"spec": {"suspend": false}}\''
    assert told(body, Code.SUSPENDED) == [("resume Job x", command)]


def test_who_would_find_no_place_is_told_nothing() -> None:
    spec = {"suspend": True, "parallelism": 1, "template": {"spec": a_template(gpus=4)}}
    full = (team(), TWO, a_job("old", gpus=4, pods=2, on=["n0", "n1"]))
    assert told(an_object("Job", spec), Code.SUSPENDED, *full) == []


@pytest.mark.parametrize("code", [Code.MISSPELT_SCHEDULER, Code.ANOTHER_SCHEDULER])
def test_another_scheduler_is_named_where_a_template_can_be_changed(code: Code) -> None:
    pod = a_template(gpus=1, scheduler="kai-schedular")
    [(text, command)] = told(an_object("Deployment", {"replicas": 1, "template": {"spec": pod}}), code)
    assert text == "let Deployment x have schedulerName 'kai-scheduler'"
    patch = '{"spec": {"template": {"spec": {"schedulerName": "kai-scheduler"}}}}'
    assert command == f"kubectl patch deployment/x -n default --type=merge -p '{patch}'"
    bare = told(an_object("Pod", pod), code)
    assert bare == [("let Pod x have schedulerName 'kai-scheduler', made anew", None)]


@pytest.mark.parametrize(
    ("code", "annotation"),
    [(Code.POD_GROUP_MISSING, names.POD_GROUP_ANNOTATION), (Code.NOT_GROUPED, names.SKIP_POD_GROUPER)],
)
def test_an_annotation_that_keeps_a_pod_from_being_grouped_is_taken(code: Code, annotation: str) -> None:
    body = an_object("Pod", a_template(gpus=1), **{annotation: "true"})
    [(text, command)] = told(body, code)
    assert text.startswith(f"take the annotation {annotation} from Pod x")
    assert command == f"kubectl annotate pod/x -n default {annotation}-"


def test_a_pod_grouper_that_is_silent_is_nothing_that_an_annotation_helps() -> None:
    assert told(an_object("Pod", a_template(gpus=1)), Code.NOT_GROUPED) == []


def test_what_is_of_no_namespace_is_told_nothing_that_would_help() -> None:
    body = an_object("ClusterTrainer", {"suspend": True})
    del body["metadata"]["namespace"]
    assert told(body, Code.SUSPENDED) == []
