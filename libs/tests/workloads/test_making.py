"""What is made of a file's objects, whatever the file says.

What groups become of that is in the cases of the pod-grouper (``data/templates.yaml``).
"""

import copy
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.workloads.making import MAKERS, MOST_MADE, TooManyPods, completed, sorts
from kai.workloads.parts import TooMany

TEMPLATE = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 2}}}]}}


def a_job(**spec):
    meta = {"name": "train", "namespace": "team", "uid": "u"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": TEMPLATE, **spec}}


def names_of(objects):
    return [f"{body['kind']} {body['metadata']['name']}" for body in objects]


def test_pods_come_after_the_objects_and_request_what_they_are_limited_to():
    job, pod = completed([a_job()], namespace="else")
    assert job == a_job()
    assert (pod["kind"], pod["metadata"]["namespace"]) == ("Pod", "team")
    [container] = pod["spec"]["containers"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}}


def test_nothing_is_made_twice_of_what_makes_others():
    deployment = {**a_job(), "apiVersion": "apps/v1", "kind": "Deployment"}
    once = completed([deployment], namespace="team")
    assert names_of(once) == ["Deployment train", "ReplicaSet train-new", "Pod train-new-0"]
    assert completed(once, namespace="team") == once


def test_uids_are_made_without_sha1_and_always_the_same(monkeypatch):
    monkeypatch.delattr(hashlib, "sha1")
    deployment = {**a_job(), "apiVersion": "apps/v1", "kind": "Deployment"}
    first, second = (completed([deployment], namespace="team") for _ in range(2))
    assert first == second
    assert len({body["metadata"]["uid"] for body in first}) == 3


def test_who_names_no_namespace_is_where_it_is_said_to_be():
    lone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}, "spec": TEMPLATE["spec"]}
    [pod] = completed([lone], namespace="team")
    assert (pod["metadata"]["namespace"], pod["metadata"]["name"]) == ("team", "p-new")


def test_more_than_can_be_looked_at_is_refused_at_once_by_name():
    with pytest.raises(TooManyPods, match="Job train"):
        completed([a_job(parallelism=10**12)], namespace="team")
    assert len(completed([a_job(parallelism=MOST_MADE)], namespace="team")) == MOST_MADE + 1


def of_very_many(api_version, kind, **spec):
    meta = {"name": "train", "namespace": "team", "uid": "u"}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    "body",
    [
        a_job(parallelism=10**12),
        of_very_many("apps/v1", "StatefulSet", replicas=10**12, template=TEMPLATE),
        of_very_many(
            "jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=[{"name": "w", "replicas": 10**12}]
        ),
        of_very_many(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            replicas=1000,
            leaderWorkerTemplate={"size": 1000, "workerTemplate": TEMPLATE},
        ),
        of_very_many(
            "kubeflow.org/v1",
            "PyTorchJob",
            pytorchReplicaSpecs={"Worker": {"replicas": 10**12, "template": TEMPLATE}},
        ),
        of_very_many("grove.io/v1alpha1", "PodClique", replicas=10**12, podSpec=TEMPLATE["spec"]),
    ],
    ids=lambda body: body["kind"],
)
def test_nothing_is_made_of_what_asks_for_more_than_can_be_looked_at(body):
    with pytest.raises(TooMany):
        next(MAKERS[body["apiVersion"].partition("/")[0], body["kind"]](body))


def a_workflow(*templates):
    meta = {"name": "flow", "namespace": "team", "uid": "u"}
    spec = {"entrypoint": "begin", "templates": list(templates)}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": meta, "spec": spec}


def test_a_workflow_whose_steps_call_each_other_comes_to_an_end():
    circle = {"name": "begin", "steps": [[{"name": "again", "template": "begin"}]]}
    assert names_of(completed([a_workflow(circle)], namespace="team")) == ["Workflow flow"]


def test_a_workflow_of_very_many_steps_that_make_nothing_is_done_with_at_once():
    loops = {"name": "begin", "steps": [[{"template": "wait", "withSequence": {"count": "999999999"}}]]}
    nothing = {"name": "wait", "suspend": {}}
    assert names_of(completed([a_workflow(loops, nothing)], namespace="team")) == ["Workflow flow"]


def test_a_workflow_of_more_steps_than_can_be_looked_at_is_refused():
    tenfold = [
        {"name": f"t{depth}", "steps": [[{"template": f"t{depth + 1}", "withSequence": {"count": 10}}]]}
        for depth in range(9)
    ]
    leaf = {"name": "t9", "container": {"image": "busybox"}}
    begin = {"name": "begin", "dag": {"tasks": [{"name": "all", "template": "t0"}]}}
    with pytest.raises(TooManyPods, match="Workflow flow"):
        completed([a_workflow(begin, *tenfold, leaf)], namespace="team")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
