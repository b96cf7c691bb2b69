"""What there is beside the components: Redis, policies, certificates, Prometheus, NUMA, priority classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from kai.config import ConfigError, UsageClient
from kai.config.usage_database import url_of
from kai.model import duration, quantity
from kai.operands.spec.fields import Fields, Part, part, refused, value
from kai.operands.spec.kinds import (
    AMOUNT,
    LABEL_KEY,
    LABEL_VALUE,
    LABELS,
    NAME,
    OPTIONAL_NAME,
    PORT,
    PORTS,
    POSITIVE,
    SHORT_NAME,
    SWITCH,
    TEXT,
    integer,
    one_of,
    text,
    time,
)
from kai.operands.spec.pods import ImageSpec, ResourcesSpec, ServiceSpec, a_service, own_resources, says
from kai.operands.spec.problems import Place
from kai.operands.spec.shapes import EGRESS, PEERS, TOLERATIONS

#: As Redis writes sizes.
_SIZE: Final = text("a size as Redis writes it, such as 256mb or 1gb", pattern=r"[0-9]+([kKmMgG][bB]?)?")
_BYTES: Final = {"": 1, "k": 10**3, "kb": 2**10, "m": 10**6, "mb": 2**20, "g": 10**9, "gb": 2**30}
#: How much more it takes than it holds: fragments, and pages that change while it writes its file anew.
_TAKEN_OF_HELD: Final = Decimal("1.75")
#: Two authorities with long keys take 5 kB; an object with much more than this would not be kept.
_BASE64: Final = text("PEM in base64, at most 1 MiB", pattern=r"[A-Za-z0-9+/]*={0,2}", longest=2**20)
_PATH: Final = text("an absolute path", pattern=r"/.*")
_URL: Final = text("the URL of a server, such as http://prometheus.monitoring:9090", pattern=r"[^\s]*")


# --- Redis -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSecretSpec(Fields):
    """A Redis that is not ours, by a secret in our namespace."""

    name: str = value(OPTIONAL_NAME, "", meaning="The secret that holds its URL; empty: we run one.")
    key: str = value(TEXT, "url", meaning="Key of the URL: rediss://user:password@host:port/db.")
    ca_key: str = value(
        TEXT, "", meaning="Key of the authority of its certificate; empty: those of the image."
    )
    port: int = value(PORT, 6379, meaning="Where it listens, for the network policies.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistenceSpec(Fields):
    """A volume on which our Redis keeps what it holds."""

    enabled: bool | None = value(
        SWITCH,
        None,
        meaning="Whether it survives a restart, by an append-only file; if not set, where a shard keeps past "
        "usage in it.",
    )
    size: str = value(AMOUNT, "1Gi", meaning="Size of the volume.")
    storage_class_name: str = value(
        OPTIONAL_NAME, "", meaning="Class of the volume; the cluster's default if empty."
    )
    fsync: str = value(
        one_of(("always", "everysec", "no")),
        "everysec",
        meaning="When it is written: always, everysec or no.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSpec(Fields):
    """Where history and usage of queues live. Scheduling goes on without it."""

    enabled: bool = value(SWITCH, True, meaning="Whether there is one, unless externalSecret names another.")
    image: ImageSpec = part(ImageSpec, meaning="Its image.")
    port: int = value(PORT, 6379, meaning="Where it listens.")
    max_memory: str = value(_SIZE, "256mb", meaning="How much it holds before it forgets the oldest.")
    external_secret: RedisSecretSpec = part(RedisSecretSpec, meaning="One of your own instead.")
    persistence: PersistenceSpec = part(PersistenceSpec, meaning="A volume for it.")
    resources: ResourcesSpec = own_resources(
        ResourcesSpec(requests={"cpu": "20m", "memory": "96Mi"}, limits={"memory": "448Mi"}),
        meaning="Its requests and limits.",
    )

    @property
    def ours(self) -> bool:
        """Whether we run one."""
        return self.enabled and not self.external_secret.name

    @property
    def secret(self) -> str:
        """Name of the secret that says how to reach it; empty without any."""
        return self.external_secret.name or ("kai-redis" if self.enabled else "")

    def check(self, at: Place) -> None:
        """What is kept has to fit."""
        if self.persistence.enabled is not False and quantity.parse(self.persistence.size) <= 0:
            at.below("persistence").below("size").complain("is 0; give the volume a size, such as 1Gi")


class RedisPart(Part[RedisSpec]):
    """A Redis with room for what it holds: it gets as much, or holds no more than a limit leaves room for."""

    def read(self, given: Any, *, base: RedisSpec | None, at: Place) -> RedisSpec:
        """What is given, over what holds without it."""
        found = Part.read(self, given, base=base, at=at)
        limit = found.resources.limits.get("memory")
        most = quantity.parse(limit) if limit is not None else 0  # 0 is no limit either
        if not most or not found.ours:
            return found
        held = _bytes(found.max_memory)
        if not says(given, "resources", "limits", "memory"):
            needed = quantity.render(held * _TAKEN_OF_HELD, binary=True)
            return found if held * _TAKEN_OF_HELD <= most else _limited(found, needed)
        if held < most:
            return found
        return replace(found, max_memory=str(int(most / _TAKEN_OF_HELD)))


def _bytes(size: str) -> int:
    """A size as Redis writes it; without regard to case, as there."""
    digits = size.rstrip("kKmMgGbB")
    return int(digits) * _BYTES[size[len(digits) :].lower()]


def _limited(redis: RedisSpec, memory: str) -> RedisSpec:
    limits = {**redis.resources.limits, "memory": memory}
    return replace(redis, resources=replace(redis.resources, limits=limits))


# --- network -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class EgressSpec(Fields):
    """Where our pods may connect to."""

    enabled: bool = value(SWITCH, True, meaning="Close what goes out, where the API server's port is known.")
    api_server_ports: tuple[int, ...] = value(
        PORTS, (), meaning="Ports of the API server; those that the cluster tells if empty."
    )
    dns_ports: tuple[int, ...] = value(PORTS, (53, 5353), meaning="Ports of the cluster's DNS.")
    more: tuple[Any, ...] = value(EGRESS, (), meaning="Further rules, for all that talk to the API server.")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicySpec(Fields):
    """Who may connect to our pods, and where they may connect to."""

    enabled: bool = value(SWITCH, True, meaning="Whether there are network policies.")
    metrics_from: tuple[Any, ...] = value(PEERS, (), meaning="Who may read metrics; everybody if empty.")
    grpc_from: tuple[Any, ...] = value(
        PEERS, (), meaning="Who beside our own pods may ask schedulers and insight, insight over HTTP too."
    )
    page_from: tuple[Any, ...] = value(
        PEERS, (), meaning="Who may ask insight over HTTP, such as a proxy that others reach its page by."
    )
    egress: EgressSpec = part(EgressSpec, meaning="What may go out.")


# --- certificates ------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingCertificatesSpec(Fields):
    """Certificates that you put into the secrets yourself."""

    enabled: bool = value(
        SWITCH, False, meaning="Whether the secrets are yours; none is made or renewed then."
    )
    ca_bundle: str = value(_BASE64, "", meaning="Authority of the webhooks' certificates, base64 of PEM.")

    def check(self, at: Place) -> None:
        """The API server has to trust somebody."""
        if self.enabled and not self.ca_bundle:
            at.below("caBundle").complain("is missing; the API server trusts no webhook without it")


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatesSpec(Fields):
    """Certificates of the webhooks and between our processes."""

    lifetime: str = value(time(least=1, days=True), "365d", meaning="How long a certificate lasts.")
    renew_before: str = value(
        time(least=1, days=True), "122d", meaning="How long before its end a certificate is renewed."
    )
    authority_lifetime: str = value(
        time(least=1, days=True),
        "3650d",
        meaning="How long an authority lasts; it signs while lifetime is left.",
    )
    existing: ExistingCertificatesSpec = part(ExistingCertificatesSpec, meaning="Certificates of your own.")

    def check(self, at: Place) -> None:
        """Each has to be renewed before it ends, by an authority that outlasts it."""
        lifetime, early, authority = map(
            duration.parse, (self.lifetime, self.renew_before, self.authority_lifetime)
        )
        if early >= lifetime:
            at.below("renewBefore").complain(
                f"is {self.renew_before}; it must be below lifetime, {self.lifetime}"
            )
        if authority <= lifetime:
            at.below("authorityLifetime").complain(
                f"is {self.authority_lifetime}; it must be above lifetime, {self.lifetime}"
            )


# --- Prometheus --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceMonitorSpec(Fields):
    """How metrics are scraped."""

    enabled: bool = value(SWITCH, True, meaning="Whether there are ServiceMonitors.")
    interval: str = value(time(least=0.001), "30s", meaning="Time between two scrapes.")
    scrape_timeout: str = value(time(least=0.001), "10s", meaning="How long a scrape may take.")
    bearer_token_file: str = value(
        _PATH,
        "/var/run/secrets/kubernetes.io/serviceaccount/token",
        meaning="Where Prometheus finds the token that it shows.",
    )

    def check(self, at: Place) -> None:
        """A scrape has to end before the next."""
        if duration.parse(self.scrape_timeout) > duration.parse(self.interval):
            at.below("scrapeTimeout").complain(
                f"is {self.scrape_timeout}; it must not be above interval, {self.interval}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthProbeSpec(Fields):
    """How an external Prometheus is asked whether it is there."""

    interval: int = value(POSITIVE, 30, meaning="Seconds between two questions.")
    timeout: int = value(POSITIVE, 10, meaning="Seconds that an answer may take.")
    max_retries: int = value(
        integer(least=0), 5, meaning="How often a question is repeated before that is told."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSpec(Fields):
    """A Prometheus for the usage of queues over time, or the one that you have."""

    enabled: bool = value(SWITCH, False, meaning="Whether metrics are scraped for us.")
    instance_name: str = value(
        SHORT_NAME, "prometheus", meaning="Name of our Prometheus and its service account."
    )
    retention_period: str = value(
        time(least=1, days=True), "2w", meaning="How long it keeps what it scraped."
    )
    sample_interval: str = value(time(least=0.001, days=True), "1m", meaning="Time between two samples.")
    enable_persistent_storage: bool = value(SWITCH, True, meaning="Whether it has a volume.")
    storage_size: str = value(AMOUNT, "50Gi", meaning="Size of its volume.")
    storage_class_name: str = value(NAME, "standard", meaning="Class of its volume.")
    service_monitor: ServiceMonitorSpec = part(ServiceMonitorSpec, meaning="How metrics are scraped.")
    external_prometheus_url: str = value(
        _URL, "", meaning="One of your own instead; it has to scrape our ServiceMonitors."
    )
    external_prometheus_health_probe: HealthProbeSpec = part(
        HealthProbeSpec, meaning="How it is asked whether it is there."
    )
    accounting_label_key: str = value(
        LABEL_KEY,
        "kai.scheduler/accounting",
        meaning="Label of the ServiceMonitors that our Prometheus reads.",
    )
    accounting_label_value: str = value(LABEL_VALUE, "true", meaning="Value of that label.")

    def check(self, at: Place) -> None:
        """One of the user's own has to be somewhere, and ours needs room."""
        if self.external_prometheus_url:
            try:
                url_of(UsageClient.PROMETHEUS, self.external_prometheus_url, where="")
            except ConfigError as error:
                at.below("externalPrometheusUrl").complain(str(error).strip())
        if self.enable_persistent_storage and quantity.parse(self.storage_size) <= 0:
            at.below("storageSize").complain("is 0; give the volume a size, such as 50Gi")

    @property
    def ours(self) -> bool:
        """Whether we run one."""
        return self.enabled and not self.external_prometheus_url


