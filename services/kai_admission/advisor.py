"""Warnings for whoever creates or changes an object by hand; never a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from kai.advice.facts import Facts
from kai.advice.finding import Reference
from kai.advice.objects import findings
from kai.model.objects import ApiObject
from kai.runtime.webhook import AdmissionRequest, AdmissionResponse, Handler

#: Nobody reads more, and the API server cuts off after 4 KiB.
_MOST: Final = 10
_SHOWN: Final = ("labels", "annotations")

#: Whether an object that watches do not know is not there indeed.
IsMissing: TypeAlias = Callable[[Reference], Awaitable[bool]]


def advisor(facts: Callable[[], Facts], is_missing: IsMissing) -> Handler:
    """A handler that allows everything, with what is known at the time of each request."""

    async def advise(request: AdmissionRequest) -> AdmissionResponse:
        if request.object is None or request.sub_resource or not _changes(request):
            return AdmissionResponse()
        try:
            where, found = findings(request.kind.kind, request.object, request.namespace, facts())
            told = list(islice(dict.fromkeys(found), _MOST))
        except msgspec.ValidationError:
            return AdmissionResponse()  # who refuses it says why
        doubted = [each.missing for each in told if each.missing is not None]
        missing = dict(zip(doubted, await asyncio.gather(*map(is_missing, doubted)), strict=True))
        lines = (each.about(where) for each in told if each.missing is None or missing[each.missing])
        return AdmissionResponse(warnings=tuple(dict.fromkeys(lines)))

    return advise


def _changes(request: AdmissionRequest) -> bool:
    """Whether something changes that warnings go by, in an object that is there to stay."""
    new, old = request.object or {}, request.old_object
    try:
        meta = msgspec.convert(new, ApiObject).metadata
    except msgspec.ValidationError:
        return False
    if meta.deletion_timestamp:
        return False
    if old is None:
        return True
    before = old.get("metadata")
    told = before if isinstance(before, dict) else {}
    return new.get("spec") != old.get("spec") or any(
        (new.get("metadata") or {}).get(field) != told.get(field) for field in _SHOWN
    )
