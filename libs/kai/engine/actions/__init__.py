"""The actions of a cycle by the names of the configuration: each is the module of its name, with ``run``."""

from collections.abc import Callable
from importlib import import_module
from typing import Final

from kai import config
from kai.engine.framework.session import Session

ACTIONS: Final[dict[str, Callable[[Session], None]]] = {
    name: import_module(f"{__name__}.{name}").run for name in config.ACTIONS
}
