"""``kai queue``: what waits in a queue, in order of service, and what puts each before the next."""

from __future__ import annotations

import time
from difflib import get_close_matches
from typing import Annotated

import typer

from kai.kube.client import KubeClient
from kai.kube.resources import POD_GROUPS, PODS, QUEUES
from kai.model.objects import Pod, PodGroup, Queue
from kai_cli.claims import read_claims
from kai_cli.connection import Target
from kai_cli.listing import Notes, Row, SortOption, WatchOption, listed
from kai_cli.output import ListFormat, ListFormatOption, fail
from kai_cli.views import service_order as view


def queue(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The queue; of one with children, all that are below it.")],
    *,
    sort_by: SortOption = "",
    watch: WatchOption = False,
    output: ListFormatOption = ListFormat.TABLE,
) -> None:
    """Show what waits in a queue, in order of service, and what puts each before the next.

    What has no place is not ready, may not have one, or is beyond what a cycle looks at: its reason says so,
    and kai explain more. OVERALL (-o wide) is the place among the work of all queues.
    """
    notes = Notes()

    async def look(client: KubeClient, target: Target) -> list[Row]:
        queues = await client.list(QUEUES, type=Queue)
        known = [each.metadata.name for each in queues]
        if name not in known:
            raise fail(f"there is no queue {name!r}{_meant(name, known)}")
        pods = await client.list(PODS, type=Pod)
        groups = await client.list(POD_GROUPS, type=PodGroup)
        line = await target.line(client)
        claimed = await read_claims(client, pods)
        silent = "the scheduler does not answer: whose turn it is is not known" if line is None else ""
        notes.tell(silent, claimed.lacks)
        asked = view.below(name, queues)
        return [*view.waiting_in(asked, groups, pods, at=time.time(), line=line or (), claimed=claimed)]

    nothing = f"nothing waits in queue {name}"
    listed(context, view.COLUMNS, look, output, sort_by=sort_by, watch=watch, nothing=nothing)


def _meant(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else "; `kai get queues` lists them"
