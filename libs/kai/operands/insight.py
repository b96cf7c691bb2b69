"""Insight: records what runs and what is decided, in a file of its own or in a database."""

from __future__ import annotations

from typing import Final

from kai.model.names import RETENTION
from kai.operands.certificates import grpc_secret
from kai.operands.component import (
    DATA,
    GRPC_CERTIFICATES,
    Component,
    account,
    objects_of,
    service,
    tls_flags,
)
from kai.operands.manifests import Installation, Manifest, an_object, without_empty
from kai.operands.spec.config import ConfigSpec

NAME: Final = "insight"
METRICS: Final = 8080
_HEALTH: Final = 8081
_HTTP: Final = "https"
#: Name of the claim of its volume.
CLAIM: Final = "kai-insight"
_DATABASE: Final = "/etc/kai/history"


def operands(installation: Installation) -> list[Manifest]:
    """Its objects; none unless it is switched on."""
    config = installation.config
    spec = config.insight
    if not spec.service.enabled:
        return []
    replicas = config.replicas(spec.replicas)
    component = Component(
        name=NAME,
        module="kai_insight",
        service=spec.service,
        # A file has one writer.
        replicas=replicas if spec.external_secret.name else min(replicas, 1),
        autoscaling=config.autoscaling(spec.vpa),
        flags=(*_flags(installation), *tls_flags(installation)),
        ports={"grpc": spec.grpc_port, **_http(installation), "health": _HEALTH, "http-metrics": METRICS},
        probe="health",
        secrets=_secrets(installation),
        data=_volume(installation),
    )
    return [
        account(NAME, installation),
        *([_claim(installation)] if spec.keeps_file else []),
        *objects_of(component, installation),
        service(NAME, installation, _served(installation)),
    ]


def _flags(installation: Installation) -> tuple[str, ...]:
    spec = installation.config.insight
    external = spec.external_secret
    where = (
        f"--history-url-file={_DATABASE}/{external.key}"
        if external.name
        else f"--history-url=sqlite:///{DATA}/history.db"
    )
    return (
        f"--health-probe-bind-address=:{_HEALTH}",
        f"--metrics-bind-address=:{METRICS}",
        f"--grpc-listen=:{spec.grpc_port}",
        *([f"--http-listen={_http_host(installation)}:{spec.http_port}"] if spec.http_port else []),
        f"--retention={spec.retention}",
        where,
    )


def _http_host(installation: Installation) -> str:
    """Tokens go over TLS. Without it a forwarded port is the way, which ends at the pod's own loopback."""
    return "" if installation.config.everywhere.tls.enabled else "127.0.0.1"


def http_port(config: ConfigSpec) -> int:
    """The port that others can reach over HTTP; 0 where there is none."""
    return config.insight.http_port if config.everywhere.tls.enabled else 0


def _http(installation: Installation) -> dict[str, int]:
    port = http_port(installation.config)
    return {_HTTP: port} if port else {}


def _served(installation: Installation) -> dict[str, tuple[int, str]]:
    """Ports of its Service."""
    asked = {name: (port, name) for name, port in _http(installation).items()}
    return {"http-metrics": (METRICS, "http-metrics"), **asked}


def _secrets(installation: Installation) -> dict[str, str]:
    config = installation.config
    external = config.insight.external_secret.name
    return {
        **({_DATABASE: external} if external else {}),
        **({GRPC_CERTIFICATES: grpc_secret(NAME)} if config.everywhere.tls.enabled else {}),
    }


def _volume(installation: Installation) -> Manifest | None:
    """Where its file is; None where a database has all."""
    spec = installation.config.insight
    if spec.external_secret.name:
        return None
    return {"persistentVolumeClaim": {"claimName": CLAIM}} if spec.keeps_file else {"emptyDir": {}}


def _claim(installation: Installation) -> Manifest:
    persistence = installation.config.insight.persistence
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": persistence.size}},
        **without_empty(storageClassName=persistence.storage_class_name),
    }
    claim = an_object("v1", "PersistentVolumeClaim", CLAIM, namespace=installation.namespace, spec=spec)
    claim["metadata"]["annotations"] = {RETENTION: installation.config.insight.retention}
    return claim
