"""Who may connect to whom. What is not said here is closed.

The node of a pod always gets in, whose kubelet asks the probes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kai.config import UsageDatabase
from kai.operands import (
    insight,
    node_scale_adjuster,
    numa_placement_exporter,
    pod_grouper,
    prometheus,
    redis,
    scheduler,
)
from kai.operands.manifests import COMPONENT_LABEL, Installation, Manifest, an_object
from kai.operands.spec.config import ConfigSpec
from kai.operands.spec.shards import Shard

_SCHEDULERS: Final = {COMPONENT_LABEL: scheduler.ACCOUNT}
_POLICY: Final = "networking.k8s.io/v1"
_TLS_PORT: Final = 443


@dataclass(frozen=True, slots=True, kw_only=True)
class Networked:
    """What connects to a component, and what it connects to beside the API server."""

    name: str
    #: Ports for the API server, which is no pod, and whose address is not known in all clusters.
    called: tuple[int, ...] = ()
    metrics: int = 0
    #: Port for our own pods -> those.
    served: tuple[tuple[int, tuple[Manifest, ...]], ...] = ()
    asks_schedulers: bool = False
    asks_insight: bool = False
    asks_pod_grouper: bool = False
    asks_redis: bool = False
    #: Port of its other replicas; 0 for none.
    asks_its_like: int = 0
    #: Ports of others, wherever they are.
    asks: tuple[int, ...] = ()
    asks_api_server: bool = True


def operands(installation: Installation) -> list[Manifest]:
    """The policies of all components, and of the pods that hold shared GPUs."""
    if not installation.config.network_policy.enabled:
        return []
    policies = [policy(each, installation) for each in _components(installation)]
    return [*policies, _of_reservations(installation), *_of_scaling_pods(installation)]


def of_shard(installation: Installation, shard: Shard) -> list[Manifest]:
    """The policy of one scheduler."""
    config = installation.config
    if not (config.network_policy.enabled and config.scheduler.service.enabled):
        return []
    ports = config.scheduler.scheduler_service
    callers = (
        *map(_app, ("binder", "podgroup-controller", "queue-controller")),
        *([_app(insight.NAME)] if config.insight.service.enabled else []),
        *config.network_policy.grpc_from,
    )
    networked = Networked(
        name=scheduler.name_of(config, shard),
        served=((ports.grpc_port, callers),),
        metrics=ports.target_port,
        asks_pod_grouper=config.pod_grouper.service.enabled,
        asks_redis=True,
        asks=_of_usage(shard),
    )
    return [policy(networked, installation)]


def _of_usage(shard: Shard) -> tuple[int, ...]:
    """Where past use is read from, if the shard says it; what a variable says is not known here."""
    if "usageDBConfig" not in shard.file:
        return ()
    port = UsageDatabase.read(shard.file["usageDBConfig"]).port
    return (port,) if port else ()


def _components(installation: Installation) -> Iterable[Networked]:
    """Those that run."""
    config = installation.config
    if config.admission.service.enabled:
        ports = config.admission.webhook
        yield Networked(name="admission", called=(ports.target_port,), metrics=ports.metrics_port)
    if config.binder.service.enabled:
        yield Networked(name="binder", metrics=config.binder.metrics_port, asks_schedulers=True)
    if config.pod_grouper.service.enabled:
        callers = ({"podSelector": {"matchLabels": dict(_SCHEDULERS)}},)
        yield Networked(
            name=pod_grouper.NAME,
            # A rule without peers would be for everybody.
            served=((pod_grouper.GRPC, callers),) if config.scheduler.service.enabled else (),
            metrics=pod_grouper.METRICS,
        )
    if config.pod_group_controller.service.enabled:
        port = config.pod_group_controller.controller_service.webhook.target_port
        yield Networked(
            name="podgroup-controller",
            called=(port,),
            metrics=8080,
            asks_schedulers=True,
            asks_insight=config.insight.service.enabled,
        )
    if config.queue_controller.service.enabled:
        both = config.queue_controller.controller_service
        yield Networked(
            name="queue-controller",
            called=(both.webhook.target_port,),
            metrics=both.metrics.target_port,
            asks_schedulers=True,
            asks_redis=True,
        )
    if config.node_scale_adjuster.service.enabled:
        yield Networked(name=node_scale_adjuster.NAME, metrics=8080)
    if numa_placement_exporter.runs(installation):
        yield Networked(name=numa_placement_exporter.NAME, metrics=8080)
    if config.insight.service.enabled:
        database = config.insight.external_secret
        yield Networked(
            name=insight.NAME,
            served=tuple(_served_by_insight(config)),
            metrics=insight.METRICS,
            asks_schedulers=True,
            asks=(database.port,) if database.name else (),
            asks_its_like=insight.http_port(config),
        )
    if config.redis.ours:
        clients = ({"podSelector": {"matchLabels": dict(_SCHEDULERS)}}, _app("queue-controller"))
        yield Networked(name=redis.NAME, served=((config.redis.port, clients),), asks_api_server=False)


def _served_by_insight(config: ConfigSpec) -> Iterable[tuple[int, tuple[Manifest, ...]]]:
    """Verdicts for the podgroup-controller; the history, and the page, for whom a value says.

    Over HTTP replicas hand questions on to the one that leads.
    """
    callers = config.network_policy.grpc_from
    ours = (_app("podgroup-controller"),) if config.pod_group_controller.service.enabled else ()
    if ours or callers:  # a rule without peers would be for everybody
        yield config.insight.grpc_port, (*ours, *callers)
    if port := insight.http_port(config):
        yield port, (_app(insight.NAME), *callers, *config.network_policy.page_from)


def policy(networked: Networked, installation: Installation) -> Manifest:
    """The policy of one component."""
    spec = {
        "podSelector": {"matchLabels": {"app": networked.name}},
        "ingress": _ingress(networked, installation.config),
    }
    return _policy(
        networked.name, installation.namespace, spec, _egress(networked, installation), installation
    )


def _policy(
    name: str, namespace: str, spec: Manifest, egress: list[Manifest], installation: Installation
) -> Manifest:
    closed = _closes_egress(installation)
    types = ["Ingress", "Egress"] if closed else ["Ingress"]
    said = {**spec, "policyTypes": types, **({"egress": egress} if closed else {})}
    return an_object(_POLICY, "NetworkPolicy", name, namespace=namespace, spec=said)


def _of_reservations(installation: Installation) -> Manifest:
    """Nobody has to reach them; they tell the API server what they got."""
    reservation = installation.config.binder.resource_reservation
    app = reservation.app_label
    spec: Manifest = {"podSelector": {"matchLabels": {"app": app}}, "ingress": []}
    return _policy(app, reservation.namespace, spec, _to_cluster(installation), installation)


def _of_scaling_pods(installation: Installation) -> list[Manifest]:
    """They connect to nobody, nor does anybody to them."""
    adjuster = installation.config.node_scale_adjuster
    if not adjuster.service.enabled:
        return []
    app = node_scale_adjuster.SCALING_APP
    spec = {
        "podSelector": {"matchLabels": {"app": app}},
        "ingress": [],
        "egress": [],
        "policyTypes": ["Ingress", "Egress"],
    }
    return [an_object(_POLICY, "NetworkPolicy", app, namespace=adjuster.args.node_scale_namespace, spec=spec)]


# --- what comes in -----------------------------------------------------------------------------
def _ingress(networked: Networked, config: ConfigSpec) -> list[Manifest]:
    rules = [_rule([port], list(peers)) for port, peers in networked.served]
    # A webhook's certificate and its answers guard it.
    rules += [_rule([port]) for port in networked.called]
    if networked.metrics:
        rules.append(_rule([networked.metrics], _scrapers(config)))
    return rules


def _scrapers(config: ConfigSpec) -> list[Manifest]:
    """Who may read metrics; nobody is named where everybody may."""
    named = list(config.network_policy.metrics_from)
    ours = {"podSelector": {"matchLabels": prometheus.pods(config)}}
    return [*named, ours] if named and config.prometheus.ours else named


def _rule(ports: Iterable[int], peers: list[Manifest] | None = None) -> Manifest:
    """From these peers; from everybody without any."""
    allowed: Manifest = {"ports": [{"protocol": "TCP", "port": port} for port in ports]}
    return {**allowed, "from": peers} if peers else allowed


def _app(name: str) -> Manifest:
    return {"podSelector": {"matchLabels": {"app": name}}}


# --- what goes out -----------------------------------------------------------------------------
def _closes_egress(installation: Installation) -> bool:
    """Only where the API server's port is known: to keep our processes from it would stop them all."""
    return bool(installation.config.network_policy.egress.enabled and _api_server_ports(installation))


