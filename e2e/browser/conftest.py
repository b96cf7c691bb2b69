"""One browser for all tests of the folder; a page of its own, over a world of its own, for each."""

import contextlib
import fcntl
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from e2e.browser.chromium import BrowserMissing, connected, running
from e2e.browser.mock import stories, worlds
from e2e.browser.mock.server import Mock

WEB = Path(__file__).resolve().parents[2] / "services" / "kai_insight" / "web"


@pytest.fixture(scope="session")
def chromium():
    """Where a real Chromium listens."""
    try:
        with running() as address:
            yield address
    except BrowserMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
async def browser(chromium):
    async with connected(chromium) as found:
        yield found


@pytest.fixture
async def mock():
    """Serves made-up worlds until the test ends: ``await mock(gpus=64, waiting=5, names=[...])``."""
    async with contextlib.AsyncExitStack() as stack:

        async def serve(*, gpus=64, waiting=12, names=(), full=0.9, **settings):
            world = worlds.make(gpus, names=names, full=full)
            turn = iter(range(10**6))
            called = (lambda usual: f"{names[next(turn) % len(names)]} {usual}") if names else None
            stories.fill_queue(world, waiting, now=time.time(), called=called)
            return await stack.enter_async_context(Mock(world, **settings).served())

        yield serve


@pytest.fixture
async def page(browser):
    """Opens the page at a view: ``await page(mock, "#/waiting")``. It may not complain of anything."""
    opened = []

    async def open_page(server, fragment="", **size):
        tab = await browser.tab(**size)
        opened.append(tab)
        await tab.goto(server.url + fragment)
        return tab

    yield open_page
    for tab in opened:
        assert tab.complaints == []


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core, as the page's lock pins it."""
    source = WEB / "node_modules" / "axe-core" / "axe.min.js"
    if not source.exists():
        _install(source)
    return source.read_text()


def _install(source):
    if shutil.which("npm") is None:
        pytest.skip("needs axe-core, or npm to install it")
    with (WEB / "package.json").open() as lock:  # tests may run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        if source.exists():
            return
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=WEB, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"npm could not install axe-core: {done.stderr.strip().splitlines()[-1:]}")
