"""``kai run``: the services as processes in the foreground, for whatever cluster the kubeconfig names."""

from __future__ import annotations

from typing import Annotated

import typer

from kai_cli import addresses
from kai_cli.connection import Target
from kai_cli.output import fail
from kai_local.services.suite import USUAL, UnknownService, choose


def run(
    context: typer.Context,
    services: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SERVICE]...", help=f"Which; if none is named, {', '.join(USUAL)}."),
    ] = None,
    *,
    binders: Annotated[int, typer.Option(min=1, help="Binder processes.")] = 1,
    redis: Annotated[
        str, typer.Option(help="URL of a Redis; `none` does without. Default: one of their own.")
    ] = "",
    health_listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Answer /readyz of all together here.")
    ] = "",
    webhooks: Annotated[
        bool,
        typer.Option(
            "--webhooks/--no-webhooks",
            help="Have an API server on loopback call ours; without, admission is left out.",
        ),
    ] = False,
    install: Annotated[
        bool,
        typer.Option(
            "--install",
            help="First put in CRDs, namespaces, classes and queues, which a new cluster lacks.",
        ),
    ] = False,
) -> None:
    """Run the services against the cluster of the kubeconfig; Ctrl-C drains and ends them."""
    from kai_local.processes.ending import become
    from kai_local.services.run import RunOptions, command_line

    target = Target.of(context)
    try:
        chosen = choose(services or ())
    except UnknownService as error:
        raise fail(str(error), status=2) from error
    try:
        if health_listen:
            addresses.split(health_listen)
    except ValueError as error:
        raise fail(f"--health-listen {error}", status=2) from error
    options = RunOptions(
        services=chosen,
        binders=binders,
        redis_url=redis,
        health_listen=health_listen,
        kubeconfig="" if target.kubeconfig is None else str(target.kubeconfig.absolute()),
        context=target.context or "",
        webhooks=webhooks,
        install=install,
    )
    become(command_line(options))
