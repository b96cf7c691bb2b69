"""``kai local`` and ``kai run`` say clearly what is wrong before they start anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kai_cli.__main__ import app
from kai_cli.local import _read_log
from kai_local.box.state import ClusterFiles, ClusterRecord
from kai_local.processes.records import ProcessRecord
from kai_local.real import binaries
from kai_local.services.suite import USUAL


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["local", "status"], 1, "there is no cluster 'local'; start one with `kai local up`"),
        (["local", "down", "--name", "x"], 1, "there is no cluster 'x'"),
        (["local", "logs", "scheduler"], 1, "there is no cluster 'local'"),
        (["local", "up", "--name", "A b"], 2, "cluster name 'A b' cannot be used"),
        (["local", "up", "--binders", "0"], 2, "greater than or equal to 1"),
        (["local", "up", "--memory", "lots"], 2, "'lots' is not a Kubernetes quantity"),
        (["local", "up", "--memory", "0"], 2, "'0' is not more than nothing"),
        (["local", "up", "--memory=-5Gi"], 2, "'-5Gi' is not more than nothing"),
        (["local", "up", "--kubelets", "1"], 2, "give --real"),
        (["local", "up", "--real", "--kubelets", "1"], 2, "give --no-services"),
        (["local", "up", "--image", "x.tar"], 2, "give --kubelets"),
        (
            ["local", "up", "--real", "--no-services", "--kubelets", "1", "--image", "x"],
            2,
            "there is no file x",
        ),
        (["local", "up", "--no-services", "--chart"], 2, "--chart: no services run with --no-services"),
        (["local", "up", "--no-services", "--history"], 2, "--history: no services run"),
        (["local", "up", "--no-services", "--autoscaling"], 2, "--autoscaling: no services run"),
        (["local", "up", "--no-services", "--binders", "2"], 2, "--binders: no services run"),
        (["local", "up", "--no-webhooks", "--chart"], 2, "--chart: the chart brings webhooks"),
        (["local", "up", "--flag", "insight:x=1"], 2, "insight does not run: give --history"),
        (["local", "up", "--no-services", "--flag", "binder:x=1"], 2, "binder does not run"),
        (["local", "up", "--no-webhooks", "--flag", "admission:x=1"], 2, "admission does not run"),
        (["local", "up", "--ui", "--detach"], 2, "`kai ui` opens it later"),
        (["local", "up", "--kubelets", "9"], 2, "less than or equal to 8"),
        (["run", "sheduler"], 2, "there is no service 'sheduler'; there are queue-controller"),
        (["run", "--health-listen", "8080"], 2, "'8080' is not HOST:PORT"),
        (["run", "--health-listen", "127.0.0.1:99999"], 2, "'127.0.0.1:99999' is not HOST:PORT"),
        (["run", "--health-listen", "::1:8081"], 2, "brackets, for example [::1]:8080"),
    ],
)
def test_bad_input_is_told(arguments: list[str], status: int, says: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == status
    assert says in " ".join(result.output.replace("│", " ").split())


def test_help_says_which_services_run_and_that_one_needs_webhooks() -> None:
    result = CliRunner().invoke(app, ["run", "--help"], terminal_width=200)
    told = " ".join(result.output.replace("│", " ").split())
    assert f"if none is named, {', '.join(USUAL)}." in told
    assert "without, admission is left out" in told


@pytest.mark.parametrize(
    ("option", "who", "missing"),
    [
        ("--chart", "an installation by the chart (--chart)", "helm"),
        ("--real", "a real control plane", "etcd, kube-apiserver, kube-controller-manager, kwok, helm"),
    ],
)
def test_programs_that_are_missing_are_told_by_who_needs_them_before_anything_is_started(
    state_home: Path, monkeypatch: pytest.MonkeyPatch, option: str, who: str, missing: str
) -> None:
    for variable, folder in (("PATH", "bin"), ("XDG_CACHE_HOME", "cache"), ("KUBEBUILDER_ASSETS", "assets")):
        monkeypatch.setenv(variable, str(state_home / folder))
    result = CliRunner().invoke(app, ["local", "up", option, "--detach"])
    assert result.exit_code == 1
    assert f"kai: {who} needs {missing}: found neither in" in " ".join(result.output.split())
    assert not ClusterFiles.of("local").directory.exists()


def test_what_real_nodes_lack_is_told_beside_the_programs(
    state_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for program in binaries.CONTROL_PLANE:
        (tmp_path / program).touch(mode=0o755)
    for variable in ("PATH", "XDG_CACHE_HOME", "KUBEBUILDER_ASSETS"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    command = ["local", "up", "--real", "--kubelets", "1", "--no-services", "--detach"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    told = " ".join(result.output.split())
    assert "kubelet, kube-proxy, coredns, containerd" in told
    assert "make controlplane PROGRAMS=nodes" in told
    assert "there is no runc: apt-get install runc" in told
    assert not ClusterFiles.of("local").directory.exists()


def test_other_clusters_are_named_when_one_is_not_found(state_home: Path) -> None:
    box = ClusterFiles.of("box")
    box.make()
    (box.directory / "cluster.json").write_text("{}")
    result = CliRunner().invoke(app, ["local", "down", "--name", "bax"])
    assert "there are box" in result.output


@pytest.mark.integration
def test_a_record_that_is_damaged_is_told_once_whoever_meets_it(state_home: Path) -> None:
    box = ClusterFiles.of("box")
    box.make()
    (box.directory / "cluster.json").write_text("{")
    for command in (["up", "--detach"], ["down"], ["status"]):
        result = subprocess.run(
            [sys.executable, "-m", "kai_cli", "local", *command, "--name", "box"],
            capture_output=True,
            text=True,
            env={**os.environ, "KUBECONFIG": str(state_home / "kubeconfig")},
        )
        assert result.returncode == 1
        [line] = (result.stdout + result.stderr).splitlines()
        assert f"cluster.json is damaged (Input data was truncated); remove {box.directory}" in line


def test_a_process_between_two_runs_has_no_pid(state_home: Path) -> None:
    box = ClusterFiles.of("box")
    box.make()
    supervisor, binder = ProcessRecord("supervisor", "ready"), ProcessRecord("binder", "crashed", restarts=1)
    box.write(ClusterRecord("box", "ready", 0.0, supervisor, processes=[binder]))
    told = CliRunner().invoke(app, ["local", "status", "--name", "box", "-o", "json"])
    [_, process] = json.loads(told.output)["processes"]
    assert (process["name"], process["state"], process["pid"]) == ("binder", "crashed", None)


def test_where_a_process_answers_questions_over_http_is_told(state_home: Path) -> None:
    box = ClusterFiles.of("box")
    box.make()
    insight = ProcessRecord("insight", "ready", api_address="http://127.0.0.1:9092")
    box.write(ClusterRecord("box", "ready", 0.0, ProcessRecord("supervisor", "ready"), processes=[insight]))
    told = CliRunner().invoke(app, ["local", "status", "--name", "box"])
    assert "insight: questions over HTTP at http://127.0.0.1:9092" in told.output
    as_json = CliRunner().invoke(app, ["local", "status", "--name", "box", "-o", "json"])
    assert [each["apiAddress"] for each in json.loads(as_json.output)["processes"]] == [
        "",
        "http://127.0.0.1:9092",
    ]


def test_a_log_that_another_process_takes_over_is_gone_on_with(state_home: Path) -> None:
    box = ClusterFiles.of("box")
    box.make()
    box.logs.mkdir()
    log, next_log = box.logs / "scheduler.log", box.logs / "scheduler-2.log"
    log.write_text("of the old one\n")
    parts = _read_log(log, lines=1, follow=True)
    assert next(parts) == "of the old one\n"
    next_log.write_text("of the new one\n")
    next_log.replace(log)
    assert next(parts) == "of the new one\n"
    box.clear()
    assert list(parts) == []
