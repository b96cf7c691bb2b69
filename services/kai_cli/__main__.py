"""Entry point of ``kai``."""

from __future__ import annotations

import sys

import typer

from kai_cli import connection, streams
from kai_cli.commands import Commands

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    callback=connection.choose,
)


def main() -> None:
    """Run the command line."""
    try:
        with streams.usable():
            app(prog_name="kai")
    except typer.Exit as ended:
        sys.exit(ended.exit_code)


if __name__ == "__main__":
    main()
