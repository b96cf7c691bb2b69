"""Which parts of the orders of nodes, devices, pods and subgroups a configuration turns on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from kai.engine.config import SchedulerConfig
from kai.engine.config.plugin_table import NodePlacementArguments, PlacementStrategy
from kai.engine.kernel.view import ScoreOptions
from kai.engine.packing.columns import TableHeadroom, expected_shapes
from kai.engine.packing.workload import Workload
from kai.snapshot.group_order import GroupOrder
from kai.snapshot.kept import Kept, as_it_is
from kai.snapshot.state import ClusterState

#: What follows from the plugins alone.
_ORDERS: Final = Kept[tuple[GroupOrder, ScoreOptions]]()
#: For the shapes of the workload.
_HEADROOM: Final = Kept[TableHeadroom](lent=as_it_is)


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


def with_headroom(options: ScoreOptions, state: ClusterState) -> ScoreOptions:
    """All pods known are the workload to keep room for, where the strategy is on.

    They are the same object while they are equal. Costs time by the number of pods where it is on.
    """
    if not (options.cpu_headroom or options.gpu_headroom):
        return options
    counts = Counter(task.cls for task in state.tasks.values())
    shapes = expected_shapes(counts.items(), state.nodes)
    headroom = _HEADROOM.get(state.kept, shapes, lambda: TableHeadroom(Workload.of(shapes), state.nodes))
    return replace(options, headroom=headroom)
