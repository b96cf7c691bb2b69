"""``kai conformance``: run recorded scheduling behaviour against the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from kai.conformance.runner import Result, run_folder
from kai_cli.files import to_write, write


def conformance(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of scenario files and fairshare.json.")
    ],
    json: Annotated[
        Path | None,
        typer.Option("--json", callback=to_write, metavar="FILE", help="Write the results there as JSON."),
    ] = None,
    only: Annotated[
        str, typer.Option("--only", metavar="ID", help="Run one scenario, or those that begin so.")
    ] = "",
) -> None:
    """Run scheduling scenarios and fair-share divisions, and print what differs."""
    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is not a folder", param_hint="DIR")
    results: list[Result] = []
    try:
        for result in run_folder(folder, only=only):
            results.append(result)
            if not result.passed:
                typer.echo(
                    f"{result.id}\n" + "".join(f"    {line}\n" for line in result.differences), nl=False
                )
    except FileNotFoundError as error:
        raise typer.BadParameter(str(error), param_hint="DIR") from error
    if not results:
        raise typer.BadParameter(f"no scenario begins with {only!r}", param_hint="--only")
    failed = sum(not result.passed for result in results)
    typer.echo(f"{len(results) - failed} passed, {failed} failed")
    if json is not None:
        write(json, msgspec.json.format(msgspec.json.encode(_report(results, failed)), indent=2))
    if failed:
        raise typer.Exit(1)


def _report(results: list[Result], failed: int) -> dict[str, object]:
    return {
        "passed": len(results) - failed,
        "failed": failed,
        "results": [
            {"id": each.id, "passed": each.passed, "differences": list(each.differences)} for each in results
        ],
    }
