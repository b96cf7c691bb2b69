"""A scheduler: one for each shard, with the configuration that the shard says."""

from __future__ import annotations

import hashlib

import yaml

from kai.operands.certificates import grpc_secret
from kai.operands.component import GRPC_CERTIFICATES, Component, account, objects_of, service, tls_flags
from kai.operands.manifests import COMPONENT_LABEL, Installation, Manifest, an_object
from kai.operands.spec.config import ConfigSpec
from kai.operands.spec.shards import Shard, prefix_of_all

ACCOUNT = "scheduler"
#: What a Service is, of several of a shard, that leads to whoever leads: nobody is to be scraped by it.
LEADER = "leader"
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
        *_services(installation, shard, component),
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


def _services(installation: Installation, shard: Shard, component: Component) -> list[Manifest]:
    """One that leads to the scheduler; of several, which only the operator knows, to the one that leads.

    Then there is one more for all of them: Prometheus finds pods by what a Service selects. Without an
    operator the one leads to all: our own processes go by the Lease, which says where the leader is.
    """
    ports = installation.config.scheduler.scheduler_service
    metrics = {"http-metrics": (ports.port, "http-metrics")}
    leading = service(component.name, installation, metrics | {"grpc": (ports.grpc_port, "grpc")})
    leading["spec"]["clusterIP"] = "None"
    if component.replicas <= 1 or not installation.facts.leaders_kept:
        return [_scraped(leading, ports.target_port)]
    del leading["spec"]["selector"]
    leading["metadata"]["labels"][COMPONENT_LABEL] = LEADER
    name = f"{prefix_of_all(installation.config.everywhere.scheduler_name)}{shard.name}"
    every = service(name, installation, metrics, app=component.name)
    every["spec"]["clusterIP"] = "None"
    return [leading, _scraped(every, ports.target_port)]


def _scraped(made: Manifest, port: int) -> Manifest:
    """The same, with what those go by who scrape whatever says so."""
    made["metadata"]["annotations"] = {"prometheus.io/scrape": "true", "prometheus.io/port": str(port)}
    return made
