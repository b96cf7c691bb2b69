"""`kai group`, as a user calls it."""

import json
import subprocess
import sys

import pytest
import yaml
from typer.testing import CliRunner

from kai_cli.__main__ import app

MANIFEST = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: ddp, namespace: team, uid: u1, labels: {kai.scheduler/queue: research}}
spec: {pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {replicas: 2}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: ddp-worker-0
  namespace: team
  uid: p1
  labels: {training.kubeflow.org/replica-type: worker}
  ownerReferences: [{apiVersion: kubeflow.org/v1, kind: PyTorchJob, name: ddp, uid: u1}]
spec: {schedulerName: kai-scheduler, containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: lost
  namespace: team
  uid: p2
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: gone, uid: x}]
spec: {schedulerName: kai-scheduler}
"""


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(MANIFEST)
    return str(path)


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, ["group", *arguments], input=stdin)


def test_json_has_whole_groups_every_pod_and_the_warnings(manifest):
    result = run("-f", manifest, "-o", "json")

    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert list(found) == ["podGroups", "pods", "warnings"]
    [group] = found["podGroups"]
    assert group == {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": "pg-ddp-u1",
            "namespace": "team",
            "labels": {"kai.scheduler/queue": "research"},
            "annotations": {
                "kai.scheduler/top-owner-metadata": (
                    "name: ddp\nuid: u1\ngroup: kubeflow.org\nversion: v1\nkind: PyTorchJob\n"
                )
            },
            "ownerReferences": [
                {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "ddp", "uid": "u1"}
            ],
        },
        "spec": {
            "minMember": 3,
            "queue": "research",
            "priorityClassName": "train",
            "subGroups": [{"name": "master", "minMember": 1}, {"name": "worker", "minMember": 2}],
        },
    }
    assert found["pods"] == [
        {"namespace": "team", "name": "ddp-worker-0", "podGroup": "pg-ddp-u1", "subGroup": "worker"},
        {"namespace": "team", "name": "lost", "podGroup": "", "subGroup": ""},
    ]
    assert found["warnings"] == ["Pod team/lost: Job team/gone (batch/v1) is not in the file; add it"]


def test_yaml_can_be_applied_and_warnings_do_not_get_in_its_way(manifest):
    result = run("-f", manifest, "-o", "yaml")

    [group] = yaml.safe_load_all(result.stdout)
    assert group["metadata"]["name"] == "pg-ddp-u1"
    assert "warning: Pod team/lost" in result.stderr


def test_the_table_shows_groups_and_pods(manifest):
    result = run("-f", manifest)

    assert "pg-ddp-u1" in result.stdout
    assert "master(1), worker(2)" in result.stdout
    assert "PyTorchJob/ddp" in result.stdout


def test_the_table_shows_subgroups_as_a_tree(tmp_path):
    segmented = (
        MANIFEST.replace("{replicas: 2}", "{replicas: 3, template: *t}")
        .replace(
            "spec: {pytorchReplicaSpecs",
            "x: &t {metadata: {annotations: {kai.scheduler/segment-size: '2'}}}\nspec: {pytorchReplicaSpecs",
        )
        .replace("replica-type: worker}", "replica-type: worker, training.kubeflow.org/replica-index: '2'}")
    )
    (tmp_path / "job.yaml").write_text(segmented)

    result = run("-f", str(tmp_path / "job.yaml"))

    assert "master(1), worker(worker-0(2), worker-1(1))" in result.stdout


def test_what_is_ignored_is_told_apart_from_the_answer():
    pod = "{name: p, namespace: n, uid: u, labels: {kai.scheduler/preemptibility: perhaps}}"
    manifest = f"{{apiVersion: v1, kind: Pod, metadata: {pod}, spec: {{schedulerName: kai-scheduler}}}}"

    found = run("-f", "-", "-o", "json", stdin=manifest), run("-f", "-", stdin=manifest)

    assert json.loads(found[0].stdout)["warnings"] == []
    assert "note: Pod n/p: label" in found[1].stderr


def test_a_manifest_comes_from_standard_input():
    result = run("-f", "-", "-o", "json", stdin=MANIFEST)

    assert json.loads(result.stdout)["pods"][0]["podGroup"] == "pg-ddp-u1"


def test_several_files_are_one_cluster(tmp_path):
    owner, pod, _ = MANIFEST.split("---")
    (tmp_path / "owner.yaml").write_text(owner)
    (tmp_path / "pod.yaml").write_text(pod)

    result = run("-f", str(tmp_path / "pod.yaml"), "-f", str(tmp_path / "owner.yaml"), "-o", "json")

    assert json.loads(result.stdout)["warnings"] == []


def test_options_are_those_of_the_service():
    manifest = """
apiVersion: v1
kind: ConfigMap
metadata: {name: defaults, namespace: kai}
data: {types: '[{"typeName": "Pod", "preemptibility": "preemptible"}]'}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: n, uid: u, labels: {q: mine, pool: a}}
spec: {schedulerName: mine}
"""
    options = ["--scheduler-name=mine", "--queue-label-key=q", "--nodepool-label-key=pool"]
    config_map = [f"--default-priorities-configmap-{key}" for key in ("name=defaults", "namespace=kai")]

    result = run("-f", "-", "-o", "json", *options, *config_map, stdin=manifest)

    [group] = json.loads(result.stdout)["podGroups"]
    assert group["spec"]["queue"] == "mine"
    assert group["spec"]["preemptibility"] == "preemptible"
    assert group["metadata"]["labels"]["pool"] == "a"


def test_kinds_lists_every_kind_with_its_rule():
    result = run("--kinds")

    for kind in ("PyTorchJob", "JobSet", "LeaderWorkerSet", "RayService", "Workflow", "any other"):
        assert kind in result.stdout


@pytest.mark.parametrize(
    ("arguments", "stdin", "status", "message"),
    [
        ([], None, 2, "name a manifest with -f"),
        (["-f", "/no/such/file.yaml"], None, 1, "cannot read the manifest"),
        (["-f", "-"], "a: [", 1, "manifest is not YAML"),
        (["-f", "-"], "- just\n- a list\n", 1, "document 1 is not an object"),
        (["-f", "-", "-o", "xml"], "", 2, "xml"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(arguments, stdin, status, message):
    result = run(*arguments, stdin=stdin)

    assert result.exit_code == status
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_nothing_in_is_nothing_out():
    assert json.loads(run("-f", "-", "-o", "json", stdin="").stdout) == {
        "podGroups": [],
        "pods": [],
        "warnings": [],
    }


def test_it_runs_as_a_program():
    command = [sys.executable, "-m", "kai_cli", "group", "-f", "-", "-o", "json"]

    done = subprocess.run(command, input=MANIFEST, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout)["podGroups"][0]["metadata"]["name"] == "pg-ddp-u1"
