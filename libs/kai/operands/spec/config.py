"""``Config``: an installation as its administrator wants it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kai.model import names
from kai.operands.spec import plugins_of_binder
from kai.operands.spec.additions import (
    CertificatesSpec,
    DefaultPriorityClassesSpec,
    NetworkPolicySpec,
    NumaPlacementExporterSpec,
    PrometheusSpec,
    RedisPart,
    RedisSpec,
)
from kai.operands.spec.components import (
    POD_GROUPER_GRPC_PORT,
    AdmissionSpec,
    BinderSpec,
    InsightSpec,
    NodeScaleAdjusterSpec,
    PodGroupControllerSpec,
    PodGrouperSpec,
    QueueControllerSpec,
    SchedulerSpec,
)
from kai.operands.spec.everywhere import GlobalSpec, GpuSharingMode
from kai.operands.spec.fields import Fields, part, read_fields, value
from kai.operands.spec.flags import check_flags, check_together
from kai.operands.spec.kinds import SHORT_NAME
from kai.operands.spec.pods import AutoscalingSpec
from kai.operands.spec.problems import InvalidSpec, Place, Problem

#: The one that counts.
CONFIG_NAME: Final = "kai-config"
_PARTITION: Final = "partition-label-value"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSpec(Fields):
    """``spec`` of a Config; where it says nothing, the defaults."""

    namespace: str = value(SHORT_NAME, names.NAMESPACE, meaning="Where the components run.")
    everywhere: GlobalSpec = part(GlobalSpec, spelling="global", meaning="Settings of all components.")
    admission: AdmissionSpec = part(AdmissionSpec, meaning="Completes and checks pods.")
    pod_grouper: PodGrouperSpec = part(PodGrouperSpec, meaning="Makes pod groups of workloads.")
    pod_group_controller: PodGroupControllerSpec = part(
        PodGroupControllerSpec, meaning="Tells what becomes of pod groups."
    )
    queue_controller: QueueControllerSpec = part(
        QueueControllerSpec, meaning="Tells what queues use and may use."
    )
    scheduler: SchedulerSpec = part(SchedulerSpec, meaning="All schedulers, one for each SchedulingShard.")
    binder: BinderSpec = part(BinderSpec, meaning="Carries out what schedulers decide.")
    node_scale_adjuster: NodeScaleAdjusterSpec = part(
        NodeScaleAdjusterSpec, meaning="Makes autoscalers see pods that ask for parts of GPUs."
    )
    numa_placement_exporter: NumaPlacementExporterSpec = part(
        NumaPlacementExporterSpec, meaning="Tells of which NUMA zones pods have their devices."
    )
    insight: InsightSpec = part(
        InsightSpec, meaning="Records what runs and what is decided; for kai history and kai report."
    )
    redis: RedisSpec = value(
        RedisPart(RedisSpec), RedisSpec(), meaning="Where history and usage of queues live."
    )
    prometheus: PrometheusSpec = part(PrometheusSpec, meaning="Where usage of queues over time is scraped.")
    network_policy: NetworkPolicySpec = part(NetworkPolicySpec, meaning="Who may connect to whom.")
    certificates: CertificatesSpec = part(
        CertificatesSpec, meaning="Who is trusted by whom, and for how long."
    )
    default_priority_classes: DefaultPriorityClassesSpec = part(
        DefaultPriorityClassesSpec, meaning="The priority classes of workloads."
    )

    def check(self, at: Place) -> None:
        """Say what is wrong with fields that are in order one by one."""
        plugins_of_binder.check(
            self.binder.plugins, at.below("binder").below("plugins"), hami_core=self.hami_core
        )
        for spelling, component in _COMPONENTS.items():
            extra = getattr(self, component).service.extra_args
            below = at.below(spelling).below("service").below("extraArgs")
            check_flags(spelling, extra, below)
            check_together(spelling, extra, below, beside=self.beside(component))
            if "plugins" in extra:
                plugins_of_binder.check_text(extra["plugins"], below.below("plugins"))
        if _PARTITION in self.scheduler.service.extra_args:
            at.below("scheduler").below("service").below("extraArgs").below(_PARTITION).complain(
                "says what a shard is; set spec.partitionLabelValue of each SchedulingShard"
            )

    def beside(self, component: str) -> dict[str, str]:
        """What the installation says to a component that bears on its other flags."""
        spec = getattr(self, component)
        client = spec.service.k8s_client_config
        if component == "pod_grouper" and spec.k8s_client_config.qps:
            client = spec.k8s_client_config
        given = {flag: str(said) for flag, said in (("qps", client.qps), ("burst", client.burst)) if said}
        if component == "pod_grouper":
            given["grpc-listen"] = f":{POD_GROUPER_GRPC_PORT}"
            if self.everywhere.tls.enabled:
                given["tls-ca"] = "ca.crt"
        return given

    # --- what a component does not say by itself -------------------------------------------------
    def replicas(self, own: int | None) -> int:
        """Replicas of a component."""
        return self.everywhere.replica_count if own is None else own

    def autoscaling(self, own: AutoscalingSpec | None) -> AutoscalingSpec:
        """Autoscaling of a component."""
        return self.everywhere.vpa if own is None else own

    @property
    def gpu_sharing(self) -> bool:
        """Whether pods may ask for a part of a GPU."""
        sharing = (GpuSharingMode.NON_MEMORY_ENFORCED, GpuSharingMode.HAMI_CORE)
        said = self.admission.gpu_sharing
        return self.everywhere.gpu_sharing_mode in sharing if said is None else said

    @property
    def hami_core(self) -> bool:
        """Whether memory limits of shared GPUs are told to HAMi-core."""
        change = self.binder.plugins.get("hamicore")
        if change is not None and change.enabled is not None:
            return change.enabled
        return self.everywhere.gpu_sharing_mode == GpuSharingMode.HAMI_CORE


#: Components by the names of their fields.
_COMPONENTS: Final[Mapping[str, str]] = {
    declared.spelling: name
    for name, declared in ConfigSpec.declared().items()
    if hasattr(getattr(ConfigSpec(), name), "service")
}


def read_config(manifest: Mapping[str, Any]) -> ConfigSpec:
    """What a Config says, and the defaults.

    Raises:
        InvalidSpec: it cannot be used; has all that is wrong with it.
    """
    problems: list[Problem] = []
    spec = read_fields(manifest.get("spec") or {}, base=ConfigSpec(), at=Place("spec", problems))
    if problems:
        raise InvalidSpec(f"Config {name_of(manifest)}", problems)
    return spec


def name_of(manifest: Mapping[str, Any]) -> str:
    """The name of an object; empty if it has none."""
    metadata = manifest.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""
