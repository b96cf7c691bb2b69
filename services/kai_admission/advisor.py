"""Warnings for whoever creates or changes an object by hand, and refusals of what would be given no place.

Refused is only what the scheduler refuses in any case, so that nothing is open while nobody answers here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from kai.advice.facts import Facts
from kai.advice.finding import Reference
from kai.advice.objects import findings
from kai.advice.use import Refusal, refusals
from kai.model.objects import ApiObject
from kai.runtime.webhook import AdmissionRequest, AdmissionResponse, Handler

#: Nobody reads more, and the API server cuts off after 4 KiB.
_MOST: Final = 10
_SHOWN: Final = ("labels", "annotations")

#: Whether an object that watches do not know is not there indeed.
IsMissing: TypeAlias = Callable[[Reference], Awaitable[bool]]


#: What is known when a namespace and a queue are read anew.
Renewed: TypeAlias = Callable[[str, str], Awaitable[Facts]]


def advisor(facts: Callable[[], Facts], is_missing: IsMissing, renewed: Renewed) -> Handler:
    """A handler that goes by what is known at the time of each request."""

    async def advise(request: AdmissionRequest) -> AdmissionResponse:
        if request.object is None or request.sub_resource or not _changes(request):
            return AdmissionResponse()
        try:
            known = facts()
            refused, kept = await judge(request, known)
            if refused:
                return AdmissionResponse(allowed=False, message="; ".join(refused))
            where, found = await findings(request.kind.kind, request.object, request.namespace, known)
            told = list(islice(dict.fromkeys(found), _MOST))
        except msgspec.ValidationError:
            return AdmissionResponse()  # who refuses it says why
        doubted = [each.missing for each in told if each.missing is not None]
        missing = dict(zip(doubted, await asyncio.gather(*map(is_missing, doubted)), strict=True))
        lines = (each.about(where) for each in told if each.missing is None or missing[each.missing])
        return AdmissionResponse(warnings=tuple(dict.fromkeys((*kept, *lines))))

    async def judge(request: AdmissionRequest, known: Facts) -> tuple[list[str], list[str]]:
        """Why the object is refused, and what would be refused had it not been so before."""
        where, found = _refusals(request, known)
        shut = next((each.queue for each in found if each.queue), "")
        if shut:  # watches are late where somebody has just opened the queue
            known = await renewed(request.namespace, shut)
            where, found = _refusals(request, known)
        before = _before(request, known) if found else []
        refused = [f"{where}: {each.text}" for each in found if each not in before]
        return refused, [f"{where}: {each.text}" for each in found if each in before]

    return advise


def _refusals(request: AdmissionRequest, facts: Facts) -> tuple[str, list[Refusal]]:
    return refusals(request.kind.kind, request.object or {}, request.namespace, facts)


def _before(request: AdmissionRequest, facts: Facts) -> list[Refusal]:
    """Why the object as it was would be refused: that is no reason to refuse other changes of it."""
    if request.old_object is None:
        return []
    try:
        return refusals(request.kind.kind, request.old_object, request.namespace, facts)[1]
    except msgspec.ValidationError:
        return []


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
