"""Somebody who opens the address that a command printed, without a browser."""

from __future__ import annotations

import json
import re
from http.cookiejar import CookieJar
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import HTTPCookieProcessor, build_opener

from deadlines import until

_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/enter\?token=[\w-]{43}\b")


def address_in(line: str) -> str:
    """Where the page is, as a line says it; empty where it does not."""
    found = _ADDRESS.search(line)
    return found[0] if found else ""


class Visitor:
    """One who keeps the cookie that he is given. ``status`` is how he was received."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))
        self.status, _ = self._get(address)

    def _get(self, path: str) -> tuple[int, str]:
        try:
            with self._opener.open(urljoin(self._address, path)) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def page(self) -> str:
        """What a browser would begin with."""
        status, text = self._get("/")
        assert status == 200, text
        return text

    def cluster(self) -> dict[str, Any]:
        """The first shard, once it is read."""

        def look() -> dict[str, Any]:
            status, text = self._get("/api/v1/live")
            assert status == 200, text
            shard: dict[str, Any] = json.loads(text)["shards"][0]
            return shard

        return until(look, lambda shard: shard["version"], what="the page knows the cluster")
