"""What the engine and its plugins agree on, and one cycle; it knows no plugin.

``protocols``   what a plugin can be: small contracts, of which it fulfils one or several
``handle``      what a plugin may see of a cycle
``victims``     a search for victims, and what plugins say to it
``resolved``    the plugins of a cycle by what they can do, and for each class of pods

``session``     one cycle's view of the state
``statement``   a transaction over it
``decisions``   what is left of transactions
``allocation``  placing the next chunk of a job; ``devices`` which of a node's, ``fit`` why not there
``options``     which parts of orders are on

A plugin needs no other import of ours than from here; ``docs/plugins.md`` has one.
"""

from kai.engine.config.arguments import Arguments, argument, names, number, seconds, switch
from kai.engine.config.plugin_table import PluginSpec
from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import (
    Entitlement,
    Filter,
    JobRanking,
    NodeFilter,
    NodeSets,
    PreFilter,
    QueueRanking,
    Quota,
    Readiness,
    Scorer,
    Tracker,
    VictimPolicy,
    VictimRanking,
)
from kai.engine.framework.victims import VictimRules, VictimSearch
from kai.engine.queueing.batches import Batch, by_job
from kai.snapshot.group_order import LabelRank
from kai.snapshot.kept import Kept

__all__ = [
    "Arguments",
    "Batch",
    "Entitlement",
    "Filter",
    "Handle",
    "JobRanking",
    "Kept",
    "LabelRank",
    "NodeFilter",
    "NodeSets",
    "PluginSpec",
    "PreFilter",
    "QueueRanking",
    "Quota",
    "Readiness",
    "Scorer",
    "Tracker",
    "VictimPolicy",
    "VictimRanking",
    "VictimRules",
    "VictimSearch",
    "argument",
    "by_job",
    "names",
    "number",
    "seconds",
    "switch",
]
