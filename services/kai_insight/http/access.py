"""Who asks, and what he may see: the API server says both, by TokenReview and SubjectAccessReview.

What it said is remembered for a moment, by a hash of the token, which is written nowhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from kai.kube.client import KubeClient
from kai.kube.errors import ApiError, DeadlineExceeded, Forbidden, KubeError
from kai.kube.resources import POD_GROUPS, SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from kai_insight.http.problems import Problem, Trouble
from kai_insight.http.remembered import Remembered
from kai_insight.http.turns import Turns

R = TypeVar("R")
#: So long an answer of the API server is believed: who loses a right may go on for that time.
REMEMBERED_SECONDS: Final = 10.0
#: Callers, and of callers rights, that are remembered.
MOST_CALLERS: Final = 1000
MOST_RIGHTS: Final = 50_000
#: A review that takes longer has failed.
REVIEW_SECONDS: Final = 5.0
#: Reviews that are under way at once. Tokens have a number of their own: whoever sends wrong ones keeps
#: nobody waiting who is known already.
_TOKENS_AT_ONCE: Final = 4
_RIGHTS_AT_ONCE: Final = 16
#: Of those about rights for one who asks: somebody may have a thousand namespaces.
_RIGHTS_OF_ONE: Final = 5
#: Callers who wait until their token is reviewed. They take no more of the places that there are for all.
MOST_STRANGERS: Final = 20
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
#: Longer ones are none.
LONGEST_TOKEN: Final = 12_288


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whom the API server knows. ``key`` stands for the token."""

    key: bytes
    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Collection[str]] = field(default_factory=dict)

    @property
    def asker(self) -> str:
        """Who answers for what is asked, however many tokens there are of him.

        All service accounts of a namespace are one: whoever may make some makes as many as he likes.
        """
        if not self.user.startswith(_SERVICE_ACCOUNT):
            return self.user
        return self.user.rpartition(":")[0]


class Access:
    """Asks the API server, as insight's own account."""

    def __init__(
        self,
        client: KubeClient,
        *,
        patience: float = REVIEW_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``patience``: seconds that one review may take."""
        self._client = client
        self._patience = patience
        seconds = REMEMBERED_SECONDS
        self._callers = Remembered[bytes, Caller](seconds=seconds, most=MOST_CALLERS, clock=clock)
        # Apart from those who are known: nobody can make us forget them by wrong tokens.
        self._strangers = Remembered[bytes, bool](seconds=seconds, most=MOST_CALLERS, clock=clock)
        self._rights = Remembered[tuple[bytes, Resource, str], bool](
            seconds=seconds, most=MOST_RIGHTS, clock=clock
        )
        self._tokens_turn = asyncio.Semaphore(_TOKENS_AT_ONCE)
        self._waiting = 0
        self._rights_turn = asyncio.Semaphore(_RIGHTS_AT_ONCE)
        self._own_turn = Turns(_RIGHTS_OF_ONE)

    async def caller(self, token: str) -> Caller:
        """Whose token it is.

        Raises:
            Problem: nobody's (401), or the API server does not say, or too many ask for the first time (503).
        """
        key = hashlib.sha256(token.encode()).digest()
        known = self._callers.get(key)
        if known is not None:
            return known
        if len(token) > LONGEST_TOKEN or self._strangers.get(key):
            raise _unknown()
        review = await self._review_token(token)
        if not review.status.authenticated:
            self._strangers.put(key, True)
            raise _unknown()
        user = review.status.user
        caller = Caller(key, user.username, user.uid, tuple(user.groups or ()), user.extra or {})
        self._callers.put(key, caller)
        return caller

    async def _review_token(self, token: str) -> _TokenReview:
        if self._waiting >= MOST_STRANGERS:
            raise Problem(Trouble.BUSY, f"{MOST_STRANGERS} tokens are being reviewed; ask again later")
        self._waiting += 1
        try:
            async with self._tokens_turn:
                return await self._review(TOKEN_REVIEWS, {"token": token}, _TokenReview)
        finally:
            self._waiting -= 1

    async def may_list(self, caller: Caller, resource: Resource, namespace: str = "") -> bool:
        """Whether somebody may list these objects; without a namespace all of them.

        Raises:
            Problem: the API server does not say (503).
        """
        key = caller.key, resource, namespace
        known = self._rights.get(key)
        if known is not None:
            return known
        spec = {
            "user": caller.user,
            "uid": caller.uid,
            "groups": list(caller.groups),
            "extra": {name: list(said) for name, said in caller.extra.items()},
            "resourceAttributes": {
                "verb": "list",
                "group": resource.group,
                "version": resource.version,
                "resource": resource.plural,
                "namespace": namespace,
            },
        }
        async with self._own_turn.of(caller.asker), self._rights_turn:
            review = await self._review(SUBJECT_ACCESS_REVIEWS, spec, _AccessReview)
        self._rights.put(key, review.status.allowed)
        return review.status.allowed

    async def require(self, caller: Caller, resource: Resource, namespace: str = "") -> None:
        """See to it that somebody may list these objects.

        Raises:
            Problem: he may not (403), or the API server does not say (503).
        """
        if not await self.may_list(caller, resource, namespace):
            where = f"in the namespace {namespace}" if namespace else "in the whole cluster"
            raise Problem(
                Trouble.FORBIDDEN,
                f"this is for those who may list {resource_name(resource)} {where}",
            )

    async def visible(self, caller: Caller, namespaces: Collection[str]) -> frozenset[str]:
        """Those of these namespaces whose pod groups somebody may list; raises as :meth:`may_list`."""
        seen: set[str] = set()
        troubles: list[Problem] = []

        async def look(namespace: str) -> None:
            try:
                if not troubles and await self.may_list(caller, POD_GROUPS, namespace):
                    seen.add(namespace)
            except Problem as problem:
                troubles.append(problem)

        async with asyncio.TaskGroup() as tasks:
            for each in namespaces:
                tasks.create_task(look(each))
        if troubles:
            raise troubles[0]
        return frozenset(seen)

    async def _review(self, resource: Resource, spec: dict[str, Any], kind: type[R]) -> R:
        try:
            return await self._client.create(resource, {"spec": spec}, type=kind, deadline=self._patience)
        except Forbidden:
            what = resource_name(resource)
            raise Problem(
                Trouble.API_SERVER_AWAY,
                f"insight may not create {what}, by which it would learn what you may see; its role has to "
                "say so",
            ) from None
        except KubeError as error:
            raise Problem(
                Trouble.API_SERVER_AWAY,
                f"the API server does not say who you are and what you may see ({_reason(error)}); ask again "
                "later",
            ) from error


def resource_name(resource: Resource) -> str:
    """As roles and kubectl name it: ``podgroups.scheduling.run.ai``, ``nodes``."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _unknown() -> Problem:
    return Problem(
        Trouble.UNAUTHENTICATED,
        "the API server does not know this token; send Authorization: Bearer TOKEN, as kubectl create token "
        "makes one",
    )


def _reason(error: KubeError) -> str:
    """Without where the server is, which is nobody's business."""
    match error:
        case DeadlineExceeded():
            return "no answer in time"
        case ApiError():
            return f"it answers {error.status}"
        case _:
            return "it cannot be reached"
