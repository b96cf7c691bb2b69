"""What one should know of an installation though nothing is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kai.operands.spec.config import ConfigSpec
from kai.operands.spec.shards import Shard

_NOWHERE: Final = "spec.usageDBConfig has no effect: past use is kept in Redis, and the Config has none"
_FORGETFUL: Final = (
    "what queues used is kept in a Redis without a volume, and forgotten whenever that is started anew; "
    "it has one unless spec.redis.persistence.enabled of the Config is false"
)


def remarks(config: ConfigSpec, shard: Shard) -> Sequence[str]:
    """Of a shard: where what it is to remember will not stay."""
    redis = config.redis
    if not shard.usage_in_our_redis:
        return ()
    if not redis.secret:
        return (_NOWHERE,)
    return (_FORGETFUL,) if redis.ours and redis.persistence.enabled is False else ()
