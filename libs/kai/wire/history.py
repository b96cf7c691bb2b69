"""Client of insight, which keeps the past."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import grpc

from kai.history.questions import Found, Selection
from kai.history.recordings import Entry, Wanted
from kai.history.usage import By, Usage
from kai.model import names
from kai.wire.asking import Peer, ask, connected_leader, unavailable
from kai.wire.channel import TlsFiles
from kai.wire.history_codec import CALLS, decode_rows, decode_usage, encode_selection
from kai.wire.permissions import Role
from kai.wire.recordings import joined
from kai.wire.v1.history_pb2 import Coverage, GetUsageRequest, ToldForecast, WantedCycles
from kai.wire.v1.history_pb2_grpc import HistoryServiceStub

if TYPE_CHECKING:  # whose client it is has loaded it
    from kai.kube.client import KubeClient

_INSIGHT: Final = Peer(
    "insight",
    absent="no insight runs, so nothing of the past is kept: set insight.enabled=true in the chart's values, "
    "or start one as docs/history.md says",
    role=Role.INSIGHT,
)


class HistoryClient:
    """Questions to insight. Open it with :func:`connect_history`."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = HistoryServiceStub(channel)

    async def find(
        self, kind: type[Found], selection: Selection, *, most: int = 0
    ) -> tuple[list[Found], bool]:
        """The newest rows of a kind that are wanted, at most so many (0: as many as are told at once).

        Whether there are more is told, too.

        Raises:
            PeerUnavailable: no answer, or the question is refused.
        """
        method = getattr(self._stub, CALLS[kind].method)
        found = await ask(method, encode_selection(selection, most=most), who=_INSIGHT.who)
        return decode_rows(kind, found), found.more

    async def usage(self, *, by: By, since: float, until: float, namespace: str = "") -> list[Usage]:
        """Who used how much, as :func:`kai.history.usage.usage` finds it; an empty namespace is all of them.

        Raises:
            PeerUnavailable: no answer, or the question is refused.
        """
        request = GetUsageRequest(by=by, since=since, until=until, namespace=namespace)
        return decode_usage(await ask(self._stub.GetUsage, request, who=_INSIGHT.who))

    async def keep_forecast(
        self, *, namespace: str, pod_group: str, at: float, p50: float | None, p90: float | None
    ) -> Coverage:
        """Say what somebody is told of a pod group: seconds from ``at`` (Unix seconds). How others held.

        Raises:
            PeerUnavailable: no answer, or it is refused.
        """
        told = ToldForecast(namespace=namespace, pod_group=pod_group, at=at, p50=p50, p90=p90)
        return await ask(self._stub.KeepForecast, told, who=_INSIGHT.who)

    async def recordings(self, wanted: Wanted) -> AsyncIterator[Entry]:
        """Recorded cycles in order, of each stretch the base first; none where they are not kept.

        Raises:
            PeerUnavailable: no answer, or the question is refused.
            MalformedMessage: a part of the answer is missing.
        """
        request = WantedCycles(
            shard=wanted.shard,
            version=wanted.version,
            epoch=wanted.epoch,
            since=wanted.since,
            until=wanted.until,
        )
        try:
            async for entry in joined(self._stub.GetRecordings(request)):
                yield entry
        except grpc.aio.AioRpcError as error:
            raise unavailable(_INSIGHT.who, "GetRecordings", error) from error


@asynccontextmanager
async def connect_history(
    client: KubeClient, *, namespace: str, tls: TlsFiles | None = None, deadline: float = 0.0
) -> AsyncIterator[HistoryClient]:
    """A client of the insight that leads now; with a ``deadline`` of 0 its Lease is looked at once.

    Raises:
        PeerUnavailable: nobody leads, after waiting for ``deadline`` seconds, or the leader is out of reach.
        KubeError: the Lease cannot be read.
    """
    async with connected_leader(
        client, _INSIGHT, lease_name=names.INSIGHT_LEASE, namespace=namespace, tls=tls, deadline=deadline
    ) as channel:
        yield HistoryClient(channel)
