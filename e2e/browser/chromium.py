"""A real Chromium without a window, driven over its DevTools protocol by the product's own HTTP client.

Nothing stands between the tests and the browser: keys and pointers are the browser's own events, requests are
those that its network stack saw, media features and the size of the window are what pages are told.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import psutil

from deadlines import eventually, patience, until

#: Keys that tests press, by name: code, and what they write.
_KEYS: Final = {
    "Enter": (13, "\r"),
    "Tab": (9, ""),
    "Escape": (27, ""),
    "ArrowDown": (40, ""),
    "ArrowUp": (38, ""),
    "ArrowLeft": (37, ""),
    "ArrowRight": (39, ""),
    "Home": (36, ""),
    "End": (35, ""),
    "PageDown": (34, ""),
    " ": (32, " "),
}
_SHIFT: Final = 8
#: Where the middle of an element is, if it is there two frames later still, and it is what a pointer meets.
_RESTING: Final = """async selector => {
  const middle = () => { const e = document.querySelector(selector); if (!e) return null;
    e.scrollIntoView({block: 'nearest'}); const b = e.getBoundingClientRect();
    const x = b.left + b.width / 2, y = b.top + b.height / 2, met = document.elementFromPoint(x, y);
    return met && (e.contains(met) || met.contains(e)) ? {x, y} : null; };
  const before = middle();
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  const now = middle();
  return before && now && before.x === now.x && before.y === now.y ? now : null; }"""
_FLAGS: Final = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--enable-precise-memory-info",
    "--lang=en",
    "--mute-audio",
    "about:blank",
)


class BrowserMissing(Exception):
    """There is no Chromium here; the message says why."""


class Broken(AssertionError):
    """The page or the browser says that something failed."""


def program() -> str:
    """Chromium on the PATH.

    Raises:
        BrowserMissing: there is none.
    """
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    raise BrowserMissing("there is no chromium on the PATH; on Debian, python -m e2e.browser installs it")


@dataclass
class Tab:
    """One page: ``complaints`` are what it said of errors, ``requests`` the addresses that it asked."""

    browser: Chromium
    session: str
    context: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    #: Documents that were loaded whole, by the browser's name for each.
    loaded: list[str] = field(default_factory=list)
    width: int = 1280
    height: int = 800

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return await self.browser.call(method, session=self.session, **parameters)

    async def goto(self, url: str, *, leads_on: bool = False) -> None:
        """Go there, and wait until it is loaded; with ``leads_on``, until where it leads by itself is."""
        done = await self.call("Page.navigate", url=url)
        assert "loaderId" in done, f"{url} differs from the address before in its fragment only"
        document = done["loaderId"]
        await eventually(lambda: document in self.loaded, what=f"{url} is loaded")
        if leads_on:
            await eventually(lambda: self.loaded[-1] != document, what=f"{url} leads on")

    async def reload(self) -> None:
        shown = await self.call("Page.getFrameTree")
        document = shown["frameTree"]["frame"]["loaderId"]
        await eventually(lambda: document in self.loaded, what="the page is loaded")
        await self.call("Page.reload")
        await eventually(lambda: self.loaded[-1] != document, what="the page is loaded again")

    async def js(self, expression: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        done = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if problem := done.get("exceptionDetails"):
            raise Broken(problem.get("exception", {}).get("description") or problem["text"])
        return done["result"].get("value")

    async def text(self, selector: str = "body") -> str:
        """What is written there; empty where there is no such element."""
        return await self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    async def count(self, selector: str) -> int:
        return await self.js(f"document.querySelectorAll({json.dumps(selector)}).length")

    async def sees(self, text: str, selector: str = "body") -> None:
        """Wait until that is written there."""
        await eventually(
            lambda: self.text(selector), lambda seen: text in seen, what=f"{text!r} stands in {selector}"
        )

    async def has(self, selector: str, number: int = 1) -> None:
        """Wait until there are at least so many such elements."""
        await eventually(
            lambda: self.count(selector), lambda seen: seen >= number, what=f"{number} of {selector}"
        )

    async def lacks(self, selector: str) -> None:
        """Wait until there is no such element."""
        await eventually(lambda: self.count(selector), lambda seen: seen == 0, what=f"no {selector}")

    async def address(self) -> str:
        return await self.js("location.hash")

    async def place(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of the first such element."""
        await self.has(selector)
        box = await self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'nearest'}); const b = e.getBoundingClientRect();"
            " return [b.left, b.top, b.width, b.height]; })()"
        )
        return tuple(box)

    async def click(self, selector: str) -> None:
        """With the pointer, in the middle of the first such element, once it rests and nothing is over it."""
        found = await eventually(
            lambda: self.js(f"({_RESTING})({json.dumps(selector)})"), what=f"{selector} can be pressed"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.pointer(kind, found["x"], found["y"])

    async def choose(self, selector: str, text: str) -> None:
        """Activate the first such element in which that is written."""
        chosen = (
            f"(e => e && (e.click(), true))([...document.querySelectorAll({json.dumps(selector)})]"
            f".find(e => e.innerText.includes({json.dumps(text)})))"
        )
        await eventually(lambda: self.js(chosen), what=f"{text!r} stands in one of {selector}")

    async def focus(self, selector: str) -> None:
        focused = (
            "(e => e && (e.focus(), document.activeElement === e))"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        await eventually(lambda: self.js(focused), what=f"{selector} has the focus")

    async def focused(self, selector: str) -> None:
        """Wait until the element that has the focus is such a one."""
        there = f"document.activeElement?.matches({json.dumps(selector)})"
        await eventually(lambda: self.js(there), what=f"{selector} has the focus")

    async def submit(self) -> None:
        """The form of the view."""
        sent = "(e => e && (e.requestSubmit(), true))(document.querySelector('form'))"
        await eventually(lambda: self.js(sent), what="there is a form")

    async def pointer(self, kind: str, x: float, y: float, **more: Any) -> None:
        pressed = {"button": "left", "clickCount": 1} if kind in ("mousePressed", "mouseReleased") else {}
        await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed, **more)

    async def press(self, *keys: str, shift: bool = False) -> None:
        for key in keys:
            code, text = _KEYS.get(key, (ord(key[0].upper()), key))
            said = {"key": key, "windowsVirtualKeyCode": code, "modifiers": _SHIFT if shift else 0}
            await self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **said)
            await self.call("Input.dispatchKeyEvent", type="keyUp", **said)

    async def write(self, text: str) -> None:
        """Into the field that has the focus."""
        await self.call("Input.insertText", text=text)

    async def resize(self, width: int, height: int, *, ratio: float = 1) -> None:
        self.width, self.height = width, height
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=ratio,
            mobile=False,
        )

    async def prefers(self, *, dark: bool = False, still: bool = False) -> None:
        """What the system says that somebody prefers."""
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"},
        ]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def picture(self, path: Path) -> None:
        """What is seen, as PNG."""
        shot = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(  # noqa: ASYNC240, nobody else waits
            base64.b64decode(shot["data"])
        )

    async def memory(self) -> int:
        """Bytes that the largest process of the browser's pages keeps, after cleaning up."""
        await self.call("HeapProfiler.collectGarbage")
        told = await self.browser.call("SystemInfo.getProcessInfo")
        pages = [each["id"] for each in told["processInfo"] if each["type"] == "renderer"]
        return max(psutil.Process(each).memory_info().rss for each in pages if psutil.pid_exists(each))

    async def allow(self, *permissions: str) -> None:
        """What somebody would be asked for."""
        await self.browser.call(
            "Browser.grantPermissions", browserContextId=self.context, permissions=[*permissions]
        )


