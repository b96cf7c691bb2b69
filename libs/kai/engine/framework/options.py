"""Which parts of the orders of nodes, devices, pods and subgroups a configuration turns on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

import msgspec

from kai.config import SchedulerConfig
from kai.config.plugin_table import NodePlacementArguments, PlacementStrategy
from kai.engine.kernel.static import StaticFilters
from kai.engine.kernel.view import ScoreOptions
from kai.engine.packing.columns import TableHeadroom, expected
from kai.model.arrays import Mask
from kai.snapshot.classes import TaskClass
from kai.snapshot.group_order import GroupOrder
from kai.snapshot.kept import Kept, as_it_is
from kai.snapshot.state import ClusterState

#: What follows from the plugins alone.
_ORDERS: Final = Kept[tuple[GroupOrder, ScoreOptions]]()
#: For the shapes of the workload.
_HEADROOM: Final = Kept[TableHeadroom](lent=as_it_is)
#: Nodes that pods are bound to, by what binds them; found anew when there are too many.
_REACH: Final = Kept[dict[bytes, Mask]](lent=dict)
_MOST_REACHES: Final = 1024
_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


def orders(config: SchedulerConfig, state: ClusterState) -> tuple[GroupOrder, ScoreOptions]:
    """The order of a group's pods and subgroups, and which parts of node and device order are on.

    The same objects while the configuration has the same plugins.
    """
    return _ORDERS.get(state.kept, config.plugins, lambda: (_group_order(config), _score_options(config)))


def _group_order(config: SchedulerConfig) -> GroupOrder:
    return GroupOrder(
        ranks=tuple(each.spec.ranks for each in config.plugins if each.spec.ranks is not None),
        needy_first=config.plugin("subgrouporder") is not None,
    )


def _score_options(config: SchedulerConfig) -> ScoreOptions:
    on = {plugin.name for plugin in config.plugins}
    strategy = config.arguments(NodePlacementArguments)
    node_placement = "nodeplacement" in on
    gpu_headroom = node_placement and strategy.gpu is PlacementStrategy.HEADROOM
    return ScoreOptions(
        node_placement=node_placement,
        gpu_spread=strategy.gpu is PlacementStrategy.SPREAD,
        cpu_spread=strategy.cpu is PlacementStrategy.SPREAD,
        gpu_headroom=gpu_headroom,
        cpu_headroom=node_placement and strategy.cpu is PlacementStrategy.HEADROOM,
        resource_type="resourcetype" in on,
        availability="nodeavailability" in on,
        # The strategy weighs by itself what joining a device in use costs.
        gpu_sharing="gpusharingorder" in on and not gpu_headroom,
        gpu_pack="gpupack" in on,
        gpu_order_spread="gpuspread" in on,
        # In the original it is about neighbours alone; here it switches all that pods prefer.
        preferences="podaffinity" in on,
        pod_slots="predicates" in on,
    )


def with_headroom(options: ScoreOptions, state: ClusterState, filters: StaticFilters) -> ScoreOptions:
    """All pods known are the workload to keep room for, where the strategy is on.

    They are the same object while they are equal. Costs time by the number of pods where it is on.
    """
    if not (options.cpu_headroom or options.gpu_headroom):
        return options
    counts = Counter(task.cls for task in state.tasks.values())
    reach = _REACH.get(state.kept, (state.nodes.epoch, filters.binding), dict)
    mix = expected(counts.items(), state.nodes, lambda cls: _reach(cls, filters, reach))
    headroom = _HEADROOM.get(state.kept, mix.stamp, lambda: TableHeadroom(mix, state.nodes))
    return replace(options, headroom=headroom)


def _reach(cls: TaskClass, filters: StaticFilters, known: dict[bytes, Mask]) -> Mask | None:
    """Nodes that selector, required affinity and taints leave to a class; None where they leave it all."""
    constraints = cls.constraints
    required = (constraints.node_affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    tolerations = constraints.tolerations if filters.tainted else ()
    if not filters.binding or not (constraints.node_selector or required or filters.tainted):
        return None
    key = _encode((constraints.node_selector, required, tolerations))
    mask = known.get(key)
    if mask is None:
        if len(known) >= _MOST_REACHES:
            known.clear()
        mask = known[key] = filters.affinity(cls) & filters.tolerated(cls)
    return mask
