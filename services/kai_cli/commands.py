"""The commands of ``kai``, each imported when it is used: `get` need not load the engine of `bench`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from kai_cli import absence

#: Name -> module and the Typer application or function in it, in the order in which help lists them.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "get": ("kai_cli.get", "app"),
    "explain": ("kai_cli.explain", "explain"),
    "local": ("kai_cli.local", "app"),
    "top": ("kai_cli.top", "top"),
    "group": ("kai_cli.group", "group"),
    "render": ("kai_cli.render", "render"),
    "conformance": ("kai_cli.conformance", "conformance"),
    "bench": ("kai_cli.bench", "bench"),
    "snapshot": ("kai_cli.snapshot", "snapshot"),
    "replay": ("kai_cli.replay", "replay"),
    "run": ("kai_cli.run", "run"),
    "pack": ("kai_cli.pack", "pack"),
    "simulate": ("kai_cli.simulate", "app"),
    "what-if": ("kai_cli.what_if", "what_if"),
}
#: Arguments and options that are not known are taken as well.
_WHATEVER: Final = {"ignore_unknown_options": True, "allow_extra_args": True}


class Commands(TyperGroup):
    """A group that imports a command when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        try:
            found = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if not absence.is_of_box(error):
                raise
            command: Any = _single(cmd_name, absence.stand_in(cmd_name), context_settings=_WHATEVER)
        else:
            command = get_group(found) if isinstance(found, typer.Typer) else _single(cmd_name, found)
        command.name = cmd_name
        return command


def _single(name: str, function: Callable[..., None], **more: Any) -> Any:
    """A function as a command of its own."""
    application = typer.Typer(add_completion=False)
    application.command(name, **more)(function)
    return get_command(application)
