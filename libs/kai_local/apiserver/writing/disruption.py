"""PodDisruptionBudgets: may this pod be evicted now?"""

from typing import Final

from kai.model.rules.phases import has_ended
from kai_local.apiserver.errors import ApiFailure, Obj
from kai_local.apiserver.kinds import selectors
from kai_local.apiserver.store.storage import Record
from kai_local.apiserver.writing.registry import Registry
from kai_local.parts.budgets import desired_healthy

BUDGETS: Final = ("policy", "poddisruptionbudgets")


def _status(registry: Registry, budget: Record) -> Obj:
    """What a disruption controller would write into a budget that none looks after."""
    spec = budget.obj.get("spec") or {}
    selector = selectors.from_object(spec.get("selector"))
    pods = [
        record.obj
        for record in registry.store.collection(("", "pods")).records(budget.namespace)
        if selector.matches(record.obj["metadata"].get("labels"))
        and not has_ended((record.obj.get("status") or {}).get("phase", ""))
    ]
    wanted = desired_healthy(spec, len(pods))
    healthy = sum(map(_is_healthy, pods))
    return {
        "disruptionsAllowed": max(healthy - wanted, 0),
        "currentHealthy": healthy,
        "desiredHealthy": wanted,
    }


def _is_healthy(pod: Obj) -> bool:
    return _is_ready(pod) and "deletionTimestamp" not in pod["metadata"]


def _is_ready(pod: Obj) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def count_eviction(registry: Registry, pod: Record, *, dry_run: bool) -> None:
    """Count the eviction against the pod's budget, if it has one.

    Raises:
        ApiFailure: (429) the budget allows none now, (500) the pod has more than one budget.
    """
    budget = _budget_of(registry, pod)
    if budget is None:
        return
    status = budget.obj.get("status") or {}
    kept = "observedGeneration" in status
    if not kept:
        status = _status(registry, budget)
    if not _is_ready(pod.obj) and _spares_unready(budget, status):
        return
    if status.get("disruptionsAllowed", 0) <= 0:
        raise _refusal(budget, status)
    if kept and not dry_run:
        disrupted = {**status.get("disruptedPods", {}), pod.name: registry.clock.stamp()}
        new = {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1, "disruptedPods": disrupted}
        obj = {**budget.obj, "metadata": dict(budget.obj["metadata"]), "status": new}
        registry.store.collection(BUDGETS).put(obj)


def _spares_unready(budget: Record, status: Obj) -> bool:
    """Whether pods that are not ready may go, whatever is allowed."""
    if budget.obj["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    return bool(healthy >= wanted > 0)


def _budget_of(registry: Registry, pod: Record) -> Record | None:
    labels = pod.obj["metadata"].get("labels")
    budgets = [
        record
        for record in registry.store.collection(BUDGETS).records(pod.namespace)
        if selectors.from_object(record.obj.get("spec", {}).get("selector")).matches(labels)
    ]
    if len(budgets) > 1:
        names = ", ".join(record.name for record in budgets)
        message = (
            f"This pod has more than one PodDisruptionBudget ({names}), which eviction does not support."
        )
        raise ApiFailure(500, "InternalError", message)
    return budgets[0] if budgets else None


def _refusal(budget: Record, status: Obj) -> ApiFailure:
    healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    needs = f"The disruption budget {budget.name} needs {wanted} healthy pods and has {healthy} currently"
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    causes = [{"reason": "DisruptionBudget", "message": needs}]
    return ApiFailure(429, "TooManyRequests", message, details={"causes": causes})
