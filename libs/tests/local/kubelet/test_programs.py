"""What a container's command says about how long it runs and how it ends."""

from __future__ import annotations

import msgspec
import pytest

from kai.model.objects import ObjectMeta
from kai_local.kubelet.programs import Run, run_of, terminate_seconds
from kai_local.parts.objects import LocalContainer, LocalPod


def a_pod(**annotations: str) -> LocalPod:
    keys = {f"kai.local/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return LocalPod(metadata=ObjectMeta(name="p", annotations=keys))


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ([], Run()),
        (["python", "serve.py"], Run()),
        (["sleep", "30"], Run(30.0)),
        (["sleep", "infinity"], Run()),
        (["sleep", "1.5m"], Run(90.0)),
        (["sh", "-c", "sleep 10; echo done"], Run(10.0)),
        (["/bin/sh", "-c", "sleep 10 && exit 2"], Run(10.0, 2)),
        (["bash", "-c", "exit 1"], Run(0.0, 1)),
        (["sh", "-c", "while true; do sleep 5; done"], Run()),
        (["sh", "-c", "tail -f /dev/null"], Run()),
        (["/bin/true"], Run(0.0, 0)),
        (["false"], Run(0.0, 1)),
        (["sh", "-c", "echo hello"], Run(0.0, 0)),
        (["nosleep", "30"], Run()),
        (["python", "-m", "kai_scaling_pod"], Run(0.0)),
        (["python", "-m", "kai_scaling_pods"], Run()),
    ],
)
def test_a_plain_command_is_understood(command: list[str], run: Run) -> None:
    assert run_of(a_pod(), LocalContainer(name="c", command=command)) == run


def test_arguments_count_like_the_command() -> None:
    assert run_of(a_pod(), LocalContainer(name="c", command=["sleep"], args=["7"])) == Run(7.0)


def test_annotations_have_the_last_word() -> None:
    container = LocalContainer(name="c", command=["sleep", "30"])
    assert run_of(a_pod(run_seconds="3"), container) == Run(3.0)
    assert run_of(a_pod(run_seconds="3", exit_code="4"), container) == Run(3.0, 4)
    assert run_of(a_pod(exit_code="4"), container) == Run(30.0, 4)
    assert run_of(a_pod(run_seconds="soon"), container) == Run(30.0)
    assert run_of(a_pod(exit_code="inf"), container) == Run(30.0)
    assert terminate_seconds(a_pod(terminate_seconds="12")) == 12


def test_a_pod_may_have_no_annotations() -> None:
    assert msgspec.json.decode(b"{}", type=LocalPod).annotations == {}
