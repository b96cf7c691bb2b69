"""Which parts of the orders of nodes, devices, pods and subgroups a configuration turns on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from kai.engine.config import SchedulerConfig
from kai.engine.config.plugin_table import NodePlacementArguments, Placement
from kai.engine.kernel.view import ScoreOptions
from kai.engine.packing.columns import TableHeadroom, expected_shapes
from kai.engine.packing.workload import Workload
from kai.snapshot.group_order import GroupOrder
from kai.snapshot.kept import Kept, as_it_is
from kai.snapshot.state import ClusterState

#: For the shapes of the workload.
_HEADROOM: Final = Kept[TableHeadroom](lent=as_it_is)


def group_order(config: SchedulerConfig) -> GroupOrder:
    """The order of a group's pods and subgroups."""
    return GroupOrder(
        ranks=tuple(each.spec.ranks for each in config.plugins if each.spec.ranks is not None),
        needy_first=config.plugin("subgrouporder") is not None,
    )


def score_options(config: SchedulerConfig, state: ClusterState) -> ScoreOptions:
    """Which parts of node and device order are on, and the workload to keep room for."""
    return _with_headroom(_of(config), state)


def _of(config: SchedulerConfig) -> ScoreOptions:
    on = {plugin.name for plugin in config.plugins}
    strategy = config.arguments(NodePlacementArguments)
    placement = "nodeplacement" in on
    gpu_headroom = placement and strategy.gpu is Placement.HEADROOM
    return ScoreOptions(
        placement=placement,
        gpu_spread=strategy.gpu is Placement.SPREAD,
        cpu_spread=strategy.cpu is Placement.SPREAD,
        gpu_headroom=gpu_headroom,
        cpu_headroom=placement and strategy.cpu is Placement.HEADROOM,
        resource_type="resourcetype" in on,
        availability="nodeavailability" in on,
        gpu_sharing="gpusharingorder" in on and not gpu_headroom,
        gpu_pack="gpupack" in on,
        gpu_order_spread="gpuspread" in on,
        preferences="podaffinity" in on,
        pod_slots="predicates" in on,
    )


def _with_headroom(options: ScoreOptions, state: ClusterState) -> ScoreOptions:
    """All pods known are the workload, where the strategy is on; the same object while they are equal."""
    if not (options.cpu_headroom or options.gpu_headroom):
        return options
    counts = Counter(task.cls for task in state.tasks.values())
    shapes = expected_shapes(counts.items(), state.nodes)
    headroom = _HEADROOM.get(state.memory, shapes, lambda: TableHeadroom(Workload.of(shapes), state.nodes))
    return replace(options, headroom=headroom)
