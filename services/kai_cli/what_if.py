"""``kai what-if``: what would follow from a change, with nothing changed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.status import Status

from kai.grouping.errors import GroupingError
from kai.kube.errors import KubeConfigError
from kai.model import duration
from kai.model.faults import OutOfBounds
from kai.replay import archive, scene
from kai.replay.scene import Scene
from kai.simulate import what_if as simulated
from kai.simulate.changes import Change, ChangeRefused
from kai.simulate.told import as_document
from kai.simulate.wording import NoSuchChange, changes_of
from kai_cli import snapshot
from kai_cli.connection import Target
from kai_cli.files import text_of
from kai_cli.output import Format, FormatOption, document, fail, say
from kai_cli.submitting import submitted
from kai_cli.views import what_if as views

_DEFAULT_NAMESPACE: Final = "default"
#: As opposed to -1, which is an amount.
_OPTION: Final = re.compile("--?[A-Za-z]")
_USAGE: Final = """name one of:

  -f FILE                          submit what is in a file
  quota QUEUE AMOUNT...            set a queue's quota: 8 (GPUs), gpu=8, cpu=16, memory=64Gi, gpu=unlimited
  limit QUEUE AMOUNT...            set its limit
  weight QUEUE NUMBER              set its over-quota weight
  priority WORKLOAD CLASS          give a workload another priority class
  preemptibility WORKLOAD VALUE    make it preemptible, non-preemptible or semi-preemptible
  minimum WORKLOAD PODS            let it start with so many pods
  delete WORKLOAD                  delete it
  drain NODE...                    cordon nodes and empty them
  remove NODE...                   take nodes away
  nodes COUNT --like NODE          add nodes that are like one that there is
  delete-queue QUEUE               delete a queue"""


def what_if(
    context: typer.Context,
    what: Annotated[
        list[str] | None, typer.Argument(metavar="[CHANGE ARGUMENT...]", help="What would change.")
    ] = None,
    *,
    files: Annotated[
        list[Path] | None,
        typer.Option("-f", "--filename", help="Manifests to submit, - for standard input; may be repeated."),
    ] = None,
    namespace: Annotated[
        str,
        typer.Option(
            "-n",
            "--namespace",
            help="Of workloads and manifests that name none; that of the context if left out.",
        ),
    ] = "",
    like: Annotated[str, typer.Option("--like", metavar="NODE", help="With nodes: what they are like.")] = "",
    snapshot_file: Annotated[
        Path | None,
        typer.Option("--snapshot", metavar="FILE", help="The cluster as `kai snapshot` wrote it."),
    ] = None,
    address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Of the scheduler to ask, as for `kai snapshot`.")
    ] = "",
    name: Annotated[
        str,
        typer.Option(
            "--name",
            help="Without either: the cluster of `kai local` to ask; that of the context if left out.",
        ),
    ] = "",
    within: Annotated[
        str, typer.Option(metavar="DURATION", help="For how long to look ahead, such as 10m or 2h.")
    ] = "1h",
    lasting: Annotated[
        str,
        typer.Option(
            "--runtime", metavar="DURATION", help="Workloads end after so long; else none that runs ends."
        ),
    ] = "",
    output: FormatOption = Format.TABLE,
) -> None:
    """Say what would follow from a change: who would be evicted, who would start. Nothing is changed.

    The scheduler's own engine decides, on the cluster as it is. Changes: -f FILE, quota, limit, weight,
    priority, preemptibility, minimum, delete, drain, remove, nodes, delete-queue; without any of them what
    each takes is listed.
    """
    if strays := [each for each in what or () if _OPTION.match(each)]:
        context.fail(f"No such option: {strays[0]}")
    if bool(what) == bool(files):
        raise fail(_USAGE, status=2)
    ahead = _duration("--within", within)
    runtime = _duration("--runtime", lasting) if lasting else None
    target = Target.of(context)
    found = _scene(target, snapshot_file, address, name)
    # A file and a cluster that is named are not those of the context.
    usual = "" if snapshot_file or name else _of_context(target)
    namespace = namespace or usual or _DEFAULT_NAMESPACE
    try:
        wanted = (
            _of_files(found, files, namespace, usual)
            if files
            else changes_of(found.state, what or [], namespace=namespace, like=like)
        )
        with Status("looking ahead", console=Console(stderr=True)) as status:

            def progress(changed: bool, after: float) -> None:
                course = "with the change" if changed else "without the change"
                status.update(f"{course}: {after:.0f} of {ahead:.0f} s looked at")

            answer = simulated.ask(
                found.state,
                found.config,
                wanted,
                now=found.now,
                within=ahead,
                runtimes=simulated.all_lasting(runtime),
                progress=progress,
            )
        told = as_document(found.state, wanted, answer)
    except NoSuchChange as error:
        raise fail(f"{error}; {_USAGE}", status=2) from error
    except (ChangeRefused, OutOfBounds) as error:
        raise fail(str(error)) from error
    if output is Format.TABLE:
        views.print_answer(told)
    else:
        document(told, output)


# --- the cluster ----------------------------------------------------------------------------------
def _of_context(target: Target) -> str:
    """The namespace of the context; a scheduler with an address needs none."""
    try:
        return asyncio.run(target.own_namespace())
    except KubeConfigError:
        return _DEFAULT_NAMESPACE


def _scene(target: Target, file: Path | None, address: str, name: str) -> Scene:
    """The cluster as a file or a scheduler has it."""
    where = str(file) if file is not None else address or "the scheduler"
    try:
        data = snapshot.taken(target, address, name=name) if file is None else file.read_bytes()
        found = scene.set_up(archive.read(data))
    except OSError as error:
        raise fail(f"{where}: {error.strerror}") from error
    except archive.ArchiveError as error:
        raise fail(f"{where}: {error}") from error
    for note in found.notes:
        say(f"note: {note}", err=True)
    return found


def _duration(option: str, text: str) -> float:
    try:
        found = duration.parse(text)
    except duration.InvalidDuration as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
    if found < 0:
        raise typer.BadParameter(f"{text!r} is negative", param_hint=option)
    return found


def _of_files(found: Scene, files: Sequence[Path], namespace: str, usual: str) -> list[Change]:
    try:
        text = "\n---\n".join(text_of(path) for path in files)
    except (OSError, UnicodeDecodeError) as error:
        raise fail(f"cannot read the manifest: {error}") from error
    try:
        called = [str(path) for path in files]
        made = submitted(found.state, text, now=found.now, namespace=namespace, usual=usual, files=called)
    except GroupingError as error:
        raise fail(str(error)) from error
    for warning in made.warnings:
        say(f"warning: {warning}", err=True)
    for note in made.notes:
        say(f"note: {note}", err=True)
    return made.changes
