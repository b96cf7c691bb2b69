"""``kai top``: queues, nodes and what waits, live."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Final

import typer
from rich.live import Live

from kai.kube.client import KubeClient
from kai.kube.resources import NODES, POD_GROUPS, PODS, QUEUES
from kai.model.objects import Node, Pod, PodGroup, Queue
from kai_cli.claims import read_devices
from kai_cli.connection import Target, ask
from kai_cli.keys import pressed
from kai_cli.output import console, emit
from kai_cli.views import amounts, domains, nodes, pod_groups, pods, queues
from kai_cli.views.picture import ENDS, Listing, Picture, after, drawn

#: The key to look now.
_LOOK: Final = " "
#: Ctrl-C cancels by itself.
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


def top(
    context: typer.Context,
    interval: Annotated[float, typer.Option(min=0.5, help="Seconds between two looks.")] = 2.0,
    once: Annotated[
        bool, typer.Option(help="Print one look and end, as it does when this is no terminal, or a dumb one.")
    ] = False,
) -> None:
    """Queues, nodes and what waits, live. Keys choose lists and sort them; q or Ctrl-C ends it."""
    target = Target.of(context)

    async def question() -> None:
        async with target.cluster() as client:
            if once or not sys.stdout.isatty() or console().is_dumb_terminal:
                seen = await look(client, target)
                emit(drawn(seen.headline, seen.lists, Picture(), keys=False))
            else:
                await _follow(client, target, interval)

    try:
        ask(question)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at the cluster."""

    headline: Sequence[str]
    lists: Sequence[Listing]


async def _follow(client: KubeClient, target: Target, interval: float) -> None:
    clock = asyncio.get_running_loop().time
    seen, picture, looked = await look(client, target), Picture(), clock()
    screen = console()
    with _ended(), pressed() as keys, Live(console=screen, screen=True, auto_refresh=False) as live:
        while True:
            live.update(drawn(seen.headline, seen.lists, picture, keys=True, screen=screen), refresh=True)
            key = _LOOK
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(None if picture.paused else looked + interval):
                    key = await keys.get()
            if key in ENDS:
                return
            if key == _LOOK:
                seen, looked = await look(client, target), clock()
            picture = after(picture, key, seen.lists)


@contextmanager
def _ended() -> Iterator[None]:
    """Cancel the task that runs the block when whoever started us ends us, so that it cleans up.

    Raises:
        typer.Exit: that happened; with the status that the signal would have given.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    told: list[int] = []

    def end(number: int) -> None:
        told.append(number)
        if task is not None:
            task.cancel()

    for number in _ENDING:
        loop.add_signal_handler(number, end, number)
    try:
        yield
    except asyncio.CancelledError:
        if told:
            raise typer.Exit(128 + told[0]) from None
        raise
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)


async def look(client: KubeClient, target: Target) -> Seen:
    """What there is to see now."""
    found_queues = await client.list(QUEUES, type=Queue)
    found_nodes = await client.list(NODES, type=Node)
    found_pods = await client.list(PODS, type=Pod)
    groups = await client.list(POD_GROUPS, type=PodGroup)
    shares = await target.shares(client)
    claimed = await read_devices(client, found_pods)
    node_rows = nodes.table_of(found_nodes, found_pods, claimed)
    waits = shares is not None and any(map(pods.waits, found_pods))
    line = await target.line(client) if waits else ()
    rows = pod_groups.table_of(groups, found_pods, at=time.time(), line=line or ())
    waiting = [row for row in rows if row.waits]
    total, used = sum(row.gpus for row in node_rows), sum(row.used for row in node_rows)
    share = f" ({100 * used / total:.0f} %)" if total else ""
    in_use = f"{amounts.number(used)} of {amounts.count(total, 'GPU')} in use{share}"
    counts = (
        amounts.count(len(node_rows), "node"),
        in_use,
        f"{amounts.count(len(waiting), 'group')} waiting",
    )
    return Seen(
        headline=(
            ", ".join(counts),
            domains.summary(node_rows),
            "" if shares is not None else "the scheduler does not answer: fair shares are not known",
            claimed.lacks,
        ),
        lists=(
            Listing("queues", queues.COLUMNS, queues.tree(found_queues, shares or {}), ordered=True),
            Listing("nodes", nodes.COLUMNS, node_rows),
            Listing("waiting", pod_groups.COLUMNS, waiting),
        ),
    )
