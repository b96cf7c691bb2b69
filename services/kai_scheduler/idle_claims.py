"""Giving back claims of devices that are reserved for pods without a place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import structlog

from kai.kube import errors
from kai.kube.client import KubeClient
from kai.kube.forms import served
from kai.kube.resources import RESOURCE_CLAIMS
from kai.model.rules.device_claims import released
from kai.snapshot.idle_claims import IdleReservation

#: All that giving back may take, for nothing is decided meanwhile.
GIVE_BACK_SECONDS: Final = 2.0
#: So many claims are worked on side by side: one that is not answered, as where a webhook hangs, takes the
#: time of no other, and of very many some are given back each time.
_AT_ONCE: Final = 32

_log = structlog.get_logger(__name__)


async def give_back(client: KubeClient, found: Sequence[IdleReservation]) -> None:
    """Take these pods off their claims; a claim that nobody else uses loses its devices.

    Nobody may decide about these pods before it has returned. What fails is to be looked for again.

    Raises:
        Unauthorized: the API server does not know us any more.
    """
    places = asyncio.Semaphore(_AT_ONCE)

    async def in_turn(idle: IdleReservation) -> None:
        async with places:
            await _give_back(client, idle)

    try:
        async with asyncio.timeout(GIVE_BACK_SECONDS):
            ended = await asyncio.gather(*map(in_turn, found), return_exceptions=True)
    except TimeoutError:
        _log.warning("claims not given back in time", claims=len(found), seconds=GIVE_BACK_SECONDS)
        return
    if failure := next((each for each in ended if each is not None), None):
        raise failure


async def _give_back(client: KubeClient, idle: IdleReservation) -> None:
    name, namespace = idle.claim, idle.namespace
    claim = f"{namespace}/{name}"
    try:
        form = await served(client, RESOURCE_CLAIMS)
        if form is None:
            return
        body: dict[str, Any] = await client.get(form.resource, name, namespace=namespace)
        status = released(body, idle.pods)
        if status is None:
            return
        body["status"] = status
        await client.update(form.resource, name, body, namespace=namespace, subresource="status")
    except (errors.NotFound, errors.Conflict):
        return
    except errors.Unauthorized:
        raise
    except errors.KubeError as error:
        _log.warning("claim not given back", claim=claim, reason=str(error))
    else:
        _log.info("claim given back: reserved for pods without a place", claim=claim, pods=list(idle.pods))
