"""What one should know of an installation though nothing is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kai.engine.config.usage_database import UsageClient
from kai.operands.spec.config import ConfigSpec
from kai.operands.spec.shards import Shard

#: Who gives it to schedulers says where past use is.
_URL: Final = "redis-url"
_NOWHERE: Final = "spec.usageDBConfig has no effect: past use is kept in Redis, and the Config has none"
_FORGETFUL: Final = (
    "what queues used is kept in a Redis without a volume, and forgotten whenever that is started anew; "
    "spec.redis.persistence.enabled of the Config gives it one"
)


def remarks(config: ConfigSpec, shard: Shard) -> Sequence[str]:
    """Of a shard: where what it is to remember will not stay."""
    usage, redis = shard.spec.usage_db_config, config.redis
    if usage is None or usage.client_type == UsageClient.PROMETHEUS:
        return ()
    flags = {**config.scheduler.service.extra_args, **shard.spec.args}
    if usage.connection_string or usage.connection_string_env_var or _URL in flags:
        return ()
    if not redis.secret:
        return (_NOWHERE,)
    return (_FORGETFUL,) if redis.ours and not redis.persistence.enabled else ()
