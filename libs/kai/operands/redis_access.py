"""How a component reaches Redis. The URL may hold a password, so it stays in its secret."""

from __future__ import annotations

from typing import Final

from kai.operands.certificates import REDIS_HOST, REDIS_SECRET
from kai.operands.manifests import Manifest
from kai.operands.spec.additions import RedisSpec
from kai.operands.spec.config import ConfigSpec

_SECRET: Final = "/etc/kai/redis"  # noqa: S105 (a folder)
_AUTHORITY: Final = "/etc/kai/redis-authority"
_READABLE: Final = 0o444


def environment(redis: RedisSpec) -> list[Manifest]:
    """Where it is."""
    if not redis.secret:
        return []
    key = redis.external_secret.key if redis.external_secret.name else "url"
    reference = {"secretKeyRef": {"name": redis.secret, "key": key}}
    return [{"name": "KAI_REDIS_URL", "valueFrom": reference}]


def flags(config: ConfigSpec) -> list[str]:
    """What its URL does not say."""
    redis = config.redis
    if redis.ours:
        tls = [f"--redis-ca={_AUTHORITY}/ca.crt", f"--redis-server-name={REDIS_HOST}"]
        return [f"--redis-password-file={_SECRET}/password", *(tls if config.everywhere.tls.enabled else [])]
    external = redis.external_secret
    return [f"--redis-ca={_SECRET}/{external.ca_key}"] if external.name and external.ca_key else []


def volumes(config: ConfigSpec) -> dict[tuple[str, str], Manifest]:
    """(Name, folder) -> volume of the files that the flags name."""
    redis, found = config.redis, dict[tuple[str, str], Manifest]()
    if not flags(config):
        return found
    mounted = {"secretName": redis.secret, "defaultMode": _READABLE}
    found[redis.secret, _SECRET] = {"name": redis.secret, "secret": mounted}
    if redis.ours and config.everywhere.tls.enabled:
        # Without the key, which is for Redis alone.
        authority = {
            "secretName": REDIS_SECRET,
            "defaultMode": _READABLE,
            "items": [{"key": "ca.crt", "path": "ca.crt"}],
        }
        found["redis-authority", _AUTHORITY] = {"name": "redis-authority", "secret": authority}
    return found
