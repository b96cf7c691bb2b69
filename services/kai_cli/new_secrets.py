"""Secrets of an installation without an operator: made anew each time."""

from __future__ import annotations

import base64
import secrets
from datetime import datetime, timedelta
from typing import Any, Final

from kai.model import duration
from kai.operands import ConfigSpec, certificates_of
from kai.operands.certificates import GRPC
from kai.operands.manifests import an_object
from kai.runtime import certificates
from kai.runtime.certificates import AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, CertificateUsage

Manifest = dict[str, Any]

#: Who talks over gRPC may serve and call.
_BOTH: Final = (CertificateUsage.SERVER, CertificateUsage.CLIENT)
_PASSWORD_BYTES: Final = 32


def new_secrets(config: ConfigSpec, *, now: datetime) -> tuple[list[Manifest], dict[str, str]]:
    """All secrets, and by authority what is to be trusted (PEM)."""
    made: list[Manifest] = []
    trust: dict[str, str] = {}
    for name, hosts in certificates_of(config).items():
        authority = certificates.new_authority(
            f"kai-scheduler {name}", now=now, lifetime=_length(config.certificates.authority_lifetime)
        )
        trust[name] = authority.certificate.decode()
        for secret, host in hosts.items():
            pair = certificates.issue(
                authority,
                [host],
                now=now,
                lifetime=_length(config.certificates.lifetime),
                usages=_BOTH if name == GRPC else (CertificateUsage.SERVER,),
            )
            files = {
                AUTHORITY_FILE: authority.certificate,
                CERTIFICATE_FILE: pair.certificate,
                KEY_FILE: pair.key,
            }
            made.append(_secret(config, secret, "kubernetes.io/tls", files))
    if config.redis.ours:
        made.append(_redis(config))
    return made, trust


def _redis(config: ConfigSpec) -> Manifest:
    scheme = "rediss" if config.everywhere.tls.enabled else "redis"
    files = {
        "password": secrets.token_hex(_PASSWORD_BYTES).encode(),
        "url": f"{scheme}://kai-redis.{config.namespace}.svc:{config.redis.port}/0".encode(),
    }
    return _secret(config, "kai-redis", "Opaque", files)


def _secret(config: ConfigSpec, name: str, kind: str, files: dict[str, bytes]) -> Manifest:
    data = {key: base64.b64encode(content).decode() for key, content in files.items()}
    return an_object("v1", "Secret", name, namespace=config.namespace, type=kind, data=data)


def _length(text: str) -> timedelta:
    return timedelta(seconds=duration.parse(text))
