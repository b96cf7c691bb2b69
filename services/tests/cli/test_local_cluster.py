"""``kai local``: real processes and the real kubectl, from `up` until nothing is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from deadlines import patience, until
from e2e.visiting import Visitor, address_in
from kai_local.box.state import ClusterFiles, ClusterRecord
from kai_local.processes.records import ProcessRecord

pytestmark = pytest.mark.integration

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH")

KAI = [sys.executable, "-m", "kai_cli"]
MINE = """\
# mine
apiVersion: v1
kind: Config
clusters:
- {name: mine, cluster: {server: "https://mine.example"}}
contexts:
- {name: mine, context: {cluster: mine, user: me}}
current-context: mine
users:
- {name: me, user: {token: "t"}}
"""


@dataclass
class Shell:
    """A user's shell with a home of its own."""

    home: Path

    @property
    def environment(self) -> dict[str, str]:
        keep = {k: v for k, v in os.environ.items() if k not in ("KUBECONFIG", "XDG_STATE_HOME")}
        return {**keep, "HOME": str(self.home), "XDG_STATE_HOME": str(self.home / "state")}

    @property
    def kubeconfig(self) -> Path:
        return self.home / ".kube" / "config"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*KAI, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def kai(self, *arguments: str, status: int = 0) -> str:
        done = subprocess.run([*KAI, *arguments], env=self.environment, capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            ["kubectl", *arguments], env=self.environment, input=stdin, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def record(self, name: str = "local") -> ClusterRecord:
        """What the cluster says about itself, without the cost of a command."""
        found = ClusterFiles.of(name, self.environment).read()
        assert found is not None
        return found

    def processes(self, name: str = "local") -> dict[str, ProcessRecord]:
        record = self.record(name)
        return {process.name: process for process in [record.supervisor, *record.processes]}

    def pids(self, name: str = "local") -> dict[str, int]:
        return {process.name: process.pid for process in self.processes(name).values()}

    def nothing_is_left(self) -> None:
        marks = str(self.home)
        until(
            lambda: (
                not [
                    p for p in psutil.process_iter(["cmdline"]) if marks in " ".join(p.info["cmdline"] or ())
                ]
            )
        )
        state = self.home / "state" / "kai"
        assert not state.exists() or list(state.iterdir()) == []


def timeout() -> str:
    return f"--timeout={patience():.0f}s"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    for record in (tmp_path / "state" / "kai").glob("*/cluster.json"):
        subprocess.run([*KAI, "local", "down", "--name", record.parent.name], env=shell.environment)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A whole cluster for the tests that only use it."""
    shell = Shell(tmp_path_factory.mktemp("box"))
    shell.kubeconfig.parent.mkdir()
    shell.kubeconfig.write_text(MINE)
    shell.kai("local", "up", "--detach", "--gpus-per-node", "4", "--binders", "2")
    yield shell
    shell.kai("local", "down")
    assert shell.kubeconfig.read_text() == MINE
    shell.nothing_is_left()


BARE = ("--no-services", "--nodes", "1")

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, annotations: {annotations}}}
spec:
  schedulerName: kai-scheduler
  containers: [{{name: main, image: "x:1", resources: {resources}}}]
"""


def a_pod(name: str, *, gpus: int = 0, fraction: str = "") -> str:
    annotations = f'{{gpu-fraction: "{fraction}"}}' if fraction else "{}"
    resources = f"{{limits: {{nvidia.com/gpu: {gpus}}}}}" if gpus else "{}"
    return POD.format(name=name, annotations=annotations, resources=resources)


# --- a whole cluster ---------------------------------------------------------------------------
def test_everything_is_up_and_says_so(box: Shell) -> None:
    status = json.loads(box.kai("local", "status", "-o", "json"))
    assert (status["phase"], status["context"]) == ("ready", "kai-local")
    assert {process["state"] for process in status["processes"]} == {"ready"}
    assert {process["name"] for process in status["processes"]} >= {
        "redis", "apiserver", "machinery", "admission", "pod-grouper", "podgroup-controller",
        "queue-controller", "scheduler", "binder-1", "binder-2",
    }  # fmt: skip
    assert status["memoryBytes"] == sum(process["memoryBytes"] for process in status["processes"]) > 0
    resident = sum(psutil.Process(process["pid"]).memory_info().rss for process in status["processes"])
    assert status["memoryBytes"] <= resident  # pages that processes share are counted once
    table = box.kai("local", "status")
    assert "Cluster 'local' is ready: 2 nodes x 4 GPUs" in table
    assert table.splitlines()[-1].split()[::2] == ["total", "MiB", "s"]  # and nobody has anything to tell
    assert "listening" in box.kai("local", "logs", "scheduler")
    assert "there is no log of 'shed'; there are" in box.kai("local", "logs", "shed", status=1)


def test_a_service_that_hangs_is_not_called_ready(box: Shell) -> None:
    pid = box.pids()["binder-2"]
    os.kill(pid, signal.SIGSTOP)
    try:
        told = box.kai("local", "status")
    finally:
        os.kill(pid, signal.SIGCONT)
    [row] = [line.split() for line in told.splitlines() if line.startswith("binder-2 ")]
    assert row[1:4] == ["not", "ready", str(pid)]
    assert told.splitlines()[-1] == "binder-2: it does not answer"


@needs_kubectl
@pytest.mark.kubectl
def test_pods_of_ours_run_and_share_gpus(box: Shell) -> None:
    manifests = [
        a_pod("whole", gpus=1),
        a_pod("cpu"),
        a_pod("third", fraction="0.3"),
        a_pod("half", fraction="0.5"),
    ]
    box.kubectl("apply", "-f", "-", stdin="---".join(manifests))
    box.kubectl("wait", "--for=condition=Ready", "pod", "--all", timeout())
    pods = {p["metadata"]["name"]: p for p in json.loads(box.kubectl("get", "pods", "-o", "json"))["items"]}
    groups = {pods[name]["metadata"]["labels"]["runai-gpu-group"] for name in ("third", "half")}
    assert len(groups) == 1
    assert pods["whole"]["metadata"]["annotations"]["pod-group-name"].startswith("pg-whole-")
    (device,) = pods["whole"]["status"]["containerStatuses"][0]["allocatedResourcesStatus"]
    assert device["resources"][0]["resourceID"].startswith("GPU-")
    assert "default-queue" in box.kubectl("get", "queues", "-o", "name")
    box.kubectl("delete", "pod", "--all", timeout())
    until(lambda: not json.loads(box.kubectl("get", "pods", "-A", "-o", "json"))["items"])


WORKLOADS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "web:1"}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {schedulerName: kai-scheduler, containers: [{name: main, image: "db:1"}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: main, image: "agent:1"}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completions: 4
  parallelism: 2
  template:
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers: [{name: main, image: "train:1", command: [sleep, "0.5"]}]
"""


@needs_kubectl
@pytest.mark.kubectl
def test_workloads_of_every_kind_come_up_change_and_go(box: Shell) -> None:
    box.kubectl("apply", "-f", "-", stdin=WORKLOADS)
    for workload in ("deployment/web", "statefulset/db", "daemonset/agent"):
        box.kubectl("rollout", "status", workload, timeout())
    box.kubectl("wait", "--for=condition=Complete", "job/train", timeout())
    box.kubectl("set", "image", "deployment/web", "main=web:2")
    box.kubectl("scale", "deployment/web", "--replicas=2")
    box.kubectl("rollout", "status", "deployment/web", timeout())
    images = box.kubectl(
        "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.containers[0].image}"
    )
    assert images == "web:2 web:2"
    box.kubectl("rollout", "undo", "deployment/web")
    box.kubectl("rollout", "status", "deployment/web", timeout())
    box.kubectl("delete", "-f", "-", stdin=WORKLOADS)
    assert box.kubectl("get", "pvc", "-o", "jsonpath={.items[*].status.phase}") == "Bound Bound"
    box.kubectl("delete", "pvc", "--all")
    until(lambda: not box.kubectl("get", "pv", "-o", "name"))
    until(lambda: not json.loads(box.kubectl("get", "pods", "-A", "-o", "json"))["items"])


NODE = """
apiVersion: v1
kind: Node
metadata: {name: extra, labels: {nvidia.com/gpu.count: "2"}}
status: {capacity: {cpu: "8", memory: 16Gi, pods: "50", nvidia.com/gpu: "2"}}
"""


@needs_kubectl
@pytest.mark.kubectl
def test_a_node_that_somebody_adds_gets_a_kubelet_and_loses_its_pods_with_its_end(box: Shell) -> None:
    box.kubectl("apply", "-f", "-", stdin=NODE)
    box.kubectl("wait", "--for=condition=Ready", "node/extra", timeout())
    selector = "nodeSelector: {kubernetes.io/hostname: extra}\n  schedulerName"
    box.kubectl("apply", "-f", "-", stdin=a_pod("there", gpus=2).replace("schedulerName", selector))
    box.kubectl("wait", "--for=condition=Ready", "pod/there", timeout())
    box.kubectl("delete", "node", "extra")
    box.kubectl("wait", "--for=delete", "pod/there", timeout())


@needs_kubectl
@pytest.mark.kubectl
def test_admission_refuses_what_makes_no_sense(box: Shell) -> None:
    done = subprocess.run(
        ["kubectl", "apply", "-f", "-"],
        env=box.environment,
        input=a_pod("bad", fraction="1.5"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "gpu-fraction" in done.stderr


@needs_kubectl
@pytest.mark.kubectl
def test_killed_processes_come_back_and_work_goes_on(box: Shell) -> None:
    before = box.pids()
    victims = [
        "redis",
        "machinery",
        "admission",
        "pod-grouper",
        "scheduler",
        "binder-1",
        "binder-2",
    ]
    for name in victims:
        os.kill(before[name], signal.SIGKILL)

    def all_back() -> bool:
        now = box.processes()
        return all(p.state == "ready" for p in now.values()) and all(
            now[name].restarts and now[name].pid not in (0, before[name]) for name in victims
        )

    until(all_back)
    box.kubectl("apply", "-f", "-", stdin=a_pod("after", gpus=2))
    box.kubectl("wait", "--for=condition=Ready", "pod/after", timeout())
    box.kubectl("delete", "pod", "after")


@pytest.mark.parametrize("how", [(), ("--detach",)])
def test_a_name_that_is_taken_is_told(box: Shell, how: tuple[str, ...]) -> None:
    said = box.kai("local", "up", *how, status=1)
    assert "there is a cluster 'local' already; end it with `kai local down --name local`" in said


def test_an_entry_of_another_cluster_is_never_replaced(shell: Shell) -> None:
    shell.kubeconfig.parent.mkdir()
    shell.kubeconfig.write_text(theirs := MINE.replace("name: mine", "name: kai-prod"))
    said = shell.kai("local", "up", "--name", "prod", *BARE, status=1)
    assert "has an entry kai-prod already, of the cluster at https://mine.example" in said
    assert "take another --name" in said
    assert shell.kubeconfig.read_text() == theirs
    shell.nothing_is_left()


def test_another_cluster_runs_beside(box: Shell) -> None:
    contexts = lambda: [c["name"] for c in yaml.safe_load(box.kubeconfig.read_text())["contexts"]]  # noqa: E731
    box.kai("local", "up", "--detach", "--name", "second", *BARE)
    assert box.record("second").server != box.record().server
    assert contexts() == ["mine", "kai-local", "kai-second"]
    assert yaml.safe_load(box.kubeconfig.read_text())["current-context"] == "kai-second"
    box.kai("local", "down", "--name", "second")
    assert contexts() == ["mine", "kai-local"]
    assert yaml.safe_load(box.kubeconfig.read_text())["current-context"] == "kai-local"
    assert box.record().phase == "ready"


# --- coming and going --------------------------------------------------------------------------
def test_in_the_foreground_an_interrupt_ends_it_without_a_trace(shell: Shell) -> None:
    process = shell.start("local", "up", *BARE)
    assert process.stdout
    lines: list[str] = []
    while "is up at" not in (line := process.stdout.readline()):
        assert line, lines
        lines.append(line)
    assert shell.kubeconfig.exists()
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=patience())
    assert process.returncode == 130, rest
    assert not shell.kubeconfig.exists()
    shell.nothing_is_left()


@pytest.mark.parametrize("command", [("local", "up", *BARE), ("run",)], ids=["local up", "run"])
def test_an_interrupt_before_anything_is_there_is_heeded_all_the_same(
    shell: Shell, command: tuple[str, ...]
) -> None:
    process = shell.start(*command)
    its = psutil.Process(process.pid)
    until(lambda: {"kai_local.box.up", "kai_local.services.run"} & {*its.cmdline()})
    process.send_signal(signal.SIGINT)  # in the midst of its imports
    out, _ = process.communicate(timeout=patience())
    assert "Traceback" not in out
    assert process.returncode == (130 if command[0] == "local" else 1), out
    shell.nothing_is_left()


@pytest.mark.parametrize(
    "until_said", ["is up at", "API server"], ids=["before its end", "while it comes up"]
)
def test_it_ends_in_order_where_nobody_reads_what_it_says(shell: Shell, until_said: str) -> None:
    errors = shell.home / "errors"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [*KAI, "local", "up", *BARE],
            env=shell.environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert process.stdout
    assert any(until_said in line for line in process.stdout)
    process.stdout.close()  # as `head` does, or `tee` that an interrupt has ended
    if until_said == "is up at":
        process.send_signal(signal.SIGINT)
    assert process.wait(timeout=patience()) == (130 if until_said == "is up at" else 0)
    assert errors.read_text() == ""
    shell.nothing_is_left()


def test_an_interrupt_while_it_comes_up_leaves_nothing(shell: Shell) -> None:
    process = shell.start("local", "up", *BARE)
    until(lambda: list((shell.home / "state" / "kai").glob("*/logs/*")))
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=patience())
    assert process.returncode == 130, out
    shell.nothing_is_left()


def test_a_killed_cluster_leaves_no_process_and_its_name_can_be_used_again(shell: Shell) -> None:
    shell.kubeconfig.parent.mkdir()
    shell.kubeconfig.write_text(MINE)
    for _ in range(2):
        shell.kai("local", "up", "--detach", *BARE)
        pids = shell.pids()
        os.kill(pids["supervisor"], signal.SIGKILL)
        until(lambda pids=pids: not any(psutil.pid_exists(pid) for pid in pids.values()))
    assert "is dead" in shell.kai("local", "status", status=1)
    shell.kai("local", "down")
    assert shell.kubeconfig.read_text() == MINE
    shell.nothing_is_left()


def test_a_full_disk_puts_off_what_is_told_and_ends_nothing(shell: Shell) -> None:
    shell.kai("local", "up", "--detach", *BARE)
    before = shell.pids()
    in_the_way = shell.home / "state" / "kai" / "local" / "cluster.new"  # as if there were no room for it
    in_the_way.mkdir()
    os.kill(before["machinery"], signal.SIGKILL)
    until(lambda: not psutil.pid_exists(before["machinery"]))
    restarted = f"kai_local.embedded.machinery --kubeconfig={shell.home}"
    until(
        lambda: [
            p for p in psutil.process_iter(["cmdline"]) if restarted in " ".join(p.info["cmdline"] or ())
        ]
    )
    in_the_way.rmdir()
    until(lambda: shell.processes()["machinery"].restarts == 1)
    assert shell.pids()["supervisor"] == before["supervisor"]
    shell.kai("local", "down")
    shell.nothing_is_left()


@needs_kubectl
@pytest.mark.kubectl
def test_a_cluster_whose_folder_is_removed_ends_and_leaves_the_next_of_its_name_alone(shell: Shell) -> None:
    shell.kai("local", "up", "--detach", *BARE)
    before = shell.pids()
    shutil.rmtree(shell.home / "state" / "kai")
    shell.kai("local", "up", "--detach", *BARE)

    until(lambda: not any(psutil.pid_exists(pid) for pid in before.values()))

    assert len(json.loads(shell.kubectl("get", "nodes", "-o", "json"))["items"]) == 1
    now = shell.pids()
    assert now.keys() == before.keys()
    shutil.rmtree(shell.home / "state" / "kai")
    until(lambda: not any(psutil.pid_exists(pid) for pid in now.values()))
    shell.nothing_is_left()
    assert not shell.kubeconfig.exists()


def test_a_cluster_whose_folder_is_removed_while_it_comes_up_says_so(shell: Shell) -> None:
    state = shell.home / "state" / "kai"
    coming = shell.start("local", "up", *BARE)
    until(lambda: (state / "local" / "cluster.json").exists())
    until(lambda: shutil.rmtree(state, ignore_errors=True) or not state.exists())
    said, _ = coming.communicate()
    assert coming.returncode == 1, said
    assert f"{state / 'local'} was removed, so the cluster ended" in said
    assert "Traceback" not in said
    shell.nothing_is_left()
    assert not shell.kubeconfig.exists()


def test_a_cluster_goes_on_when_its_api_server_is_killed(shell: Shell, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shell.kai("local", "up", "--detach", "--kubeconfig", str(own), *BARE)
    config = own.read_text()
    assert yaml.safe_load(config)["current-context"] == "kai-local"
    assert own.stat().st_mode & 0o777 == 0o600
    assert not shell.kubeconfig.exists()
    queues = ("--kubeconfig", str(own), "get", "queues", "-o", "yaml")
    before = shell.kubectl(*queues)
    pid = shell.pids()["apiserver"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: shell.pids().get("apiserver", pid) != pid)
    until(lambda: shell.processes()["apiserver"].state == "ready")
    assert own.read_text() == config
    assert shell.kubectl(*queues) == before
    shell.kai("local", "down")
    assert not own.exists()
    shell.nothing_is_left()
    assert "there is no cluster 'local'" in shell.kai("local", "down", status=1)


def test_a_port_that_is_taken_is_told_and_nothing_started(shell: Shell) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = shell.kai("local", "up", "--detach", "--port", str(port), *BARE, status=1)
    assert f"port {port} is already in use" in said
    shell.nothing_is_left()


# --- with its page -----------------------------------------------------------------------------
def test_a_cluster_that_is_looked_at_is_gone_once_nobody_looks(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for screen in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(screen, raising=False)
    process = shell.start("local", "up", "--ui", *BARE)
    try:
        assert process.stdout is not None
        address = next(filter(None, map(address_in, process.stdout)))
        visitor = Visitor(address)
        assert (visitor.status, Visitor(address).status) == (200, 403)
        assert "app.js" in visitor.page()
        assert visitor.cluster()["nodes"] == 1
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=patience())
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, rest.splitlines()[-1]) == (0, "Cluster 'local' is gone.")
    shell.nothing_is_left()
