"""``kai run``: the services as processes in the foreground, for the cluster that the kubeconfig names."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from deadlines import patience, until
from e2e.api_server import serving
from e2e.harness import ROOT
from kai_local.processes.ports import free_ports

pytestmark = pytest.mark.integration

KAI = [sys.executable, "-m", "kai_cli"]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of an API server that knows nothing of us."""
    with serving(tmp_path) as server:
        yield server.kubeconfig


def start(kubeconfig: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*KAI, "run", *arguments],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def refused(kubeconfig: Path, *arguments: str) -> str:
    process = start(kubeconfig, *arguments)
    out, _ = process.communicate(timeout=patience())
    assert process.returncode == 1, out
    return out


def readyz(process: subprocess.Popen[str], port: int) -> tuple[int, str]:
    """What /readyz answers; 0 while nobody listens. Fails if the command has ended."""
    assert process.poll() is None, process.communicate()[0]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=patience()) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def test_the_services_named_run_until_they_are_interrupted(kubeconfig: Path) -> None:
    (port,) = free_ports(1)
    listen = f"127.0.0.1:{port}"
    process = start(
        kubeconfig,
        "scheduler",
        "binder",
        "admission",
        "--binders",
        "2",
        "--install",
        "--health-listen",
        listen,
    )
    _, told = until(lambda: readyz(process, port), lambda answer: answer[0] == 200)
    assert set(told.split()) >= {"[+]redis", "[+]scheduler", "[+]binder-1", "[+]binder-2"}
    children = psutil.Process(process.pid).children(recursive=True)
    binder = next(child for child in children if "kai_binder" in " ".join(child.cmdline()))
    binder.kill()
    until(lambda: readyz(process, port), lambda answer: answer[0] == 503)
    until(lambda: readyz(process, port), lambda answer: answer[0] == 200)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=patience())
    assert process.returncode == 130
    assert "4 services" not in out
    assert "3 services serve https://127.0.0.1:" in out
    assert "admission is left out: nothing calls it without --webhooks" in out
    assert "scheduler | " in out
    assert not any(child.is_running() for child in children)


def test_they_end_in_order_when_nobody_reads_what_they_say(kubeconfig: Path) -> None:
    errors = kubeconfig.with_name("errors")
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [*KAI, "run", "scheduler", "--install", "--redis", "none"],
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert process.stdout
    assert any("services serve" in line for line in process.stdout)
    process.stdout.close()  # as `head` does
    children = psutil.Process(process.pid).children(recursive=True)
    next(child for child in children if "kai_scheduler" in " ".join(child.cmdline())).kill()
    assert process.wait(timeout=patience()) == 0
    assert not any(child.is_running() for child in children)
    assert errors.read_text() == ""


def test_what_the_readme_says_serves_a_cluster_that_has_nothing_of_ours(kubeconfig: Path) -> None:
    (command,) = re.findall(r"^kai (run .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    process = subprocess.Popen(
        [*KAI, *command.split(), "--redis", "none"],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = []
    with process:
        assert process.stdout
        for line in process.stdout:
            said.append(line)
            if "services serve" in line:
                process.send_signal(signal.SIGINT)
    assert process.returncode == 130, "".join(said)
    assert any("5 services serve" in line for line in said)


def test_a_cluster_without_our_custom_resources_is_told_how_to_get_them(kubeconfig: Path) -> None:
    assert "does not know our custom resources; install the chart" in refused(kubeconfig)


def test_a_kubeconfig_that_is_missing_is_named(tmp_path: Path) -> None:
    assert f"kubeconfig {tmp_path / 'none'} does not exist" in refused(tmp_path / "none")


def test_an_address_that_is_taken_is_told_before_anything_starts(kubeconfig: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "is already in use" in refused(kubeconfig, "--health-listen", address)


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH")
def test_the_webhooks_are_there_while_the_services_run(kubeconfig: Path) -> None:
    def configurations() -> set[str]:
        kinds = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
        done = subprocess.run(
            ["kubectl", f"--kubeconfig={kubeconfig}", "get", ",".join(kinds), "-o", "name"],
            capture_output=True,
            text=True,
        )
        return {line.rpartition("/")[2] for line in done.stdout.split()}

    wanted = {
        "mutating-kai-admission", "validating-kai-admission", "kai-warnings", "kai-queue-validation-v2",
    }  # fmt: skip
    process = start(kubeconfig, "admission", "queue-controller", "--install", "--webhooks", "--redis", "none")
    until(configurations, lambda found: found == wanted)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=patience())
    assert process.returncode == 0
    assert configurations() == set()
