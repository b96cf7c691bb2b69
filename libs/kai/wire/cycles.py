"""Following the scheduler's cycles, over lost connections and changes of leader."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kai.history.recordings import Entry
from kai.kube.client import KubeClient
from kai.wire.channel import TlsFiles
from kai.wire.following import follow
from kai.wire.recordings import joined
from kai.wire.v1.session_pb2 import WatchCyclesRequest
from kai.wire.v1.session_pb2_grpc import SessionServiceStub


async def watch_cycles(
    client: KubeClient,
    *,
    lease_name: str,
    namespace: str,
    base_seconds: float,
    tls: TlsFiles | None = None,
) -> AsyncIterator[Entry]:
    """What whoever leads decides, for ever: a base, cycles in order, and another base after so many seconds.

    After a lost connection, and where the scheduler ends the stream, it begins with a base again.

    Raises:
        KubeError: the Lease cannot be followed any more (our credentials are refused).
    """
    request = WatchCyclesRequest(base_seconds=base_seconds)
    async for entry in follow(
        client,
        lease_name=lease_name,
        namespace=namespace,
        tls=tls,
        ask=lambda channel: SessionServiceStub(channel).WatchCycles(request),
        read=joined,
        what="cycles",
        longest_pause=15.0,
    ):
        yield entry
