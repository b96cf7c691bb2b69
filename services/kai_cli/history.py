"""``kai history``: who ran where, who was evicted and why, and what was decided, as insight recorded it."""

from __future__ import annotations

from typing import Annotated

import typer

from kai.history.questions import Found, Selection
from kai.history.records import Cycle, Decision, QueueState, Run, Taking
from kai_cli.connection import Target, ask
from kai_cli.past import Form, FormOption, SinceOption, UntilOption, show, span
from kai_cli.views.history import TABLES, document, keys_of

app = typer.Typer(no_args_is_help=True, help="Who ran where, who was evicted and why, and what was decided.")
NamespaceOption = Annotated[
    str, typer.Option("-n", "--namespace", help="Only this namespace; all if left out.")
]
PodGroupOption = Annotated[str, typer.Option("--podgroup", help="Only pods of this pod group.")]
QueueOption = Annotated[str, typer.Option(help="Only what this queue is charged for.")]
MostOption = Annotated[int, typer.Option("--most", min=1, max=10_000, help="The newest so many.")]


@app.command()
def pod(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Its name; all pods if left out.")] = "",
    *,
    namespace: NamespaceOption = "",
    pod_group: PodGroupOption = "",
    queue: QueueOption = "",
    since: SinceOption = "24h",
    until: UntilOption = "",
    most: MostOption = 1000,
    form: FormOption = Form.TABLE,
) -> None:
    """When pods ran, where, with what, for whom, and how that ended."""
    equal = {"pod": name, "namespace": namespace, "pod_group": pod_group, "queue": queue}
    _tell(context, Run, equal, since=since, until=until, most=most, form=form)


@app.command("podgroup")
def pod_group(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Its name; all pod groups if left out.")] = "",
    *,
    namespace: NamespaceOption = "",
    queue: QueueOption = "",
    since: SinceOption = "24h",
    until: UntilOption = "",
    most: MostOption = 1000,
    form: FormOption = Form.TABLE,
) -> None:
    """How pod groups stood: placed, waiting and for which reason, gone."""
    equal = {"pod_group": name, "namespace": namespace, "queue": queue}
    _tell(context, Decision, equal, since=since, until=until, most=most, form=form)


@app.command()
def queue(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Its name; all queues if left out.")] = "",
    *,
    since: SinceOption = "24h",
    until: UntilOption = "",
    most: MostOption = 1000,
    form: FormOption = Form.TABLE,
) -> None:
    """What queues held and were due, where that changed."""
    _tell(context, QueueState, {"queue": name}, since=since, until=until, most=most, form=form)


@app.command()
def evictions(
    context: typer.Context,
    *,
    namespace: NamespaceOption = "",
    pod: Annotated[str, typer.Option(help="Only this pod.")] = "",
    pod_group: PodGroupOption = "",
    queue: Annotated[str, typer.Option(help="Only pods that this queue was charged for.")] = "",
    for_queue: Annotated[str, typer.Option(help="Only those that this queue profits from.")] = "",
    since: SinceOption = "24h",
    until: UntilOption = "",
    most: MostOption = 1000,
    form: FormOption = Form.TABLE,
) -> None:
    """Who lost a place, to whom, and why."""
    equal = {
        "namespace": namespace,
        "pod": pod,
        "pod_group": pod_group,
        "queue": queue,
        "for_queue": for_queue,
    }
    _tell(context, Taking, equal, since=since, until=until, most=most, form=form)


@app.command()
def cycles(
    context: typer.Context,
    *,
    shard: Annotated[str, typer.Option(help="Only those of this shard's scheduler.")] = "",
    since: SinceOption = "24h",
    until: UntilOption = "",
    most: MostOption = 1000,
    form: FormOption = Form.TABLE,
) -> None:
    """Cycles in which something changed."""
    _tell(context, Cycle, {"shard": shard}, since=since, until=until, most=most, form=form)


def _tell(
    context: typer.Context,
    kind: type[Found],
    equal: dict[str, str],
    *,
    since: str,
    until: str,
    most: int,
    form: Form,
) -> None:
    first, last = span(since, until)
    wanted = {column: said for column, said in equal.items() if said}
    selection = Selection(since=first, until=last, equal=wanted)
    target = Target.of(context)

    async def question() -> tuple[list[Found], bool]:
        async with target.cluster() as client, target.history(client) as history:
            return await history.find(kind, selection, most=most)

    rows, more = ask(question)
    show(TABLES[kind], rows, keys=keys_of(kind), documents=[document(row) for row in rows], form=form)
    if not rows:
        typer.echo("note: nothing of this is recorded in that time", err=True)
    if more:
        typer.echo(
            f"note: there are more than these {len(rows)}; ask with --most, or for less time", err=True
        )
