"""What the queue-controller can be told."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic_settings import NoDecode

from kai.model import names
from kai.model.flag_values import MetricLabels, MetricPrefix, Pairs
from kai.runtime import Duration, Listen
from kai.runtime.listeners import ListenerSettings
from kai.runtime.redis import RedisSettings


class QueueControllerSettings(ListenerSettings, RedisSettings):
    """Flags, ``KAI_…`` variables or keys of the file; see :class:`kai.runtime.ServiceSettings`."""

    flag_names: ClassVar[dict[str, str]] = {"webhook-addr": "webhook_listen"}

    nodepool_label_key: str = Field(names.NODE_POOL_LABEL, description="label that names the node pool")
    enable_webhook: bool = Field(True, description="serve the validation webhook of queues")
    enable_quota_validation: bool = Field(False, description="let the webhook compare quotas along the tree")
    refuse_queue_deletion: bool = Field(
        False,
        description="let the webhook refuse to delete a queue with children or work, instead of warning",
    )
    webhook_listen: Listen = Field(":9443", description="host:port of the webhook")
    cert_dir: str = Field(
        "/tmp/k8s-webhook-server/serving-certs",  # noqa: S108 (where the chart mounts the Secret)
        description="directory with tls.crt and tls.key of the webhook",
    )
    metrics_namespace: MetricPrefix = Field("kai", description="prefix of the queue metrics")
    queue_label_to_metric_label: Annotated[MetricLabels, NoDecode] = Field(
        default_factory=dict, description="QUEUE-LABEL=METRIC-LABEL,…: labels of queues that metrics carry"
    )
    queue_label_to_default_metric_value: Annotated[Pairs, NoDecode] = Field(
        default_factory=dict, description="QUEUE-LABEL=VALUE,…: what metrics say without that label"
    )
    status_interval: Duration = Field(2.0, gt=0, description="time between two writes of a queue's status")
    usage_interval: Duration = Field(
        30.0, gt=0, description="time between two samples of usage (needs Redis)"
    )
    usage_retention: Duration = Field(
        8 * 86400.0, gt=0, description="how long usage is kept; longer than the window of fair share"
    )
