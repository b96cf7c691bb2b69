"""What operands depend on beside what administrators write: the operator sees it, `kai render` is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: Optional kinds, as :attr:`Facts.served` names them.
SERVICE_MONITOR: Final = "monitoring.coreos.com/ServiceMonitor"
PROMETHEUS: Final = "monitoring.coreos.com/Prometheus"
AUTOSCALER: Final = "autoscaling.k8s.io/VerticalPodAutoscaler"
OPTIONAL_KINDS: Final = (SERVICE_MONITOR, PROMETHEUS, AUTOSCALER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about the cluster, and about the operator itself."""

    #: Whether somebody keeps the endpoints of those who lead, as the operator does.
    leaders_kept: bool = True
    #: Those of :data:`OPTIONAL_KINDS` that the cluster serves.
    served: frozenset[str] = frozenset()
    #: Whether NVIDIA's ClusterPolicy says that the device plugin uses CDI.
    cdi: bool = False
    #: Whether a node has the label ``run.ai/fake.gpu=true``: its devices are only played.
    fake_gpus: bool = False
    #: Whether the cluster gives out user ids by itself.
    openshift: bool = False
    #: Names of PersistentVolumeClaims of ours, while there is a shard that cannot be read: it may need them.
    claims_in_doubt: frozenset[str] = frozenset()
    #: Ports of the API server, for the network policies; none leaves what goes out open.
    api_server_ports: tuple[int, ...] = ()
    #: Authority (``webhooks``, ``grpc``, ``redis``) -> what is to be trusted, PEM.
    trust: Mapping[str, str] = field(default_factory=dict)
    #: Changes with the password of our Redis, which has to start anew then; never the password.
    redis_password_digest: str = ""
    #: Where images are that a Config does not place: those of the operator's own.
    repository: str = "registry/local"
    tag: str = "latest"
