"""What the admission service can be told."""

from typing import ClassVar, Final

from pydantic import Field

from kai.advice.facts import Facts
from kai.model import names
from kai.runtime import Listen, ServiceSettings
from kai.validation.pods import PodRules

_DEFAULT_RUNTIME_CLASS: Final = "nvidia"


class AdmissionSettings(ServiceSettings):
    """Flags, ``KAI_…`` variables or keys of the file; see :class:`kai.runtime.ServiceSettings`."""

    flag_names: ClassVar[dict[str, str]] = {"webhook-listen": "webhook_addr"}
    ignored_flags: ClassVar[frozenset[str]] = frozenset({"fake-gpu-nodes"})

    webhook_addr: Listen = Field(":9443", description="port, or host:port, of the HTTPS server")
    cert_dir: str = Field(
        "/tmp/k8s-webhook-server/serving-certs",  # noqa: S108 (where the field mounts it)
        description="directory with tls.crt and tls.key; read again when they change",
    )
    gpu_sharing_enabled: bool = Field(False, description="let pods ask for a part of a GPU")
    hami_core_enabled: bool = Field(False, description="tell containers their GPU memory limit for HAMi-core")
    block_nvidia_visible_devices: bool = Field(
        False, description="keep containers without a GPU from naming devices by themselves"
    )
    gpu_fraction_runtime_class_name: str | None = Field(
        None, description="runtime class of pods that share a GPU, empty for none; nvidia if not given"
    )
    gpu_pod_runtime_class_name: str | None = Field(
        None, description="deprecated name of --gpu-fraction-runtime-class-name"
    )

    watch_cluster: bool = Field(
        True,
        description="follow queues, namespaces, priority classes and nodes, for warnings and refusals",
    )
    queue_label_key: str = Field(
        names.QUEUE_LABEL, description="label that names the queue, as the pod-grouper knows it"
    )
    nodepool_label_key: str = Field(names.NODE_POOL_LABEL, description="label that names the node pool")
    resource_reservation_namespace: str = Field(
        names.RESERVATION_NAMESPACE,
        description="of reservation pods, whose priority may be the system's",
    )
    scale_adjust_namespace: str = Field(
        names.SCALE_ADJUST_NAMESPACE, description="of scaling pods, whose priority may be the system's"
    )

    @property
    def known_names(self) -> Facts:
        """What warnings go by before anything is known of the cluster."""
        return Facts(
            scheduler_name=self.scheduler_name,
            queue_label_key=self.queue_label_key,
            node_pool_label_key=self.nodepool_label_key,
            system_namespaces=(
                names.SYSTEM_NAMESPACE,
                self.namespace,
                self.resource_reservation_namespace,
                self.scale_adjust_namespace,
            ),
        )

    @property
    def runtime_class(self) -> str:
        """The runtime class to give to pods that share a GPU; empty for none."""
        for given in (self.gpu_fraction_runtime_class_name, self.gpu_pod_runtime_class_name):
            if given is not None:
                return given
        return _DEFAULT_RUNTIME_CLASS

    @property
    def pod_rules(self) -> PodRules:
        """What pods may do here."""
        return PodRules(
            gpu_sharing=self.gpu_sharing_enabled, block_visible_devices=self.block_nvidia_visible_devices
        )
