"""``python -m kai_local.services.run OPTIONS``: the services as processes of this machine, for any cluster.

The process that ``kai run`` becomes; it asks nothing of the cluster that a Kubernetes API server does not
have.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.errors import KubeError, NotFound
from kai.kube.transport import is_loopback
from kai.model import names
from kai.session.errors import SessionCacheError
from kai_local.errors import ClusterError
from kai_local.installation import bootstrap, webhooks
from kai_local.processes import output
from kai_local.processes.ending import heeds
from kai_local.processes.ports import PortInUse, require_free
from kai_local.processes.programs import Child, State
from kai_local.processes.supervisor import ProcessFailed, Supervisor
from kai_local.services.own_redis import redis
from kai_local.services.readiness import serve_readiness
from kai_local.services.suite import USUAL, SuiteOptions, plan

_START_PATIENCE = 60.0
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a user may choose. An empty ``redis_url`` starts a Redis, ``none`` does without."""

    services: tuple[str, ...] = USUAL
    binders: int = 1
    redis_url: str = ""
    health_listen: str = ""
    kubeconfig: str = ""
    context: str = ""
    webhooks: bool = False
    install: bool = False
    gpu_sharing: bool = True


def command_line(options: RunOptions) -> list[str]:
    """The command that runs the services so."""
    return [sys.executable, "-m", "kai_local.services.run", msgspec.json.encode(options).decode()]


def main() -> None:
    """Run the services until a signal comes."""
    options = msgspec.json.decode(sys.argv[1], type=RunOptions)
    try:
        sys.exit(asyncio.run(_serve(options)))
    except (ClusterError, KubeError, PortInUse, ProcessFailed, SessionCacheError) as error:
        sys.stderr.write(f"kai: {error}\n")
        sys.exit(1)


async def _serve(options: RunOptions) -> int:
    """1. look at the cluster  2. Redis and services  3. webhooks and health  4. a signal  5. end all."""
    stopping, came = _signals()
    async with AsyncExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kai-run-")))
        if options.health_listen:
            require_free(options.health_listen)
        client = await stack.enter_async_context(
            KubeClient.connect(
                options.kubeconfig or None, context=options.context or None, user_agent="kai-run"
            )
        )
        await _check(client, options)
        authority = _certify(client, work / "webhooks") if options.webhooks else b""
        supervisor = Supervisor(
            work / "logs", on_line=_print_line, on_change=_tell, death_signal=signal.SIGTERM
        )
        await stack.enter_async_context(supervisor)
        if not options.redis_url:
            options = replace(options, redis_url=await _start_redis(supervisor, work))
        if "admission" in options.services and not authority:
            _say("admission is left out: nothing calls it without --webhooks, and pods cannot share GPUs")
        suite = plan(suite_options(options, work / "webhooks" if authority else None))
        for program in suite.programs:
            supervisor.start(program)
        if options.health_listen:
            await stack.enter_async_context(serve_readiness(options.health_listen, supervisor))
        started = asyncio.ensure_future(
            supervisor.wait_ready([program.name for program in suite.programs], _START_PATIENCE)
        )
        stopped = asyncio.ensure_future(stopping.wait())
        await asyncio.wait({started, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if started.done():
            started.result()
            if authority:
                endpoints = webhooks.WebhookEndpoints(suite.webhook_ports, authority)
                await webhooks.register(client, endpoints)
                stack.push_async_callback(webhooks.unregister, client, endpoints)
            _say(f"{len(suite.programs)} services serve {client.server}; Ctrl-C ends them")
        await stopped
        started.cancel()
    return _INTERRUPTED if came == [signal.SIGINT] else 0


async def _check(client: KubeClient, options: RunOptions) -> None:
    """Fail early where the services could only wait."""
    if options.install:
        await bootstrap.furnish(client)
        await bootstrap.install(client)
        return
    if await client.discover(resources.QUEUES.api_version, resources.QUEUES.kind) is None:
        raise ClusterError(
            f"the cluster at {client.server} does not know our custom resources; install the chart, "
            "or let `kai run --install` put in what is missing"
        )
    for name in (names.NAMESPACE, names.RESERVATION_NAMESPACE):
        try:
            await client.get(resources.NAMESPACES, name)
        except NotFound:
            remedy = "install the chart, or let `kai run --install` put in what is missing"
            raise ClusterError(f"the cluster at {client.server} has no namespace {name}; {remedy}") from None


def _certify(client: KubeClient, directory: Path) -> bytes:
    """Certificates for the webhooks; an API server elsewhere could not reach them."""
    if not is_loopback(client.server):
        raise ClusterError(
            f"the API server at {client.server} cannot reach webhooks on this machine; leave out --webhooks"
        )
    return webhooks.make_certificates(directory)


def suite_options(options: RunOptions, certificates: Path | None) -> SuiteOptions:
    """How the services run beside a cluster of the user's; docs/configuration.md says where that differs
    from the chart.
    """
    return SuiteOptions(
        kubeconfig=options.kubeconfig,
        context=options.context,
        redis_url="" if options.redis_url == "none" else options.redis_url,
        services=options.services,
        binders=options.binders,
        certificates=certificates,
        gpu_sharing=options.gpu_sharing,
        leader_elect=True,
    )


async def _start_redis(supervisor: Supervisor, work: Path) -> str:
    program = redis(work / "redis")
    supervisor.start(program)
    await supervisor.wait_ready([program.name], _START_PATIENCE)
    return program.address


def _signals() -> tuple[asyncio.Event, list[signal.Signals]]:
    stopping, came = asyncio.Event(), list[signal.Signals]()

    def end(number: signal.Signals) -> None:
        came.append(number)
        stopping.set()

    heeds(end)
    return stopping, came


def _print_line(child: Child, line: bytes) -> None:
    text = line.decode(errors="replace").rstrip("\n")
    _say(f"{child.program.name:>20} | {text}")


def _tell(child: Child) -> None:
    if child.state in (State.READY, State.CRASHED):
        status = f" (status {child.exit_status})" if child.state is State.CRASHED else ""
        _say(f"{child.program.name:>20} : {child.state}{status}")


def _say(text: str) -> None:
    """Print a line; where nobody reads any more, end in order."""
    output.say(text, sys.stdout, unheard=partial(signal.raise_signal, signal.SIGTERM))


if __name__ == "__main__":
    main()
