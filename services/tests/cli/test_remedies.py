"""What helps work that never reached the scheduler is submitted to a copy of the cluster first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from kai.answers import objects
from kai.answers.answer import Answer, Code, Ladder, Reason, Verdict
from kai.kube.resources import JOBS, Resource
from kai.model import names
from kai.model.objects import Json
from kai.replay import circumstances
from kai.replay.circumstances import Circumstances
from kai.snapshot import codec
from kai.wire.chunks import Received
from kai_cli.__main__ import app
from kai_cli.connection import Target
from kai_cli.remedies import with_remedies
from libs.tests.answers.test_groups import TWO, team, the_situation
from libs.tests.engine.builders import NOW, a_job, a_state


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
    assert objects.without_pods(body, now=NOW).reason.code is Code.SUSPENDED
    command = 'kubectl patch job/x -n default --type=merge -p \'{"spec": {"suspend": false}}\''
    assert told(body, Code.SUSPENDED) == [("resume Job x", command)]


class Objects:
    """An API server that has some objects, and no pods."""

    namespace = "default"

    def __init__(self, *bodies: Json) -> None:
        self._bodies = {(body["kind"], body["metadata"]["name"]): body for body in bodies}

    async def get(self, resource: Resource, name: str, *, namespace: str) -> Json:
        assert namespace == self.namespace
        return self._bodies[resource.kind, name]

    async def list(self, *_: Any, **__: Any) -> list[Json]:
        return []

    async def discover(self, api_version: str, kind: str) -> Resource:
        assert (api_version, kind) == (JOBS.api_version, JOBS.kind)
        return JOBS


class Scheduler:
    """A scheduler that tells how an empty cluster is."""

    async def picture(self) -> Received:
        state = a_state(team(), TWO)
        state.settle(NOW)
        told = circumstances.encode(Circumstances(now=NOW), state.params)
        return Received(1, codec.encode(codec.cut(state)), told)


@pytest.mark.parametrize("asked", ["job/x", "podgroup/pg-x"])
def test_a_suspended_job_is_resumed_whether_it_or_its_pod_group_is_asked_about(
    monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    job = an_object("Job", {"suspend": True, "parallelism": 1, "template": {"spec": a_template(gpus=1)}})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "u"}
    meta = {"name": "pg-x", "namespace": "default", "ownerReferences": [owner]}
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": meta}

    @asynccontextmanager
    async def cluster(_: Target) -> AsyncIterator[Objects]:
        yield Objects(job, group | {"spec": {"queue": "team", "minMember": 1}})

    @asynccontextmanager
    async def scheduler(*_: Any) -> AsyncIterator[Scheduler]:
        yield Scheduler()

    monkeypatch.setattr(Target, "cluster", cluster)
    monkeypatch.setattr(Target, "scheduler", scheduler)
    result = CliRunner().invoke(app, ["explain", asked, "-o", "json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert (f"{answer['kind'].lower()}/{answer['name']}", answer["reason"]["code"]) == (asked, "Suspended")
    assert [change["text"] for change in answer["changes"]] == ["resume Job x"]


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
