"""A service whose stream says what a test wants."""

import asyncio
from contextlib import asynccontextmanager

import grpc

from kai.kube.leases import Leader
from kai.wire.serving import serve


class Speaker:
    """Says some things, and keeps the stream until it is told to end it."""

    def __init__(self, *messages):
        self.messages = messages
        self.end = asyncio.Event()

    @asynccontextmanager
    async def serving(self, servicer, add_to_server, method):
        """Who leads, and serves a stream by this method of a generated servicer."""
        service = type("Service", (servicer,), {method: lambda _, request, context: self._say(context)})
        register = lambda server: add_to_server(service(), server)  # noqa: E731
        async with serve("127.0.0.1:0", [register], grace_seconds=0) as port:
            yield Leader("leader", f"127.0.0.1:{port}", 1)

    async def _say(self, context):
        for message in self.messages:
            yield message
        await self.end.wait()
        self.end.clear()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
