"""The plugins: each is the module of its name in the configuration, with ``opened``; none knows another.

The other names of :mod:`kai.config.plugin_table` are switches of what is built in:
``docs/configuration.md`` has each, and why.
"""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from kai.engine.framework.protocols import Opener

OPENERS: Final[Mapping[str, Opener]] = {
    module.name: import_module(f"{__name__}.{module.name}").opened for module in iter_modules(__path__)
}