class Chromium:
    """One browser, by its DevTools socket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._contexts: list[str] = []
        self._number = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tabs: dict[str, Tab] = {}
        self._reader = asyncio.create_task(self._read())

    async def tab(self, *, width: int = 1280, height: int = 800) -> Tab:
        """A new page in a context of its own, that has stored nothing."""
        context = await self.call("Target.createBrowserContext")
        self._contexts.append(context["browserContextId"])
        target = await self.call(
            "Target.createTarget", url="about:blank", browserContextId=context["browserContextId"]
        )
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        tab = Tab(self, attached["sessionId"], context["browserContextId"])
        self._tabs[tab.session] = tab
        for domain in ("Page", "Runtime", "Network", "Log"):
            await tab.call(f"{domain}.enable")
        await tab.call("Page.setLifecycleEventsEnabled", enabled=True)
        await tab.prefers()
        await tab.resize(width, height)
        return tab

    async def call(self, method: str, *, session: str = "", **parameters: Any) -> dict[str, Any]:
        self._number += 1
        said = {"id": self._number, "method": method, "params": parameters}
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = answer
        await self._socket.send_json({**said, "sessionId": session} if session else said)
        try:
            return await asyncio.wait_for(answer, patience(2))  # noqa: TID251
        except TimeoutError:
            raise Broken(f"the browser does not answer {method}") from None

    async def _read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                answer = self._waiting.pop(told["id"])
                if answer.done():
                    continue
                if "error" in told:
                    answer.set_exception(Broken(told["error"]["message"]))
                else:
                    answer.set_result(told["result"])
            elif tab := self._tabs.get(told.get("sessionId", "")):
                _heard(tab, told["method"], told["params"])

    async def end(self) -> None:
        """Close what was opened here."""
        for context in self._contexts:
            with contextlib.suppress(Broken, ConnectionError):
                await self.call("Target.disposeBrowserContext", browserContextId=context)
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader


def _heard(tab: Tab, event: str, said: dict[str, Any]) -> None:
    match event:
        case "Page.lifecycleEvent" if said["name"] == "load":
            tab.loaded.append(said["loaderId"])
        case "Network.requestWillBeSent" | "Network.webSocketCreated":
            tab.requests.append(said["request"]["url"] if "request" in said else said["url"])
        case "Runtime.exceptionThrown":
            details = said["exceptionDetails"]
            tab.complaints.append(details.get("exception", {}).get("description") or details["text"])
        case "Runtime.consoleAPICalled" if said["type"] in ("error", "warning", "assert"):
            tab.complaints.append(" ".join(str(each.get("value", each)) for each in said["args"]))
        case "Log.entryAdded" if said["entry"]["level"] == "error" and said["entry"]["source"] != "network":
            tab.complaints.append(said["entry"]["text"])


@contextlib.contextmanager
def running() -> Iterator[str]:
    """A browser while the block runs, with a profile that nobody has used: where it listens.

    Raises:
        BrowserMissing: there is none here.
    """
    name = program()
    flags = [*_FLAGS[:-1], *(["--no-sandbox"] if os.geteuid() == 0 else []), _FLAGS[-1]]
    with tempfile.TemporaryDirectory(prefix="kai-chromium-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [name, f"--user-data-dir={profile}", *flags],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield _address(Path(profile) / "DevToolsActivePort", process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.asynccontextmanager
async def connected(address: str) -> AsyncIterator[Chromium]:
    """A running browser, whose tabs of ours are closed in the end."""
    async with aiohttp.ClientSession() as client, client.ws_connect(address, max_msg_size=0) as socket:
        browser = Chromium(socket)
        try:
            yield browser
        finally:
            await browser.end()


def _address(file: Path, process: subprocess.Popen[bytes]) -> str:
    """It writes port and path to a file once it listens."""

    def look() -> list[str]:
        if process.poll() is not None:
            raise Broken(f"chromium ended with {process.returncode}")
        return file.read_text().split() if file.exists() else []

    port, path = until(look, lambda found: len(found) == 2, what="chromium listens")
    return f"ws://127.0.0.1:{port}{path}"
