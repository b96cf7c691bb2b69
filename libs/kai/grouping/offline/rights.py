"""Which objects the pod-grouper may read: what its role in the chart grants, as data.

A preview knows no cluster, so it takes this for the cluster's answer.
"""

from typing import Final

from kai.grouping.rules import known_kinds

#: Kinds beside those that have a rule, by API group: owners on the way up, and what rules look up.
_LOOKED_UP: Final[dict[str, tuple[str, ...]]] = {
    "grove.io": ("PodClique", "PodCliqueScalingGroup"),
    "kubevirt.io": ("VirtualMachine",),
    "run.ai": ("Karta",),
    "scheduler.grove.io": ("PodGang",),
    "serving.knative.dev": ("Configuration", "Revision"),
}

#: Groups of controllers that often stand above the kinds we know. The role leaves them out, so that the
#: known kind below them decides.
NOT_GRANTED: Final = frozenset(
    {
        "apps.kruise.io",
        "apps.nvidia.com",
        "apps.openshift.io",
        "batch.volcano.sh",
        "flink.apache.org",
        "inference.networking.k8s.io",
        "kubernetes.dask.org",
        "kueue.x-k8s.io",
        "serving.kserve.io",
        "spark.apache.org",
        "sparkoperator.k8s.io",
        "workload.codeflare.dev",
    }
)


def granted() -> dict[str, set[str]]:
    """Kinds by API group, ``""`` that of pods. The role grants get on each, and to update its finalizers."""
    found: dict[str, set[str]] = {group: set(kinds) for group, kinds in _LOOKED_UP.items()}
    for api_version, kind in known_kinds():
        found.setdefault(api_version.rpartition("/")[0], set()).add(kind)
    return found


def is_granted(group: str, kind: str) -> bool | None:
    """Whether the chart's role lets the pod-grouper read the kind; ``None``: only the admin knows."""
    kinds = granted().get(group)
    if kinds is not None:
        return kind in kinds
    built_in = "." not in group or group.endswith(".k8s.io")
    return False if built_in or group in NOT_GRANTED else None
