"""Where usage of queues over time is scraped: a Prometheus of ours, and what it is to scrape."""

from __future__ import annotations

from typing import Final

from kai.model import quantity
from kai.operands import placement, security
from kai.operands.component import account, service
from kai.operands.facts import PROMETHEUS, SERVICE_MONITOR
from kai.operands.manifests import (
    COMPONENT_LABEL,
    PART_OF,
    PRODUCT,
    Installation,
    Manifest,
    an_object,
    without_empty,
)
from kai.operands.scheduler import LEADER
from kai.operands.spec.additions import PrometheusSpec
from kai.operands.spec.config import ConfigSpec

SERVICE: Final = "usage-prometheus"
PORT: Final = 9090
_VERSION: Final = "monitoring.coreos.com/v1"
_QUEUES: Final = "queue-controller"
_KUBE_STATE_METRICS: Final = "kube-state-metrics"
#: The ServiceMonitor of all our processes but the queue-controller. The operator is one of them, by the
#: Service that comes with it.
PROCESSES: Final = "kai-processes"
#: Who may write to the volume; without a group of its own most volumes are root's.
_USER: Final = {"runAsUser": 1000, "runAsGroup": 2000, "fsGroup": 2000}
#: What the label ``job`` is taken from, where it is not ``app``.
_JOB_LABELS: Final = {_KUBE_STATE_METRICS: "app.kubernetes.io/name"}


def operands(installation: Installation) -> list[Manifest]:
    """Its objects, as far as the cluster serves their kinds; none if it is switched off."""
    spec, served = installation.config.prometheus, installation.facts.served
    if not spec.enabled:
        return []
    objects: list[Manifest] = []
    if spec.ours and PROMETHEUS in served:
        objects += _server(installation)
    if spec.service_monitor.enabled and SERVICE_MONITOR in served:
        objects += _monitors(installation)
    return objects


def pods(config: ConfigSpec) -> dict[str, str]:
    """Labels of the pods of our Prometheus, which its operator gives them."""
    return {"app.kubernetes.io/name": "prometheus", "prometheus": config.prometheus.instance_name}


def _server(installation: Installation) -> list[Manifest]:
    name = installation.config.prometheus.instance_name
    reached = service(SERVICE, installation, {"http": (PORT, "web")}, app=name)
    reached["spec"]["selector"] = pods(installation.config)
    return [
        account(name, installation),
        reached,
        an_object(
            _VERSION, "Prometheus", name, namespace=installation.namespace, spec=_prometheus(installation)
        ),
    ]


def _prometheus(installation: Installation) -> Manifest:
    spec, everywhere = installation.config.prometheus, installation.config.everywhere
    accounting = {"matchLabels": {spec.accounting_label_key: spec.accounting_label_value}}
    found: Manifest = {
        "serviceAccountName": spec.instance_name,
        "retention": spec.retention_period,
        "scrapeInterval": spec.sample_interval,
        "serviceMonitorSelector": accounting,
        "serviceMonitorNamespaceSelector": {},
        "podMonitorSelector": accounting,
        "podMonitorNamespaceSelector": {},
        "ruleSelector": accounting,
        "ruleNamespaceSelector": {},
        "securityContext": security.of_pod(installation, user=_USER),
        **without_empty(affinity=dict(everywhere.affinity)),
        **placement.of_deployment(everywhere),
    }
    if spec.enable_persistent_storage:
        found["storage"] = _storage(spec)
        found["retentionSize"] = _most(spec.storage_size)
    return found


def _storage(spec: PrometheusSpec) -> Manifest:
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": spec.storage_class_name,
        "resources": {"requests": {"storage": spec.storage_size}},
    }
    return {"volumeClaimTemplate": {"spec": claim}}


def _most(size: str) -> str:
    """What it may fill of its volume: a tenth is left for what it writes meanwhile."""
    return f"{int(quantity.parse(size) * 9 / 10) // 2**20}MiB"


def _monitors(installation: Installation) -> list[Manifest]:
    queues = {"matchLabels": {"app": _QUEUES}}
    # Whoever is scraped twice is counted twice.
    others = {
        "matchLabels": {PART_OF: PRODUCT},
        "matchExpressions": [
            {"key": "app", "operator": "NotIn", "values": [_QUEUES]},
            {"key": COMPONENT_LABEL, "operator": "NotIn", "values": [LEADER]},
        ],
    }
    metrics = installation.config.queue_controller.controller_service.metrics.name
    states = {"matchLabels": {"app.kubernetes.io/name": _KUBE_STATE_METRICS}}
    here = [installation.namespace]
    return [
        _monitor(installation, _QUEUES, queues, here, metrics),
        _monitor(installation, PROCESSES, others, here, "http-metrics"),
        _monitor(installation, _KUBE_STATE_METRICS, states, ["monitoring", "default"], "http"),
    ]


def _monitor(
    installation: Installation, name: str, selector: Manifest, namespaces: list[str], port: str
) -> Manifest:
    spec = installation.config.prometheus
    endpoint = {
        "port": port,
        "interval": spec.service_monitor.interval,
        "scrapeTimeout": spec.service_monitor.scrape_timeout,
        "bearerTokenFile": spec.service_monitor.bearer_token_file,
    }
    made = an_object(
        _VERSION,
        "ServiceMonitor",
        name,
        namespace=installation.namespace,
        spec={
            "jobLabel": _JOB_LABELS.get(name, "app"),
            "selector": selector,
            "namespaceSelector": {"matchNames": namespaces},
            "endpoints": [endpoint],
        },
    )
    made["metadata"]["labels"][spec.accounting_label_key] = spec.accounting_label_value
    return made
