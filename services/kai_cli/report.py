"""``kai report``: who used how much, by what insight recorded."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from kai.history.usage import By, Usage
from kai_cli.connection import Target, ask
from kai_cli.past import Form, FormOption, SinceOption, UntilOption, show, span
from kai_cli.views.history import usage_document, usage_table

app = typer.Typer(no_args_is_help=True, help="Who used how much, over time.")


@app.callback()
def report() -> None:
    """Who used how much, over time."""


@app.command()
def usage(
    context: typer.Context,
    *,
    by: Annotated[By, typer.Option(help="What to add up by.")] = By.QUEUE,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Only what ran there; everywhere if left out.")
    ] = "",
    since: SinceOption = "7d",
    until: UntilOption = "",
    form: FormOption = Form.TABLE,
) -> None:
    """Hours of GPUs, CPUs and memory that pods held; what still runs counts until now."""
    first, last = span(since, until)
    end = time.time() if last is None else last
    target = Target.of(context)

    async def question() -> list[Usage]:
        async with target.cluster() as client, target.history(client) as history:
            return await history.usage(by=by, since=first, until=end, namespace=namespace)

    found = ask(question)
    keys = list(usage_document(Usage(name="", gpu_hours=0, cpu_hours=0, memory_gib_hours=0, pods=0), by))
    show(usage_table(by), found, keys=keys, documents=[usage_document(each, by) for each in found], form=form)
