"""What ``kai`` says where there is no cluster in a box: images of the services have no ``kai_local``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import typer

from kai_cli.output import fail

_REMEDY: Final = (
    "images of the services leave it out; take the image that `docker build --target local .` makes, or "
    "install from the sources with `make install`"
)
#: What help says of a command that is not here.
MISSING: Final = "Not in this installation: it needs the cluster in a box (kai_local)."


def of_box() -> bool:
    """Whether there is no cluster in a box in this installation."""
    try:
        return importlib.util.find_spec("kai_local") is None
    except ModuleNotFoundError:
        return True


def is_of_box(error: ModuleNotFoundError) -> bool:
    """Whether it is the cluster in a box that was not found."""
    return error.name == "kai_local"


def stand_in(name: str) -> Callable[[typer.Context], None]:
    """A command for ``kai NAME`` that says what is missing and what to do, with status 1."""

    def tell(context: typer.Context) -> None:
        raise _missing(f"`kai {name}`", _REMEDY)

    tell.__doc__ = MISSING
    return tell


@contextmanager
def explained(who: str, *, remedy: str) -> Iterator[None]:
    """Say what is missing where an import in the block does not find the cluster in a box."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not is_of_box(error):
            raise
        raise _missing(who, remedy) from error


def _missing(who: str, remedy: str) -> typer.Exit:
    return fail(f"{who} needs the cluster in a box (kai_local), which is not installed: {remedy}")
