"""A node for each pod of the default scheduler: the emptiest one that it fits on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kai.model.objects import Node, Taint
from kai.model.rules.selectors import node_selector
from kai.model.rules.taints import REPELLING, untolerated
from kai_local.parts.objects import LocalPod
from kai_local.parts.requests import Amounts, amounts, pod_requests

DEFAULT_SCHEDULER = "default-scheduler"
#: What a cordoned node is taken to have.
_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class Unplaceable:
    """Why no node takes the pod, in the words of kube-scheduler."""

    message: str


def choose_node(pod: LocalPod, nodes: Iterable[Node], used: Mapping[str, Amounts]) -> str | Unplaceable:
    """The node for a pod, given what is used on each; the least full, the first by name among equals."""
    wanted = pod_requests(pod)
    reasons: dict[str, int] = {}
    best: tuple[float, str] | None = None
    count = 0
    for node in nodes:
        count += 1
        name = node.metadata.name
        reason = mismatch(pod, node) or _shortage(wanted, node, used.get(name, {}))
        if reason:
            reasons[reason] = reasons.get(reason, 0) + 1
            continue
        rank = (_fullness(wanted, node, used.get(name, {})), name)
        best = rank if best is None else min(best, rank)
    if best is not None:
        return best[1]
    listed = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
    return Unplaceable(
        f"0/{count} nodes are available: {listed}." if listed else "no nodes available to schedule pods"
    )


def mismatch(pod: LocalPod, node: Node, *, there: bool = False) -> str:
    """Why the pod must not be on the node, whatever is free there; empty if it may.

    A pod that is ``there`` already may stay whatever only keeps new ones away.
    """
    taints = list(node.spec.taints or ())
    if node.spec.unschedulable:
        taints.insert(0, _UNSCHEDULABLE)
    effects = ("NoExecute",) if there else REPELLING
    taint = untolerated(taints, pod.spec.tolerations or (), effects=effects)
    if taint is _UNSCHEDULABLE:
        return "node(s) were unschedulable"
    if taint is not None:
        return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    selector = pod.spec.node_selector or {}
    if any(node.labels.get(key) != value for key, value in selector.items()) or not _affine(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    return ""


def _affine(pod: LocalPod, node: Node) -> bool:
    required = ((pod.spec.affinity or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return not required or node_selector(required, node.metadata.name, node.labels)


def _shortage(wanted: Amounts, node: Node, used: Amounts) -> str:
    there = amounts(node.status.allocatable)
    for resource, amount in sorted(wanted.items()):
        if amount and used.get(resource, 0) + amount > there.get(resource, 0):
            return "Too many pods" if resource == "pods" else f"Insufficient {resource}"
    return ""


def _fullness(wanted: Amounts, node: Node, used: Amounts) -> float:
    there = amounts(node.status.allocatable)
    shares = [
        (used.get(resource, 0) + wanted.get(resource, 0)) / there[resource]
        for resource in ("cpu", "memory", "pods")
        if there.get(resource)
    ]
    return sum(shares)
