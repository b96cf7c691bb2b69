"""Who gets in: whoever opens the address that was printed, once, in one browser, and nobody else."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from kai_insight.http.access import Caller
from kai_insight.http.problems import Problem, Trouble

#: Where the address leads.
ENTRY: Final = "/enter"
_PARAMETER: Final = "token"
#: The cookie goes with requests of our own page only; then one more question of the browser leads there.
_IN: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/"><title>kai</title></head>
<body><p><a href="/">Go on</a></p></body></html>
"""
_OURS: Final = ("same-origin", "none")


class Door:
    """Of a server on loopback; :meth:`open_at` says where. Pages of other origins get nothing either."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._token = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self._used = False
        self._hosts: frozenset[str] = frozenset()
        self._name = ""
        self.address = ""

    def open_at(self, host: str, port: int) -> None:
        """The server listens there."""
        self._hosts = frozenset({f"{host}:{port}", f"localhost:{port}"})
        # Browsers tell cookies apart by name and host, not by port.
        self._name = f"kai-ui-{port}"
        self.address = f"http://{host}:{port}{ENTRY}?{_PARAMETER}={self._token}"

    @property
    def middleware(self) -> Middleware:
        """In front of every path."""

        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._look_at_origin(request)
            if request.path != ENTRY:
                self.caller(request)
            return await handler(request)

        return guarded

    def caller(self, request: web.Request) -> Caller:
        """Who asks: the one who was let in.

        Raises:
            Problem: somebody else (401).
        """
        shown = request.cookies.get(self._name, "")
        if not secrets.compare_digest(shown.encode(), self._cookie.encode()):
            raise Problem(
                Trouble.UNAUTHENTICATED,
                "this is for the browser that opened the address which kai ui printed; it works once, so "
                "start kai ui again for another one",
            )
        return Caller(hashlib.sha256(self._cookie.encode()).digest(), self._user)

    async def enter(self, request: web.Request) -> web.Response:
        """Exchange the token of the address for a cookie.

        Raises:
            Problem: it is not that token, or it was used (403).
        """
        shown = request.query.get(_PARAMETER, "")
        if not secrets.compare_digest(shown.encode(), self._token.encode()):
            raise Problem(Trouble.FORBIDDEN, "this is not the address that kai ui printed")
        if self._used:
            raise Problem(
                Trouble.FORBIDDEN, "this address works once, and was used; start kai ui again for another one"
            )
        self._used = True
        response = web.Response(text=_IN, content_type="text/html")
        response.set_cookie(self._name, self._cookie, httponly=True, samesite="Strict", path="/")
        return response

    def _look_at_origin(self, request: web.Request) -> None:
        """A name that somebody else's server leads to ours, or another page, gets nothing."""
        origin = request.headers.get(hdrs.ORIGIN)
        fetched_by = request.headers.get("Sec-Fetch-Site", _OURS[0])
        ours = {f"http://{host}" for host in self._hosts}
        entering = request.path == ENTRY and request.method == "GET"
        if request.headers.get(hdrs.HOST) not in self._hosts:
            raise Problem(Trouble.FORBIDDEN, "ask for this by the address that kai ui printed")
        if (origin is not None and origin not in ours) or (fetched_by not in _OURS and not entering):
            raise Problem(Trouble.FORBIDDEN, "other pages may not ask for this")
        if request.method != "GET" and origin is None:
            raise Problem(
                Trouble.FORBIDDEN, "a browser says from which page it sends something; this does not"
            )
