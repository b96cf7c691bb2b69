"""Entry point of ``kai``."""

from __future__ import annotations

import typer

from kai_cli import connection
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
    app(prog_name="kai")


if __name__ == "__main__":
    main()
