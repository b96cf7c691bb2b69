"""Which options of a list or a watch go together, and which values they take."""

import base64
import binascii
from collections.abc import Mapping
from typing import Final

from kai_local.apiserver.errors import Cause, bad_request, invalid, unsupported

_RULES: Final = ("Exact", "NotOlderThan")


def check(query: Mapping[str, str], *, watch: bool) -> None:
    """Raises ApiFailure: (400) a version that is no number, (422) options that do not go together."""
    version = query.get("resourceVersion", "")
    if version and not version.isdecimal():
        raise bad_request(f'invalid resource version: strconv.ParseUint: parsing "{version}": invalid syntax')
    rule = query.get("resourceVersionMatch", "")
    if not rule and "sendInitialEvents" not in query:
        return
    causes = _watch_causes(query, rule) if watch else _list_causes(query, rule, version)
    if causes:
        raise invalid("ListOptions", "meta.k8s.io", "", causes)


def _list_causes(query: Mapping[str, str], rule: str, version: str) -> list[Cause]:
    causes = []
    if rule and not version:
        causes.append(_forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if rule and query.get("continue"):
        causes.append(_forbidden("resourceVersionMatch is forbidden when continue is provided"))
    if rule and rule not in _RULES:
        causes.append(unsupported("resourceVersionMatch", rule, [*_RULES, ""]))
    if rule == "Exact" and version == "0":
        causes.append(_forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if "sendInitialEvents" in query:
        note = "Forbidden: sendInitialEvents is forbidden for list"
        causes.append(Cause("sendInitialEvents", note, "FieldValueForbidden"))
    return causes


def _watch_causes(query: Mapping[str, str], rule: str) -> list[Cause]:
    causes = []
    initial = "sendInitialEvents" in query
    if initial and rule != "NotOlderThan":
        causes.append(_forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if rule and not initial:
        note = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(_forbidden(note))
    if rule and rule != "NotOlderThan":
        causes.append(unsupported("resourceVersionMatch", rule, ["NotOlderThan"]))
    if rule and query.get("continue"):
        causes.append(_forbidden("resourceVersionMatch is forbidden when continue is provided"))
    return causes


def _forbidden(note: str) -> Cause:
    return Cause("resourceVersionMatch", f"Forbidden: {note}", "FieldValueForbidden")


def token(page: str, start: int) -> str:
    """The continue token of a list whose next object is the one at ``start`` of a kept page."""
    return base64.urlsafe_b64encode(f"{page}:{start}".encode()).decode()


def read_token(text: str) -> tuple[str, int]:
    """Page and start of a continue token. Raises ApiFailure (400) when it is none."""
    try:
        page, _, start = base64.urlsafe_b64decode(text).decode().partition(":")
        return page, int(start)
    except (binascii.Error, ValueError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
