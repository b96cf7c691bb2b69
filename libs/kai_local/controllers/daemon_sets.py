"""DaemonSets: one pod on each node that may have it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kai.kube import resources
from kai.model.objects import Json, Node
from kai_local.controllers.actions import Action, Create, Delete, Patch, Plan
from kai_local.controllers.objects import (
    Workload,
    changed,
    content_hash,
    owner_reference,
    pod_from_template,
)
from kai_local.controllers.placement import mismatch
from kai_local.parts.objects import LocalPod

_REVISION = "controller-revision-hash"
_TOLERATED = ("not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")


def reconcile(daemon_set: Workload, pods: Sequence[LocalPod], nodes: Sequence[Node], now: float) -> Plan:
    """Make, delete and renew pods. A pod is renewed at once: the new one cannot run beside the old."""
    revision = content_hash(daemon_set.template)
    probe = _probe(daemon_set)
    wanted = {node.metadata.name for node in nodes if not mismatch(probe, node)}
    tolerable = {node.metadata.name for node in nodes if not mismatch(probe, node, there=True)}
    by_node: dict[str, list[LocalPod]] = {}
    for pod in pods:
        by_node.setdefault(_target(pod), []).append(pod)
    actions: list[Action] = []
    if not daemon_set.terminating:
        renew = (daemon_set.spec.get("updateStrategy") or {}).get("type") != "OnDelete"
        for node, there in by_node.items():
            keep = node in tolerable
            for number, pod in enumerate(there):
                outdated = renew and pod.labels.get(_REVISION) != revision
                if not pod.terminating and (not keep or number or pod.terminal or outdated):
                    actions.append(Delete.of(resources.PODS, pod))
        actions += [_new_pod(daemon_set, node, revision) for node in sorted(wanted - by_node.keys())]
    status = _status(daemon_set, by_node, wanted, revision)
    if changed(daemon_set.status, status):
        meta = daemon_set.metadata
        actions.append(Patch(resources.DAEMON_SETS, meta.namespace, meta.name, {"status": status}, "status"))
    return Plan(actions)


def _new_pod(daemon_set: Workload, node: str, revision: str) -> Create:
    owner = owner_reference("apps/v1", "DaemonSet", daemon_set)
    pod = pod_from_template(daemon_set.template, owner, labels={_REVISION: revision})
    pod["metadata"]["generateName"] = f"{daemon_set.metadata.name}-"
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = pod["spec"].setdefault("affinity", {})
    affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    pod["spec"]["tolerations"] = [*(pod["spec"].get("tolerations") or ()), *_tolerations()]
    return Create(resources.PODS, daemon_set.metadata.namespace, pod)


def _tolerations() -> list[Json]:
    return [{"key": f"node.kubernetes.io/{name}", "operator": "Exists"} for name in _TOLERATED]


def _probe(daemon_set: Workload) -> LocalPod:
    """A pod as it would be made, to be held against the nodes."""
    spec = dict(daemon_set.template.get("spec") or {})
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *_tolerations()]
    return msgspec.convert({"spec": spec}, LocalPod)


def _target(pod: LocalPod) -> str:
    """The node that a pod is on, or that it was made for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    required = ((pod.spec.affinity or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return ""


def _status(
    daemon_set: Workload, by_node: dict[str, list[LocalPod]], wanted: set[str], revision: str
) -> Json:
    living = [pod for node in wanted for pod in by_node.get(node, [])[:1] if not pod.terminating]
    ready = sum(pod.ready for pod in living)
    return {
        "observedGeneration": daemon_set.metadata.generation,
        "desiredNumberScheduled": len(wanted),
        "currentNumberScheduled": len(living),
        "updatedNumberScheduled": sum(pod.labels.get(_REVISION) == revision for pod in living),
        "numberMisscheduled": sum(node not in wanted for node in by_node),
        "numberReady": ready,
        "numberAvailable": ready,
        "numberUnavailable": len(wanted) - ready,
    }
