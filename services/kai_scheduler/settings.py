"""What the scheduler can be told. Names and defaults of flags are those that users know."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from kai.config import EngineParams, SchedulerConfig
from kai.config.arguments import ConfigError
from kai.engine.engine import asked_to_validate
from kai.model import names
from kai.model.flag_values import MetricPrefix
from kai.runtime import Duration, Listen, SettingsError
from kai.runtime.redis import RedisSettings
from kai.runtime.tls import TlsSettings
from kai.snapshot.state import StateParams
from kai_scheduler.usage_sources import connection


class SchedulerSettings(TlsSettings, RedisSettings):
    """Flags, variables and file keys of the scheduler."""

    ignored_flags: ClassVar[frozenset[str]] = frozenset(
        {
            "version", "num-of-status-recording-workers",
            "pyroscope-address", "pyroscope-mutex-profiler-rate", "pyroscope-block-profiler-rate",
        }
    )  # fmt: skip

    health_listen: Listen = Field(":8080", description="host:port of /healthz and /readyz")
    grpc_listen: Listen = Field(":9090", description="host:port of sessions and decisions")
    advertise_host: str = Field(
        "", description="host that others reach us by; default that of --grpc-listen, else our pod's address"
    )
    metrics_namespace: MetricPrefix = Field("kai", description="prefix of all metrics")
    resource_reservation_app_label: str = Field(names.RESERVATION_APP, description="app label of their pods")
    resource_reservation_namespace: str = Field(
        names.RESERVATION_NAMESPACE, description="namespace of their pods; elsewhere the label says nothing"
    )
    scale_adjust_namespace: str = Field(names.SCALE_ADJUST_NAMESPACE, description="namespace of scaling pods")
    restrict_node_scheduling: bool = Field(False, description="use only nodes with a worker label")
    nodepool_label_key: str = Field(names.NODE_POOL_LABEL, description="label that says the node pool")
    queue_label_key: str = Field(names.QUEUE_LABEL, description="label that says the queue")
    partition_label_value: str = Field("", description="node pool that we serve; empty: what has no label")
    scheduler_conf: str = Field("", description="YAML file with actions, plugins, depths and budgets")
    schedule_period: Duration = Field(1.0, gt=0, description="longest time between a change and a cycle")
    snapshot_period: Duration = Field(
        30.0, gt=0, description="time between two snapshots in Redis; who asks gets the newest at any time"
    )
    debounce: Duration = Field(0.03, ge=0, description="how long to gather changes before a cycle")
    max_consolidation_preemptees: int = Field(16, ge=0, description="pods moved by one consolidation")
    detailed_fit_errors: bool = Field(False, description="reasons for each node; costly")
    update_pod_eviction_condition: bool = Field(False, description="set DisruptionTarget before evicting")
    eviction_api: bool = Field(False, description="evict so that disruption budgets are respected")
    schedule_csi_storage: bool = Field(False, description="take storage capacity into account")
    wait_for_config_maps: bool = Field(
        True, description="let pods wait for ConfigMaps that they need; takes the right to list them all"
    )
    use_scheduling_signatures: bool = Field(True, description="try equal workloads once")
    full_hierarchy_fairness: bool = Field(True, description="fairness at all levels of the queue tree")
    allow_consolidating_reclaim: bool = Field(True, description="let reclaim move pods")
    default_staleness_grace_period: Duration = Field(60.0, description="negative: for ever")
    stuck_in_releasing_threshold: Duration = Field(120.0, ge=0, description="then a deleted pod is stuck")
    plugin_server_port: int = Field(8081, ge=0, le=65535, description="port on 127.0.0.1 for snapshots")
    cpu_worker_node_label_key: str = Field(names.CPU_WORKER_LABEL, description="label of CPU workers")
    gpu_worker_node_label_key: str = Field(names.GPU_WORKER_LABEL, description="label of GPU workers")
    mig_worker_node_label_key: str = Field(names.MIG_WORKER_LABEL, description="label of MIG workers")

    @property
    def lease_name(self) -> str:
        """The Lease of this shard."""
        pool = self.partition_label_value
        return f"{self.scheduler_name}-{pool}" if pool else self.scheduler_name

    @property
    def shard(self) -> str:
        """Name of the shard in Redis and in sessions."""
        return self.partition_label_value or names.DEFAULT_SHARD

    @property
    def state_params(self) -> StateParams:
        """What the cluster state needs to know."""
        return StateParams(
            scheduler_name=self.scheduler_name,
            node_pool_label_key=self.nodepool_label_key,
            node_pool=self.partition_label_value,
            queue_label_key=self.queue_label_key,
            reservation_app=self.resource_reservation_app_label,
            reservation_namespace=self.resource_reservation_namespace,
            scaling_namespace=self.scale_adjust_namespace,
            namespace=self.namespace,
            restrict_node_scheduling=self.restrict_node_scheduling,
            cpu_worker_label_key=self.cpu_worker_node_label_key,
            gpu_worker_label_key=self.gpu_worker_node_label_key,
            mig_worker_label_key=self.mig_worker_node_label_key,
            full_hierarchy_fairness=self.full_hierarchy_fairness,
            stuck_in_releasing_seconds=self.stuck_in_releasing_threshold,
        )

    def check(self) -> None:
        """Read the file that ``--scheduler-conf`` names, and what the engine takes from the environment."""
        try:
            asked_to_validate()
        except ConfigError as error:
            raise SettingsError(str(error)) from error
        database = self.scheduler_config().usage_db
        if database is not None:
            connection(database, os.environ)

    def scheduler_config(self) -> SchedulerConfig:
        """What a cycle does, from the file and our flags.

        Raises:
            SettingsError: the file cannot be read, or says what we do not understand.
        """
        params = EngineParams(
            max_consolidation_preemptees=self.max_consolidation_preemptees,
            default_staleness_grace_seconds=self.default_staleness_grace_period,
            use_scheduling_signatures=self.use_scheduling_signatures,
            allow_consolidating_reclaim=self.allow_consolidating_reclaim,
            detailed_fit_errors=self.detailed_fit_errors,
            schedule_csi_storage=self.schedule_csi_storage,
        )
        if not self.scheduler_conf:
            return SchedulerConfig(params=params)
        try:
            text = Path(self.scheduler_conf).read_text(encoding="utf-8")
            return SchedulerConfig.parse(text, params=params)
        except (OSError, UnicodeDecodeError, ConfigError) as error:
            raise SettingsError(f"--scheduler-conf {self.scheduler_conf}: {error}") from error
