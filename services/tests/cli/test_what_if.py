"""``kai what-if``, as a user types it, on a snapshot file."""

import json

import msgspec
import pytest
from typer.testing import CliRunner

from kai.bench.objects import a_group, a_node, a_pod, a_queue, usual_priorities
from kai.model import names
from kai.model.objects import OwnerReference
from kai.replay import archive
from kai_cli.__main__ import app

NOW = 1_900_000_000.0
JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: new
  labels: {kai.scheduler/queue: team, priorityClassName: build}
  annotations: {kai.scheduler/batch-min-member: "2"}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      schedulerName: kai-scheduler
      containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]
"""

CONTEXT = """
apiVersion: v1
kind: Config
current-context: mine
contexts: [{name: mine, context: {cluster: there, user: me, namespace: team}}]
clusters: [{name: there, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: me, user: {token: t}}]
"""


def a_job(name, queue, *, pods=1, node=""):
    group = a_group(name, queue=queue, min_member=pods, created=NOW - 900, started=NOW - 500 if node else 0)
    group.metadata.owner_references = [
        OwnerReference(api_version="batch/v1", kind="Job", name=name, uid=f"u-{name}")
    ]
    return group, [a_pod(f"{name}-{n}", group=name, gpus=1, node=node) for n in range(pods)]


@pytest.fixture
def cluster(tmp_path):
    """Queue other has all eight GPUs; a job of queue team waits for two."""
    jobs = [a_job(f"theirs-{n}", "other", node=f"node-{n // 4}") for n in range(8)]
    jobs.append(a_job("ours", "team", pods=2))
    objects = {
        "nodes": [a_node(f"node-{n}", gpus=4) for n in range(2)],
        "queues": [
            a_queue("top"),
            a_queue("team", parent="top", gpu=4),
            a_queue("other", parent="top", gpu=8),
        ],
        "podGroups": [group for group, _ in jobs],
        "pods": [pod for _, pods in jobs for pod in pods],
        "priorityClasses": usual_priorities(),
    }
    raw = {kind: [msgspec.to_builtins(each) for each in listed] for kind, listed in objects.items()}
    path = tmp_path / "snapshot.zip"
    path.write_bytes(archive.write(archive.Archive(config=None, params=None, raw_objects=raw, taken_at=NOW)))
    return path


@pytest.fixture
def ask(cluster):
    def run(*arguments, **more):
        arguments = ["what-if", *map(str, arguments), "--snapshot", str(cluster)]
        return CliRunner().invoke(app, arguments, **more)

    return run


def told(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_quota_as_a_table(ask):
    result = ask("quota", "other", "4")
    assert result.exit_code == 0, result.output
    first, *_ = result.stdout.splitlines()
    assert first == (
        "set the quota of queue 'other' to 4 GPUs: kubectl patch queue/other --type=merge "
        """-p '{"spec": {"resources": {"gpu": {"quota": 4}}}}'"""
    )
    assert "default/job/ours" in result.stdout
    assert "~" not in result.stdout


def test_a_quota_as_data(ask):
    answer = told(ask("quota", "other", "gpu=4", "-o", "json"))
    assert answer["evicted"] == ["default/theirs-6-0", "default/theirs-7-0"]
    assert answer["started"] == ["default/ours-0", "default/ours-1"]
    queues = {each["queue"]: each for each in answer["queues"]}
    assert queues["other"]["before"]["quota"]["gpu"] == 8
    assert queues["other"]["after"]["quota"]["gpu"] == 4
    assert queues["team"]["after"]["allocated"]["gpu"] == 2
    works = {each["workload"]: each for each in answer["workloads"]}
    assert works["default/job/ours"]["after"] == {"running": 2, "waiting": 0}
    assert works["default/job/theirs-7"]["after"] == {"running": 0, "waiting": 1}
    assert works["default/job/theirs-7"]["reason"]
    assert {event["by"] for event in answer["events"] if event["what"] == "evicted"} == {"default/job/ours"}


def test_amounts_are_in_the_units_of_people(ask):
    answer = told(ask("limit", "other", "cpu=500m", "memory=1Gi", "gpu=unlimited", "-o", "json"))
    [change] = answer["changes"]
    assert json.loads(change["command"].partition("-p '")[2].rstrip("'")) == {
        "spec": {"resources": {"cpu": {"limit": 500}, "memory": {"limit": 1073.741824}, "gpu": {"limit": -1}}}
    }


def test_a_quota_without_bound_may_be_written_as_in_a_manifest(ask):
    [change] = told(ask("quota", "other", "-1", "-o", "json"))["changes"]
    assert '{"quota": -1}' in change["command"]


@pytest.mark.parametrize("option", ["--witihn=2h", "-x"])
def test_an_option_that_is_none_is_refused(ask, option):
    result = ask("quota", "other", "-1", option)
    assert result.exit_code == 2, result.output
    assert f"No such option: {option}" in result.stderr


def test_a_manifest_runs_in_the_place_of_others(ask):
    answer = told(ask("-f", "-", "-o", "json", input=JOB))
    works = {each["workload"]: each for each in answer["workloads"]}
    assert works["default/job/new"] == {
        "workload": "default/job/new",
        "podGroup": works["default/job/new"]["podGroup"],
        "queue": "team",
        "before": None,
        "after": {"running": 0, "waiting": 2},
        "reason": works["default/job/new"]["reason"],
    }
    assert works["default/job/new"]["reason"]
    ends = told(ask("-f", "-", "-o", "json", "--runtime", "10m", input=JOB))
    assert {"default/new-0", "default/new-1"} <= set(ends["started"])


QUEUE = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: more}"
TOPOLOGY = "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: racks}\nspec: {levels: []}"
OF_TEAM = JOB.replace("name: new", "name: there\n  namespace: team")


@pytest.mark.parametrize(
    ("manifests", "arguments", "said"),
    [
        ([JOB], [], " -n default"),
        ([JOB], ["-n", "team"], " -n team"),
        ([JOB, OF_TEAM], ["-n", "team"], " -n team"),
        ([OF_TEAM], [], ""),
        ([OF_TEAM, QUEUE], [], ""),
        ([OF_TEAM, TOPOLOGY], [], ""),
    ],
)
def test_manifests_are_applied_where_they_were_tried(ask, tmp_path, manifests, arguments, said):
    files = [tmp_path / f"{n} of them.yaml" for n, _ in enumerate(manifests)]
    for file, text in zip(files, manifests, strict=True):
        file.write_text(text)
    named = [word for file in files for word in ("-f", file)]
    [change] = told(ask(*named, *arguments, "-o", "json"))["changes"]
    assert change["command"] == "kubectl apply" + "".join(f" -f '{file}'" for file in files) + said


def test_manifests_that_no_command_puts_where_they_were_tried_have_none(ask):
    [change] = told(ask("-f", "-", "-o", "json", input=f"{JOB}\n---\n{OF_TEAM}"))["changes"]
    assert change["command"] is None


@pytest.mark.parametrize(
    ("arguments", "said"), [([], ""), (["-n", "team"], ""), (["-n", "other"], " -n other")]
)
def test_the_namespace_of_the_context_need_not_be_said(cluster, tmp_path, monkeypatch, arguments, said):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(CONTEXT)
    monkeypatch.setattr("kai_cli.snapshot.taken", lambda *_, **__: cluster.read_bytes())
    asked = ["--kubeconfig", str(kubeconfig), "what-if", "-f", "-", *arguments, "-o", "json"]
    [change] = told(CliRunner().invoke(app, asked, input=JOB))["changes"]
    assert change["command"] == f"kubectl apply -f -{said}"


def test_a_copy_of_a_pod_that_runs_is_another_pod_once_it_has_a_name_of_its_own(ask):
    copied = a_pod("theirs-0-0", gpus=1, node="node-0")
    meta = {"name": "copy", "uid": copied.metadata.uid, "labels": {names.QUEUE_LABEL: "team"}}
    body = {"apiVersion": "v1", "kind": "Pod", **msgspec.to_builtins(copied), "metadata": meta}
    answer = told(ask("-f", "-", "-o", "json", "--runtime", "10m", input=json.dumps(body)))
    assert "default/copy" in answer["started"]
    assert "default/job/theirs-0" in {each["workload"] for each in answer["workloads"]}
    assert {each["after"]["allocated"]["gpu"] for each in answer["queues"]} == {0.0}


def test_what_is_there_already_is_told_so(ask):
    result = ask("-f", "-", input=JOB.replace("name: new", "name: ours"))
    assert result.exit_code == 1
    assert "default/job/ours is in the cluster already" in result.stderr


def test_work_of_another_node_pool_is_refused_with_the_shard_to_ask(ask):
    labels = "labels: {kai.scheduler/node-pool: elsewhere, "
    result = ask("-f", "-", input=JOB.replace("labels: {", labels))
    assert result.exit_code == 1, result.output
    assert result.stderr.splitlines()[-1] == (
        "kai: default/job/new is of the node pool with the label kai.scheduler/node-pool=elsewhere, and the "
        "scheduler that was asked has the one without the label kai.scheduler/node-pool; ask that of the "
        "shard with partitionLabelValue 'elsewhere'"
    )


OWN_GROUP = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: mine}
spec: {queue: team, minMember: 1, priorityClassName: build}
---
"""
OWN_POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {pod-group-name: mine, kai.scheduler/skip-podgrouper: "true"}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def test_a_pod_group_that_is_in_the_file_itself_is_submitted(ask):
    answer = told(ask("-f", "-", "-o", "json", "--runtime", "10m", input=OWN_GROUP + OWN_POD))
    [event] = [each for each in answer["events"] if each["pod"] == "default/p" and each["what"] == "started"]
    assert event["workload"] == "default/podgroup/mine"


