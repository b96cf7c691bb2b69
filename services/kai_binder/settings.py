"""What the binder can be told. Names and defaults of flags are those that users know."""

from __future__ import annotations

from pydantic import Field

from kai.model import flag_rules, names
from kai.model.flag_values import JsonObject
from kai.model.objects import PullPolicy
from kai.runtime import Duration, SettingsError
from kai.runtime.tls import TlsSettings
from kai.wire.decisions import BIND_SECONDS
from kai.wire.shards import Shard, shard_of
from kai_binder.plugins import PluginConfig, PluginError, check, configure, time_limits
from kai_binder.reservation_pods import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    ReservationTemplate,
)


class BinderSettings(TlsSettings):
    """Flags, variables and file keys of the binder."""

    resource_reservation_namespace: str = Field(
        names.RESERVATION_NAMESPACE, description="of reservation pods"
    )
    resource_reservation_service_account: str = Field(
        names.RESERVATION_SERVICE_ACCOUNT, description="of reservation pods"
    )
    resource_reservation_app_label: str = Field(names.RESERVATION_APP, description="of reservation pods")
    resource_reservation_pod_image: str = Field(
        "registry/local/kai-scheduler/resource-reservation", description="image of reservation pods"
    )
    resource_reservation_pod_image_pull_policy: PullPolicy = Field(
        "IfNotPresent", description="when the image of reservation pods is pulled"
    )
    resource_reservation_allocation_timeout: Duration = Field(
        40.0, gt=0, description="how long to wait for a reservation pod's device"
    )
    resource_reservation_pod_resources: JsonObject = Field(
        {}, description="JSON: its further requests and limits"
    )
    resource_reservation_pod_security_context: JsonObject = Field(
        POD_SECURITY, description="JSON, of the pod"
    )
    resource_reservation_container_security_context: JsonObject = Field(
        CONTAINER_SECURITY, description="JSON, of the container"
    )
    runtime_class_name: str = Field("", description="runtime class of reservation pods")
    fake_gpu_nodes: bool = Field(False, description="nodes have no real devices")
    max_concurrent_reconciles: int = Field(32, ge=1, description="binds at the same time")
    nodepool_label_key: str = Field(names.NODE_POOL_LABEL, description="label that says the node pool")
    scheduler_leases: str = Field(
        "",
        description="Leases of the schedulers to work for beside those of SchedulingShards, comma-separated; "
        "default: that of what belongs to no node pool",
    )
    tell_bound: bool = Field(
        True,
        description="tell of each bound pod by an event Bound and the condition PodBound, two requests a pod",
    )
    plugins: str = Field("", description="JSON: plugin -> enabled, priority, arguments")

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The schedulers that we work for beside those of SchedulingShards."""
        given = [name.strip() for name in self.scheduler_leases.split(",")]
        return tuple(Shard(name, name) for name in given if name) or (shard_of(self.scheduler_name, ""),)

    @property
    def template(self) -> ReservationTemplate:
        """What reservation pods look like."""
        return ReservationTemplate(
            namespace=self.resource_reservation_namespace,
            service_account=self.resource_reservation_service_account,
            app_label=self.resource_reservation_app_label,
            image=self.resource_reservation_pod_image,
            image_pull_policy=self.resource_reservation_pod_image_pull_policy,
            runtime_class_name=self.runtime_class_name,
            resources=self.resource_reservation_pod_resources,
            pod_security_context=self.resource_reservation_pod_security_context,
            container_security_context=self.resource_reservation_container_security_context,
            fake_gpu_nodes=self.fake_gpu_nodes,
        )

    @property
    def longest_bind(self) -> float:
        """Seconds that a bind may take: what its time limits add up to, and as by default at least."""
        limits = time_limits(self.plugin_configs()) + self.resource_reservation_allocation_timeout
        return max(BIND_SECONDS, limits)

    def check(self) -> None:
        """Read what ``--plugins`` says, and what reservation pods ask for."""
        try:
            check(self.plugin_configs())
        except PluginError as error:
            raise SettingsError(str(error)) from error
        try:
            flag_rules.resources_are_amounts(self.resource_reservation_pod_resources)
        except ValueError as error:
            raise SettingsError(f"--resource-reservation-pod-resources: {error}") from error

    def plugin_configs(self) -> dict[str, PluginConfig]:
        """Which plugins take part, and how.

        Raises:
            SettingsError: ``--plugins`` cannot be used.
        """
        try:
            return configure(self.plugins)
        except PluginError as error:
            raise SettingsError(str(error)) from error
