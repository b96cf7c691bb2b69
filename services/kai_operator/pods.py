"""Why pods of a Deployment are not ready, in the words of who knows: kubelet, scheduler, controller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kai.kube.client import KubeClient
from kai.kube.errors import KubeError
from kai.kube.resources import PODS
from kai_operator.kinds import Manifest

#: What a container waits for while all is well.
_ON_ITS_WAY: Final = ("ContainerCreating", "PodInitializing")
_LONGEST: Final = 200


async def why_unavailable(client: KubeClient, deployment: Manifest) -> str:
    """What keeps its newest pod that is not ready; empty if nothing is known, or it is only on its way."""
    failed = _conditions(deployment).get("ReplicaFailure", {})
    if failed.get("status") == "True":
        return _short(failed.get("message", ""))
    selected = deployment["spec"]["selector"].get("matchLabels") or {}
    try:
        pods = await client.list(
            PODS,
            namespace=deployment["metadata"]["namespace"],
            label_selector=",".join(f"{key}={value}" for key, value in sorted(selected.items())),
        )
    except KubeError:
        return ""
    return why(pods)


def why(pods: Iterable[Manifest]) -> str:
    """The same of these pods."""
    for pod in sorted(pods, key=_age, reverse=True):
        if pod["metadata"].get("deletionTimestamp") or _is("Ready", pod):
            continue
        if said := _of_containers(pod) or _of_scheduling(pod):
            return f"pod {pod['metadata']['name']}: {said}"
    return ""


def _of_containers(pod: Manifest) -> str:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        waiting = (status.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        ended = _ended(status)
        if reason and reason not in _ON_ITS_WAY:
            return _short(f"{reason}, {ended}" if ended else f"{reason}: {waiting.get('message', '')}")
        if ended:
            return ended
    return ""


def _ended(status: Mapping[str, Any]) -> str:
    for state in ("state", "lastState"):
        if over := (status.get(state) or {}).get("terminated"):
            reason = over.get("reason") or "Error"
            return f"ended with status {over.get('exitCode')} ({reason})"
    return ""


def _of_scheduling(pod: Manifest) -> str:
    placed = _conditions(pod).get("PodScheduled", {})
    return _short(str(placed.get("message", ""))) if placed.get("status") == "False" else ""


def _is(kind: str, manifest: Manifest) -> bool:
    return _conditions(manifest).get(kind, {}).get("status") == "True"


def _conditions(manifest: Manifest) -> dict[str, dict[str, Any]]:
    return {one["type"]: one for one in (manifest.get("status") or {}).get("conditions") or ()}


def _age(pod: Manifest) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]


def _short(text: str) -> str:
    text = text.strip().rstrip(":")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
