"""``spec`` of a SchedulingShard: one scheduler, and the part of the cluster that it serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kai.config import ACTIONS
from kai.config.plugin_table import PlacementStrategy
from kai.operands.spec.fields import Fields, MapOf, Part, part, refused, value
from kai.operands.spec.flags import check_flags
from kai.operands.spec.kinds import AMOUNT, FLAG, LABEL_VALUE, SWITCH, TEXTS, integer, number, one_of, time
from kai.operands.spec.problems import Place
from kai.operands.spec.usage import UsageSpec

_UNLIMITED: Final = -1
_PARTITION: Final = "partition-label-value"
_GO_MEMORY: Final = "it tunes the memory of Go; set resources.limits.memory of the scheduler in the Config"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSpec(Fields):
    """Whether pods fill up nodes, are spread over them, or keep room for others."""

    gpu: str = value(one_of(PlacementStrategy), "binpack", meaning="For pods with GPUs.")
    cpu: str = value(one_of(PlacementStrategy), "binpack", meaning="For pods without GPUs.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MinRuntimeSpec(Fields):
    """How long jobs run before they may be evicted, unless their queue says otherwise."""

    preempt_min_runtime: str = value(time(days=True), "", meaning="By jobs of their own queue.")
    reclaim_min_runtime: str = value(time(days=True), "", meaning="By jobs of other queues.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPluginSpec(Fields):
    """A change to a plugin of the scheduler."""

    enabled: bool | None = value(SWITCH, meaning="Whether it takes part.")
    priority: int | None = value(integer(least=-(2**31)), meaning="Higher ones come first.")
    arguments: Mapping[str, str] | None = value(TEXTS, meaning="Replaces all arguments of the plugin.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSpec(Fields):
    """A change to an action."""

    enabled: bool | None = value(SWITCH, meaning="Whether it takes part.")
    priority: int | None = value(integer(least=-(2**31)), meaning="Higher ones come first.")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetsSpec(Fields):
    """How long the search for victims may take; 0 for no bound."""

    max_action_search_duration: Mapping[str, str] = value(MapOf(time()), {}, meaning="By action, or default.")
    max_job_search_duration: str = value(time(), "", meaning="For one job.")
    min_job_search_duration: str = value(time(), "", meaning="What each job is sure to have.")
    max_generator_search_duration: Mapping[str, str] = value(
        MapOf(time()), {}, meaning="By scenario generator, or default."
    )

    def manifest(self) -> dict[str, Any]:
        """What was said, as the scheduler reads it."""
        said = {each.spelling: getattr(self, name) for name, each in self.declared().items()}
        return {key: dict(each) if isinstance(each, Mapping) else each for key, each in said.items() if each}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSpec(Fields):
    """``spec`` of a SchedulingShard; where it says nothing, the defaults."""

    partition_label_value: str = value(
        LABEL_VALUE,
        "",
        meaning="Value of the node pool label on the nodes, queues and pod groups of this shard; empty for "
        "those without the label.",
    )
    args: Mapping[str, str] = value(
        MapOf(FLAG), {}, meaning="Flags of the scheduler, without dashes; they win over all other settings."
    )
    go_mem_limit_ratio: None = refused(_GO_MEMORY, openapi={"type": "number"})
    go_mem_limit: None = refused(_GO_MEMORY, openapi=AMOUNT.openapi)
    placement_strategy: PlacementSpec = part(
        PlacementSpec, meaning="Whether pods fill up nodes, are spread over them, or keep room for others."
    )
    queue_depth_per_action: Mapping[str, int] = value(
        MapOf(integer(least=_UNLIMITED), known=ACTIONS, what="action"),
        {},
        meaning="How many jobs of each queue an action looks at, by action; -1 for all.",
    )
    min_runtime: MinRuntimeSpec = part(
        MinRuntimeSpec,
        meaning="How long jobs run before they may be evicted, unless their queue says otherwise.",
    )
    k_value: float | None = value(
        number(least=0), meaning="How strongly past usage counts in fair shares; 1.0 if not set."
    )
    usage_db_config: UsageSpec | None = value(
        Part(UsageSpec), spelling="usageDBConfig", meaning="Where past usage of queues is read from."
    )
    scenario_search_budgets: BudgetsSpec = part(
        BudgetsSpec, meaning="How long the search for victims may take; 0 for no bound."
    )
    plugins: Mapping[str, ShardPluginSpec] = value(
        MapOf(Part(ShardPluginSpec)),
        {},
        meaning="Changes to the plugins, by name. Higher priorities come first.",
    )
    actions: Mapping[str, ActionSpec] = value(
        MapOf(Part(ActionSpec), known=ACTIONS, what="action"),
        {},
        meaning="Changes to the actions, by name. Higher priorities come first.",
    )

    def check(self, at: Place) -> None:
        """Say what is wrong with fields that are in order one by one."""
        check_flags("scheduler", self.args, at.below("args"))
        if _PARTITION in self.args:
            at.below("args").below(_PARTITION).complain("says what a shard is; set spec.partitionLabelValue")
