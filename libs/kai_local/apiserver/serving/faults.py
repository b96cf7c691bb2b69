"""Faults on demand, and counts of requests: for tests of clients."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aiohttp import web

from kai_local.apiserver.calls.bodies import answer, parse_json
from kai_local.apiserver.calls.requests import Target
from kai_local.apiserver.errors import ApiFailure, Obj, bad_request
from kai_local.apiserver.reading.watch import Hubs
from kai_local.apiserver.store.storage import Store

FAULTS_PATH: Final = "/kai.local/faults"
REQUESTS_PATH: Final = "/kai.local/requests"
_REASONS: Final = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Rule(msgspec.Struct):
    """What happens to the next requests that match; empty fields match all.

    ``status``: answer so. ``delay``: seconds to wait first. ``hang``: do not answer before it is released,
    if ever; whoever sent it can be ended just before it, or just after. ``drop``: close the connection. With
    ``after`` the request is carried out before its answer is held back, or lost.
    """

    count: int = 1
    verb: str = ""
    resource: str = ""
    subresource: str | None = None
    user_agent: str = ""
    status: int = 0
    retry_after: int | None = None
    delay: float = 0.0
    hang: bool = False
    drop: bool = False
    after: bool = False

    def matches(self, verb: str, target: Target, agent: str) -> bool:
        """Whether the rule is about this request."""
        return (
            self.count != 0
            and self.verb in ("", verb)
            and self.resource in ("", target.resource.plural)
            and self.subresource in (None, target.subresource)
            and self.user_agent in agent
        )


@dataclass(slots=True)
class Dropped(Exception):
    """The connection is to be closed without an answer."""


class Faults:
    """Rules in force; a negative count never ends."""

    def __init__(self, store: Store, hubs: Hubs, forget_pages: Any) -> None:
        self._store = store
        self._hubs = hubs
        self._forget_pages = forget_pages
        self.rules: list[Rule] = []
        #: How many requests hang.
        self.held = 0
        self._released = asyncio.Event()
        self._running = asyncio.Event()
        self._running.set()

    async def before(self, verb: str, target: Target, agent: str) -> Rule | None:
        """Wait, fail or hang as a rule says; a rule that acts after the request is returned.

        Raises:
            ApiFailure: the answer that the rule wants. Dropped: close the connection.
        """
        if not self._running.is_set():
            await self._running.wait()
        for rule in self.rules:
            if rule.matches(verb, target, agent):
                break
        else:
            return None
        rule.count -= 1
        if rule.count == 0:
            self.rules.remove(rule)
        if rule.delay:
            await asyncio.sleep(rule.delay)
        if rule.after:
            return rule
        await self.carry_out(rule)
        return None

    async def carry_out(self, rule: Rule) -> None:
        """Do to the request what the rule says."""
        if rule.hang:
            self.held += 1
            await self._released.wait()
        if rule.drop:
            raise Dropped
        if rule.status:
            reason = _REASONS.get(rule.status, "InternalError")
            raise ApiFailure(rule.status, reason, f"injected fault: {reason}", retry_after=rule.retry_after)

    def answer(self, method: str, data: bytes) -> web.Response:
        """The admin endpoint: GET the state, POST rules and actions, DELETE all rules."""
        if method == "DELETE":
            self.rules.clear()
            self._running.set()
        elif method == "POST":
            self._act(parse_json(data))
        return answer(
            {
                "rules": msgspec.to_builtins(self.rules),
                "paused": not self._running.is_set(),
                "held": self.held,
            }
        )

    def _act(self, body: Any) -> None:
        if not isinstance(body, dict):
            raise bad_request("post an object with: rules, dropWatches, compact, pause, release")
        unknown = body.keys() - {"rules", "dropWatches", "compact", "pause", "release"}
        if unknown:
            raise bad_request(
                f"unknown fault {min(unknown)!r}: use rules, dropWatches, compact, pause or release"
            )
        try:
            self.rules += msgspec.convert(body.get("rules", []), list[Rule])
        except msgspec.ValidationError as error:
            raise bad_request(f"rules: {error}") from error
        if body.get("compact"):
            self.compact()
        if body.get("dropWatches"):
            self._hubs.close()
        if body.get("release"):
            self.release()
        if "pause" in body:
            if body["pause"]:
                self._running.clear()
            else:
                self._running.set()

    def release(self) -> None:
        """Let the requests that hang go on."""
        self.held = 0
        self._released.set()
        self._released = asyncio.Event()

    def compact(self) -> None:
        """Forget past changes: watches from an older version, and pages begun, get 410."""
        for collection in self._store.collections().values():
            collection.compact()
        self._forget_pages()


class RequestCounts:
    """How many requests came, by user agent, verb and resource, and how many of them were refused."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._forbidden: Counter[tuple[str, str, str]] = Counter()

    def note(self, agent: str, verb: str, target: Target) -> None:
        """Count one."""
        self._counts[agent, verb, _noun(target)] += 1

    def note_forbidden(self, agent: str, verb: str, target: Target) -> None:
        """Count one more, noted already, that the authorizer refused."""
        self._forbidden[agent, verb, _noun(target)] += 1

    def reset(self) -> None:
        """Start from zero."""
        self._counts.clear()
        self._forbidden.clear()

    def report(self) -> list[Obj]:
        """One entry for each user agent, verb and resource."""
        return [
            {
                "userAgent": agent,
                "verb": verb,
                "resource": resource,
                "count": count,
                "forbidden": self._forbidden[agent, verb, resource],
            }
            for (agent, verb, resource), count in sorted(self._counts.items())
        ]


def _noun(target: Target) -> str:
    return f"{target.resource.plural}/{target.subresource}" if target.subresource else target.resource.plural
