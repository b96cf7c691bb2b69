"""Asking a process of ours: found through its Lease, with deadlines, and tried again where that helps.

Programs that live for a moment use this, so nothing here follows anything, or loads what does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc

from kai.kube.backoff import Backoff
from kai.kube.errors import NotFound
from kai.kube.leases import Leader, Lease, leader_of
from kai.kube.resources import LEASES
from kai.wire.channel import TlsFiles, open_channel
from kai.wire.errors import PeerUnavailable
from kai.wire.permissions import Role

if TYPE_CHECKING:  # whose client it is has loaded it
    from kai.kube.client import KubeClient

DEADLINE_SECONDS: Final = 10.0
#: How long a process that cannot be reached keeps us waiting.
CONNECT_SECONDS: Final = 3.0
#: Worth another try: nothing was done, or asking twice does no harm.
_TRANSIENT: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ABORTED)
#: How often a Lease that nobody holds is looked at.
_LOOK_SECONDS: Final = 0.2

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom to ask: its name, what to say and do where nobody is there, and what its certificate says."""

    who: str
    absent: str
    role: Role


@asynccontextmanager
async def connected_leader(
    client: KubeClient,
    peer: Peer,
    *,
    lease_name: str,
    namespace: str,
    tls: TlsFiles | None,
    deadline: float,
) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to whoever leads by a Lease. With a ``deadline`` of 0 the Lease is looked at once.

    Raises:
        PeerUnavailable: nobody leads, after waiting for ``deadline`` seconds, or the leader is out of reach.
        KubeError: the Lease cannot be read.
    """
    give_up = asyncio.get_running_loop().time() + deadline
    while (leader := await _leader(client, lease_name, namespace)) is None:
        if asyncio.get_running_loop().time() + _LOOK_SECONDS > give_up:
            raise PeerUnavailable(f"lease {namespace}/{lease_name}: {peer.absent}")
        await asyncio.sleep(_LOOK_SECONDS)
    async with open_channel(leader.endpoint, tls=tls, server=peer.role) as channel:
        await _connected(channel, peer.who, leader.endpoint, "with TLS" if tls else "without TLS")
        yield channel


async def ask(
    method: Callable[..., Awaitable[Answer]], request: Any, *, who: str, deadline: float = DEADLINE_SECONDS
) -> Answer:
    """One question, asked again until it is answered or ``deadline`` seconds have passed.

    Raises:
        PeerUnavailable: it was not.
    """
    end = asyncio.get_running_loop().time() + deadline
    backoff = Backoff(maximum=5.0)
    while True:
        left = end - asyncio.get_running_loop().time()
        try:
            return await method(request, timeout=max(left, 0.001))
        except grpc.aio.AioRpcError as error:
            delay = backoff.next()
            if error.code() not in _TRANSIENT or left <= delay:
                raise unavailable(who, type(request).__name__, error) from error
        await asyncio.sleep(delay)


def unavailable(who: str, question: str, error: grpc.aio.AioRpcError) -> PeerUnavailable:
    """What a call that failed is to its caller."""
    return PeerUnavailable(f"{who}: {question}: {error.code().name}: {error.details()}")


async def _leader(client: KubeClient, name: str, namespace: str) -> Leader | None:
    """Who leads and can be called."""
    try:
        leader = leader_of(await client.get(LEASES, name, namespace=namespace, type=Lease))
    except NotFound:
        return None
    return leader if leader is not None and leader.endpoint else None


async def _connected(channel: grpc.aio.Channel, who: str, endpoint: str, how: str) -> None:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await channel.channel_ready()
    except TimeoutError:
        raise PeerUnavailable(
            f"{who}: no connection to {endpoint} {how} within {CONNECT_SECONDS:g} s; "
            "can that address be reached from here, and does it want what we show?"
        ) from None
