"""The commands of ``kai``, each imported when it is used: `get` need not load the engine of `bench`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from kai.collector import paused
from kai_cli import absence


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command is, and what help says of it, which need not be imported to be listed."""

    module: str
    #: The Typer application or function in it.
    name: str
    summary: str
    needs_box: bool = False
    #: An argument may be a negative number. It refuses options that are not known itself.
    takes_negative: bool = False


#: By name, in the order in which help lists them.
COMMANDS: Final[dict[str, Place]] = {
    "get": Place("kai_cli.get", "app", "Show queues, pod groups, pods, nodes or topology domains."),
    "queue": Place(
        "kai_cli.queue",
        "queue",
        "Show what waits in a queue, in order of service, and what puts each before the next.",
    ),
    "explain": Place("kai_cli.explain", "explain", "Say why something waits, and what would let it run."),
    "version": Place(
        "kai_cli.version",
        "version",
        "Print the releases of this program, of the cluster, and of each process that leads.",
    ),
    "history": Place(
        "kai_cli.history", "app", "Who ran where, who was evicted and why, and what was decided."
    ),
    "report": Place("kai_cli.report", "app", "Who used how much, over time."),
    "local": Place(
        "kai_cli.local",
        "app",
        "A cluster in a box: API server, simulated nodes, Redis and all services, on this machine.",
        needs_box=True,
    ),
    "ui": Place("kai_cli.ui", "ui", "Open a page to look at the cluster: who is where, what waits, and why."),
    "top": Place("kai_cli.top", "top", "Queues, nodes and what waits, live."),
    "group": Place(
        "kai_cli.group",
        "group",
        "Show which pod groups the workloads in a file would become, without a cluster.",
    ),
    "render": Place(
        "kai_cli.render",
        "render",
        "Print the objects that the operator would make of a Config and SchedulingShards.",
    ),
    "conformance": Place(
        "kai_cli.conformance",
        "conformance",
        "Run scheduling scenarios and fair-share divisions, and print what differs.",
    ),
    "bench": Place(
        "kai_cli.bench",
        "bench",
        "Measure scheduling cycles in milliseconds, warm and cold; each cluster checks its decisions.",
    ),
    "snapshot": Place(
        "kai_cli.snapshot",
        "snapshot",
        "Write what the scheduler's decisions depend on to a file; `kai replay` decides from it.",
    ),
    "replay": Place(
        "kai_cli.replay",
        "replay",
        "Run one scheduling cycle over a snapshot file and print decisions, reasons and timings.",
    ),
    "run": Place(
        "kai_cli.run",
        "run",
        "Run the services against the cluster of the kubeconfig; Ctrl-C drains and ends them.",
        needs_box=True,
    ),
    "pack": Place(
        "kai_cli.pack",
        "pack",
        "Fill a cluster with pods drawn from a trace, and say how much of its GPUs was allocated.",
    ),
    "simulate": Place("kai_cli.simulate", "app", "Simulate fair shares: at one moment, or over time."),
    "what-if": Place(
        "kai_cli.what_if",
        "what_if",
        "Say what would follow from a change: who would be evicted, who would start. Nothing is changed.",
        takes_negative=True,
    ),
}
#: Options that are not known are taken for arguments.
_TAKES_NEGATIVE: Final = {"ignore_unknown_options": True}
#: Arguments and options that are not known are taken as well.
_WHATEVER: Final = {"ignore_unknown_options": True, "allow_extra_args": True}


class Commands(TyperGroup):
    """A group that imports a command when it is used; to list or suggest it, its place is enough."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = {name: _listed(name, place) for name, place in COMMANDS.items()}

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order of the table."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments begin with, itself."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, loaded(name) if name in COMMANDS else command, rest


def _listed(name: str, place: Place) -> Any:
    """What stands for a command in lists."""
    return TyperCommand(name, help=absence.MISSING if place.needs_box and absence.of_box() else place.summary)


def loaded(name: str) -> Any:
    """The command of this name, imported."""
    place = COMMANDS[name]
    try:
        found = getattr(_imported(place.module), place.name)
    except ModuleNotFoundError as error:
        if not absence.is_of_box(error):
            raise
        command: Any = _single(name, absence.stand_in(name), context_settings=_WHATEVER)
    else:
        settings = _TAKES_NEGATIVE if place.takes_negative else {}
        command = (
            get_group(found)
            if isinstance(found, typer.Typer)
            else _single(name, found, context_settings=settings)
        )
    command.name = name
    return command


def _imported(module: str) -> ModuleType:
    """A module; what comes with it stays."""
    if module in sys.modules:
        return sys.modules[module]
    with paused(lasting=True):
        return importlib.import_module(module)


def _single(name: str, function: Callable[..., None], **more: Any) -> Any:
    """A function as a command of its own."""
    application = typer.Typer(add_completion=False)
    application.command(name, **more)(function)
    return get_command(application)
