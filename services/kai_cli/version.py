"""``kai version``: which releases work together here."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, Final

import typer

from kai.kube.leases import Leader, Lease, LeaseSpec, leader_of
from kai.kube.resources import LEASES
from kai.model import names, release
from kai.snapshot.times import seconds
from kai_cli.connection import Target, ask
from kai_cli.output import Column, Format, FormatOption, document, emit, table
from kai_cli.views import amounts

#: Processes by their Leases; schedulers are called like theirs.
_PROCESSES: Final = {lease: process for process, lease in names.LEASES.items()}
_USUAL_SECONDS: Final = 15
_COLUMNS: Final = (Column("WHAT"), Column("VERSION"), Column("LEADER"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What is of which release; ``leader`` is who holds its Lease.

    Where nobody renews it any more, ``silent_seconds`` is since when, and the release is of who did.
    """

    what: str
    version: str
    leader: str | None = None
    silent_seconds: float | None = None


def version(context: typer.Context, *, output: FormatOption = Format.TABLE) -> None:
    """Print the releases of this program, of the cluster, and of each process that leads.

    Those that lead are told by their Leases; binder and admission, of which all replicas work, are of the
    release of their images. Who has ended without giving its Lease back is none of them.
    """
    ours = release.version()
    found = [Release(what="kai", version=ours)]
    try:
        ask(lambda: _read(found, Target.of(context)))
    finally:  # what is known is told, too, where there is no cluster, or one may not see all
        _show(found, output)
    others = sorted({f"{each.what} {each.version}" for each in found if each.leader and each.version != ours})
    if others:
        typer.echo(
            f"kai: not of the release of this program ({ours}), so it may ask for what they do not know: "
            f"{', '.join(others)}",
            err=True,
        )


async def _read(found: list[Release], target: Target) -> None:
    """Add to what was ``found`` what the cluster tells, as far as it does."""
    async with target.cluster() as client:
        server = await client.raw("/version")
        said = str(server.get("gitVersion", "unknown")).removeprefix("v")
        found.append(Release(what="kubernetes", version=said))
        leases = await client.list(LEASES, namespace=target.namespace, type=Lease)
    now = time.time()
    led = [(lease, leader) for lease in leases if (leader := leader_of(lease)) is not None]
    found += sorted((_of_process(lease, leader, now) for lease, leader in led), key=lambda each: each.what)


def _of_process(lease: Lease, leader: Leader, now: float) -> Release:
    """Who has not renewed a Lease for twice its time leads no more; clocks may differ by once."""
    silent = _silent(lease.spec, now)
    return Release(
        what=_PROCESSES.get(lease.metadata.name, lease.metadata.name),
        version=leader.version or "unknown",
        leader=leader.identity if silent is None else None,
        silent_seconds=silent,
    )


def _silent(spec: LeaseSpec, now: float) -> float | None:
    renewed = seconds(spec.renew_time)
    silent = now - renewed
    return round(silent) if renewed and silent > 2 * (spec.lease_duration_seconds or _USUAL_SECONDS) else None


def _leader(each: Release) -> str:
    if each.silent_seconds is not None:
        return f"none (last renewed {amounts.lasting(each.silent_seconds)} ago)"
    return each.leader or "-"


def _show(found: list[Release], output: Format) -> None:
    if output is Format.TABLE:
        emit(table(_COLUMNS, [(each.what, each.version, _leader(each)) for each in found]))
    else:
        rows: list[dict[str, Any]] = [asdict(each) for each in found]
        document(rows, output)
