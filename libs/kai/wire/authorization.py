"""Refuses calls that the table of permissions does not allow, on every server of ours."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, TypeAlias

import grpc
import structlog
from prometheus_client import CollectorRegistry, Counter

from kai.wire.permissions import PERMISSIONS, Role, role_of

#: A caller that is refused again and again is told about once in so long.
TOLD_EVERY_SECONDS: Final = 60.0
_NAMES: Final = "x509_subject_alternative_name"

_log = structlog.get_logger(__name__)
_Context = grpc.aio.ServicerContext[Any, Any]
_Check = Callable[[_Context], Awaitable[None]]
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic for the type checker only


class Authorization(grpc.aio.ServerInterceptor):
    """Checks the caller of each call before anything of it is read.

    ``namespace`` is that of the installation whose certificates count; None: there is no TLS, so callers are
    not known and only the method is checked.
    """

    def __init__(self, *, namespace: str | None, metrics: CollectorRegistry | None = None) -> None:
        self._namespace = namespace
        self._refused = Counter(
            "kai_grpc_refused_calls",
            "Calls that the caller's role does not allow",
            ("role", "method"),
            registry=metrics,
        )
        self._told: dict[tuple[str, str], float] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler | None:
        """The method's handler, behind the check."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None  # nobody serves it
        method = handler_call_details.method

        async def check(context: _Context) -> None:
            await self._check(method, context)

        return _guarded(handler, check)

    async def _check(self, method: str, context: _Context) -> None:
        role = self._role(context)
        allowed = PERMISSIONS.get(method)
        if allowed is not None and (self._namespace is None or role in allowed):
            return
        caller = role or "unknown"
        self._refused.labels(caller, method).inc()
        self._tell(caller, method, context.peer())
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, f"role {caller} may not call {method}")

    def _role(self, context: _Context) -> Role | None:
        if self._namespace is None:
            return None
        names = context.auth_context().get(_NAMES, ())
        return role_of((name.decode(errors="replace") for name in names), self._namespace)

    def _tell(self, caller: str, method: str, peer: str) -> None:
        now, key = time.monotonic(), (caller, method)
        if now - self._told.get(key, -TOLD_EVERY_SECONDS) >= TOLD_EVERY_SECONDS:
            self._told[key] = now
            _log.warning("call refused", role=caller, method=method, peer=peer)


def _guarded(handler: _Handler, check: _Check) -> _Handler:
    """The handler, with its caller checked before anything that it sends is read.

    gRPC reads the message of a unary call before it asks the handler, and only then says who calls. On the
    wire one message is a stream of one: so calls of all kinds come in as streams, and the one message is read
    here.
    """
    serve: Any = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream

    async def sent(messages: Any, context: _Context) -> Any:
        """What the handler takes: the messages as they come, or the only one."""
        await check(context)
        if handler.request_streaming:
            return messages
        async for message in messages:
            return message
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call ended without a request")
        raise AssertionError("abort raises")

    async def answer(messages: Any, context: _Context) -> Any:
        return await serve(await sent(messages, context), context)

    async def stream(messages: Any, context: _Context) -> None:
        answers = serve(await sent(messages, context), context)
        if not hasattr(answers, "__aiter__"):
            await answers  # it writes by itself
            return
        async with aclosing(answers):
            async for each in answers:
                await context.write(each)

    make: Any = grpc.stream_unary_rpc_method_handler
    if handler.response_streaming:
        make = grpc.stream_stream_rpc_method_handler
    guarded: _Handler = make(
        stream if handler.response_streaming else answer,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )
    return guarded
