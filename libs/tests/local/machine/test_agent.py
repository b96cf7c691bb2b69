"""The agent of this machine goes on through trouble that concerns none of its pods."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import cast

import msgspec
import pytest

from deadlines import eventually, within
from kai.kube.client import KubeClient
from kai_local.machine import health
from kai_local.machine.agent import Machine
from kai_local.machine.health import Health
from kai_local.machine.hosted import Hosted
from kai_local.machine.launch import Launch, Manifest, Surroundings
from kai_local.machine.options import MachineOptions
from kai_local.machine.reports import Reports
from kai_local.machine.status import Before
from kai_local.processes.programs import Child, Program, State
from kai_local.processes.records import ProcessRecord

pytestmark = pytest.mark.integration


def a_machine(folder: Path, server: object = None) -> Machine:
    options = MachineOptions(
        kubeconfig=folder / "kubeconfig",
        folder=folder / "pods",
        logs=folder / "logs",
        record=folder / "machine.json",
        egress=str(folder / "egress"),
        ready_file=folder / "ready",
    )
    return Machine(cast(KubeClient, server), options)


async def test_a_full_disk_ends_no_process(tmp_path: Path) -> None:
    machine, in_the_way = a_machine(tmp_path), tmp_path / "machine.new"
    in_the_way.mkdir()  # as if there were no room for it
    async with machine._supervisor as supervisor:
        child = supervisor.start(Program("pod", (sys.executable, "-c", "import time; time.sleep(600)")))
        await eventually(lambda: child.state is State.READY)
        in_the_way.rmdir()
    [told] = msgspec.json.decode((tmp_path / "machine.json").read_bytes(), type=list[ProcessRecord])
    assert (told.name, told.state) == ("pod", "stopped")


DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""


class Server:
    """An API server that takes whatever it is told."""

    async def delete(self, *what: object, **where: object) -> None:
        """Taken."""

    patch = delete


async def test_a_pod_gets_the_grace_of_whoever_deletes_it(tmp_path: Path) -> None:
    machine = a_machine(tmp_path, Server())
    meta = {"name": "deaf", "namespace": "ns", "uid": "u", "deletionGracePeriodSeconds": 0}
    pod: Manifest = {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with machine._supervisor as supervisor, within("a pod without grace has ended"):
        program = Program("deaf", (sys.executable, "-c", DEAF), stop_after=86400.0)
        child = supervisor.start(program)
        await eventually(lambda: child.log.exists() and "up" in child.log.read_text())
        one = Launch("deaf", [], {}, "127.9.9.1", None, None, 86400.0)
        await machine._delete("ns/deaf", pod, Hosted(pod, one, child, Before()))
    assert child.exit_status == -signal.SIGKILL


async def test_what_is_mounted_and_cannot_be_renewed_now_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_MOUNTS_EVERY", 0.001)
    tries: list[str] = []

    async def no_room(pod: Manifest) -> Surroundings:
        tries.append(pod["metadata"]["name"])
        raise OSError(28, "No space left on device")

    one = Launch("pod", [], {}, "127.9.9.1", None, None, 1.0)
    hosted = Hosted({"metadata": {"name": "a"}}, one, Child(Program("pod", ()), tmp_path / "log"), Before())
    watched = Health(hosted, tmp_path, no_room, cast(Reports, None), lambda: None).watch()
    watching = asyncio.create_task(watched)
    await eventually(lambda: len(tries) > 2 or watching.done())
    assert not watching.done()
    watching.cancel()