FIELDS = [
    "template",
    "replicas",
    "parallelism",
    "completions",
    "suspend",
    "jobTemplate",
    "spec",
    "metadata",
    "labels",
    "annotations",
    "containers",
    "replicatedJobs",
    "name",
    "leaderWorkerTemplate",
    "size",
    "workerTemplate",
    "headGroupSpec",
    "workerGroupSpecs",
    "numOfHosts",
    "rayClusterSpec",
    "rayClusterConfig",
    "mpiReplicaSpecs",
    "tfReplicaSpecs",
    "Worker",
    "Launcher",
    "predictors",
    "componentSpecs",
    "runPolicy",
    "status",
    "activeServiceStatus",
    "rayClusterName",
    "cliques",
    "podCliqueScalingGroups",
    "cliqueNames",
    "minAvailable",
    "podSpec",
    "services",
    "multinode",
    "nodeCount",
    "extraPodSpec",
    "resources",
    "runtime",
    "mlPolicy",
    "trainer",
    "templates",
    "entrypoint",
    "steps",
    "dag",
    "tasks",
    "withSequence",
    "inline",
    "container",
    "taskSpec",
    "pipelineSpec",
    "matrix",
    "params",
    "value",
    "taskRef",
    "pipelineRef",
    "workflowTemplateRef",
    "runtimeRef",
]
SPECS = st.recursive(
    ANYTHING,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)


@given(kind=st.sampled_from(sorted(MAKERS)), spec=SPECS, status=SPECS, meta=ANYTHING)
def test_whatever_a_file_says_something_comes_of_it_and_nothing_is_lost(kind, spec, status, meta):
    group, name = kind
    body = {
        "apiVersion": f"{group}/v1" if group else "v1",
        "kind": name,
        "metadata": {"name": "x", "namespace": "n", "labels": meta, "annotations": meta},
        "spec": spec,
        "status": status,
    }
    found = completed([body, {**body, "metadata": meta}], namespace="n")
    assert [each["kind"] for each in found[:2]] == [name, name]
    assert all(each["spec"] for each in found[2:])


@pytest.mark.parametrize("name", [{}, [], {"a": []}, 3, None, "a" * 254], ids=lambda name: str(name)[:8])
@pytest.mark.parametrize(
    ("api_version", "kind", "spec"),
    [
        ("tekton.dev/v1", "PipelineRun", lambda name: {"pipelineSpec": {"tasks": [{"name": name}]}}),
        (
            "tekton.dev/v1",
            "PipelineRun",
            lambda name: {
                "taskRunSpecs": [{"pipelineTaskName": name}],
                "pipelineSpec": {"tasks": [{"name": "a", "taskSpec": {"steps": [{"image": "x"}]}}]},
            },
        ),
        (
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            lambda name: {
                "podTemplateOverrides": [{"targetJobs": [{"name": name}]}],
                "runtime": {"template": {"spec": {"replicatedJobs": [{"name": name}, {"name": "node"}]}}},
            },
        ),
    ],
    ids=["a task", "what is said of a task", "whom an override is for"],
)
def test_what_is_no_name_is_the_name_of_nobody(api_version, kind, spec, name):
    body = of_very_many(api_version, kind, **spec(name))
    assert completed([body], namespace="team")[0] == body


def a_role(template, replicas):
    return {"replicas": replicas, "template": template}


@pytest.mark.parametrize(
    "body",
    [
        of_very_many(
            "kubeflow.org/v1",
            "TFJob",
            tfReplicaSpecs={"PS": a_role(TEMPLATE, 2), "Worker": a_role(copy.deepcopy(TEMPLATE), 5)},
        ),
        of_very_many(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            replicatedJobs=[
                {"name": "w", "replicas": 3, "template": {"spec": {"parallelism": 2, "template": TEMPLATE}}}
            ],
        ),
        of_very_many(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            replicas=3,
            leaderWorkerTemplate={
                "size": 4,
                "leaderTemplate": copy.deepcopy(TEMPLATE),
                "workerTemplate": TEMPLATE,
            },
        ),
        of_very_many("apps/v1", "Deployment", replicas=4, template=TEMPLATE),
    ],
    ids=lambda body: body["kind"],
)
def test_pods_of_a_template_are_counted_and_the_first_of_them_shown_as_it_would_be(body):
    whole = completed([body], namespace="team")
    pods = [each for each in whole if each["kind"] == "Pod"]
    found = sorts(body, namespace="team", most=MOST_MADE)
    assert sum(sort.count for sort in found) == len(pods)
    for sort in found:
        assert sort.pod in pods
        assert all(maker in whole for maker in sort.makers)
    assert len(found) == len({id(sort.pod["spec"]) for sort in found}) <= 2


def test_more_pods_than_one_wants_to_count_are_refused():
    assert [sort.count for sort in sorts(a_job(parallelism=100), namespace="team", most=100)] == [100]
    with pytest.raises(TooManyPods, match="more than 100 pods"):
        sorts(a_job(parallelism=101), namespace="team", most=100)


@pytest.mark.parametrize("body", [{}, {"metadata": None}, {"metadata": {}}, {"kind": "Job", "metadata": []}])
def test_what_has_no_name_makes_nothing(body):
    assert sorts(body, namespace="team", most=100) == []
