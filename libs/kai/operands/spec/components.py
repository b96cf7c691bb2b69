"""The components of an installation, each with what it alone can be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kai.model import names, quantity
from kai.operands.spec.fields import Fields, MapOf, Part, part, refused, value
from kai.operands.spec.kinds import (
    AMOUNT,
    METRIC_LABELS,
    METRIC_PREFIX,
    NAME,
    NAME_PREFIX,
    OPTIONAL_NAME,
    OPTIONAL_PORT,
    PAIRS,
    PORT,
    POSITIVE,
    SHORT_NAME,
    SWITCH,
    TEXT,
    TEXTS,
    integer,
    number,
    one_of,
    time,
)
from kai.operands.spec.pods import (
    AutoscalingSpec,
    ClientSpec,
    ImageSpec,
    ResourcesSpec,
    ServiceSpec,
    a_service,
    own_autoscaling,
    own_replicas,
    own_resources,
)
from kai.operands.spec.problems import Place
from kai.operands.spec.shapes import CONTAINER_SECURITY, POD_SECURITY

#: No limit on CPU: a throttled cycle delays every pod of the cluster, and a throttled webhook every user.
_SMALL: Final = a_service(requests={"cpu": "50m", "memory": "128Mi"}, limits={"memory": "256Mi"})
_WATCHING: Final = a_service(requests={"cpu": "50m", "memory": "256Mi"}, limits={"memory": "512Mi"})
_BINDING: Final = a_service(requests={"cpu": "50m", "memory": "200Mi"}, limits={"memory": "400Mi"})
_DECIDING: Final = a_service(requests={"cpu": "250m", "memory": "512Mi"}, limits={"memory": "2Gi"})


# --- webhooks and ports ------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class PortSpec(Fields):
    """A port of a Service, and of the process behind it."""

    port: int = value(PORT, 443, meaning="Port of the Service.")
    target_port: int = value(PORT, 9443, meaning="Port of the process.")
    name: str = value(SHORT_NAME, "webhook", meaning="Name of the port.")


#: Where processes and Services tell of themselves that have no field for it. In fields both may be one port.
_SCRAPED: Final = {"the port of its metrics": 8080}
_PROBED: Final = {"the port of its probes": 8081}


def _apart(at: Place, field: str, port: int, taken: Mapping[str, int]) -> None:
    """A process listens on a port for one thing, and a Service has it once."""
    for other, known in taken.items():
        if port == known:
            at.below(field).complain(f"is {port}, as {other} is; choose another port")
            return


#: Where the pod-grouper tells schedulers of groups.
POD_GROUPER_GRPC_PORT: Final = 9093
METRICS_PORT: Final = PortSpec(port=8080, target_port=8080, name="metrics")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPortsSpec(Fields):
    """Ports of admission."""

    port: int = value(PORT, 443, meaning="Port of the Service that the API server calls.")
    target_port: int = value(PORT, 9443, meaning="Port of the process that it leads to.")
    probe_port: int = value(PORT, 8081, meaning="Port of /healthz and /readyz.")
    metrics_port: int = value(PORT, 8080, meaning="Port of /metrics.")

    def check(self, at: Place) -> None:
        """The webhook is on a port of its own."""
        of_process = {"probePort": self.probe_port, "metricsPort": self.metrics_port}
        _apart(at, "targetPort", self.target_port, of_process)
        _apart(at, "port", self.port, _SCRAPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationSpec(Fields):
    """A webhook that checks what users write."""

    enable_validation: bool = value(SWITCH, True, meaning="Whether it is registered.")
    webhook_configuration_name_prefix: str = value(
        NAME_PREFIX, "", meaning="Its configuration is called this, and the version of the API."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueValidationSpec(ValidationSpec):
    """The webhook of queues."""

    refuse_deletion: bool = value(
        SWITCH, False, meaning="Refuse to delete a queue that has children or work, instead of warning."
    )


# --- components --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSpec(Fields):
    """Completes and checks pods, and warns of slips."""

    service: ServiceSpec = part(ServiceSpec, default=_SMALL, meaning="How it runs.")
    service_name: str = value(SHORT_NAME, "admission", meaning="Name of its Service, and in its certificate.")
    webhook: AdmissionPortsSpec = part(AdmissionPortsSpec, meaning="Its ports.")
    replicas: int | None = own_replicas()
    gpu_sharing: bool | None = value(
        SWITCH,
        meaning="Whether pods may ask for a part of a GPU; if not set, spec.global.gpuSharingMode says.",
    )
    block_nvidia_visible_devices: bool = value(
        SWITCH, False, meaning="Keep containers without a GPU from naming devices by themselves."
    )
    queue_label_selector: bool = value(
        SWITCH, False, meaning="Whether the pod webhooks serve only namespaces that have the queue label."
    )
    validating_webhook_configuration_name: str = value(
        NAME, "validating-kai-admission", meaning="Name of the configuration of the validating webhooks."
    )
    mutating_webhook_configuration_name: str = value(
        NAME, "mutating-kai-admission", meaning="Name of the configuration of the mutating webhook."
    )
    gpu_fraction_runtime_class_name: str | None = value(
        OPTIONAL_NAME, meaning="Runtime class of pods that share a GPU; nvidia if not set, empty for none."
    )
    gpu_pod_runtime_class_name: str | None = value(
        OPTIONAL_NAME, meaning="Deprecated; see gpuFractionRuntimeClassName."
    )
    vpa: AutoscalingSpec | None = own_autoscaling()

    @property
    def runtime_class(self) -> str:
        """The runtime class of pods that share a GPU; empty for none."""
        for given in (self.gpu_fraction_runtime_class_name, self.gpu_pod_runtime_class_name):
            if given is not None:
                return given
        return "nvidia"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationSpec(Fields):
    """The pods that hold the devices which are shared."""

    image: ImageSpec = part(ImageSpec, meaning="Their image.")
    allocation_timeout: int = value(
        POSITIVE, 40, meaning="Seconds until a reservation pod must have told its device."
    )
    namespace: str = value(SHORT_NAME, names.RESERVATION_NAMESPACE, meaning="Their namespace.")
    service_account_name: str = value(
        NAME, names.RESERVATION_SERVICE_ACCOUNT, meaning="Their service account."
    )
    create_service_account: bool = value(SWITCH, True, meaning="Whether the account is made, or is yours.")
    app_label: str = value(SHORT_NAME, names.RESERVATION_APP, meaning="Their label app.")
    runtime_class_name: str = value(
        OPTIONAL_NAME, "", meaning="For clusters where only a certain runtime lets a container see its GPU."
    )
    pod_resources: ResourcesSpec = own_resources(meaning="Their requests and limits beside the GPU.")
    reservation_pod_security_context: Mapping[str, Any] | None = value(
        POD_SECURITY, meaning="Security context of the pods."
    )
    reservation_container_security_context: Mapping[str, Any] | None = value(
        CONTAINER_SECURITY,
        meaning="Security context of their container; as spec.global.securityContext if not set.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BindPluginSpec(Fields):
    """A change to a plugin of the binder."""

    enabled: bool | None = value(SWITCH, meaning="Whether it takes part.")
    priority: int | None = value(integer(least=-(2**31)), meaning="Higher ones come first.")
    arguments: Mapping[str, str] | None = value(TEXTS, meaning="Replaces all arguments of the plugin.")

    def manifest(self) -> dict[str, Any]:
        """As the binder takes it: what was said."""
        parts = {"enabled": self.enabled, "priority": self.priority, "arguments": self.arguments}
        return {name: said for name, said in parts.items() if said is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class BinderSpec(Fields):
    """Carries out what schedulers decide."""

    service: ServiceSpec = part(ServiceSpec, default=_BINDING, meaning="How it runs.")
    resource_reservation: ReservationSpec = part(
        ReservationSpec, meaning="The pods that hold the devices which are shared."
    )
    replicas: int | None = own_replicas()
    max_concurrent_reconciles: int | None = value(POSITIVE, meaning="Binds at the same time; 32 if not set.")
    volume_binding_timeout_seconds: int = value(
        POSITIVE, 120, meaning="How long to wait for volumes, and for claims, of a pod."
    )
    probe_port: int = value(PORT, 8081, meaning="Port of /healthz and /readyz.")
    metrics_port: int = value(PORT, 8080, meaning="Port of /metrics.")
    cdi_enabled: bool | None = value(
        SWITCH, meaning="Whether the device plugin uses CDI; found out from its ClusterPolicy if not set."
    )
    plugins: Mapping[str, BindPluginSpec] = value(
        MapOf(Part(BindPluginSpec)), {}, meaning="Changes to the plugins, by name."
    )
    vpa: AutoscalingSpec | None = own_autoscaling()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupingSpec(Fields):
    """How workloads become pod groups."""

    gang_schedule_knative: bool = value(SWITCH, True, meaning="Make a gang of each Knative revision.")
    generic_karta_fallback: bool = value(SWITCH, True, meaning="Group other kinds by Karta definitions.")
    default_priorities_config_map_name: str = value(
        OPTIONAL_NAME, "", meaning="ConfigMap with default priorities by kind of workload."
    )
    default_priorities_config_map_namespace: str = value(OPTIONAL_NAME, "", meaning="Its namespace.")

    def check(self, at: Place) -> None:
        """A ConfigMap is named by both."""
        both = (self.default_priorities_config_map_name, self.default_priorities_config_map_namespace)
        if any(both) and not all(both):
            missing = "Namespace" if both[0] else "Name"
            at.below(f"defaultPrioritiesConfigMap{missing}").complain(
                "is missing; a ConfigMap is named by name and namespace"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGrouperSpec(Fields):
    """Makes pod groups of workloads."""

    service: ServiceSpec = part(ServiceSpec, default=_WATCHING, meaning="How it runs.")
    args: GroupingSpec = part(GroupingSpec, meaning="How workloads become pod groups.")
    k8s_client_config: ClientSpec = part(
        ClientSpec, meaning="Most requests to the API server; wins over service.k8sClientConfig."
    )
    max_concurrent_reconciles: int | None = value(
        POSITIVE, meaning="Workloads looked at at the same time; 10 if not set."
    )
    replicas: int | None = own_replicas()
    vpa: AutoscalingSpec | None = own_autoscaling()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupServiceSpec(Fields):
    """Ports of podgroup-controller."""

    webhook: PortSpec = part(PortSpec, meaning="The port that the API server calls.")

    def check(self, at: Place) -> None:
        """The webhook is on a port of its own."""
        _apart(at.below("webhook"), "targetPort", self.webhook.target_port, {**_SCRAPED, **_PROBED})
        _apart(at.below("webhook"), "port", self.webhook.port, _SCRAPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupControllerSpec(Fields):
    """Tells what becomes of pod groups."""

    service: ServiceSpec = part(ServiceSpec, default=_WATCHING, meaning="How it runs.")
    controller_service: PodGroupServiceSpec = part(PodGroupServiceSpec, meaning="Its ports.")
    webhooks: ValidationSpec = part(
        ValidationSpec,
        default=ValidationSpec(webhook_configuration_name_prefix="kai-podgroup-validation-"),
        meaning="The webhook of pod groups.",
    )
    max_concurrent_reconciles: int | None = value(
        POSITIVE, meaning="Pod groups worked on at the same time; 10 if not set."
    )
    replicas: int | None = own_replicas()
    vpa: AutoscalingSpec | None = own_autoscaling()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueServiceSpec(Fields):
    """Ports of queue-controller."""

    metrics: PortSpec = part(PortSpec, default=METRICS_PORT, meaning="Where metrics are read.")
    webhook: PortSpec = part(PortSpec, meaning="The port that the API server calls.")

    def check(self, at: Place) -> None:
        """The webhook is on a port of its own."""
        of_process = {**_PROBED, "metrics.targetPort": self.metrics.target_port}
        _apart(at.below("webhook"), "targetPort", self.webhook.target_port, of_process)
        _apart(at.below("webhook"), "port", self.webhook.port, {"metrics.port": self.metrics.port})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueControllerSpec(Fields):
    """Tells what queues use and may use."""

    service: ServiceSpec = part(ServiceSpec, default=_WATCHING, meaning="How it runs.")
    controller_service: QueueServiceSpec = part(QueueServiceSpec, meaning="Its ports.")
    webhooks: QueueValidationSpec = part(
        QueueValidationSpec,
        default=QueueValidationSpec(webhook_configuration_name_prefix="kai-queue-validation-"),
        meaning="The webhook of queues.",
    )
    replicas: int | None = own_replicas()
    metrics_namespace: str = value(
        METRIC_PREFIX, "kai", meaning="Prefix of the metrics of queues, and of schedulers."
    )
    queue_label_to_metric_label: str = value(
        METRIC_LABELS, "", meaning="QUEUE-LABEL=METRIC-LABEL,…: labels of queues that metrics carry."
    )
    queue_label_to_default_metric_value: str = value(
        PAIRS, "", meaning="QUEUE-LABEL=VALUE,…: what metrics say without that label."
    )
    vpa: AutoscalingSpec | None = own_autoscaling()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerServiceSpec(Fields):
    """The Service of each scheduler."""

    type: str = value(one_of(("ClusterIP",)), "ClusterIP", meaning="ClusterIP: it has no other address.")
    port: int = value(PORT, 8080, meaning="Port of /metrics of the Service.")
    target_port: int = value(PORT, 8080, meaning="Port of the process that it leads to, and of its probes.")
    grpc_port: int = value(PORT, 9090, meaning="Port of sessions and decisions.")

    def check(self, at: Place) -> None:
        """Sessions and metrics are on ports of their own."""
        _apart(at, "port", self.port, {"grpcPort": self.grpc_port})
        _apart(at, "targetPort", self.target_port, {"grpcPort": self.grpc_port})


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSpec(Fields):
    """All schedulers, one for each SchedulingShard."""

    service: ServiceSpec = part(ServiceSpec, default=_DECIDING, meaning="How they run.")
    go_gc: None = refused(
        "it tunes the memory of Go; remove it", openapi={"type": "integer"}, spelling="GOGC"
    )
    scheduler_service: SchedulerServiceSpec = part(SchedulerServiceSpec, meaning="Their Services.")
    replicas: int | None = own_replicas()
    vpa: AutoscalingSpec | None = own_autoscaling()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSpec(Fields):
    """What node-scale-adjuster makes."""

    scaling_pod_image: ImageSpec = part(ImageSpec, meaning="Image of the pods that make room.")
    node_scale_namespace: str = value(
        SHORT_NAME, names.SCALE_ADJUST_NAMESPACE, meaning="Namespace of the pods that make room."
    )
    node_scale_service_account: str = value(
        NAME, names.SCALE_ADJUST_NAMESPACE, meaning="Service account of the pods that make room."
    )
    gpu_memory_to_fraction_ratio: float = value(
        number(least=0), 0.1, meaning="Part of a GPU that is asked for by a pod that asks for GPU memory."
    )

    def check(self, at: Place) -> None:
        """A pod asks for some of a device, and for no more than all of it."""
        ratio = self.gpu_memory_to_fraction_ratio
        if not 0 < ratio <= 1:
            at.below("gpuMemoryToFractionRatio").complain(
                f"is {ratio:g}; it must be above 0 and at most 1, such as 0.1"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeScaleAdjusterSpec(Fields):
    """Makes autoscalers see pods that ask for parts of GPUs."""

    service: ServiceSpec = part(
        ServiceSpec,
        default=a_service(
            requests={"cpu": "50m", "memory": "128Mi"}, limits={"memory": "256Mi"}, enabled=False
        ),
        meaning="How it runs; not unless enabled is set.",
    )
    args: ScalingSpec = part(ScalingSpec, meaning="What it makes.")
    replicas: int | None = own_replicas()
    vpa: AutoscalingSpec | None = own_autoscaling()


# --- insight -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySecretSpec(Fields):
    """A PostgreSQL of your own, by a secret in our namespace."""

    name: str = value(
        OPTIONAL_NAME, "", meaning="The secret that holds its address; empty: a file on a volume."
    )
    key: str = value(TEXT, "url", meaning="Key of the address: postgresql://user:password@host:port/name.")
    port: int = value(PORT, 5432, meaning="Where it listens, for the network policies.")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryVolumeSpec(Fields):
    """A volume for the file of insight."""

    enabled: bool = value(SWITCH, True, meaning="Whether the file survives its pod.")
    size: str = value(AMOUNT, "10Gi", meaning="Size of the volume.")
    storage_class_name: str = value(
        OPTIONAL_NAME, "", meaning="Class of the volume; the cluster's default if empty."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightSpec(Fields):
    """Records what runs and what is decided, and answers questions about it."""

    service: ServiceSpec = part(
        ServiceSpec,
        default=a_service(
            requests={"cpu": "50m", "memory": "256Mi"}, limits={"memory": "512Mi"}, enabled=False
        ),
        meaning="How it runs; not unless enabled is set.",
    )
    external_secret: HistorySecretSpec = part(HistorySecretSpec, meaning="A database for it.")
    persistence: HistoryVolumeSpec = part(HistoryVolumeSpec, meaning="A volume for it, without a database.")
    retention: str = value(time(least=1, days=True), "30d", meaning="How long is kept what is over.")
    grpc_port: int = value(PORT, 9091, meaning="Port of questions about the history.")
    http_port: int = value(
        OPTIONAL_PORT, 9092, meaning="Port of the same questions over HTTP; 0: they are not taken."
    )
    replicas: int | None = own_replicas()
    vpa: AutoscalingSpec | None = own_autoscaling()

    @property
    def keeps_file(self) -> bool:
        """Whether it has a file that survives its pod."""
        return self.persistence.enabled and not self.external_secret.name

    def check(self, at: Place) -> None:
        """Each is on a port of its own, where it runs; a file has one writer, and needs room."""
        if self.service.enabled:
            _apart(at, "grpcPort", self.grpc_port, {**_SCRAPED, **_PROBED, "httpPort": self.http_port})
            _apart(at, "httpPort", self.http_port, {**_SCRAPED, **_PROBED})
        if self.external_secret.name:
            return
        if self.replicas is not None and self.replicas > 1:
            at.below("replicas").complain(
                f"is {self.replicas}; a file has one writer: name a database in externalSecret, or write 1"
            )
        if self.persistence.enabled and quantity.parse(self.persistence.size) <= 0:
            at.below("persistence").below("size").complain("is 0; give the volume a size, such as 10Gi")
