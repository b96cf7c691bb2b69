"""``kai get``: queues as a tree, pod groups, pods, nodes with their GPUs, and topology domains."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from kai.kube.client import KubeClient
from kai.kube.resources import NODES, POD_GROUPS, PODS, QUEUES, TOPOLOGIES
from kai.model.objects import Node, Pod, PodGroup, Queue, Topology
from kai_cli.claims import read_claims, read_devices
from kai_cli.connection import Target
from kai_cli.listing import Notes, Row, SortOption, WatchOption, listed
from kai_cli.output import ListFormat, ListFormatOption
from kai_cli.views import domains as domain_view
from kai_cli.views import nodes as node_view
from kai_cli.views import pod_groups as group_view
from kai_cli.views import pods as pod_view
from kai_cli.views import queues as queue_view

app = typer.Typer(no_args_is_help=True, help="Show queues, pod groups, pods, nodes or topology domains.")
NamespaceOption = Annotated[
    str, typer.Option("-n", "--namespace", help="Only this namespace; all if left out.")
]
EverywhereOption = Annotated[
    bool, typer.Option("-A", "--all-namespaces", help="All namespaces, as without -n.")
]


@app.command("queues")
@app.command("queue", hidden=True)
def queues(
    context: typer.Context,
    *,
    sort_by: SortOption = "",
    watch: WatchOption = False,
    output: ListFormatOption = ListFormat.TABLE,
) -> None:
    """The queue tree with quota, fair share and what is allocated."""
    notes = Notes()

    async def look(client: KubeClient, target: Target) -> list[Row]:
        found = await client.list(QUEUES, type=Queue)
        shares = await target.shares(client)
        notes.tell("the scheduler does not answer: fair shares are not known" if shares is None else "")
        return [*queue_view.tree(found, shares or {})]

    listed(context, queue_view.COLUMNS, look, output, sort_by=sort_by, watch=watch)


@app.command("podgroups")
@app.command("podgroup", hidden=True)
@app.command("pg", hidden=True)
def pod_groups(
    context: typer.Context,
    *,
    namespace: NamespaceOption = "",
    everywhere: EverywhereOption = False,
    sort_by: SortOption = "",
    watch: WatchOption = False,
    output: ListFormatOption = ListFormat.TABLE,
) -> None:
    """Pod groups with their queue, their pods and, where they wait, since when, behind whom and why."""
    place, notes = "" if everywhere else namespace, Notes()

    async def look(client: KubeClient, target: Target) -> list[Row]:
        groups = await client.list(POD_GROUPS, namespace=place, type=PodGroup)
        pods = await client.list(PODS, namespace=place, type=Pod)
        line = await target.line(client) if any(map(pod_view.waits, pods)) else ()
        notes.tell("the scheduler does not answer: positions are not known" if line is None else "")
        return [*group_view.table_of(groups, pods, at=time.time(), line=line or ())]

    listed(context, group_view.COLUMNS, look, output, sort_by=sort_by, watch=watch)


@app.command("pods")
@app.command("pod", hidden=True)
@app.command("po", hidden=True)
def pods(
    context: typer.Context,
    *,
    namespace: NamespaceOption = "",
    everywhere: EverywhereOption = False,
    sort_by: SortOption = "",
    watch: WatchOption = False,
    output: ListFormatOption = ListFormat.TABLE,
) -> None:
    """Pods that belong to a pod group or wait for one, with their GPUs, their node or why they have none."""
    place, notes = "" if everywhere else namespace, Notes()

    async def look(client: KubeClient, target: Target) -> list[Row]:
        found = await client.list(PODS, namespace=place, type=Pod)
        claimed = await read_claims(client, found, namespace=place)
        notes.tell(claimed.lacks)
        return [*pod_view.table_of(found, at=time.time(), claimed=claimed)]

    listed(context, pod_view.COLUMNS, look, output, sort_by=sort_by, watch=watch)


@app.command("nodes")
@app.command("node", hidden=True)
def nodes(
    context: typer.Context,
    *,
    sort_by: SortOption = "",
    watch: WatchOption = False,
    output: ListFormatOption = ListFormat.TABLE,
) -> None:
    """Nodes with their GPUs (● whole, ◐ shared, ○ free) and who sits on them."""
    notes = Notes()

    async def look(client: KubeClient, target: Target) -> list[Row]:
        return [*(await _nodes(client, await client.list(NODES, type=Node), notes))]

    listed(context, node_view.COLUMNS, look, output, sort_by=sort_by, watch=watch)


@app.command("domains")
@app.command("domain", hidden=True)
def domains(
    context: typer.Context,
    *,
    sort_by: SortOption = "",
    watch: WatchOption = False,
    output: ListFormatOption = ListFormat.TABLE,
) -> None:
    """How many pods of 1, 2, 4 and 8 whole GPUs find room: on all nodes, and in each topology domain."""
    notes = Notes()

    async def look(client: KubeClient, target: Target) -> list[Row]:
        found = await client.list(NODES, type=Node)
        rows = await _nodes(client, found, notes)
        return [*domain_view.table_of(await client.list(TOPOLOGIES, type=Topology), found, rows)]

    listed(context, domain_view.COLUMNS, look, output, sort_by=sort_by, watch=watch)


async def _nodes(client: KubeClient, found: Sequence[Node], notes: Notes) -> list[node_view.NodeRow]:
    """What is on nodes."""
    pods = await client.list(PODS, type=Pod)
    claimed = await read_devices(client, pods)
    notes.tell(claimed.lacks)
    return node_view.table_of(found, pods, claimed)
