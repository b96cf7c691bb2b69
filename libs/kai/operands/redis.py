"""The Redis of an installation, where history and usage of queues live."""

from __future__ import annotations

from typing import Final

from kai.operands import placement, security
from kai.operands.certificates import REDIS_HOST, REDIS_SECRET
from kai.operands.component import secret_volume, service
from kai.operands.manifests import Installation, Manifest, an_object, labels, without_empty

NAME: Final = REDIS_HOST
_SECRET: Final = "/etc/kai/redis"  # noqa: S105 (a folder)
_CERTIFICATE: Final = "/etc/kai/tls"
_DATA: Final = "/data"
_TMP: Final = "/tmp"  # noqa: S108 (an emptyDir)


def operands(installation: Installation) -> list[Manifest]:
    """Its objects; none where there is no Redis, or one of somebody else."""
    redis = installation.config.redis
    if not redis.ours:
        return []
    volume = [_claim(installation)] if persists(installation) else []
    return [
        service(NAME, installation, {"redis": (redis.port, "redis")}),
        *volume,
        _deployment(installation),
    ]


def persists(installation: Installation) -> bool:
    """Whether what it holds outlives its process.

    The last days of queues are worth a volume, sessions are not. In one that is there may be the usage of a
    shard that cannot be read; none is made for that, since Redis would wait where nobody gives volumes.
    """
    said, facts = installation.config.redis.persistence.enabled, installation.facts
    if said is not None:
        return said
    return NAME in facts.claims_in_doubt or any(shard.usage_in_our_redis for shard in installation.shards)


def _claim(installation: Installation) -> Manifest:
    persistence = installation.config.redis.persistence
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": persistence.size}},
        **without_empty(storageClassName=persistence.storage_class_name),
    }
    return an_object("v1", "PersistentVolumeClaim", NAME, namespace=installation.namespace, spec=spec)


def _deployment(installation: Installation) -> Manifest:
    """One replica, which is gone before the next begins: both would have the same port and volume."""
    metadata: Manifest = {"labels": labels(NAME)}
    if digest := installation.facts.redis_password_digest:
        metadata["annotations"] = {"checksum/password": digest}
    spec = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": {"app": NAME}},
        "template": {"metadata": metadata, "spec": _pod(installation)},
    }
    return an_object("apps/v1", "Deployment", NAME, namespace=installation.namespace, spec=spec)


def _pod(installation: Installation) -> Manifest:
    everywhere, volumes = installation.config.everywhere, _volumes(installation)
    context = security.of_pod(installation)
    if persists(installation) and "runAsGroup" in context:
        context.setdefault("fsGroup", context["runAsGroup"])
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": context,
        **without_empty(affinity=dict(everywhere.affinity)),
        **placement.of_deployment(everywhere),
        "containers": [_container(installation, list(volumes))],
        "volumes": list(volumes.values()),
    }


def _container(installation: Installation, mounted: list[tuple[str, str]]) -> Manifest:
    redis = installation.config.redis
    reached = {"tcpSocket": {"port": "redis"}}
    return {
        "name": "redis",
        "image": installation.image(redis.image),
        "imagePullPolicy": redis.image.pull_policy,
        "command": ["python", "-m", "kai.session"],
        "args": _flags(installation),
        "ports": [{"name": "redis", "containerPort": redis.port, "protocol": "TCP"}],
        "livenessProbe": {**reached, "periodSeconds": 20},
        "readinessProbe": {**reached, "periodSeconds": 5},
        **without_empty(resources=redis.resources.manifest()),
        "securityContext": security.of_container(installation),
        "volumeMounts": [_mount(name, folder) for name, folder in mounted],
    }


def _flags(installation: Installation) -> list[str]:
    redis, tls = installation.config.redis, installation.config.everywhere.tls.enabled
    kept = [f"--data={_DATA}", f"--fsync={redis.persistence.fsync}"] if persists(installation) else []
    return [
        f"--listen=:{redis.port}",
        f"--password-file={_SECRET}/password",
        f"--max-memory={redis.max_memory}",
        *kept,
        *([f"--tls-cert={_CERTIFICATE}/tls.crt", f"--tls-key={_CERTIFICATE}/tls.key"] if tls else []),
    ]


def _volumes(installation: Installation) -> dict[tuple[str, str], Manifest]:
    """(Name, folder) -> volume."""
    volumes: dict[tuple[str, str], Manifest] = {
        ("tmp", _TMP): {"name": "tmp", "emptyDir": {}},
        (NAME, _SECRET): secret_volume(NAME),
    }
    if installation.config.everywhere.tls.enabled:
        volumes[REDIS_SECRET, _CERTIFICATE] = secret_volume(REDIS_SECRET)
    if persists(installation):
        volumes["data", _DATA] = {"name": "data", "persistentVolumeClaim": {"claimName": NAME}}
    return volumes


def _mount(name: str, folder: str) -> Manifest:
    mount: Manifest = {"name": name, "mountPath": folder}
    return mount if name in ("tmp", "data") else {**mount, "readOnly": True}
