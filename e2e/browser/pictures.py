"""The pictures of docs/page.md, of a made-up cluster, so that they are the same whoever takes them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from deadlines import eventually
from e2e.browser.chromium import Chromium, connected, running
from e2e.browser.mock import stories, worlds
from e2e.browser.mock.server import Mock

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "page"


@dataclass(frozen=True, slots=True)
class Picture:
    """One view, and what has to be there before it is taken."""

    name: str
    address: str
    awaits: str
    gpus: int = 1024
    width: int = 1280
    height: int = 760
    dark: bool = False


def _address(view: str, **said: Any) -> str:
    return f"#/{view}?{urlencode(said)}" if said else f"#/{view}"


def pictures(waiting: dict[str, Any]) -> tuple[Picture, ...]:
    """All of them; ``waiting`` is what is opened."""
    opened = f"{waiting['namespace']}/{waiting['name']}"
    life = _address("workload", namespace=waiting["namespace"], name=waiting["name"])
    return (
        Picture("waiting", _address("waiting", open=opened), ".ladder", height=820),
        Picture("cluster", _address("cluster"), ".rooms li"),
        Picture("node", _address("cluster", node="gpu-20"), ".pods li", dark=True),
        Picture("large", _address("cluster"), ".rooms li", gpus=40_000, height=800),
        Picture("queues", _address("queues", queue="vision"), ".pane canvas"),
        Picture("time", _address("time", span=21_600), ".lane .sign-bind"),
        Picture("workload", life, ".run-bar", height=1000),
        Picture("what-if", _address("what-if", change="quota", target="vision", value="gpu=12"), ".form"),
        Picture("health", _address("health"), ".coverage", height=560),
        Picture("narrow", _address("waiting"), "tr[data-row]", width=360, height=720),
    )


async def take(folder: Path = FOLDER) -> list[Path]:
    """Take all, and say where they are."""
    taken = []
    with running() as address:
        async with connected(address) as browser:
            for gpus in (1024, 40_000):
                world = worlds.make(gpus)
                stories.fill_queue(world, 46, now=time.time())
                async with Mock(world).served() as mock:
                    opened = next(row for row in world.waiting if row["code"] == "Fragmented")
                    wanted = [picture for picture in pictures(opened) if picture.gpus == gpus]
                    taken += [await _take(browser, mock, picture, folder) for picture in wanted]
    return taken


async def _take(browser: Chromium, mock: Mock, picture: Picture, folder: Path) -> Path:
    tab = await browser.tab(width=picture.width, height=picture.height)
    await tab.prefers(dark=picture.dark, still=True)
    await tab.goto(mock.url + picture.address)
    await tab.has(picture.awaits)
    if picture.name == "what-if":
        await tab.submit()
        await tab.has(".tiles")
    if picture.name == "workload":
        await tab.choose("button", "Forecast")
        await tab.has(".forecast")
    await eventually(lambda: tab.count(".loading"), lambda number: number == 0, what="all has been told")
    # Two frames later what was told last has been drawn.
    await tab.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    path = folder / f"{picture.name}.png"
    await tab.picture(path)
    return path
