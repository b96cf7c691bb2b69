"""PodDisruptionBudgets: how many of their pods may be evicted now."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kai.kube import resources
from kai.model.objects import Json
from kai.snapshot.times import rfc3339, seconds
from kai_local.controllers.actions import Patch, Plan
from kai_local.controllers.objects import Workload, changed, condition, selects
from kai_local.parts.budgets import desired_healthy
from kai_local.parts.objects import LocalPod

#: How long the API server may take to delete a pod whose eviction it has counted.
_EVICTION_SECONDS = 120.0


def reconcile(budget: Workload, pods: Sequence[LocalPod], now: float) -> Plan:
    """Write how many may be evicted. ``pods`` are those that the budget means.

    Expected are as many as there are and have not ended: a budget does not ask how many their controllers
    want.
    """
    pods = [pod for pod in pods if not pod.terminal]
    evicted = _evicted(budget, pods, now)
    healthy = sum(pod.ready and not pod.terminating and pod.metadata.name not in evicted for pod in pods)
    desired = desired_healthy(budget.spec, len(pods))
    allowed = max(0, healthy - desired)
    told = budget.status.get("disruptedPods") or {}
    status: Json = {
        "observedGeneration": budget.metadata.generation,
        "expectedPods": len(pods),
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "disruptedPods": evicted,
        "conditions": [_allowance(budget, allowed, now)],
    }
    again_in = min((seconds(at) + _EVICTION_SECONDS - now for at in evicted.values()), default=None)
    if not changed(budget.status, status):
        return Plan(again_in=again_in)
    meta = budget.metadata
    status["disruptedPods"] = dict.fromkeys(told) | evicted
    # An eviction may be counted at this moment: then the version is another one, and we look again.
    patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
    return Plan([Patch(resources.PDBS, meta.namespace, meta.name, patch, "status")], again_in)


def _evicted(budget: Workload, pods: Sequence[LocalPod], now: float) -> dict[str, str]:
    """Pods whose eviction is counted and that are not yet seen to go, and since when."""
    alive = {pod.metadata.name for pod in pods if not pod.terminating}
    told = budget.status.get("disruptedPods") or {}
    return {name: at for name, at in told.items() if name in alive and now < seconds(at) + _EVICTION_SECONDS}


def _allowance(budget: Workload, allowed: int, now: float) -> Json:
    reason = "SufficientPods" if allowed else "InsufficientPods"
    told = condition(
        budget.status,
        "DisruptionAllowed",
        true=allowed > 0,
        reason=reason,
        message="",
        now=rfc3339(now),
    )
    del told["lastUpdateTime"]  # conditions of budgets have none
    return told


def meant_by(budget: Workload) -> Callable[[LocalPod], bool]:
    """Whether the budget is for a pod."""
    namespace, means = budget.metadata.namespace, selects(budget)
    return lambda pod: pod.metadata.namespace == namespace and means(pod.labels)
