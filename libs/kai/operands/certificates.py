"""Which certificates an installation needs, and whose names are in them.

The authority of gRPC signs nothing but what names the role of a process (:mod:`kai.wire.permissions`), for
who talks over gRPC; what the API server is shown is of another one, and that of Redis signs for Redis alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kai.operands.spec.config import ConfigSpec

WEBHOOKS: Final = "webhooks"
GRPC: Final = "grpc"
REDIS: Final = "redis"

ADMISSION_SECRET: Final = "kai-admission-webhook-tls-secret"  # noqa: S105 (a name)
POD_GROUP_SECRET: Final = "podgroup-webhook-tls-secret"  # noqa: S105
QUEUE_SECRET: Final = "queue-webhook-tls-secret"  # noqa: S105
REDIS_SECRET: Final = "kai-redis-tls-secret"  # noqa: S105
REDIS_HOST: Final = "kai-redis"
#: Who talks over gRPC.
_ROLES: Final = ("scheduler", "binder", "pod-grouper", "podgroup-controller", "queue-controller", "kai-cli")
#: Who does, where it runs.
_INSIGHT: Final = "insight"
PASSWORD_SECRET: Final = "kai-redis"  # noqa: S105


def grpc_secret(role: str) -> str:
    """The secret with the certificate of a role."""
    return f"{role}-grpc-tls-secret"


def all_secrets() -> tuple[str, ...]:
    """Every Secret that an installation may have made for it, whatever its Config says."""
    grpc = (grpc_secret(role) for role in (*_ROLES, _INSIGHT))
    return (PASSWORD_SECRET, REDIS_SECRET, ADMISSION_SECRET, POD_GROUP_SECRET, QUEUE_SECRET, *grpc)


def certificates_of(config: ConfigSpec) -> Mapping[str, Mapping[str, str]]:
    """Authority -> secret -> DNS name in its certificate. None where somebody else makes them."""
    return {} if config.certificates.existing.enabled else _all(config)


def filled_by_others(config: ConfigSpec) -> frozenset[str]:
    """Secrets with certificates that somebody else makes: they are used, and are nobody's to delete."""
    if not config.certificates.existing.enabled:
        return frozenset()
    return frozenset(secret for hosts in _all(config).values() for secret in hosts)


def _all(config: ConfigSpec) -> Mapping[str, Mapping[str, str]]:
    namespace = config.namespace
    found: dict[str, dict[str, str]] = {
        WEBHOOKS: {
            ADMISSION_SECRET: f"{config.admission.service_name}.{namespace}.svc",
            POD_GROUP_SECRET: f"podgroup-controller.{namespace}.svc",
            QUEUE_SECRET: f"queue-controller.{namespace}.svc",
        }
    }
    if config.everywhere.tls.enabled:
        roles = (*_ROLES, *([_INSIGHT] if config.insight.service.enabled else []))
        found[GRPC] = {grpc_secret(role): f"{role}.{namespace}.svc" for role in roles}
        if config.redis.ours:
            found[REDIS] = {REDIS_SECRET: REDIS_HOST}
    return found
