"""What the queue-controller can be told."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from kai.runtime import Duration, Listen
from kai.runtime.listeners import ListenerSettings
from kai.runtime.redis import RedisSettings

_METRIC_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_METRIC_PREFIX = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def _parse_pairs(value: object) -> object:
    """``a=b,c=d`` as a mapping."""
    if not isinstance(value, str):
        return value
    pairs = (pair.partition("=") for pair in value.split(",") if pair.strip())
    parsed: dict[str, str] = {}
    for key, equals, text in pairs:
        if not (key.strip() and equals):
            raise ValueError("write KEY=VALUE,KEY=VALUE")
        parsed[key.strip()] = text.strip()
    return parsed


def _check_labels(value: object) -> object:
    mapping = _parse_pairs(value)
    if isinstance(mapping, dict):
        for label in mapping.values():
            if not _METRIC_LABEL.fullmatch(str(label)):
                raise ValueError(f"{label!r} is not a metric label; use letters, digits and _")
    return mapping


def _check_prefix(value: object) -> object:
    if not _METRIC_PREFIX.fullmatch(str(value)):
        raise ValueError("use letters, digits, _ and :")
    return value


class QueueControllerSettings(ListenerSettings, RedisSettings):
    """Flags, ``KAI_…`` variables or keys of the file; see :class:`kai.runtime.ServiceSettings`."""

    flag_names: ClassVar[dict[str, str]] = {"webhook-addr": "webhook_listen"}
    #: Schedulers tell what the nodes of their shards have to give.
    ignored_flags: ClassVar[frozenset[str]] = frozenset({"nodepool-label-key"})

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
    metrics_namespace: Annotated[str, BeforeValidator(_check_prefix)] = Field(
        "kai", description="prefix of the queue metrics"
    )
    queue_label_to_metric_label: Annotated[dict[str, str], NoDecode, BeforeValidator(_check_labels)] = Field(
        default_factory=dict, description="QUEUE-LABEL=METRIC-LABEL,…: labels of queues that metrics carry"
    )
    queue_label_to_default_metric_value: Annotated[
        dict[str, str], NoDecode, BeforeValidator(_parse_pairs)
    ] = Field(default_factory=dict, description="QUEUE-LABEL=VALUE,…: what metrics say without that label")
    status_interval: Duration = Field(2.0, gt=0, description="time between two writes of a queue's status")
    usage_interval: Duration = Field(
        30.0, gt=0, description="time between two samples of usage (needs Redis)"
    )
    usage_retention: Duration = Field(
        8 * 86400.0, gt=0, description="how long usage is kept; longer than the window of fair share"
    )
