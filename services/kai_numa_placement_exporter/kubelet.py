"""The kubelet of our node, asked over its socket."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

import grpc

from kai.wire.kubelet import podresources_pb2 as pb
from kai.wire.kubelet.podresources_pb2_grpc import PodResourcesListerStub

LIST_SECONDS: Final = 10.0
_LARGEST_MESSAGE: Final = 16 * 2**20
OPTIONS: Final = (
    ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
    # Else it were the path of the socket, which a server written in Go takes for a malformed request.
    ("grpc.default_authority", "localhost"),
    # Else a socket that was away for long is tried again only after two minutes, however often it is asked.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class KubeletError(Exception):
    """The kubelet does not answer, or not with what was asked for."""


class Kubelet:
    """An async context manager. A socket that is not there yet is waited for by asking again."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=OPTIONS)
        self._lister = PodResourcesListerStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def pods(self) -> Iterable[pb.PodResources]:
        """What each pod of the node was given.

        Raises:
            KubeletError: it cannot be told within :data:`LIST_SECONDS`.
        """
        try:
            answer = await self._lister.List(pb.ListPodResourcesRequest(), timeout=LIST_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise KubeletError(
                f"the kubelet at {self._socket} does not answer: {error.code().name}: {error.details()}"
            ) from error
        if answer is None:  # so gRPC tells of bytes that are no such message, beside a line in the log
            raise KubeletError(
                f"the kubelet at {self._socket} answers what cannot be read; does a device plugin of this"
                " node call its devices by something that is no UTF-8?"
            )
        return answer.pod_resources