def test_pods_that_get_no_group_are_refused_with_why(ask):
    result = ask("-f", "-", input=OWN_POD)
    assert result.exit_code == 1, result.output
    assert result.stderr.splitlines()[-1] == (
        "kai: the pods of the manifest get no pod group: Pod default/p is left alone: skip annotation on the "
        "pod; put the pod group that they name into the manifest"
    )


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("parallelism: 2", "parallelism: 0", "Job default/new asks for no pods: its spec.parallelism is 0"),
        ("completions: 2", "completions: 0", "Job default/new asks for no pods: its spec.completions is 0"),
        ("parallelism: 2", "suspend: true", "Job default/new is suspended, so it has no pods"),
    ],
)
def test_who_asks_for_no_pods_is_told_so_and_not_to_name_the_scheduler(ask, before, after, said):
    result = ask("-f", "-", input=JOB.replace(before, after))
    assert result.exit_code == 1, result.output
    assert result.stderr.splitlines()[-1] == f"kai: the manifest has no pods for this scheduler: {said}"


def test_nodes_and_workloads(ask):
    more = told(ask("nodes", "1", "--like", "node-0", "-o", "json"))
    assert more["started"] == ["default/ours-0", "default/ours-1"]
    drained = told(ask("drain", "node-0", "-o", "json"))
    assert len(drained["deleted"]) == 4
    gone = told(ask("delete", "job/theirs-3", "-o", "json"))
    assert gone["deleted"] == ["default/theirs-3-0"]
    fewer = told(ask("minimum", "ours", "1", "-o", "json"))
    assert fewer["changes"][0]["command"].startswith(
        "kubectl annotate job/ours kai.scheduler/batch-min-member=1 --overwrite -n default && "
        "kubectl patch podgroup/"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["quota", "othr", "4"], "there is no queue 'othr'; did you mean 'other'?"),
        (["drain", "node0"], "there is no node 'node0'; did you mean 'node-0'?"),
        (
            ["priority", "job/our", "build"],
            "there is no workload 'job/our' in namespace default; did you",
        ),
        (["quota", "other", "tpu=4"], "queues share out gpu, cpu and memory"),
        (["quota", "other", "four"], "'four'"),
        (["quota", "other", "gpu=-4"], "gpu: -4 is negative; write an amount, or unlimited"),
        (["quota", "other", "-4"], "gpu: -4 is negative; write an amount, or unlimited"),
    ],
)
def test_what_cannot_be_meant_is_told(ask, arguments, said):
    result = ask(*arguments)
    assert result.exit_code == 1, result.output
    assert said in result.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["quota"], ["quotas", "a", "1"], ["nodes", "3"], ["drain", "a", "--like", "b"]]
)
def test_wrong_use_lists_what_there_is(ask, arguments):
    result = ask(*arguments)
    assert result.exit_code == 2, result.output
    assert "set a queue's quota" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [([], "team"), (["-n", "other"], "other"), (["--name", "local"], "default")],
    ids=["of the context", "named", "of a cluster that is not the context's"],
)
def test_what_names_no_namespace_is_in_that_of_the_context(cluster, tmp_path, monkeypatch, arguments, meant):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(CONTEXT)
    monkeypatch.setattr("kai_cli.snapshot.taken", lambda *_, **__: cluster.read_bytes())

    result = CliRunner().invoke(
        app, ["--kubeconfig", str(kubeconfig), "what-if", "delete", "job/ours", *arguments]
    )

    if meant == "default":
        assert result.exit_code == 0, result.output
    else:
        assert f"there is no workload 'job/ours' in namespace {meant}" in result.stderr
