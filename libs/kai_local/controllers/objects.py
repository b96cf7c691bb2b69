"""Workload objects as controllers read them: metadata typed, the rest as it is written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from kai.model.objects import ApiObject, Json
from kai.model.rules.selectors import Selects, label_selector
from kai_local.parts.objects import LocalPod

#: Letters and digits that cannot form words, as Kubernetes uses them in generated names.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


class Workload(ApiObject):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob or PodDisruptionBudget."""

    spec: Json = msgspec.field(default_factory=dict)
    status: Json = msgspec.field(default_factory=dict)

    @property
    def terminating(self) -> bool:
        """Whether somebody has deleted it."""
        return self.metadata.deletion_timestamp is not None

    @property
    def template(self) -> Json:
        """The pod template."""
        return self.spec.get("template") or {}


def selects(workload: Workload) -> Selects:
    """Whether the selector of the workload means what has these labels."""
    return _selects(msgspec.json.encode(workload.spec.get("selector")))


@lru_cache(maxsize=1024)
def _selects(selector: bytes) -> Selects:
    return label_selector(msgspec.json.decode(selector))


def owner_reference(api_version: str, kind: str, owner: ApiObject) -> Json:
    """What says that an object is managed by ``owner``."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def object_reference(api_version: str, kind: str, obj: ApiObject) -> Json:
    """What names an object to those who look for it."""
    meta = obj.metadata
    return {
        "apiVersion": api_version,
        "kind": kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
    }


def pod_from_template(template: Json, owner: Json, *, labels: dict[str, str] | None = None) -> Json:
    """A pod of ``owner`` (an owner reference), still without a name."""
    meta = template.get("metadata") or {}
    metadata: Json = {
        "labels": {**(meta.get("labels") or {}), **(labels or {})},
        "annotations": dict(meta.get("annotations") or {}),
        "ownerReferences": [owner],
    }
    if meta.get("finalizers"):
        metadata["finalizers"] = list(meta["finalizers"])
    return {
        "metadata": metadata,
        "spec": msgspec.json.decode(msgspec.json.encode(template.get("spec") or {})),
    }


def content_hash(value: Any, length: int = 10) -> str:
    """A short name for a content: equal contents have equal ones."""
    digest = hashlib.sha256(msgspec.json.encode(value, order="deterministic")).digest()
    return "".join(_SAFE[byte % len(_SAFE)] for byte in digest[:length])


def scaled(value: Any, of: int, *, round_up: bool) -> int:
    """A number, or a percentage of ``of`` such as ``25%``."""
    if isinstance(value, str) and value.endswith("%"):
        hundredths = int(value[:-1]) * of
        return -(-hundredths // 100) if round_up else hundredths // 100
    return int(value)


def active(pods: Iterable[LocalPod]) -> list[LocalPod]:
    """Those that live and are to go on living."""
    return [pod for pod in pods if not pod.terminal and not pod.terminating]


def by_worth(pods: Iterable[LocalPod]) -> list[LocalPod]:
    """Pods in the order in which they are given up: those that do least first, the youngest among equals."""
    phases = {"Pending": 0, "Unknown": 1, "Running": 2}

    def worth(pod: LocalPod) -> tuple[Any, ...]:
        cost = pod.annotations.get("controller.kubernetes.io/pod-deletion-cost", "0")
        return (
            bool(pod.spec.node_name),
            phases.get(pod.status.phase, 0),
            pod.ready,
            int(cost) if cost.lstrip("-").isdecimal() else 0,
            tuple(-ord(letter) for letter in pod.metadata.creation_timestamp or ""),
        )

    return sorted(pods, key=worth)


def changed(current: Json, wanted: Json) -> Json:
    """Those entries of ``wanted`` that ``current`` has otherwise; none and an empty value are the same."""
    return {key: value for key, value in wanted.items() if (current.get(key) or None) != (value or None)}


def condition(current: Json, kind: str, *, true: bool, reason: str, message: str, now: str) -> Json:
    """A condition of this type; it keeps its time while its status stays."""
    status = "True" if true else "False"
    before: Json = next((c for c in current.get("conditions") or () if c.get("type") == kind), {})
    same = before.get("status") == status
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastUpdateTime": before.get("lastUpdateTime", now)
        if same and before.get("reason") == reason
        else now,
        "lastTransitionTime": before.get("lastTransitionTime", now) if same else now,
    }
