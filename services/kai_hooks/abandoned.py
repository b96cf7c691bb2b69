"""What outlives the installation that served it: it says so, for nobody else is there to say it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from kai.kube.client import KubeClient
from kai.kube.errors import ApiError, BadRequest, Invalid, NotFound
from kai.kube.resources import CONFIGS, SCHEDULING_SHARDS
from kai.model import names
from kai_hooks.refusals import Refusals

#: By type: the reason, as the operator gives it while it runs.
_UNTRUE: Final = {"Deployed": "not_deployed", "Available": "not_available", "Ready": "not_ready"}
_CALLED: Final = {CONFIGS: "Config", SCHEDULING_SHARDS: "shard"}


async def tell_abandoned(
    client: KubeClient,
    say: Callable[[str], None],
    *,
    namespace: str,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Have the Config and the shards that are left say that nothing of them runs.

    Not where there is an installation in another namespace than this, to which they belong. One that the API
    server does not take, as its definition does not allow any more what is in it, is told, and keeps neither
    the others nor the removal back.

    Raises:
        Refused: we may not write into some of them; the others are told.
        KubeError: we may not list them, or the API server cannot be reached.
    """
    refusals = Refusals()
    try:
        configs = [each for each in await client.list(CONFIGS) if "deletionTimestamp" not in each["metadata"]]
        if any(place_of(each) != namespace for each in configs):
            return
        shards = await client.list(SCHEDULING_SHARDS)
    except NotFound:  # their definitions went along
        return
    for resource, left in ((CONFIGS, configs), (SCHEDULING_SHARDS, shards)):
        for each in left:
            name, written = each["metadata"]["name"], _conditions(each, _CALLED[resource], now())
            patch = {"metadata": {"uid": each["metadata"]["uid"]}, "status": {"conditions": written}}
            try:
                await client.patch(resource, name, patch, subresource="status")
            except NotFound:
                continue
            except (BadRequest, Invalid) as error:
                say(f"{resource.kind.lower()} {name} is kept, and cannot say that nobody serves it: {error}")
                continue
            except ApiError as error:
                refusals.add(f"{resource.kind.lower()} {name}", error)
                continue
            say(f"{resource.kind.lower()} {name} is kept, and served by nobody")
    refusals.tell()


def place_of(config: dict[str, Any]) -> str:
    """The namespace in which a Config has everything run."""
    return (config.get("spec") or {}).get("namespace") or names.NAMESPACE


def _conditions(left: dict[str, Any], called: str, now: datetime) -> list[dict[str, Any]]:
    """All that it has, those that are not true any more put right."""
    meta = left["metadata"]
    found = {each["type"]: each for each in (left.get("status") or {}).get("conditions") or ()}
    for kind, reason in _UNTRUE.items():
        before = found.get(kind, {})
        since = before.get("lastTransitionTime") if before.get("status") == "False" else None
        found[kind] = {
            "type": kind,
            "status": "False",
            "reason": reason,
            "message": f"kai-scheduler was removed; nobody serves this {called} until it is installed again",
            "observedGeneration": int(meta.get("generation", 0)),
            "lastTransitionTime": since or now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
    return list(found.values())
