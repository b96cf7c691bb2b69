"""Suites that a stand-in for ``go`` runs, as Go and ginkgo would tell of them."""

import os
import stat

import pytest

from e2e.suites import run as running
from e2e.suites.run import NoSources, Suite, run, suites_in, table

REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="5" disabled="0" errors="0" failures="2" time="3.5">
  <testsuite name="Reclaim Suite" tests="5" disabled="0" skipped="1" errors="0" failures="2" time="3.5">
    <testcase name="[BeforeSuite]" classname="Reclaim Suite" status="passed" time="0.1"></testcase>
    <testcase name="[It] Reclaim simple" classname="Reclaim Suite" status="passed" time="1"></testcase>
    <testcase name="[It] Reclaim elastic" classname="Reclaim Suite" status="failed" time="1">
      <failure message="Failed to wait for pods&#xA;to be scheduled" type="failed">at reclaim.go:7</failure>
    </testcase>
    <testcase name="[It] Reclaim claims" classname="Reclaim Suite" status="skipped" time="0">
      <skipped message="skipped - DRA is not enabled"></skipped>
    </testcase>
    <testcase name="[AfterSuite]" classname="Reclaim Suite" status="panicked" time="0.1">
      <error message="nil map" type="panicked">at suite_test.go:3</error>
    </testcase>
  </testsuite>
</testsuites>
"""


@pytest.fixture
def sources(tmp_path):
    """Two suites, and a folder beside them that is none."""
    for folder, text in {
        "reclaim": "RunSpecs(t)",
        "allocate/quota": "RunSpecs(t)",
        "shared": "func F()",
    }.items():
        file = tmp_path / "sources" / running.SUITES / folder / "suite_test.go"
        file.parent.mkdir(parents=True)
        file.write_text(f"package suite\n{text}\n")
    return tmp_path / "sources"


@pytest.fixture
def go(tmp_path, monkeypatch):
    """Puts a program called go first on the PATH."""

    def be(script):
        program = tmp_path / "bin" / "go"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")

    return be


def test_suites_are_the_folders_that_run_specs(sources):
    assert suites_in(sources) == ["allocate/quota", "reclaim"]
    assert suites_in(sources, ["allocate"]) == ["allocate/quota"]


@pytest.mark.parametrize(("wanted", "told"), [((), "has no suite; SOURCES"), (("x",), "begins with x")])
def test_what_is_no_folder_with_suites_is_told(sources, tmp_path, wanted, told):
    with pytest.raises(NoSources, match=told):
        suites_in(sources if wanted else tmp_path / "nowhere", wanted)


def test_a_suite_is_run_on_the_cluster_and_its_specs_are_counted(sources, go, tmp_path):
    (tmp_path / "given.xml").write_text(REPORT)
    go(
        f'echo "$KUBECONFIG" "$@" > {tmp_path}/asked\n'
        'for word in "$@"; do\n'
        f'case "$word" in --ginkgo.junit-report=*) cp {tmp_path}/given.xml "${{word#*=}}";; esac\n'
        "done\nexit 1"
    )
    found = run("reclaim", sources, tmp_path / "kubeconfig", tmp_path, seconds=5)
    assert (found.passed, found.skipped, found.problem, found.well) == (1, 1, "", False)
    assert found.failed == {"Reclaim elastic": "Failed to wait for pods", "[AfterSuite]": "nil map"}
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith(f"{tmp_path / 'kubeconfig'} test ")
    assert "./test/e2e/suites/reclaim -args" in asked
    assert "--ginkgo.label-filter=!autoscale" in asked
    assert "| `reclaim` | 1 | 2 | 1 |" in table([found])
    assert "* Reclaim elastic: Failed to wait for pods" in table([found])


def test_a_suite_that_cannot_be_built_says_why(sources, go, tmp_path):
    go("echo 'undefined: thing'; exit 2")
    found = run("reclaim", sources, tmp_path / "kubeconfig", tmp_path, seconds=5)
    assert "undefined: thing" in found.problem
    assert "`reclaim` did not run" in table([found, Suite(name="other", passed=1)])


def test_a_suite_that_hangs_is_ended(sources, go, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "BUILD_SECONDS", -124)
    go("exec sleep 600")
    assert "did not end within 1 s" in run("reclaim", sources, tmp_path / "k", tmp_path, seconds=5).problem


def test_without_go_that_is_said(sources, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install Go" in run("reclaim", sources, tmp_path / "k", tmp_path, seconds=5).problem
