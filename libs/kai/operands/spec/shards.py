"""``SchedulingShard``: read, checked, and turned into what its scheduler reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kai.config import PluginOption
from kai.config.plugin_table import MinRuntimeArguments
from kai.config.usage_database import UsageClient, UsageDatabase
from kai.model import names
from kai.operands.spec import scheduler_file
from kai.operands.spec.config import ConfigSpec, name_of
from kai.operands.spec.fields import read_fields
from kai.operands.spec.flags import check_together
from kai.operands.spec.problems import InvalidSpec, Place, Problem
from kai.operands.spec.shard import ShardSpec
from kai.operands.spec.usage import connection

#: Names of Deployments and Services are made of those of shards.
_LONGEST_NAME: Final = 63
#: Names of other components, which stand beside those that are made of a scheduler's name and a shard's.
_TAKEN: Final = frozenset(
    {
        "kai-insight",
        "kai-operator",
        "kai-redis",
        "node-scale-adjuster",
        "numa-placement-exporter",
        "pod-grouper",
        "podgroup-controller",
        "queue-controller",
    }
)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_MIN_RUNTIME: Final = "minruntime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A SchedulingShard that can be run."""

    name: str
    spec: ShardSpec
    #: What its scheduler reads by --scheduler-conf.
    file: Mapping[str, Any]

    @property
    def numa(self) -> bool:
        """Whether it needs to be told of which NUMA zones pods have their devices."""
        return "numa" in self._plugins()

    @property
    def has_min_runtime(self) -> bool:
        """Whether jobs that started are safe for a while though no queue says so."""
        said = self._plugins().get(_MIN_RUNTIME)
        if said is None:
            return False
        arguments = PluginOption(_MIN_RUNTIME, said).decoded
        return isinstance(arguments, MinRuntimeArguments) and bool(arguments.preempt or arguments.reclaim)

    @property
    def usage_database(self) -> UsageDatabase | None:
        """Where it reads past usage of queues from."""
        written = self.file.get("usageDBConfig")
        return None if written is None else UsageDatabase.read(written)

    @property
    def usage_in_our_redis(self) -> bool:
        """Whether past usage is lost to it with what the Redis of the installation holds."""
        found = self.usage_database
        return (
            found is not None
            and found.client is UsageClient.REDIS
            and not (found.connection or found.connection_variable)
        )

    def _plugins(self) -> dict[str, Mapping[str, str]]:
        """Arguments of those that are on, by name."""
        return {
            each["name"]: each.get("arguments", {}) for tier in self.file["tiers"] for each in tier["plugins"]
        }


def read_shard(manifest: Mapping[str, Any], config: ConfigSpec) -> Shard:
    """What a SchedulingShard says, and the defaults, in an installation.

    Raises:
        InvalidSpec: it cannot be used; has all that is wrong with it.
    """
    name, problems = name_of(manifest), list[Problem]()
    at = Place("spec", problems)
    spec = read_fields(manifest.get("spec") or {}, base=ShardSpec(), at=at)
    beside = {**config.beside("scheduler"), **config.scheduler.service.extra_args}
    check_together("scheduler", spec.args, at.below("args"), beside=beside)
    usage = connection(spec.usage_db_config, config, at.below("usageDBConfig"))
    spec = replace(spec, usage_db_config=usage)
    file = scheduler_file.of(spec, at)
    scheduler = config.everywhere.scheduler_name
    before = prefix_of_all(scheduler) if config.replicas(config.scheduler.replicas) > 1 else f"{scheduler}-"
    if len(f"{before}{name}") > _LONGEST_NAME:
        Place("metadata.name", problems).complain(
            f"is too long: with {before} before it, it names a Service; at most {_LONGEST_NAME} characters"
        )
    if f"{scheduler}-{name}" in _TAKEN:
        Place("metadata.name", problems).complain(
            f"is {name}; after spec.global.schedulerName, {scheduler}, its objects would be called "
            f"{scheduler}-{name}, which is another component; choose another name"
        )
    if "." in name:
        Place("metadata.name", problems).complain(
            f"is {name}; a Service and volumes are named after it, so it has no dots: write "
            f"{name.replace('.', '-')}"
        )
    elif not _NAME.fullmatch(name):  # which no API server takes, but a file may have
        Place("metadata.name", problems).complain(
            f"is {name!r}; a Service is named after it: write lower-case letters, digits and -"
        )
    if problems:
        raise InvalidSpec(f"SchedulingShard {name}", problems)
    return Shard(name=name, spec=spec, file=file)


def prefix_of_all(scheduler: str) -> str:
    """What precedes a shard's name in that of the Service for all replicas, where there are several.

    What no name of a shard can make of the names of others, which begin with the scheduler's and a dash.
    """
    return f"{scheduler}s-"


def rivals(shards: Iterable[Shard], config: ConfigSpec) -> dict[str, Problem]:
    """Shards that serve what another serves already, by name. Of several the first one counts.

    Both would take the same Lease, or schedule the same pods. Without a label of node pools each serves all.
    """
    pools = bool(config.everywhere.node_pool_label_key)
    first: dict[str, str] = {}
    found: dict[str, Problem] = {}
    for shard in shards:
        served = (shard.spec.partition_label_value or names.DEFAULT_SHARD) if pools else ""
        other = first.setdefault(served, shard.name)
        if other != shard.name:
            found[shard.name] = Problem(
                "spec.partitionLabelValue",
                f"is that of SchedulingShard {other}; give each shard a value of its own"
                if pools
                else f"means nothing, and SchedulingShard {other} serves all nodes: "
                "spec.global.nodePoolLabelKey of the Config is empty; set it, or delete one of the shards",
            )
    return found
