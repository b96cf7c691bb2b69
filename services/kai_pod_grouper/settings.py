"""What the pod-grouper can be told. Names and defaults of flags are those that users know."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from kai.grouping.options import GroupingOptions
from kai.model import flag_rules, names
from kai.model.flag_values import OptionalListen, Selector
from kai.runtime import Duration
from kai.runtime.tls import TlsSettings


class PodGrouperSettings(TlsSettings):
    """Flags, ``KAI_…`` variables or keys of the file; see :class:`kai.runtime.ServiceSettings`."""

    grpc_listen: OptionalListen = Field(
        "", description="host:port where schedulers are told of groups; empty: each pod is annotated at once"
    )
    previews: bool = Field(False, description="serve previews of manifests there, too")
    advertise_host: str = Field(
        "", description="host that others reach us by; default that of --grpc-listen, else our pod's address"
    )
    annotate_after: Duration = Field(
        2.0, ge=0, description="how long a pod may wait for its bind without its annotation; 0: not at all"
    )
    nodepool_label_key: str = Field(names.NODE_POOL_LABEL, description="label that says the node pool")
    queue_label_key: str = Field(names.QUEUE_LABEL, description="label that says the queue")
    max_concurrent_reconciles: int = Field(10, gt=0, description="workloads looked at at the same time")
    search_legacy_pg: bool = Field(True, description="keep pod groups with names of earlier releases")
    knative_gang_schedule: bool = Field(True, description="make a gang of each Knative revision")
    generic_karta_fallback: bool = Field(True, description="group other kinds by Karta definitions")
    default_priorities_configmap_name: str = Field("", description="ConfigMap with defaults by kind")
    default_priorities_configmap_namespace: str = Field("", description="its namespace")
    pod_label_selector: Selector = Field("", description="k=v,k=v: group only pods with these labels")
    namespace_label_selector: Selector = Field("", description="k=v,k=v: group only pods in such namespaces")

    @model_validator(mode="after")
    def _plain_text_stays_here(self) -> Self:
        flag_rules.previews_stay_here(self.grpc_listen if self.previews else "", tls=self.tls is not None)
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
