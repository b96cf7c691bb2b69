"""Plugins of other packages, by entry points of the group ``kai.plugins``.

Their names have a dot, such as ``example.quiet``, and ours never have one. So packages are looked through
only where a configuration names such a plugin, and no new plugin of ours takes the place of somebody's.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Final

from kai.config.arguments import ConfigError
from kai.config.plugin_table import PLUGINS, PluginSpec
from kai.model import spelling

GROUP: Final = "kai.plugins"
_DOT: Final = "."


def spec_of(name: str) -> PluginSpec | None:
    """What a plugin is, ours or that of an installed package; None if there is none of the name.

    Raises:
        ConfigError: there is one, which cannot be loaded, or several packages have one.
    """
    known = PLUGINS.get(name)
    if known is None and _DOT in name:
        return _installed(name)
    return known


def unknown(name: str) -> str:
    """That there is no plugin of the name, with what is near or known."""
    if _DOT not in name:
        return spelling.unknown("plugin", name, PLUGINS)
    found = sorted({each.name for each in entry_points(group=GROUP)})
    if not found:
        return f"unknown plugin {name!r}; no installed package has an entry point in {GROUP!r}"
    return spelling.unknown("plugin", name, found)


@cache
def _installed(name: str) -> PluginSpec | None:
    found = list(entry_points(group=GROUP, name=name))
    if not found:
        return None
    values = sorted({each.value for each in found})
    if len(values) > 1:
        places = ", ".join(values)
        raise ConfigError(f"plugin {name!r} is in several packages: {places}; uninstall all but one")
    try:
        spec = found[0].load()
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
        raise ConfigError(f"plugin {name!r} cannot be loaded from {values[0]}: {failure}") from error
    if not isinstance(spec, PluginSpec):
        raise ConfigError(f"plugin {name!r}: {values[0]} is {spec!r}; it must be a PluginSpec")
    if spec.priority is not None:
        raise ConfigError(
            f"plugin {name!r}: {values[0]} has a priority; leave it out: it comes where the configuration "
            "names it"
        )
    return spec
