"""What the pod-grouper can be told. Names and defaults of flags are those that users know."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from kai.model import names
from kai.runtime import Listen
from kai.runtime.health import split_address
from kai.runtime.tls import TlsSettings
from kai_pod_grouper.options import GroupingOptions

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class PodGrouperSettings(TlsSettings):
    """Flags, ``KAI_…`` variables or keys of the file; see :class:`kai.runtime.ServiceSettings`."""

    grpc_listen: Literal[""] | Listen = Field(
        "", description="host:port of previews of manifests; empty: none are served"
    )
    nodepool_label_key: str = Field(names.NODE_POOL_LABEL, description="label that says the node pool")
    queue_label_key: str = Field(names.QUEUE_LABEL, description="label that says the queue")
    max_concurrent_reconciles: int = Field(10, gt=0, description="workloads looked at at the same time")
    search_legacy_pg: bool = Field(True, description="keep pod groups with names of earlier releases")
    knative_gang_schedule: bool = Field(True, description="make a gang of each Knative revision")
    generic_karta_fallback: bool = Field(True, description="group other kinds by Karta definitions")
    default_priorities_configmap_name: str = Field("", description="ConfigMap with defaults by kind")
    default_priorities_configmap_namespace: str = Field("", description="its namespace")
    pod_label_selector: str = Field("", description="k=v,k=v: group only pods with these labels")
    namespace_label_selector: str = Field("", description="k=v,k=v: group only pods in such namespaces")

    @field_validator("pod_label_selector", "namespace_label_selector")
    @classmethod
    def _is_selector(cls, text: str) -> str:
        parse_labels(text)
        return text

    @model_validator(mode="after")
    def _plain_text_stays_here(self) -> Self:
        if self.grpc_listen and self.tls is None and split_address(self.grpc_listen)[0] not in _LOOPBACK:
            raise ValueError(
                f"--grpc-listen {self.grpc_listen}: previews are served to other machines with TLS only; "
                "give --tls-ca, --tls-cert and --tls-key, or listen on 127.0.0.1"
            )
        return self

    @property
    def options(self) -> GroupingOptions:
        """What the rules need to know."""
        return GroupingOptions(
            scheduler_name=self.scheduler_name,
            queue_label_key=self.queue_label_key,
            node_pool_label_key=self.nodepool_label_key,
            search_legacy_pg=self.search_legacy_pg,
            knative_gang_schedule=self.knative_gang_schedule,
            generic_karta_fallback=self.generic_karta_fallback,
        )


def parse_labels(text: str) -> dict[str, str]:
    """``k=v,k=v`` as a mapping.

    Raises:
        ValueError: it is something else.
    """
    labels = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not (key.strip() and equals):
            raise ValueError(f"write label=value,label=value; {part!r} is not of that form")
        labels[key.strip()] = value.strip()
    return labels