# --- priority classes --------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultPriorityClassesSpec(Fields):
    """The priority classes train, build-preemptible, build and inference."""

    enabled: bool = value(SWITCH, True, meaning="Whether we bring them; if not, they are yours to make.")


# --- NUMA --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class NumaServiceSpec(ServiceSpec):
    """How the exporter runs."""

    enabled: bool | None = value(  # type: ignore[assignment]
        SWITCH, meaning="Whether it is deployed; if not set, where a shard has the plugin numa."
    )
    pod_disruption_budget: None = refused(  # type: ignore[assignment]
        "it has a pod on each node, which drains leave alone; remove it",
        openapi={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    )


_EXPORTING: Final = a_service(requests={"cpu": "20m", "memory": "96Mi"}, limits={"memory": "192Mi"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaPlacementExporterSpec(Fields):
    """Tells of which NUMA zones pods have their devices."""

    service: NumaServiceSpec = part(
        NumaServiceSpec,
        default=NumaServiceSpec(resources=_EXPORTING.resources, enabled=None),
        meaning="How it runs.",
    )
    node_selector: Mapping[str, str] = value(
        LABELS,
        {"feature.node.kubernetes.io/memory-numa": "true"},
        meaning="Labels of the nodes that it runs on.",
    )
    tolerations: tuple[Any, ...] = value(
        TOLERATIONS, (), meaning="Taints that its pods tolerate, beside spec.global.daemonsetsTolerations."
    )
    poll_interval: str = value(time(least=0.001), "1s", meaning="Time between two looks at the kubelet.")
    drift_resync_interval: str = value(
        time(), "60s", meaning="Time between two writes of everything; 0 for never."
    )
    pod_resources_host_path: str = value(
        _PATH, "/var/lib/kubelet/pod-resources", meaning="Folder of the kubelet's socket."
    )
    pod_resources_socket: str = value(
        _PATH, "", meaning="The kubelet's socket, in that folder; kubelet.sock there if not set."
    )
    sysfs_host_path: str = value(_PATH, "/sys", meaning="The node's sysfs.")

    @property
    def socket(self) -> str:
        """Where the kubelet answers."""
        return self.pod_resources_socket or f"{self.pod_resources_host_path.rstrip('/')}/kubelet.sock"

    def check(self, at: Place) -> None:
        """The socket is seen through the folder."""
        folder = self.pod_resources_host_path.rstrip("/") + "/"
        if not self.socket.startswith(folder):
            at.below("podResourcesSocket").complain(
                f"is {self.pod_resources_socket}; it must be in podResourcesHostPath, {folder}"
            )
