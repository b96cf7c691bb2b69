"""What the installation goes by: the names and labels of its Config, and the node pools of its shards."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from kai.kube.client import KubeClient
from kai.kube.errors import Forbidden, NotFound
from kai.kube.resources import CONFIGS, SCHEDULING_SHARDS
from kai.model import names
from kai.operands.spec.config import CONFIG_NAME
from kai.snapshot.kinds import StateParams
from kai_insight.http.access import resource_name


class _Everywhere(msgspec.Struct, rename="camel"):
    scheduler_name: str = names.SCHEDULER_NAME
    queue_label_key: str = names.QUEUE_LABEL
    node_pool_label_key: str = names.NODE_POOL_LABEL


class _ConfigSpec(msgspec.Struct):
    everywhere: _Everywhere = msgspec.field(default_factory=_Everywhere, name="global")


class _Config(msgspec.Struct):
    spec: _ConfigSpec = msgspec.field(default_factory=_ConfigSpec)


class _ShardSpec(msgspec.Struct, rename="camel"):
    partition_label_value: str = ""


class _Shard(msgspec.Struct):
    spec: _ShardSpec = msgspec.field(default_factory=_ShardSpec)


@dataclass(frozen=True, slots=True)
class Installation:
    """Whose pods are scheduled, and how each scheduler reads the cluster, by the name of its shard."""

    scheduler_name: str
    #: The default one first.
    shards: dict[str, StateParams]
    #: Why this may not be all, or not so; empty where it is known.
    lacks: str = ""


async def read(client: KubeClient, *, namespace: str) -> Installation:
    """As it is now. Without Config and shards it is taken for one scheduler that goes by the defaults.

    Args:
        namespace: of the installation.

    Raises:
        KubeError: the API server cannot tell.
    """
    lacks: list[str] = []
    everywhere, pools = _Everywhere(), {""}
    try:
        everywhere = (await client.get(CONFIGS, CONFIG_NAME, type=_Config)).spec.everywhere
    except Forbidden:
        kind = resource_name(CONFIGS)
        lacks.append(
            f"the installation is taken to go by the defaults ({names.SCHEDULER_NAME}, {names.QUEUE_LABEL}), "
            f"as you may not get {kind}"
        )
    except NotFound:  # there is no operator
        pass
    try:
        found = await client.list(SCHEDULING_SHARDS, type=_Shard)
        pools = {each.spec.partition_label_value for each in found} or pools
    except Forbidden:
        kind = resource_name(SCHEDULING_SHARDS)
        lacks.append(f"other node pools than the default one are not seen, as you may not list {kind}")
    except NotFound:
        pass
    shards = {
        pool or names.DEFAULT_SHARD: StateParams(
            scheduler_name=everywhere.scheduler_name,
            node_pool_label_key=everywhere.node_pool_label_key,
            node_pool=pool,
            queue_label_key=everywhere.queue_label_key,
            namespace=namespace,
        )
        for pool in sorted(pools)
    }
    return Installation(everywhere.scheduler_name, shards, "; ".join(lacks))
