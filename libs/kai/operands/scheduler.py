"""A scheduler: one for each shard, with the configuration that the shard says."""

from __future__ import annotations

import hashlib

import yaml

from kai.operands.certificates import grpc_secret
from kai.operands.component import GRPC_CERTIFICATES, Component, account, objects_of, service, tls_flags
from kai.operands.manifests import Installation, Manifest, an_object
from kai.operands.spec.config import ConfigSpec
from kai.operands.spec.shards import Shard

ACCOUNT = "scheduler"
_FILE = "config.yaml"


def name_of(config: ConfigSpec, shard: Shard) -> str:
    """The name of all objects of a shard."""
    return f"{config.everywhere.scheduler_name}-{shard.name}"


def operands(installation: Installation) -> list[Manifest]:
    """What all schedulers share: their account."""
    if not installation.config.scheduler.service.enabled:
        return []
    return [account(ACCOUNT, installation)]


def of_shard(installation: Installation, shard: Shard) -> list[Manifest]:
    """What belongs to one shard alone; nothing if schedulers are switched off."""
    config = installation.config
    if not config.scheduler.service.enabled:
        return []
    written = yaml.safe_dump(shard.file, sort_keys=False)
    component = _component(installation, shard, checksum=hashlib.sha256(written.encode()).hexdigest())
    return [
        an_object(
            "v1",
            "ConfigMap",
            component.name,
            namespace=installation.namespace,
            data={_FILE: written},
        ),
        *objects_of(component, installation),
        _service(installation, component),
    ]


def _component(installation: Installation, shard: Shard, *, checksum: str) -> Component:
    config = installation.config
    spec, ports = config.scheduler, config.scheduler.scheduler_service
    name = name_of(config, shard)
    return Component(
        name=name,
        module="kai_scheduler",
        account=ACCOUNT,
        kind=ACCOUNT,
        service=spec.service,
        replicas=config.replicas(spec.replicas),
        autoscaling=config.autoscaling(spec.vpa),
        flags=(*_flags(installation, shard), *tls_flags(installation)),
        last_flags=shard.spec.args,
        ports={"http-metrics": ports.target_port, "grpc": ports.grpc_port},
        probe="http-metrics",
        secrets={GRPC_CERTIFICATES: grpc_secret(ACCOUNT)} if config.everywhere.tls.enabled else {},
        config_map=name,
        checksum=checksum,
        redis=True,
        environment=_environment(shard, secret=f"{name}-usage"),
    )


def _environment(shard: Shard, *, secret: str) -> tuple[Manifest, ...]:
    """The variable that says where past use is read from; an administrator puts it into a secret."""
    usage = shard.spec.usage_db_config
    if usage is None or not (variable := usage.connection_string_env_var):
        return ()
    return ({"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": variable}}},)


def _flags(installation: Installation, shard: Shard) -> tuple[str, ...]:
    config = installation.config
    ports, reservation = config.scheduler.scheduler_service, config.binder.resource_reservation
    return (
        f"--listen-address=:{ports.target_port}",
        f"--health-listen=:{ports.target_port}",
        f"--grpc-listen=:{ports.grpc_port}",
        "--advertise-host=$(POD_IP)",
        f"--scheduler-conf=/etc/config/{_FILE}",
        f"--partition-label-value={shard.spec.partition_label_value}",
        f"--nodepool-label-key={config.everywhere.node_pool_label_key}",
        f"--queue-label-key={config.everywhere.queue_label_key}",
        f"--metrics-namespace={config.queue_controller.metrics_namespace}",
        f"--resource-reservation-app-label={reservation.app_label}",
        f"--resource-reservation-namespace={reservation.namespace}",
        f"--scale-adjust-namespace={config.node_scale_adjuster.args.node_scale_namespace}",
    )


def _service(installation: Installation, component: Component) -> Manifest:
    """Leads to the scheduler; of several, which only the operator knows, to the one that leads."""
    ports = installation.config.scheduler.scheduler_service
    reached = {"http-metrics": (ports.port, "http-metrics"), "grpc": (ports.grpc_port, "grpc")}
    made = service(component.name, installation, reached)
    made["metadata"]["annotations"] = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(ports.target_port),
    }
    made["spec"]["clusterIP"] = "None"
    if component.replicas > 1:
        del made["spec"]["selector"]
    return made
