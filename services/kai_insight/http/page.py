"""The files of the page, which whoever looks gets without a token: they say nothing of any cluster."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from aiohttp import hdrs, web

from kai_insight.http.packing import takes_gzip
from kai_insight.http.problems import Problem, Trouble

#: Where a browser begins.
INDEX: Final = "index.html"
#: A name with a hash in it is of these bytes only: whoever has them need not ask again.
_HASHED: Final = re.compile(r"[-.][0-9A-Za-z_]{8,}\.[a-z0-9]+$")
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"
_TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
    ".txt": "text/plain",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
_TEXTS: Final = frozenset({".html", ".js", ".css", ".svg", ".json", ".txt", ".webmanifest"})


@dataclass(frozen=True, slots=True)
class File:
    """One file, as it is and packed (empty: not worth it)."""

    data: bytes
    packed: bytes
    kind: str
    tag: str
    lasting: bool


class Page:
    """All files of a folder, read once: nothing else can be asked for, whatever a path says."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder`` instead of that of the package."""
        self._files = _read(folder) if folder is not None else _of_package()

    def paths(self) -> Mapping[str, str]:
        """Each path that is answered, and the file that it is."""
        found = {f"/{name}": name for name in self._files}
        return {"/": INDEX, **found} if INDEX in self._files else found

    def answer(self, name: str, request: web.Request) -> web.Response:
        """A file, unless whoever asks has it already."""
        file = self._files[name]
        headers = {
            hdrs.CACHE_CONTROL: _FOR_EVER if file.lasting else _ASK_AGAIN,
            hdrs.ETAG: file.tag,
            hdrs.VARY: hdrs.ACCEPT_ENCODING,
        }
        if request.headers.get(hdrs.IF_NONE_MATCH) == file.tag:
            return web.Response(status=304, headers=headers)
        body = file.data
        if file.packed and takes_gzip(request):
            body = file.packed
            headers[hdrs.CONTENT_ENCODING] = "gzip"
        charset = "utf-8" if Path(name).suffix in _TEXTS else None
        return web.Response(body=body, content_type=file.kind, charset=charset, headers=headers)

    async def absent(self, request: web.Request) -> web.Response:
        """What is at ``/`` where there is no page."""
        del request
        raise Problem(Trouble.NOT_FOUND, "this build has no page; /api/v1/openapi.json says what there is")


def _of_package() -> dict[str, File]:
    with resources.as_file(resources.files("kai_insight")) as package:
        return _read(package / "page")


def _read(folder: Path) -> dict[str, File]:
    if not folder.is_dir():
        return {}
    return {
        path.relative_to(folder).as_posix(): _file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in _TYPES
    }


def _file(path: Path) -> File:
    data = path.read_bytes()
    packed = gzip.compress(data, 9, mtime=0) if path.suffix in _TEXTS else b""
    return File(
        data=data,
        packed=packed if len(packed) < len(data) else b"",
        kind=_TYPES[path.suffix],
        tag=f'"{hashlib.sha256(data).hexdigest()[:32]}"',
        lasting=path.name != INDEX and _HASHED.search(path.name) is not None,
    )
