"""What the podgroup-controller can be told."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from kai.model import names
from kai.runtime import Listen
from kai.runtime.listeners import ListenerSettings


class PodGroupControllerSettings(ListenerSettings):
    """Flags, ``KAI_…`` variables or keys of the file; see :class:`kai.runtime.ServiceSettings`."""

    flag_names: ClassVar[dict[str, str]] = {"webhook-addr": "webhook_listen"}

    nodepool_label_key: str = Field(names.NODE_POOL_LABEL, description="label that names the node pool")
    max_concurrent_reconciles: int = Field(10, ge=1, description="pod groups worked on at the same time")
    persist_last_start: bool = Field(
        False, description="write the time of the last start also if no queue sets a minimum runtime"
    )
    enable_podgroup_webhook: bool = Field(True, description="serve the validation webhook of pod groups")
    webhook_listen: Listen = Field(":9443", description="host:port of the webhook")
    cert_dir: str = Field(
        "/tmp/k8s-webhook-server/serving-certs",  # noqa: S108 (where the chart mounts the Secret)
        description="directory with tls.crt and tls.key of the webhook",
    )
