"""Which pod group is meant by the name of a workload."""

import pytest

from kai.bench.objects import a_group
from kai.model.objects import OwnerReference
from kai.simulate.changes import ChangeRefused
from kai.simulate.naming import group_named
from libs.tests.engine.builders import a_node, a_queue, a_state


def made_for(api_version: str, kind: str, name: str, *, group: str = ""):
    made = a_group(group or f"pg-{name}", queue="team")
    owner = OwnerReference(api_version=api_version, kind=kind, name=name, uid=f"u-{kind}-{name}")
    made.metadata.owner_references = [owner]
    return made


def named(text: str, *groups) -> str:
    state = a_state(a_node("n0"), a_queue("team"), *groups)
    return group_named(state, text, namespace="default").partition("/")[2]


JOB = made_for("batch/v1", "Job", "train")
DEPLOYMENT = made_for("apps/v1", "Deployment", "serve")
TORCH = made_for("kubeflow.org/v1", "PyTorchJob", "learn")
BY_HAND = a_group("train", queue="team")


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("train", "pg-train"),
        ("job/train", "pg-train"),
        ("jobs/train", "pg-train"),
        ("Job/train", "pg-train"),
        ("jobs.batch/train", "pg-train"),
        ("job.v1.batch/train", "pg-train"),
        ("default/jobs/train", "pg-train"),
        ("deploy/serve", "pg-serve"),
        ("deployments/serve", "pg-serve"),
        ("pytorchjobs/learn", "pg-learn"),
        ("pytorchjob.kubeflow.org/learn", "pg-learn"),
        ("pg/pg-train", "pg-train"),
        ("podgroups/pg-train", "pg-train"),
        ("pg-train", "pg-train"),
    ],
)
def test_a_workload_is_called_as_kubectl_does(text, group):
    assert named(text, JOB, DEPLOYMENT, TORCH) == group


@pytest.mark.parametrize(
    "text", ["jobs.example.com/train", "sts/train", "default/job/serve", "podgroup/train"]
)
def test_another_kind_is_no_match(text):
    with pytest.raises(ChangeRefused, match="there is no workload"):
        named(text, JOB, DEPLOYMENT)


def test_a_name_of_a_job_and_of_a_pod_group_of_its_own_is_refused_with_both():
    with pytest.raises(ChangeRefused, match="'train' is ambiguous in namespace default") as refused:
        named("train", JOB, BY_HAND)
    assert "podgroup/pg-train, podgroup/train" in str(refused.value)
    assert named("job/train", JOB, BY_HAND) == "pg-train"
    assert named("podgroup/train", JOB, BY_HAND) == "train"


def test_a_group_that_is_called_like_its_workload_is_meant_once():
    assert named("alike", made_for("batch/v1", "Job", "alike", group="alike")) == "alike"
