"""Shards that outlive the installation that served them: they say so, for nobody else is there to say it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.resources import CONFIGS, SCHEDULING_SHARDS

#: By type: the reason, as the operator gives it while it runs.
_UNTRUE: Final = {"Deployed": "not_deployed", "Available": "not_available", "Ready": "not_ready"}
_MESSAGE: Final = "kai-scheduler was removed; nobody serves this shard until it is installed again"


async def tell_abandoned(
    client: KubeClient, say: Callable[[str], None], *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> None:
    """Have the shards that are left say that nothing of them runs, unless there is an installation.

    Raises:
        KubeError: the API server refuses, or cannot be reached.
    """
    try:
        if any("deletionTimestamp" not in each["metadata"] for each in await client.list(CONFIGS)):
            return
        shards = await client.list(SCHEDULING_SHARDS)
    except NotFound:  # their definitions went along
        return
    for shard in shards:
        name, written = shard["metadata"]["name"], _conditions(shard, now())
        patch = {"metadata": {"uid": shard["metadata"]["uid"]}, "status": {"conditions": written}}
        try:
            await client.patch(SCHEDULING_SHARDS, name, patch, subresource="status")
        except NotFound:
            continue
        say(f"schedulingshard {name} is kept, and served by nobody")


def _conditions(shard: dict[str, Any], now: datetime) -> list[dict[str, Any]]:
    """All that it has, those that are not true any more put right."""
    meta = shard["metadata"]
    found = {each["type"]: each for each in (shard.get("status") or {}).get("conditions") or ()}
    for kind, reason in _UNTRUE.items():
        before = found.get(kind, {})
        since = before.get("lastTransitionTime") if before.get("status") == "False" else None
        found[kind] = {
            "type": kind,
            "status": "False",
            "reason": reason,
            "message": _MESSAGE,
            "observedGeneration": int(meta.get("generation", 0)),
            "lastTransitionTime": since or now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
    return list(found.values())
