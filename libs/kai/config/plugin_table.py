"""Every plugin there is: its place in the default configuration, its arguments, meaning and weight.

This table is the only source of the default configuration. The chart renders the same one, and tests hold the
two, the other ways to run the scheduler, and the documentation against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from kai.config.arguments import Arguments, argument, names, number, one_of, seconds, switch
from kai.snapshot.group_order import BY_TASK_PRIORITY, HEADS_FIRST, LEADERS_FIRST, LabelRank


class PlacementStrategy(StrEnum):
    """Which nodes come first: the fullest, the emptiest, or those that leave most room for the workload."""

    BINPACK = "binpack"
    SPREAD = "spread"
    HEADROOM = "headroom"


class Resolve(StrEnum):
    """From which queue the way up begins that finds a victim's minimum runtime."""

    LOWEST_COMMON = "lca"
    QUEUE = "queue"


class SizeOrder(StrEnum):
    """Of equal victims, those whose jobs ask for more GPUs or for fewer."""

    LARGER_FIRST = "evict-larger-first"
    SMALLER_FIRST = "evict-smaller-first"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProportionArguments(Arguments):
    """Fair share between queues."""

    k_value: float = argument(
        "kValue",
        kind=number(least=0),
        default="1.0",
        meaning="how strongly past usage lowers a queue's share beyond its quota",
    )
    #: The first spelling is the original's, which others have corrected.
    saturation_multiplier: float = argument(
        "relcaimerSaturationMultiplier",
        "reclaimerSaturationMultiplier",
        "reclaimerUtilizationMultiplier",
        kind=number(least=1),
        default="1.0",
        meaning="by which factor a queue that reclaims must stay less saturated than those it takes from",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MinRuntimeArguments(Arguments):
    """Minimum runtimes where neither a queue nor one above it says another."""

    preempt: float = argument(
        "defaultPreemptMinRuntime",
        kind=seconds(),
        meaning="how long a job that started is safe from jobs of its own queue",
    )
    reclaim: float = argument(
        "defaultReclaimMinRuntime",
        kind=seconds(),
        meaning="how long a job that started is safe from jobs of other queues",
    )
    resolve_method: Resolve = argument(
        "reclaimResolveMethod",
        kind=one_of(Resolve),
        default="lca",
        meaning="whose minimum runtime counts in a reclaim: that of the victim's queue or one above it "
        "(`queue`), or that below the lowest queue which both have in common (`lca`)",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuJobOrderArguments(Arguments):
    """Who is the first of equal victims."""

    mode: SizeOrder = argument(
        "mode",
        kind=one_of(SizeOrder),
        default="evict-larger-first",
        meaning="whether the job that asks for more GPUs, or for fewer, gives up its place first",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlacementArguments(Arguments):
    """Among the nodes that can take a pod, which come first."""

    gpu: PlacementStrategy = argument(
        "gpu",
        kind=one_of(PlacementStrategy),
        default="binpack",
        meaning="strategy for pods with GPUs, see [placement](placement.md)",
    )
    cpu: PlacementStrategy = argument(
        "cpu",
        kind=one_of(PlacementStrategy),
        default="binpack",
        meaning="strategy for pods without GPUs",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaArguments(Arguments):
    """What is aligned, and whose word counts."""

    ignore: tuple[str, ...] = argument(
        "ignoreList",
        kind=names(),
        meaning="resources that nodes report by zone and the kubelet does not align",
    )
    reconstruct: bool = argument(
        "reconstructAvailable",
        kind=switch(),
        default="true",
        meaning="work out what is free in each zone from the pods, instead of taking what nodes report",
    )


class Weight:
    """The one table of weights of the order of nodes: all that is ever added to a node's score.

    A weight outweighs the ones before it, but for :data:`NO_GPUS` and :data:`NUMA`, which are equal at most.
    Up to :data:`PREFERENCE` the weights of the plugins are the original's; those within a preference are
    kube-scheduler's.
    """

    #: ``nodeplacement``: packing gives at most so much, to the node whose free GPUs, or CPU, are the fewest.
    #: Spreading gives the part that is free, which is 1 at most.
    BINPACK: Final = 9.0
    #: The strategy ``headroom`` in its place: so much where nothing is lost, the less the more devices are.
    HEADROOM: Final = BINPACK
    #: ``resourcetype``: a pod without GPUs, on a node without GPUs.
    RESOURCE_TYPE: Final = 10.0
    #: ``gpusharingorder``: a pod without GPUs keeps off GPUs that are idle. A node without GPUs is the best
    #: (together with ``resourcetype``), then one whose GPUs are all taken, then the more quarters are taken.
    NO_GPUS: Final = 10 * RESOURCE_TYPE
    GPUS_TAKEN: Final = 5 * RESOURCE_TYPE
    GPU_QUARTER_TAKEN: Final = RESOURCE_TYPE
    #: ``numa``: divided by the number of zones that the pod spans.
    NUMA: Final = 100.0
    #: ``nodeavailability``: the pod can begin at once.
    AVAILABILITY: Final = 1_000.0
    #: ``gpusharingorder``: the pod joins a shared GPU.
    GPU_SHARING: Final = 10_000.0
    #: ``topology``: times the tenth in which the domain comes at the preferred level, 10 for the last ones.
    TOPOLOGY: Final = 100_000.0
    TOPOLOGY_TENTHS: Final = 10
    #: ``podaffinity``: what the pod prefers, from 0 to :data:`MOST`, times the weight of the kind.
    PREFERENCE: Final = 1_000_000.0
    #: ``nominatednode``: the node was promised to the pod. Ours: the original lets a preference outweigh it.
    NOMINATED_NODE: Final = 10_000_000_000.0

    #: Kinds of preference, by the weights of kube-scheduler's default profile.
    POD_AFFINITY: Final = 2.0
    NODE_AFFINITY: Final = 2.0
    TOPOLOGY_SPREAD: Final = 2.0
    TAINTS: Final = 3.0
    #: The best of a kind of preference.
    MOST: Final = 100.0
    #: What a required term of a pod that runs is worth to others, as the weight of a preferred term of
    #: theirs: ``hardPodAffinityWeight`` of kube-scheduler.
    REQUIRED_TERM: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSpec:
    """A plugin: in which order it comes by default (higher first; None: off by default), and what for.

    ``without_effect`` are arguments that the original has and that change nothing here, with the reason.
    ``ranks`` is what it says of the pods of a group. ``node_sets``: it is a
    ``kai.engine.framework.protocols.NodeSets``, of which a configuration has one at most. ``opener`` is for
    plugins of other packages, a ``kai.engine.framework.protocols.Opener``; ours are in
    :mod:`kai.engine.plugins`.
    """

    priority: int | None = None
    meaning: str
    arguments: type[Arguments] = Arguments
    without_effect: Mapping[str, str] = field(default_factory=dict)
    ranks: LabelRank | None = None
    node_sets: bool = False
    opener: Callable[[Any], Iterable[Any]] | None = None


PLUGINS: Final[Mapping[str, PluginSpec]] = {
    "predicates": PluginSpec(
        priority=1900, meaning="filters: everything but room that a pod's spec demands of a node"
    ),
    "proportion": PluginSpec(
        priority=1800,
        meaning="fair share, quotas and limits of queues, and their order",
        arguments=ProportionArguments,
    ),
    "priority": PluginSpec(priority=1700, meaning="jobs of higher priority first"),
    "nodeavailability": PluginSpec(priority=1600, meaning="nodes where the pod can begin at once"),
    "resourcetype": PluginSpec(priority=1500, meaning="pods without GPUs go to nodes without GPUs"),
    "podaffinity": PluginSpec(
        priority=1400, meaning="what pods prefer: nodes, taints to avoid, neighbours and spreading"
    ),
    "elastic": PluginSpec(priority=1300, meaning="jobs below their minimum first, those above it last"),
    "kubeflow": PluginSpec(
        priority=1200, meaning="masters and launchers first among a job's pods", ranks=LEADERS_FIRST
    ),
    "ray": PluginSpec(priority=1100, meaning="heads first among a job's pods", ranks=HEADS_FIRST),
    "subgrouporder": PluginSpec(
        priority=1000, meaning="subgroups below their minimum first; else a job's subgroups go by name"
    ),
    "taskorder": PluginSpec(
        priority=900,
        meaning="a job's pods by the label `kai.scheduler/task-priority`, the highest first; else by age",
        ranks=BY_TASK_PRIORITY,
    ),
    "nominatednode": PluginSpec(priority=800, meaning="the node that was promised to the pod"),
    "dynamicresources": PluginSpec(
        priority=700,
        meaning="resource claims",
        without_effect={
            "maxCelCacheEntries": "an expression is compiled once, and the 1024 used last are kept"
        },
    ),
    "minruntime": PluginSpec(
        priority=600, meaning="jobs that have just started are no victims", arguments=MinRuntimeArguments
    ),
    "topology": PluginSpec(priority=500, meaning="required and preferred topology of gangs", node_sets=True),
    "snapshot": PluginSpec(
        priority=400, meaning="serves `/get-snapshot`, for `kai snapshot`, on the scheduler's own machine"
    ),
    "sg-nodelocalgreedy": PluginSpec(priority=360, meaning="searches victims node by node"),
    "sg-multinodegang": PluginSpec(priority=350, meaning="searches victims over several nodes"),
    "gpupack": PluginSpec(priority=300, meaning="shared GPUs: the fullest first"),
    "gpuspread": PluginSpec(priority=None, meaning="shared GPUs: the emptiest first"),
    "nodeplacement": PluginSpec(
        priority=200, meaning="packs nodes or spreads over them", arguments=NodePlacementArguments
    ),
    "gpusharingorder": PluginSpec(priority=100, meaning="nodes with a shared GPU that the pod can join"),
    "numa": PluginSpec(priority=None, meaning="keeps pods within NUMA zones", arguments=NumaArguments),
    "gpujoborder": PluginSpec(
        priority=None,
        meaning="among equal victims, those of jobs with more GPUs first, or with fewer",
        arguments=GpuJobOrderArguments,
    ),
    "reflectjoborder": PluginSpec(
        priority=None,
        meaning="serves `/get-job-order`, the order of jobs that wait, on the scheduler's own machine",
    ),
}

#: The plugins that are on unless a configuration names its own, in order.
DEFAULT_PLUGINS: Final = tuple(
    sorted(
        (name for name, spec in PLUGINS.items() if spec.priority is not None),
        key=lambda name: -(PLUGINS[name].priority or 0),
    )
)


def written_defaults(name: str) -> dict[str, str]:
    """The arguments of a plugin that the default configuration writes out: those of the strategy."""
    if name != "nodeplacement":
        return {}
    return {each.spellings[0]: each.default for each in NodePlacementArguments.declared().values()}


def arguments_of(spec: PluginSpec) -> tuple[str, ...]:
    """All spellings of a plugin's arguments, those without effect included."""
    spellings = (each for declared in spec.arguments.declared().values() for each in declared.spellings)
    return (*spellings, *spec.without_effect)
