"""StatefulSets: pods with names that stay, made and changed in order."""

from __future__ import annotations

from collections.abc import Sequence

from kai.kube import resources
from kai.model.objects import Json
from kai_local.controllers.actions import Action, Create, Delete, Patch, Plan
from kai_local.controllers.objects import (
    Workload,
    changed,
    content_hash,
    owner_reference,
    pod_from_template,
)
from kai_local.parts.objects import LocalPod

_REVISION = "controller-revision-hash"


def reconcile(stateful_set: Workload, pods: Sequence[LocalPod], now: float) -> Plan:
    """Make what is missing from the lowest ordinal up, take away and renew from the highest down."""
    spec, meta = stateful_set.spec, stateful_set.metadata
    revision = f"{meta.name}-{content_hash(stateful_set.template)}"
    first = int((spec.get("ordinals") or {}).get("start") or 0)
    wanted = range(first, first + int(spec.get("replicas", 1)))
    by_ordinal = {place: pod for pod in pods if (place := ordinal(stateful_set, pod)) is not None}
    actions: list[Action] = []
    if not stateful_set.terminating:
        in_order = spec.get("podManagementPolicy", "OrderedReady") != "Parallel"
        actions = _complete(stateful_set, by_ordinal, wanted, revision, in_order=in_order)
        if not actions:
            actions = _shrink(by_ordinal, wanted, in_order=in_order)
        if not actions and (spec.get("updateStrategy") or {}).get("type") != "OnDelete":
            actions = _renew(stateful_set, by_ordinal, wanted, revision)
    status = _status(stateful_set, by_ordinal, revision)
    if changed(stateful_set.status, status):
        patch = {"status": status}
        actions.append(Patch(resources.STATEFUL_SETS, meta.namespace, meta.name, patch, "status"))
    return Plan(actions)


def _complete(
    stateful_set: Workload, pods: dict[int, LocalPod], wanted: range, revision: str, *, in_order: bool
) -> list[Action]:
    actions: list[Action] = []
    for ordinal in wanted:
        pod = pods.get(ordinal)
        if pod is None:
            actions += _new_pod(stateful_set, ordinal, revision)
        elif pod.terminal and not pod.terminating:
            actions.append(Delete.of(resources.PODS, pod))
        if in_order and (pod is None or pod.terminating or not pod.ready):
            break
    return actions


def _shrink(pods: dict[int, LocalPod], wanted: range, *, in_order: bool) -> list[Action]:
    surplus = [pods[ordinal] for ordinal in sorted(pods, reverse=True) if ordinal not in wanted]
    if in_order:
        surplus = surplus[:1]
    return [Delete.of(resources.PODS, pod) for pod in surplus if not pod.terminating]


def _renew(stateful_set: Workload, pods: dict[int, LocalPod], wanted: range, revision: str) -> list[Action]:
    rolling = (stateful_set.spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    partition = int(rolling.get("partition") or 0)
    for ordinal in reversed(wanted):
        pod = pods.get(ordinal)
        if pod is None or ordinal < partition:
            return []
        if pod.labels.get(_REVISION) != revision:
            return [] if pod.terminating else [Delete.of(resources.PODS, pod)]
        if not pod.ready:
            return []
    return []


def _new_pod(stateful_set: Workload, ordinal: int, revision: str) -> list[Action]:
    meta, spec = stateful_set.metadata, stateful_set.spec
    name = f"{meta.name}-{ordinal}"
    labels = {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
        _REVISION: revision,
    }
    pod = pod_from_template(
        stateful_set.template, owner_reference("apps/v1", "StatefulSet", stateful_set), labels=labels
    )
    pod["metadata"]["name"] = name
    pod["spec"].setdefault("hostname", name)
    if spec.get("serviceName"):
        pod["spec"].setdefault("subdomain", spec["serviceName"])
    actions: list[Action] = []
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for template in spec.get("volumeClaimTemplates") or ():
        claim = f"{template['metadata']['name']}-{name}"
        volumes[template["metadata"]["name"]] = {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim},
        }
        actions.append(Create(resources.PVCS, meta.namespace, _claim(template, claim, spec)))
    if volumes:
        pod["spec"]["volumes"] = list(volumes.values())
    return [*actions, Create(resources.PODS, meta.namespace, pod)]


def _claim(template: Json, name: str, spec: Json) -> Json:
    labels = {
        **((spec.get("selector") or {}).get("matchLabels") or {}),
        **(template["metadata"].get("labels") or {}),
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": template.get("spec") or {}}


def ordinal(stateful_set: Workload, pod: LocalPod) -> int | None:
    """The place that a pod has by its name; ``None`` if it has none in this set."""
    name, _, number = pod.metadata.name.rpartition("-")
    return int(number) if name == stateful_set.metadata.name and number.isdecimal() else None


def _status(stateful_set: Workload, pods: dict[int, LocalPod], revision: str) -> Json:
    living = [pod for pod in pods.values() if not pod.terminal]
    updated = [pod for pod in living if pod.labels.get(_REVISION) == revision]
    before = str(stateful_set.status.get("currentRevision") or revision)
    current = revision if len(updated) == len(living) else before
    return {
        "observedGeneration": stateful_set.metadata.generation,
        "replicas": len(living),
        "readyReplicas": sum(pod.ready for pod in living),
        "availableReplicas": sum(pod.ready for pod in living),
        "currentReplicas": sum(pod.labels.get(_REVISION) == current for pod in living),
        "updatedReplicas": len(updated),
        "currentRevision": current,
        "updateRevision": revision,
    }
