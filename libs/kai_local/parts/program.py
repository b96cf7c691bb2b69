"""Running parts of the embedded cluster as a process: connect, work, say when ready, end on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import structlog

from kai.kube.client import KubeClient

_CONNECT_SECONDS = 60.0

_log = structlog.get_logger(__name__)


class Part(Protocol):
    """Works until cancelled, and says when it has begun."""

    ready: asyncio.Event

    async def run(self) -> None: ...  # noqa: D102


def run_program(
    make: Callable[[KubeClient], Sequence[Part]],
    *,
    name: str,
    kubeconfig: str,
    ready_file: Path | None = None,
) -> None:
    """Run some parts against the API server of ``kubeconfig`` until SIGTERM or SIGINT."""
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)
    asyncio.run(_serve(make, name, kubeconfig, ready_file))


async def _serve(
    make: Callable[[KubeClient], Sequence[Part]], name: str, kubeconfig: str, ready_file: Path | None
) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    connection = KubeClient.connect(kubeconfig, user_agent=f"kai-local-{name}", wait=_CONNECT_SECONDS)
    with contextlib.suppress(asyncio.CancelledError):
        async with connection as client, asyncio.TaskGroup() as tasks:
            parts = make(client)
            for part in parts:
                tasks.create_task(part.run())
            await _tell_ready(parts, ready_file)
    _log.info("ended", program=name)


async def _tell_ready(parts: Sequence[Part], ready_file: Path | None) -> None:
    for part in parts:
        await part.ready.wait()
    gc.collect()
    gc.freeze()
    if ready_file is not None:
        ready_file.touch()  # noqa: ASYNC240
