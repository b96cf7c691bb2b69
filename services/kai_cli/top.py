"""``kai top``: queues and nodes, live."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from kai.kube.client import KubeClient
from kai.kube.resources import NODES, POD_GROUPS, PODS, QUEUES
from kai.model.objects import Node, Pod, PodGroup, Queue
from kai_cli.connection import Target, ask
from kai_cli.output import console, emit, table
from kai_cli.views import amounts, nodes, pod_groups, queues


def top(
    context: typer.Context,
    interval: Annotated[float, typer.Option(min=0.5, help="Seconds between two looks.")] = 2.0,
    once: Annotated[
        bool, typer.Option(help="Print one look and end, as it does when this is not a terminal.")
    ] = False,
) -> None:
    """Queues, nodes and what waits, live; Ctrl-C ends it."""
    target = Target.of(context)

    async def question() -> None:
        async with target.cluster() as client:
            if once or not sys.stdout.isatty():
                emit(await look(client, target))
                return
            with Live(await look(client, target), console=console(), screen=True, auto_refresh=False) as live:
                while True:
                    await asyncio.sleep(interval)
                    live.update(await look(client, target), refresh=True)

    try:
        ask(question)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


async def look(client: KubeClient, target: Target) -> RenderableType:
    """One picture of the cluster."""
    found_queues = await client.list(QUEUES, type=Queue)
    found_nodes = await client.list(NODES, type=Node)
    found_pods = await client.list(PODS, type=Pod)
    groups = await client.list(POD_GROUPS, type=PodGroup)
    shares = await target.shares(client)
    node_rows = nodes.table_of(found_nodes, found_pods)
    waits = shares is not None and any(pod.status.phase == "Pending" for pod in found_pods)
    line = await target.line(client) if waits else ()
    rows = pod_groups.table_of(groups, found_pods, at=time.time(), line=line or ())
    waiting = [row for row in rows if row.pending]
    total, used = sum(row.gpus for row in node_rows), sum(row.used for row in node_rows)
    share = f" ({100 * used / total:.0f} %)" if total else ""
    in_use = f"{amounts.number(used)} of {amounts.count(total, 'GPU')} in use{share}"
    counts = (
        amounts.count(len(node_rows), "node"),
        in_use,
        f"{amounts.count(len(waiting), 'group')} waiting",
    )
    parts: list[RenderableType] = [
        Text(", ".join(counts)),
        Text("" if shares is not None else "the scheduler does not answer: fair shares are not known"),
        table(queues.COLUMNS, [row.cells() for row in queues.tree(found_queues, shares or {})]),
        Text(""),
        table(nodes.COLUMNS, [row.cells() for row in node_rows]),
    ]
    if waiting:
        parts += [Text(""), table(pod_groups.COLUMNS, [row.cells() for row in waiting])]
    return Group(*parts)
