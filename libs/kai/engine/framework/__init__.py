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

A plugin needs no other import of ours than from here, for what it is made of and for the types of what it is
given and returns; ``docs/plugins.md`` has one.
"""

from kai.config import EngineParams
from kai.config.arguments import Arguments, argument, names, number, one_of, seconds, switch
from kai.config.plugin_table import PluginSpec, Weight
from kai.engine.fairness.order import NO_RESOURCES, QueueKey
from kai.engine.framework.handle import ArgumentsOf, Handle
from kai.engine.framework.protocols import (
    Entitlement,
    Filter,
    JobRanking,
    NodeFilter,
    NodeSets,
    Opener,
    Plugin,
    PreFilter,
    QueueRanking,
    Quota,
    Readiness,
    Scorer,
    Tie,
    Ties,
    Tracker,
    VictimPolicy,
    VictimRanking,
)
from kai.engine.framework.victims import VictimRules, VictimSearch
from kai.engine.kernel.static import StaticFilters
from kai.engine.queueing.batches import Batch, ChunkSizes, by_job
from kai.engine.queueing.queue_order import Columns
from kai.engine.queueing.shares import Division
from kai.engine.reasons import Unschedulable
from kai.model.arrays import Floats, Ints, Mask
from kai.model.decisions import Allotment, Reason, ResourceVector
from kai.model.faults import Fault
from kai.model.ids import NOBODY, PodGroupKey, PodUid
from kai.model.objects import TopologyConstraint
from kai.snapshot.class_table import ClassTable
from kai.snapshot.classes import TaskClass
from kai.snapshot.eviction_refusals import EvictionRefusals
from kai.snapshot.group_order import LabelRank
from kai.snapshot.kept import Kept, KeptValues
from kai.snapshot.kinds import Kind, StateParams
from kai.snapshot.refusals import Refusals
from kai.snapshot.resources import ResourceTable
from kai.snapshot.rows import Job, Node, PodSet, Queue, SubGroupSet, Task
from kai.snapshot.table import NodeTable

__all__ = [
    "NOBODY",
    "NO_RESOURCES",
    "Allotment",
    "Arguments",
    "ArgumentsOf",
    "Batch",
    "ChunkSizes",
    "ClassTable",
    "Columns",
    "Division",
    "EngineParams",
    "Entitlement",
    "EvictionRefusals",
    "Fault",
    "Filter",
    "Floats",
    "Handle",
    "Ints",
    "Job",
    "JobRanking",
    "Kept",
    "KeptValues",
    "Kind",
    "LabelRank",
    "Mask",
    "Node",
    "NodeFilter",
    "NodeSets",
    "NodeTable",
    "Opener",
    "Plugin",
    "PluginSpec",
    "PodGroupKey",
    "PodSet",
    "PodUid",
    "PreFilter",
    "Queue",
    "QueueKey",
    "QueueRanking",
    "Quota",
    "Readiness",
    "Reason",
    "Refusals",
    "ResourceTable",
    "ResourceVector",
    "Scorer",
    "StateParams",
    "StaticFilters",
    "SubGroupSet",
    "Task",
    "TaskClass",
    "Tie",
    "Ties",
    "TopologyConstraint",
    "Tracker",
    "Unschedulable",
    "VictimPolicy",
    "VictimRanking",
    "VictimRules",
    "VictimSearch",
    "Weight",
    "argument",
    "by_job",
    "names",
    "number",
    "one_of",
    "seconds",
    "switch",
]
