"""``kai snapshot``: the whole input of a running scheduler, as a file for ``kai replay``."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated, Final

import aiohttp
import typer

from kai.model import names
from kai.replay import archive, params
from kai.replay.anonymous import anonymous as without_names
from kai.wire.shards import shard_of
from kai_cli import absence
from kai_cli.connection import Target
from kai_cli.files import to_write
from kai_cli.output import fail, say

#: Lists of large clusters take their time.
_DEADLINE_SECONDS: Final = 300.0
_FORWARD: Final = (
    "a scheduler gives its snapshot only on its own loopback; forward the port with `kubectl "
    "-n kai-scheduler port-forward deploy/kai-scheduler-default 8081`, then use --address 127.0.0.1:8081"
)


class _NoSnapshot(Exception):
    """A scheduler gives none; the message says where, and why."""


def snapshot(
    context: typer.Context,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", callback=to_write, help="Where to write it.")
    ] = Path("snapshot.zip"),
    address: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="The scheduler's --plugin-server-port, forwarded or local."),
    ] = "",
    anonymous: Annotated[
        bool,
        typer.Option(
            "--anonymous", help="With other names for everything, in the same order; for strangers."
        ),
    ] = False,
    name: Annotated[
        str,
        typer.Option(
            "--name",
            help="Without --address: the cluster of `kai local` to ask; that of the context if left out.",
        ),
    ] = "",
) -> None:
    """Write what the scheduler's decisions depend on to a file; `kai replay` decides from it.

    The file holds all pods, nodes, queues, pod groups and claims of the cluster, so treat it accordingly, or
    ask for one without names.
    """
    data = taken(Target.of(context), address, name=name)
    if anonymous:
        data = _without_names(data)
    try:
        _write(output, data)
    except OSError as error:
        raise fail(f"{output}: {error.strerror}") from error
    typer.echo(f"{output}: {len(data) / 2**20:.1f} MiB; look at it with `kai replay {output}`", err=True)


def taken(target: Target, address: str, *, name: str) -> bytes:
    """A snapshot file of the scheduler at ``address``; without one, of the local cluster of this name.

    Without a name it is the local cluster that is the context, or the usual one where no context is set.
    Where several schedulers run in it, or a Lease was named, it is the one of the Lease.

    Raises:
        typer.Exit: none answers, or the context is another cluster, which is told.
    """
    if address:
        return _only(address)
    name, addresses = _local(target, name)
    if len(addresses) == 1 and target.lease == names.SCHEDULER_NAME:
        return _only(addresses[0])
    return _of_lease(target.lease, addresses, name=name)


def _only(where: str) -> bytes:
    """A snapshot file of the scheduler there; it is told, and raised, if there is none."""
    try:
        return _of_address(where)
    except _NoSnapshot as error:
        raise fail(f"{error}; {_FORWARD}") from error


def _of_lease(lease: str, addresses: list[str], *, name: str) -> bytes:
    """That of the scheduler with this Lease, whether or not others answer; ``name`` is the cluster's."""
    others: set[str] = set()
    failures: list[str] = []
    for each in addresses:
        try:
            data = _of_address(each)
            found = _lease_of(data, where=each)
        except _NoSnapshot as error:
            failures.append(str(error))
            continue
        if found == lease:
            return data
        others.add(found)
    of_whom = f"of cluster {name!r}{' that answers' if failures else ''}"
    take = [f"take --scheduler-lease {', '.join(sorted(others))}"] if others else []
    raise fail("; ".join([f"no scheduler {of_whom} has Lease {lease!r}", *take, *failures]))


def _of_address(where: str) -> bytes:
    """Raise :class:`_NoSnapshot` if none comes from there."""
    try:
        return asyncio.run(_get(f"http://{where}/get-snapshot"))
    except aiohttp.ClientResponseError as error:
        what = "it is no scheduler, or its plugin snapshot is off"
        raise _NoSnapshot(f"{where} answers {error.status} to /get-snapshot: {what}") from error
    except (aiohttp.ClientError, ValueError, TimeoutError) as error:
        raise _NoSnapshot(f"no scheduler answers at {where}: {error}") from error


def _lease_of(data: bytes, *, where: str) -> str:
    """The Lease of the scheduler that gave a snapshot; :class:`_NoSnapshot` if it is none."""
    try:
        found, *_ = params.read(archive.read(data).params)
    except (archive.ArchiveError, params.ParamsError) as error:
        raise _NoSnapshot(f"what the scheduler at {where} gives cannot be read: {error}") from error
    return shard_of(found.scheduler_name, found.node_pool).lease


def _without_names(data: bytes) -> bytes:
    try:
        found, notes = without_names(archive.read(data))
    except archive.ArchiveError as error:
        raise fail(f"what the scheduler gives cannot be made anonymous: {error}") from error
    for note in notes:
        say(f"note: {note}", err=True)
    return archive.write(found)


async def _get(url: str) -> bytes:
    timeout = aiohttp.ClientTimeout(total=_DEADLINE_SECONDS, sock_connect=5)
    async with (
        aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as session,
        session.get(url) as answer,
    ):
        return await answer.read()


def _local(target: Target, name: str) -> tuple[str, list[str]]:
    """A cluster on this machine, and where its schedulers serve snapshots."""
    with absence.explained("`kai snapshot` without --address", remedy=_FORWARD):
        from kai_local.box.state import ClusterFiles
        from kai_local.errors import ClusterError
    name = name or _of_context(target)
    try:
        record = ClusterFiles.of(name).read()
    except ClusterError as error:
        raise fail(str(error)) from error
    found = [each.debug_address for each in record.processes if each.debug_address] if record else []
    if not found:
        what = f"there is no cluster {name!r} with a scheduler on this machine{_there_are()}"
        raise fail(f"{what}; elsewhere, {_FORWARD}")
    return name, found


def _of_context(target: Target) -> str:
    """The cluster on this machine that the other commands would ask."""
    from kai_local.box import kubeconfig
    from kai_local.box.state import of_context

    named = {} if target.kubeconfig is None else {"KUBECONFIG": str(target.kubeconfig)}
    paths = kubeconfig.search_path(named or os.environ)
    if named and not any(path.exists() for path in paths):
        raise fail(f"kubeconfig {target.kubeconfig} does not exist")
    try:
        context = target.context or kubeconfig.current_context(paths)
    except kubeconfig.KubeconfigError as error:
        raise fail(str(error)) from error
    if (name := of_context(context)) is None:
        what = f"context {context!r} is of no cluster of `kai local` on this machine{_there_are()}"
        raise fail(f"{what}; elsewhere, {_FORWARD}")
    return name


def _there_are() -> str:
    from kai_local.box.state import known_clusters

    others = ", ".join(files.name for files in known_clusters())
    return f" (there are {others}; name one with --name)" if others else ""


def _write(path: Path, data: bytes) -> None:
    """Readable by us only: pods may carry in their environment what others should not see.

    A file is replaced as a whole, where a link leads. A device or a pipe is none, and is written to.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as there:
            there.write(data)
        return
    path = path.resolve()
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