def _api_server_ports(installation: Installation) -> tuple[int, ...]:
    given = installation.config.network_policy.egress.api_server_ports
    seen = installation.facts.api_server_ports
    if given or not seen:
        return given
    # Some rules are applied before the address of the Service is replaced, some after.
    return tuple(dict.fromkeys((*seen, _TLS_PORT)))


def _to_cluster(installation: Installation) -> list[Manifest]:
    """The API server, and the names of the cluster."""
    dns = [
        {"protocol": protocol, "port": port}
        for port in installation.config.network_policy.egress.dns_ports
        for protocol in ("UDP", "TCP")
    ]
    return [_rule(_api_server_ports(installation)), {"ports": dns}]


def _egress(networked: Networked, installation: Installation) -> list[Manifest]:
    config = installation.config
    rules: list[Manifest] = []
    if networked.asks_api_server:
        rules += [*_to_cluster(installation), *config.network_policy.egress.more]
    if networked.asks_schedulers and config.scheduler.service.enabled:
        to_schedulers = _rule([config.scheduler.scheduler_service.grpc_port])
        rules.append({**to_schedulers, "to": [{"podSelector": {"matchLabels": dict(_SCHEDULERS)}}]})
    if networked.asks_insight:
        rules.append({**_rule([config.insight.grpc_port]), "to": [_app(insight.NAME)]})
    if networked.asks_its_like:
        rules.append({**_rule([networked.asks_its_like]), "to": [_app(networked.name)]})
    if networked.asks_pod_grouper:
        rules.append({**_rule([pod_grouper.GRPC]), "to": [_app(pod_grouper.NAME)]})
    if networked.asks_redis:
        rules += _to_redis(config)
    if networked.asks:
        rules.append(_rule(networked.asks))
    return rules


def _to_redis(config: ConfigSpec) -> list[Manifest]:
    if config.redis.ours:
        return [{**_rule([config.redis.port]), "to": [_app(redis.NAME)]}]
    return [_rule([config.redis.external_secret.port])] if config.redis.secret else []
