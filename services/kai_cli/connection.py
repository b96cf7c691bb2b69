"""How the command line reaches the cluster and, where it can, the scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from kai.model import names
from kai_cli.logs import configure_logs, note
from kai_cli.output import fail

if TYPE_CHECKING:  # the commands that need no cluster do without what talks to one
    from kai.kube.client import KubeClient
    from kai.model.decisions import QueuedGroup, QueueShare
    from kai.wire.channel import TlsFiles
    from kai.wire.clients import SchedulerClient
    from kai.wire.history import HistoryClient

#: How long a scheduler that cannot be reached may delay an answer that does without it.
SOON_SECONDS: Final = 3.0
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which cluster, and which scheduler in it."""

    kubeconfig: Path | None = None
    context: str | None = None
    lease: str = names.SCHEDULER_NAME
    namespace: str = names.NAMESPACE
    tls_dir: Path | None = None

    @classmethod
    def of(cls, context: typer.Context) -> Target:
        """The target that the options before the command name."""
        target = context.find_object(cls)
        return target if target is not None else cls()

    @property
    def _path(self) -> str | None:
        return None if self.kubeconfig is None else str(self.kubeconfig)

    @asynccontextmanager
    async def _tls(self, client: KubeClient) -> AsyncIterator[TlsFiles | None]:
        """Files of the mutual TLS, if it is used: those that were named, else the installation's own."""
        from kai_cli import credentials

        if self.tls_dir is not None:
            yield credentials.in_folder(self.tls_dir, namespace=self.namespace)
            return
        async with credentials.of_installation(client, namespace=self.namespace) as found:
            yield found

    @asynccontextmanager
    async def cluster(self) -> AsyncIterator[KubeClient]:
        """A client of the API server."""
        from kai.kube.client import KubeClient

        async with KubeClient.connect(self._path, context=self.context, user_agent="kai-cli") as client:
            yield client

    async def own_namespace(self) -> str:
        """That of the context, as kubectl takes it where none is given; asks nobody.

        Raises:
            KubeConfigError: there is no kubeconfig, or it is broken.
        """
        from kai.kube.client import own_namespace

        return await own_namespace(self._path, context=self.context)

    @asynccontextmanager
    async def scheduler(self, client: KubeClient) -> AsyncIterator[SchedulerClient]:
        """A client of the scheduler that leads."""
        from kai.wire.clients import connect_scheduler

        where = {"lease_name": self.lease, "namespace": self.namespace}
        async with (
            self._tls(client) as tls,
            connect_scheduler(client, **where, tls=tls, deadline=0) as scheduler,  # nobody is waited for
        ):
            yield scheduler

    @asynccontextmanager
    async def history(self, client: KubeClient) -> AsyncIterator[HistoryClient]:
        """A client of insight."""
        from kai.wire.history import connect_history

        async with (
            self._tls(client) as tls,
            connect_history(client, namespace=self.namespace, tls=tls) as history,
        ):
            yield history

    async def shares(self, client: KubeClient) -> dict[str, QueueShare] | None:
        """Shares by queue as the scheduler last divided them; None where it does not answer soon."""
        found = await self._asked(client, lambda scheduler: scheduler.shares())
        return None if found is None else {share.queue: share for share in found}

    async def line(self, client: KubeClient) -> tuple[QueuedGroup, ...] | None:
        """Who waits, in the order in which they are served; None where the scheduler does not answer soon."""
        return await self._asked(client, lambda scheduler: scheduler.service_order())

    async def _asked(
        self, client: KubeClient, question: Callable[[SchedulerClient], Awaitable[Answer]]
    ) -> Answer | None:
        import asyncio

        from kai.kube.errors import ApiError
        from kai.wire.errors import WireError

        try:
            async with asyncio.timeout(SOON_SECONDS), self.scheduler(client) as scheduler:
                return await question(scheduler)
        except (TimeoutError, WireError, ApiError) as error:  # its Lease may be for others to read
            note(__name__, "the scheduler is done without", reason=str(error) or "no answer in time")
            return None


def _tell_version(wanted: bool) -> None:
    if wanted:
        from kai.model import release

        typer.echo(f"kai {release.version()}")
        raise typer.Exit


def choose(
    context: typer.Context,
    *,
    kubeconfig: Annotated[Path | None, typer.Option(help="Instead of $KUBECONFIG or ~/.kube/config.")] = None,
    kube_context: Annotated[
        str | None, typer.Option("--context", help="Context to use instead of the kubeconfig's current one.")
    ] = None,
    lease: Annotated[
        str, typer.Option("--scheduler-lease", help="Lease of the scheduler to ask; each shard has its own.")
    ] = names.SCHEDULER_NAME,
    system_namespace: Annotated[str, typer.Option(help="Namespace of the installation.")] = names.NAMESPACE,
    tls_dir: Annotated[
        Path | None,
        typer.Option(help="Folder with ca.crt, tls.crt and tls.key; default: those of the installation."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Tell on standard error what goes on behind the scenes.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_tell_version),
    ] = False,
) -> None:
    """A GPU scheduler for Kubernetes: look at it, ask it, run it, try it in a box."""
    configure_logs(verbose=verbose)
    context.obj = Target(
        kubeconfig=kubeconfig, context=kube_context, lease=lease, namespace=system_namespace, tls_dir=tls_dir
    )


def ask(question: Callable[[], Awaitable[Answer]]) -> Answer:
    """Run a question to its end; what fails is told in one line, with exit status 1."""
    import asyncio

    from kai.kube.errors import KubeError, NotFound
    from kai.kube.resources import OURS
    from kai.wire.errors import WireError

    async def run() -> Answer:
        return await question()

    try:
        return asyncio.run(run())
    except NotFound as error:
        _, asked, *_ = *error.request.split(), "", ""  # verb, resource, subject
        is_ours = asked in {each.plural for each in OURS}
        if is_ours and (error.reason != "NotFound" or not error.details.get("name")):
            raise fail(f"{error}; are the custom resources of the chart's crds/ folder installed?") from error
        raise fail(str(error)) from error
    except (KubeError, WireError) as error:
        raise fail(str(error)) from error
