"""``kai local up --chart``: what helm and kubectl do to the installation takes effect, and is told truly."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from deadlines import patience, until
from kai_local.box.state import ClusterFiles

pytestmark = [pytest.mark.integration, pytest.mark.kubectl]

KAI = [sys.executable, "-m", "kai_cli"]
CHART = Path(__file__).parents[3] / "helm" / "kai-scheduler"
NAMESPACE = "kai-scheduler"
SOMETHING_OF_EACH = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: {name}}}
spec:
  parentQueue: default-parent-queue
  resources: {{gpu: {{quota: 1, limit: -1}}, cpu: {{limit: -1}}, memory: {{limit: -1}}}}
---
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {{name: {name}}}
spec: {{levels: [{{nodeLabel: kubernetes.io/hostname}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, annotations: {{gpu-fraction: "0.1"}}, labels: {{kai.scheduler/queue: {name}}}}}
spec: {{schedulerName: kai-scheduler, containers: [{{name: main, image: x}}]}}
"""
BAD = SOMETHING_OF_EACH.replace('"0.1"', '"1.5"')


@dataclass
class Installed:
    """A cluster with the chart, and the tools of its user."""

    home: Path
    helm_program: str

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(Path(self.helm_program).parent), os.environ["PATH"]])
        own = {
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            "KUBECONFIG": str(self.home / "config"),
            "PATH": path,
        }
        return {**os.environ, **own}

    def run(self, *command: str, stdin: str | None = None, fails: bool = False) -> str:
        done = subprocess.run(command, env=self.environment, input=stdin, capture_output=True, text=True)
        assert bool(done.returncode) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def helm(self, *arguments: str) -> str:
        return self.run("helm", *arguments)

    def kubectl(self, *arguments: str, stdin: str | None = None, fails: bool = False) -> str:
        return self.run("kubectl", *arguments, stdin=stdin, fails=fails)

    def pods(self, app: str, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
        found = self.kubectl("get", "pods", "-n", namespace, "-l", f"app={app}", "-o", "json")
        return list(json.loads(found)["items"])

    def settled(self) -> None:
        """Return when every Deployment has what it asks for."""
        for name in self.kubectl("get", "deployments", "-n", NAMESPACE, "-o", "name").split():
            self.kubectl("rollout", "status", "-n", NAMESPACE, name, f"--timeout={patience():.0f}s")

    def works(self, name: str) -> None:
        """What webhooks, scheduler and binder are needed for."""
        self.settled()
        self.kubectl("apply", "-f", "-", stdin=SOMETHING_OF_EACH.format(name=name))
        # A binder that was just replaced may have had the pod in hand: others take it over after a while.
        self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", f"--timeout={patience(2):.0f}s")
        said = self.kubectl("apply", "-f", "-", stdin=BAD.format(name=f"{name}-bad"), fails=True)
        assert "gpu-fraction" in said

    def configure(self, **spec: Any) -> None:
        """Change fields of Config, of which the operator makes the Deployments; None takes one out."""
        patch = json.dumps({"spec": spec})
        self.kubectl("patch", "config.kai.scheduler", "kai-config", "--type=merge", "-p", patch)

    def told(self, condition: str) -> str:
        """What the operator says of Config's newest generation, once it is as it should not be."""
        config = json.loads(self.kubectl("get", "config.kai.scheduler", "kai-config", "-o", "json"))
        for said in config["status"]["conditions"]:
            if (said["type"], said["status"]) == (condition, "False"):
                current = said["observedGeneration"] == config["metadata"]["generation"]
                return str(said["message"]) if current else ""
        return ""

    def ready(self) -> None:
        """Return when all is as the newest generation of Config says."""
        config = json.loads(self.kubectl("get", "config.kai.scheduler", "kai-config", "-o", "json"))
        seen = ("{.status.conditions[?(@.type=='Ready')].status}"
                "{.status.conditions[?(@.type=='Ready')].observedGeneration}")  # fmt: skip
        wanted = f"True{config['metadata']['generation']}"
        until(lambda: self.kubectl(
            "get", "config.kai.scheduler", "kai-config", "-o", f"jsonpath={seen}") == wanted)  # fmt: skip

    def processes(self) -> dict[str, Any]:
        record = ClusterFiles.of("chart", self.environment).read()
        assert record is not None
        return {process.name: process for process in record.processes}

    def command_of(self, name: str) -> list[str]:
        process = self.processes().get(name)
        if process is None or not process.pid:
            return []
        try:
            return " ".join(psutil.Process(process.pid).cmdline()).split()
        except psutil.NoSuchProcess:
            return []


@pytest.fixture(scope="module")
def cluster(helm_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    installed = Installed(tmp_path_factory.mktemp("chart"), helm_program)
    name = ("--name", "chart")
    installed.run(*KAI, "local", "up", "--chart", "--detach", *name)
    yield installed
    installed.run(*KAI, "local", "down", *name)
    marks = str(installed.home)
    running = [p.info["cmdline"] or () for p in psutil.process_iter(["cmdline"])]
    assert not [command for command in running if marks in " ".join(command)]
    assert list((installed.home / "state" / "kai").iterdir()) == []


def test_pods_run_where_nothing_is_simulated(cluster: Installed) -> None:
    [pod] = cluster.pods("binder")
    assert pod["spec"]["nodeName"] == "this-machine"
    assert pod["metadata"]["annotations"]["kai.local/address"] in cluster.processes()["binder"].address
    cluster.works("first")
    cluster.kubectl("run", "default-scheduled", "--image=x")
    cluster.kubectl("wait", "--for=condition=Ready", "pod/default-scheduled", f"--timeout={patience():.0f}s")
    [plain] = [cluster.kubectl("get", "pod", "default-scheduled", "-o", "jsonpath={.spec.nodeName}")]
    assert plain.startswith("node-")


def test_redis_is_used_over_tls_with_a_password_that_nobody_else_sees(cluster: Installed) -> None:
    cluster.settled()
    secret = json.loads(cluster.kubectl("get", "secret", "kai-redis", "-n", NAMESPACE, "-o", "json"))["data"]
    assert base64.b64decode(secret["url"]).startswith(b"rediss://")
    password = base64.b64decode(secret["password"]).decode()
    commands = [p.info["cmdline"] or () for p in psutil.process_iter(["cmdline"])]
    assert not [command for command in commands if password in " ".join(command)]

    until(lambda: keeps_sessions(cluster))


def keeps_sessions(cluster: Installed) -> bool:
    """Whether the last session of the scheduler is in Redis."""
    with urllib.request.urlopen(f"{cluster.processes()['scheduler'].address}/metrics") as answer:
        return "kai_session_cache_up 1.0" in answer.read().decode()


@pytest.mark.parametrize(
    "how",
    [("delete", "pod", "--selector=app=kai-redis"), ("rollout", "restart", "deploy/kai-redis")],
    ids=["deleted", "restarted"],
)
def test_a_redis_in_the_place_of_another_is_reached_by_processes_that_live_on(
    cluster: Installed, how: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    cluster.settled()
    users = ("scheduler", "queue-controller")
    old, before = cluster.processes()["redis"], [cluster.processes()[name].pid for name in users]
    cluster.kubectl(*how, "-n", NAMESPACE)
    until(lambda: (p := cluster.processes().get("redis")) and p.pid not in (0, old.pid))
    assert cluster.processes()["redis"].address == old.address
    cluster.works(f"redis-{request.node.callspec.id}")
    until(lambda: keeps_sessions(cluster))
    assert [cluster.processes()[name].pid for name in users] == before


@pytest.mark.parametrize(
    "values",
    [
        ("--reuse-values",),
        ("--reset-values", "--set", "global.gpuSharing=true"),
        ("--set", "global.gpuSharing=true,redis.maxMemory=128mb"),
    ],
    ids=["reused", "reset", "set"],
)
def test_an_upgrade_leaves_a_cluster_that_works(
    cluster: Installed, values: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    cluster.helm("upgrade", NAMESPACE, str(CHART), "-n", NAMESPACE, *values)
    cluster.works(request.node.callspec.id)


def test_a_value_that_helm_changes_is_what_the_process_runs_with_until_it_is_rolled_back(
    cluster: Installed,
) -> None:
    flag = "--schedule-period=3s"
    cluster.helm(
        "upgrade", NAMESPACE, str(CHART), "-n", NAMESPACE, "--reuse-values",
        "--set", "scheduler.args.schedule-period=3s",
    )  # fmt: skip
    until(lambda: flag in cluster.command_of("scheduler"))
    cluster.settled()
    [pod] = cluster.pods("kai-scheduler-default")
    assert flag in pod["spec"]["containers"][0]["args"]
    cluster.helm("rollback", NAMESPACE, "-n", NAMESPACE)
    until(lambda: (command := cluster.command_of("scheduler")) and flag not in command)
    cluster.works("rolled-back")


def test_the_holder_of_the_lease_is_called_as_its_pod_is(cluster: Installed) -> None:
    def leads() -> bool:
        [pod] = cluster.pods("kai-scheduler-default")
        lease = cluster.kubectl("get", "lease", "-n", NAMESPACE, NAMESPACE, "-o", "jsonpath={.spec}")
        return str(json.loads(lease)["holderIdentity"]).startswith(f"{pod['metadata']['name']}_")

    until(leads)


def test_a_setting_that_is_no_setting_is_refused_and_the_process_goes_on(cluster: Installed) -> None:
    before = cluster.processes()["queue-controller"].pid
    cluster.configure(queueController={"service": {"extraArgs": {"no-such-flag": "1"}}})
    said = until(lambda: cluster.told("Ready"))
    assert "spec.queueController.service.extraArgs.no-such-flag" in said
    assert cluster.processes()["queue-controller"].pid == before
    assert "no-such-flag" not in json.dumps(cluster.pods("queue-controller"))
    cluster.configure(queueController={"service": {"extraArgs": None}})
    cluster.ready()
    assert cluster.processes()["queue-controller"].pid == before


def test_a_value_that_a_process_refuses_leaves_the_old_process_at_work(cluster: Installed) -> None:
    before = cluster.processes()["queue-controller"].pid
    no_url = ("generic", "no-url", "--from-literal=url=nonsense")
    cluster.kubectl("create", "secret", "-n", NAMESPACE, *no_url)
    cluster.configure(redis={"externalSecret": {"name": "no-url", "key": "url"}})

    def looping() -> Any:
        states = [p["status"]["containerStatuses"][0] for p in cluster.pods("queue-controller")
                  if p["status"].get("containerStatuses")]  # fmt: skip
        [bad, *_] = [s for s in states if s["restartCount"]] or [{}]
        return (
            bad and bad["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff" and bad["lastState"]
        )

    assert until(looping)["terminated"]["exitCode"] == 2
    assert "queue-controller" in until(lambda: cluster.told("Available"))
    assert psutil.pid_exists(before)
    cluster.kubectl("apply", "-f", "-", stdin=SOMETHING_OF_EACH.format(name="meanwhile"))
    cluster.configure(redis={"externalSecret": None})
    cluster.ready()
    cluster.settled()
    until(lambda: (p := cluster.processes().get("queue-controller")) and p.pid == before)


def test_a_process_that_is_killed_shows_in_its_pod(cluster: Installed) -> None:
    before = cluster.pods("pod-grouper")[0]
    os.kill(cluster.processes()["pod-grouper"].pid, signal.SIGKILL)

    def restarted() -> Any:
        [pod] = cluster.pods("pod-grouper")
        [container] = pod["status"]["containerStatuses"]
        return container if container["restartCount"] and container["ready"] else None

    container = until(restarted)
    assert container["restartCount"] == cluster.processes()["pod-grouper"].restarts == 1
    assert container["lastState"]["terminated"]["exitCode"] == 137
    assert cluster.pods("pod-grouper")[0]["metadata"]["uid"] == before["metadata"]["uid"]
    assert "listening" in cluster.kubectl("logs", "-n", NAMESPACE, "deploy/pod-grouper", "--previous")


def test_scaling_restarting_and_deleting_do_what_they_do_elsewhere(cluster: Installed) -> None:
    cluster.configure(binder={"replicas": 3})
    until(lambda: {"binder", "binder-2", "binder-3"} <= cluster.processes().keys())
    cluster.kubectl("scale", "-n", NAMESPACE, "deploy/binder", "--replicas=2")
    asked = ("get", "deploy/binder", "-n", NAMESPACE, "-o", "jsonpath={.spec.replicas}")
    until(lambda: cluster.kubectl(*asked) == "3")
    cluster.settled()
    cluster.configure(binder={"replicas": 1})
    until(lambda: len([name for name in cluster.processes() if name.startswith("binder")]) == 1)

    pid = cluster.processes()["scheduler"].pid
    cluster.kubectl("rollout", "restart", "-n", NAMESPACE, "deploy/kai-scheduler-default")
    cluster.settled()
    until(lambda: (p := cluster.processes().get("scheduler")) and p.pid not in (0, pid))

    [old] = cluster.pods("admission")
    cluster.kubectl("delete", "pod", "-n", NAMESPACE, old["metadata"]["name"])
    cluster.works("after-deleting")
    assert cluster.pods("admission")[0]["metadata"]["uid"] != old["metadata"]["uid"]


def test_a_scheduler_scaled_to_nothing_is_gone_and_comes_back(cluster: Installed) -> None:
    cluster.configure(scheduler={"replicas": 0})  # what kubectl scales the operator puts back
    until(lambda: "scheduler" not in cluster.processes())
    cluster.ready()
    cluster.configure(scheduler={"replicas": None})
    cluster.ready()
    cluster.works("scheduled-again")


def test_logs_are_those_of_the_process_and_what_a_process_has_not_is_refused(cluster: Installed) -> None:
    of_binder = ("-n", NAMESPACE, "deploy/binder")
    assert "listening" in cluster.kubectl("logs", *of_binder)
    assert cluster.kubectl("logs", *of_binder, "--tail=2").count("service=binder") == 2
    assert "ask without it" in cluster.kubectl("logs", *of_binder, "--since=1m", fails=True)
    assert "is a process of this machine" in cluster.kubectl("exec", *of_binder, "--", "ls", fails=True)
    cluster.works("logged")
    assert "pods here are simulated" in cluster.kubectl("logs", "logged", fails=True)


def test_a_cordoned_machine_takes_no_pod_until_it_is_uncordoned(cluster: Installed) -> None:
    cluster.kubectl("cordon", "this-machine")
    [pod] = cluster.pods("pod-grouper")
    cluster.kubectl("delete", "pod", "-n", NAMESPACE, pod["metadata"]["name"])
    until(lambda: "uncordon it" in json.dumps([pod["status"] for pod in cluster.pods("pod-grouper")]))
    assert "pod-grouper" not in cluster.processes()
    cluster.kubectl("uncordon", "this-machine")
    cluster.works("uncordoned")


def test_a_program_that_cannot_start_is_told_and_comes_up_when_it_can(cluster: Installed) -> None:
    before = cluster.processes()["queue-controller"].pid
    cluster.configure(redis={"externalSecret": {"name": "nowhere", "key": "url"}})

    def reasons() -> list[str]:
        states = [pod["status"].get("containerStatuses") or [{}] for pod in cluster.pods("queue-controller")]
        return [one[0].get("state", {}).get("waiting", {}).get("message", "") for one in states]

    until(lambda: 'secret "nowhere" not found' in reasons())
    assert psutil.pid_exists(before)
    url = "--from-literal=url=redis://127.0.0.1:1"
    cluster.kubectl("create", "secret", "generic", "nowhere", "-n", NAMESPACE, url)
    cluster.works("could-start")
    until(lambda: cluster.processes()["queue-controller"].pid not in (0, before))
    cluster.configure(redis={"externalSecret": None})
    cluster.ready()
    cluster.works("own-redis-again")


def test_the_agent_itself_may_be_killed(cluster: Installed) -> None:
    before = {name: process.pid for name, process in cluster.processes().items()}
    os.kill(before["node-agent"], signal.SIGKILL)
    until(lambda: cluster.processes()["node-agent"].pid not in (0, before["node-agent"]))
    until(lambda: all(p.state == "ready" for p in cluster.processes().values()))
    until(lambda: cluster.pods("binder")[0]["status"]["containerStatuses"][0]["restartCount"])
    cluster.works("without-agent")


def test_it_can_be_uninstalled_and_installed_again_in_another_namespace(cluster: Installed) -> None:
    cluster.kubectl("delete", "pods", "--all")
    lab = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": "lab"}}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps({**lab, "spec": {"partitionLabelValue": "lab"}}))
    within = f"--timeout={patience():.0f}s"
    cluster.kubectl("wait", "schedulingshard/lab", "--for=condition=Ready", within)
    cluster.helm("uninstall", NAMESPACE, "-n", NAMESPACE, "--wait")
    until(lambda: not {"scheduler", "binder", "redis"} & cluster.processes().keys())
    assert not cluster.kubectl("get", "leases", "-n", NAMESPACE, "-o", "name").strip()
    kept = cluster.kubectl("get", "configs.kai.scheduler,schedulingshards", "-o", "name").split()
    assert kept == ["schedulingshard.kai.scheduler/lab"]
    for condition in ("Ready", "Available", "Deployed"):
        cluster.kubectl("wait", "schedulingshard/lab", f"--for=condition={condition}=False", within)
    cluster.helm(
        "install", "other", str(CHART), "-n", "elsewhere", "--create-namespace",
        "--set", "global.gpuSharing=true",
    )  # fmt: skip
    cluster.ready()
    cluster.works("elsewhere")
    cluster.kubectl("wait", "schedulingshard/lab", "--for=condition=Ready", within)
    assert "scheduler.elsewhere" in cluster.processes()
