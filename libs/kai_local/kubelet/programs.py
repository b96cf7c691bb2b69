"""What the containers of a simulated pod do: how long they run and how they end.

Nothing is executed. A container runs on for ever unless its command says otherwise in plain words
(``sleep 30``, ``exit 1``, ``true``), or an annotation of the pod does:

``kai.local/start-seconds``      how long it takes until they are made, as if images were pulled (0)
``kai.local/run-seconds``        its containers end after so many seconds
``kai.local/exit-code``          with this status (0)
``kai.local/terminate-seconds``  how long they need to end when asked to (0)
``kai.local/ready-seconds``      how long after the start they are ready (0, or the probe's initial delay)
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from kai_local.parts.objects import LocalContainer, LocalPod

START_SECONDS = "kai.local/start-seconds"
RUN_SECONDS = "kai.local/run-seconds"
EXIT_CODE = "kai.local/exit-code"
TERMINATE_SECONDS = "kai.local/terminate-seconds"
READY_SECONDS = "kai.local/ready-seconds"
_NUMBERS = (START_SECONDS, RUN_SECONDS, EXIT_CODE, TERMINATE_SECONDS, READY_SECONDS)

_SLEEP = re.compile(r"(?<![\w.-])sleep\s+(?:(\d+(?:\.\d+)?)([smhd]?)(?![\w.])|infinity|inf)")
_EXIT = re.compile(r"(?<![\w.-])exit\s+(\d+)")
_UNIT = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
#: Programs of the product that end at once.
_PRODUCT = re.compile(r"-m\s+kai_scaling_pod(?!\w)")
_SHORT = {"true": 0, "false": 1, "echo": 0, "date": 0, "env": 0, "ls": 0, "hostname": 0}


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a container: ``seconds`` is ``None`` when it goes on until it is asked to end."""

    seconds: float | None = None
    exit_code: int = 0


def run_of(pod: LocalPod, container: LocalContainer) -> Run:
    """What a container of the pod does when it is started."""
    seconds, code = _number(pod, RUN_SECONDS), _number(pod, EXIT_CODE)
    said = _run_of_command([*(container.command or ()), *(container.args or ())])
    if seconds is None and code is not None:
        seconds = said.seconds or 0.0
    if seconds is None:
        return said
    return Run(seconds, said.exit_code if code is None else int(code))


def start_seconds(pod: LocalPod) -> float:
    """How long after its node took the pod its containers are made."""
    return _number(pod, START_SECONDS) or 0.0


def terminate_seconds(pod: LocalPod) -> float:
    """How long the containers take to end once asked."""
    return _number(pod, TERMINATE_SECONDS) or 0.0


def ready_seconds(pod: LocalPod, container: LocalContainer) -> float:
    """How long after its start a container is ready."""
    annotated = _number(pod, READY_SECONDS)
    if annotated is not None:
        return annotated
    return float((container.readiness_probe or {}).get("initialDelaySeconds") or 0)


def _run_of_command(words: list[str]) -> Run:
    if not words:
        return Run()
    text = " ".join(words)
    sleeps = [match.groups() for match in _SLEEP.finditer(text)]
    if any(amount is None for amount, _ in sleeps) or re.search(r"while\s+(true|:)|tail\s+-[fF]", text):
        return Run()
    if _PRODUCT.search(text):
        return Run(0.0)
    exits = _EXIT.findall(text)
    code = int(exits[-1]) % 256 if exits else 0
    if sleeps:
        return Run(sum(float(amount) * _UNIT[unit] for amount, unit in sleeps), code)
    if exits:
        return Run(0.0, code)
    program = _first_program(words)
    return Run(0.0, _SHORT[program]) if program in _SHORT else Run()


def _first_program(words: list[str]) -> str:
    """The first word that a shell would run: that of the script for ``sh -c SCRIPT``."""
    first = words[0].rsplit("/", 1)[-1]
    if first in ("sh", "bash", "ash", "dash") and len(words) > 2 and words[1].startswith("-"):
        script = words[2].split()
        return script[0].rsplit("/", 1)[-1] if script else "true"
    return first


def without_effect(pod: LocalPod) -> list[str]:
    """Which annotations cannot be taken for what they are to say, each with its value."""
    found = (name for name in _NUMBERS if name in pod.annotations and _number(pod, name) is None)
    return [
        f"annotation {name}: {pod.annotations[name]!r} is not a number, so it has no effect" for name in found
    ]


def _number(pod: LocalPod, annotation: str) -> float | None:
    try:
        number = float(pod.annotations.get(annotation, "nan"))
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None
