"""What the engine and its plugins agree on; it knows no plugin. A plugin needs no other import of ours.

``protocols``  what a plugin can be: small contracts, of which it fulfils one or several
``handle``     what a plugin may see of a cycle
``kept``       what its owner keeps from cycle to cycle, with its type
``resolved``   the plugins of a cycle by what they can do, and for each class of pods

``docs/plugins.md`` has one.
"""

from kai.engine.arguments import Arguments, argument, names, number, seconds, switch
from kai.engine.framework.handle import Handle
from kai.engine.framework.kept import Kept
from kai.engine.framework.protocols import (
    Filter,
    NodeFilter,
    NodeSets,
    PreFilter,
    Readiness,
    Scorer,
    Tracker,
)
from kai.engine.plugin_table import PluginSpec
from kai.snapshot.group_order import LabelRank

__all__ = [
    "Arguments",
    "Filter",
    "Handle",
    "Kept",
    "LabelRank",
    "NodeFilter",
    "NodeSets",
    "PluginSpec",
    "PreFilter",
    "Readiness",
    "Scorer",
    "Tracker",
    "argument",
    "names",
    "number",
    "seconds",
    "switch",
]
