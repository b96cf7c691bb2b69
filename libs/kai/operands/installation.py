"""All operands of an installation. Another one is a module with a function, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kai.operands import (
    admission,
    binder,
    insight,
    network,
    node_scale_adjuster,
    numa_placement_exporter,
    pod_grouper,
    podgroup_controller,
    priority_classes,
    prometheus,
    queue_controller,
    redis,
    scheduler,
)
from kai.operands.facts import AUTOSCALER, PROMETHEUS, SERVICE_MONITOR, Facts
from kai.operands.manifests import Installation, Manifest
from kai.operands.spec.config import ConfigSpec
from kai.operands.spec.shards import Shard

#: What belongs to an installation as a whole.
OPERANDS: Final[tuple[Callable[[Installation], list[Manifest]], ...]] = (
    admission.operands,
    binder.operands,
    pod_grouper.operands,
    podgroup_controller.operands,
    queue_controller.operands,
    scheduler.operands,
    node_scale_adjuster.operands,
    numa_placement_exporter.operands,
    insight.operands,
    redis.operands,
    network.operands,
    prometheus.operands,
    priority_classes.operands,
)
#: What belongs to one shard alone.
SHARD_OPERANDS: Final[tuple[Callable[[Installation, Shard], list[Manifest]], ...]] = (
    scheduler.of_shard,
    network.of_shard,
)


def operands_of_config(config: ConfigSpec, facts: Facts, shards: Iterable[Shard]) -> list[Manifest]:
    """Everything but what belongs to one shard; accounts come first."""
    installation = Installation(config=config, facts=facts, shards=tuple(shards))
    return _accounts_first(each for operand in OPERANDS for each in operand(installation))


def operands_of_shard(config: ConfigSpec, shard: Shard, facts: Facts) -> list[Manifest]:
    """What belongs to one shard: its scheduler."""
    installation = Installation(config=config, facts=facts, shards=(shard,))
    return _accounts_first(each for operand in SHARD_OPERANDS for each in operand(installation, shard))


def missing_kinds(config: ConfigSpec, facts: Facts) -> tuple[str, ...]:
    """Kinds that a Config asks for and the cluster does not serve, so that something is left out."""
    return tuple(kind for kind in _wanted_kinds(config) if kind not in facts.served)


def _wanted_kinds(config: ConfigSpec) -> Iterator[str]:
    components = (getattr(config, name) for name in config.declared())
    autoscaled = (getattr(each, "vpa", None) for each in components if hasattr(each, "vpa"))
    if any(config.autoscaling(own).enabled for own in autoscaled):
        yield AUTOSCALER
    if config.prometheus.enabled:
        yield SERVICE_MONITOR
    if config.prometheus.ours:
        yield PROMETHEUS


def _accounts_first(objects: Iterable[Manifest]) -> list[Manifest]:
    return sorted(objects, key=lambda each: each["kind"] != "ServiceAccount")
