"""What `kubectl get pods` shows of a pod whose container is a process: the truth about that process."""

import sys
from pathlib import Path

import pytest

from deadlines import eventually
from kai_local.machine.status import Before, exit_code, of_process, over, waiting
from kai_local.processes.programs import Child, Program, Run, State
from kai_local.processes.supervisor import Supervisor

NOW = 1_700_000_000.0
POD = {
    "metadata": {"name": "binder-x", "namespace": "kai-scheduler", "uid": "u"},
    "spec": {"containers": [{"name": "binder", "image": "i:1"}]},
}


def a_child(state: State, **fields: object) -> Child:
    return Child(Program("binder", ()), Path("/nowhere"), state, started_at=NOW, **fields)  # type: ignore[arg-type]


def status_of(child: Child, *, before: Before | None = None, ready: bool = False) -> dict:
    return of_process(POD, child, before or Before(), address="10.245.0.1", ready=ready, now=NOW)


def ended(status: int) -> Run:
    return Run(NOW - 10, (0, 5), NOW - 1, status)


def test_a_process_that_runs_is_running_and_ready_when_its_probe_says_so() -> None:
    found = status_of(a_child(State.READY, run=Run(NOW, (0, None))), ready=True)
    [container] = found["containerStatuses"]
    assert container["state"] == {"running": {"startedAt": "2023-11-14T22:13:20Z"}}
    assert (container["ready"], container["restartCount"], container["lastState"]) == (True, 0, {})
    assert {c["type"] for c in found["conditions"] if c["status"] == "True"} >= {"Ready", "PodScheduled"}
    assert (found["phase"], found["podIP"]) == ("Running", "10.245.0.1")


def test_one_that_was_killed_and_came_back_shows_its_restart_and_why() -> None:
    child = a_child(State.STARTING, run=Run(NOW, (5, None)), previous=ended(-9), restarts=1)
    [container] = status_of(child)["containerStatuses"]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 137
    assert container["lastState"]["terminated"]["signal"] == 9
    assert container["lastState"]["terminated"]["reason"] == "Error"
    assert not container["ready"]


def test_one_that_crashes_again_and_again_is_in_a_crash_loop() -> None:
    child = a_child(State.CRASHED, run=ended(2), restarts=4, backoff=8.0)
    [container] = status_of(child)["containerStatuses"]
    assert container["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 8s restarting failed container=binder",
    }
    assert container["lastState"]["terminated"]["exitCode"] == 2


def test_restarts_are_counted_over_the_end_of_what_started_it() -> None:
    told = {"restartCount": 2, "state": {"running": {"startedAt": "2023-11-14T22:00:00Z"}}}
    before = Before.of(POD | {"status": {"containerStatuses": [told]}})
    [container] = status_of(a_child(State.READY, run=Run(NOW, (0, None)), restarts=1), before=before)[
        "containerStatuses"
    ]
    assert container["restartCount"] == 4
    assert container["lastState"]["terminated"]["exitCode"] == 137
    assert Before.of(POD) == Before()


def test_one_that_cannot_start_says_why() -> None:
    found = waiting(POD, "CreateContainerConfigError", 'secret "x" not found', NOW)
    assert found["phase"] == "Pending"
    assert found["containerStatuses"][0]["state"]["waiting"]["message"] == 'secret "x" not found'


def test_a_condition_keeps_the_time_since_which_it_holds() -> None:
    pod = POD | {
        "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "earlier"}]}
    }
    child = a_child(State.READY, run=Run(NOW, (0, None)))
    at = {
        ready: next(
            c["lastTransitionTime"]
            for c in of_process(pod, child, Before(), address="", ready=ready, now=NOW)["conditions"]
            if c["type"] == "Ready"
        )
        for ready in (False, True)
    }
    assert at == {False: "earlier", True: "2023-11-14T22:13:20Z"}


@pytest.mark.parametrize(("status", "code"), [(0, 0), (3, 3), (-15, 143), (None, 0)])
def test_exit_codes_are_those_of_a_shell(status: int | None, code: int) -> None:
    assert exit_code(status) == code


@pytest.mark.integration
async def test_each_run_knows_its_part_of_the_log_also_under_another_name(tmp_path: Path) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    async with Supervisor(tmp_path) as supervisor:
        child = supervisor.start(Program("a-2", (sys.executable, "-c", code)))
        await eventually(lambda: child.log.exists() and child.log.read_text())
        first = child.identity
        assert first
        supervisor.rename("a-2", "a")
        first.signal(9)
        await eventually(lambda: child.previous is not None and len(child.log.read_text().split()) == 2)
        assert child.previous is not None
        assert child.run is not None
        text, (start, end) = (tmp_path / "a.log").read_bytes(), child.previous.log
        assert text[start:end] == f"{first.pid}\n".encode()
        assert child.run.log == (end, None)
        await supervisor.forget("a")
        assert supervisor.children == {}


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        ("Never", 0, "Succeeded"),
        ("Never", 1, "Failed"),
        ("OnFailure", 0, "Succeeded"),
        ("OnFailure", 1, None),
        ("Always", 0, None),
    ],
)
def test_the_pod_of_a_job_ends_with_its_process(policy: str, code: int, phase: str | None) -> None:
    pod = {**POD, "spec": {**POD["spec"], "restartPolicy": policy}}
    found = over(pod, a_child(State.STOPPED, run=ended(code)), Before(), now=NOW)
    assert (found and found["phase"]) == phase
    if found is not None:
        assert found["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code


async def test_what_has_done_its_work_is_not_started_again(tmp_path: Path) -> None:
    async with Supervisor(tmp_path) as supervisor:
        program = Program("once", (sys.executable, "-c", "pass"), is_final=lambda status: status == 0)
        child = supervisor.start(program)
        await eventually(lambda: child.state is State.STOPPED)
        assert (child.restarts, child.exit_status) == (0, 0)
