"""A few documented rules, stated once more from the documents alone: what breaks one must not be allowed."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any

_NUMBER = r"([0-9]+\.?[0-9]*|\.[0-9]+)"
_DURATION = re.compile(rf"[+-]?(0|({_NUMBER}(ns|us|µs|μs|ms|s|m|h))+)")
#: Minimum runtimes may be in days and more, too.
_RUNTIME = re.compile(rf"[+-]?(0|({_NUMBER}(ns|us|µs|μs|ms|s|m|h|d|w|y))+)")


#: What a pod that has a node was granted by.
_GRANTED = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "received-resource-type")


def broken(kind: str, body: Any, old: Any, *, operation: str, known_queues: dict[str, str]) -> str:
    """Which rule the object breaks; empty if none of these. ``known_queues``: parents by name."""
    if operation not in ("CREATE", "UPDATE") or not isinstance(body, dict):
        return ""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("deletionTimestamp"):
        return ""
    spec = body.get("spec")
    if not isinstance(spec, dict) or (kind != "Pod" and _dict(old).get("spec") == spec):
        return ""
    match kind:
        case "Pod":
            wrong = _pod(metadata, spec)
            return ("" if _was_wrong(old) else wrong) or _rewritten(metadata, spec, old)
        case "PodGroup":
            return _pod_group(spec, updating=operation == "UPDATE")
        case "Queue":
            return _queue(metadata.get("name", ""), spec, known_queues)
        case "Topology":
            return _topology(spec)
    return ""


def _pod(metadata: Any, spec: Any) -> str:
    told = metadata.get("annotations")
    if spec.get("schedulerName") != "kai-scheduler" or not isinstance(told, dict):
        return ""
    fraction, memory, devices = (
        told.get(key) for key in ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")
    )
    shares = "gpu-fraction" in told or "gpu-memory" in told
    if any(not isinstance(value, str) for value in told.values()):
        return "annotations are texts"
    if fraction is not None and not _between_0_and_1(fraction):
        return "a fraction is above 0 and below 1"
    if memory is not None and not _positive(memory):
        return "gpu-memory is a positive number"
    if devices is not None and not _positive(devices):
        return "gpu-fraction-num-devices is a positive number"
    if fraction is not None and memory is not None:
        return "gpu-fraction and gpu-memory exclude each other"
    if devices is not None and not shares:
        return "gpu-fraction-num-devices needs a part of a GPU"
    if told.get("mps") == "true" and not shares:
        return "mps needs a part of a GPU"
    if shares and any("nvidia.com/gpu" in limits for limits in _limits(spec)):
        return "a part of a GPU excludes whole ones"
    return ""


def _was_wrong(old: Any) -> str:
    """What was wrong before is no reason to refuse other changes."""
    metadata, spec = _dict(_dict(old).get("metadata")), _dict(_dict(old).get("spec"))
    return _pod(metadata, spec | {"schedulerName": "kai-scheduler"})


def _rewritten(metadata: Any, spec: Any, old: Any) -> str:
    if spec.get("schedulerName") != "kai-scheduler" or not isinstance(old, dict):
        return ""
    before, node = _dict(_dict(old).get("metadata")), _dict(_dict(old).get("spec")).get("nodeName")
    told, was = _dict(metadata.get("annotations")), _dict(before.get("annotations"))
    if node and isinstance(node, str) and any(told.get(key) != was.get(key) for key in _GRANTED):
        return "what was granted stays"
    return ""


def _dict(value: Any) -> Any:
    return value if isinstance(value, dict) else {}


def _between_0_and_1(text: str) -> bool:
    if not text.isascii():
        return False
    try:
        value = Decimal(text)
    except InvalidOperation:
        return False
    return value.is_finite() and 0 < value < 1


def _positive(text: str) -> bool:
    return text.isascii() and text.isdigit() and text.strip("0") != ""


def _limits(spec: Any) -> Any:
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            resources = container.get("resources") if isinstance(container, dict) else None
            limits = resources.get("limits") if isinstance(resources, dict) else None
            if isinstance(limits, dict):
                yield limits


def _pod_group(spec: Any, *, updating: bool) -> str:
    parts = spec.get("subGroups")
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        parts = []
    parents = {part.get("name"): part.get("parent") or "" for part in parts}
    if len(parents) < len(parts):
        return "names of subgroups are unique"
    if any(parent and parent not in parents for parent in parents.values()):
        return "parents exist"
    for name in list(parents)[:200]:
        at, steps = name, 0
        while at and steps <= len(parents):
            at, steps = parents[at], steps + 1
        if at:
            return "subgroups form a tree"
    if parts and any(
        part.get("minMember") is None and part.get("name") not in parents.values() for part in parts
    ):
        return "a leaf says its minMember"
    if spec.get("minMember") is not None and spec.get("minSubGroup") is not None:
        return "minMember and minSubGroup exclude each other"
    inner = set(parents.values())
    if not updating and any(part.get("minMember") is not None and part["name"] in inner for part in parts):
        return "an inner subgroup counts no pods"
    for field in ("preemptionDelay", "stalenessGracePeriod"):
        value = spec.get(field)
        if isinstance(value, str) and not _DURATION.fullmatch(value):
            return f"{field} is a duration"
    return ""


def _queue(name: Any, spec: Any, known: dict[str, str]) -> str:
    if spec.get("resources") is None:
        return "resources are given"
    parent = spec.get("parentQueue")
    parents = {**known, name: parent}
    at, steps = parent, 0
    while isinstance(at, str) and at and steps < 100:
        if at == name:
            return "a queue is not its own ancestor"
        at, steps = parents.get(at, ""), steps + 1
    for field in ("preemptMinRuntime", "reclaimMinRuntime"):
        value = spec.get(field)
        if isinstance(value, str) and value and not _RUNTIME.fullmatch(value):
            return f"{field} is a duration"
    return ""


def _topology(spec: Any) -> str:
    levels = spec.get("levels")
    if not isinstance(levels, list) or not all(isinstance(level, dict) for level in levels):
        return ""
    aliases = [level["alias"] for level in levels if level.get("alias")]
    if len(set(map(str, aliases))) < len(aliases):
        return "aliases are unique"
    if set(map(str, aliases)) & {str(level.get("nodeLabel", "")) for level in levels}:
        return "an alias is no node label"
    return ""
