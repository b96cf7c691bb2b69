"""What a user may choose of a cluster, and how services run beside it then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kai_local.services.suite import USUAL, SuiteOptions

#: On one machine a lease that outlives its holder is of no use.
_QUICK_TAKEOVER = {"KAI_LEASE_DURATION": "6", "KAI_LEASE_RENEW_DEADLINE": "5", "KAI_LEASE_RETRY_PERIOD": "2"}


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What a user may choose. ``kubeconfig`` is written alone if given, else the user's own is extended."""

    name: str
    nodes: int = 2
    gpus_per_node: int = 8
    cpus_per_node: int = 64
    memory_per_node: str = "512Gi"
    gpu_memory_mib: int = 81559
    binders: int = 1
    port: int = 0
    kubeconfig: Path | None = None
    webhooks: bool = True
    services: tuple[str, ...] = USUAL
    #: More flags by service.
    flags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: etcd, kube-apiserver, kube-controller-manager and KWOK instead of our own.
    real: bool = False
    #: Real nodes beside the simulated ones, and archives of images that each of them is to have.
    kubelets: int = 0
    archives: tuple[Path, ...] = ()
    #: Have helm install the chart, its roles in force, also where the API server is our own.
    chart: bool = False
    #: Which versions the API server has where there are several, as kube-apiserver's flag says it.
    runtime_config: str = ""
    #: Start modules of ours from a process that has imported them, instead of executing each.
    fork: bool = True
    #: Other projects whose operators are played.
    projects: tuple[str, ...] = ()


def suite_options(
    options: ClusterOptions, *, kubeconfig: Path, redis_url: str, certificates: Path, history: Path
) -> SuiteOptions:
    """How the services run beside a cluster that was brought up so; where that differs from the chart,
    docs/configuration.md says why.

    ``history`` is the file of insight, unless a flag says where else it writes.
    """
    store = {"history-url": f"sqlite:///{history}"}
    return SuiteOptions(
        kubeconfig=str(kubeconfig),
        redis_url=redis_url,
        services=options.services,
        binders=options.binders,
        certificates=certificates if options.webhooks else None,
        environment=_QUICK_TAKEOVER,
        flags={**options.flags, "insight": {**store, **options.flags.get("insight", {})}},
    )
