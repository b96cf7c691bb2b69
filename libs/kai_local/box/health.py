"""What the services of a cluster say of themselves now, not what was true when they started."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from kai_local.processes import probes
from kai_local.processes.records import ProcessRecord

_WRONG, _NOTE = "[-]", "[!]"


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a process is ready, and what it wants people to know."""

    ready: bool
    notes: tuple[str, ...] = ()


def ask(processes: Iterable[ProcessRecord]) -> dict[str, Health]:
    """The answers of those that can be asked, by name; who does not answer in time is not ready."""
    asked = [process for process in processes if process.health and process.pid]

    async def ask_all() -> list[tuple[int, str]]:
        return await asyncio.gather(*(probes.http_answer(f"{one.health}?verbose") for one in asked))

    answers = asyncio.run(ask_all())
    return {one.name: told_by(*answer) for one, answer in zip(asked, answers, strict=True)}


def told_by(status: int, text: str) -> Health:
    """What an answer of `/readyz?verbose` says; status 0 is none."""
    if not status:
        return Health(ready=False, notes=("it does not answer",))
    told = tuple(line[len(_NOTE) :] for line in text.splitlines() if line.startswith((_WRONG, _NOTE)))
    return Health(ready=status == 200, notes=told)
