"""``kai get``: queues as a tree, pod groups, and nodes with their GPUs."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from kai.kube.resources import NODES, POD_GROUPS, PODS, QUEUES
from kai.model.objects import Node, Pod, PodGroup, Queue
from kai_cli.connection import Target, ask
from kai_cli.output import ListFormat, ListFormatOption, show
from kai_cli.views import nodes as node_view
from kai_cli.views import pod_groups as group_view
from kai_cli.views import queues as queue_view

app = typer.Typer(no_args_is_help=True, help="Show queues, pod groups or nodes.")
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
    output: ListFormatOption = ListFormat.TABLE,
) -> None:
    """The queue tree with quota, fair share and what is allocated."""
    target = Target.of(context)

    async def question() -> list[queue_view.QueueRow]:
        async with target.cluster() as client:
            found = await client.list(QUEUES, type=Queue)
            shares = await target.shares(client)
            if shares is None:
                typer.echo("kai: the scheduler does not answer: fair shares are not known", err=True)
            return queue_view.tree(found, shares or {})

    show(queue_view.COLUMNS, ask(question), output)


@app.command("podgroups")
@app.command("podgroup", hidden=True)
@app.command("pg", hidden=True)
def pod_groups(
    context: typer.Context,
    namespace: NamespaceOption = "",
    everywhere: EverywhereOption = False,
    output: ListFormatOption = ListFormat.TABLE,
) -> None:
    """Pod groups with their queue, their pods and, where they wait, since when, behind whom and why."""
    target = Target.of(context)
    if everywhere:
        namespace = ""

    async def question() -> list[group_view.PodGroupRow]:
        async with target.cluster() as client:
            groups = await client.list(POD_GROUPS, namespace=namespace, type=PodGroup)
            pods = await client.list(PODS, namespace=namespace, type=Pod)
            line = await target.line(client) if any(pod.status.phase == "Pending" for pod in pods) else ()
            if line is None:
                typer.echo("kai: the scheduler does not answer: positions are not known", err=True)
            return group_view.table_of(groups, pods, at=time.time(), line=line or ())

    show(group_view.COLUMNS, ask(question), output)


@app.command("nodes")
@app.command("node", hidden=True)
def nodes(context: typer.Context, output: ListFormatOption = ListFormat.TABLE) -> None:
    """Nodes with their GPUs (● whole, ◐ shared, ○ free) and who sits on them."""
    target = Target.of(context)

    async def question() -> list[node_view.NodeRow]:
        async with target.cluster() as client:
            return node_view.table_of(await client.list(NODES, type=Node), await client.list(PODS, type=Pod))

    show(node_view.COLUMNS, ask(question), output)
