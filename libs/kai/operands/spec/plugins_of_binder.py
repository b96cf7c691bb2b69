"""Plugins of the binder, as far as a Config may change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kai.model import spelling
from kai.operands.spec.components import BindPluginSpec
from kai.operands.spec.fields import MapOf, Part
from kai.operands.spec.problems import Place

_SECONDS: Final = "bindTimeoutSeconds"
#: Digits.
_LONGEST_COUNT: Final = 9
#: Plugin -> its arguments.
ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "volumebinding": (_SECONDS,),
    "dynamicresources": (_SECONDS,),
    "gpusharing": ("cdiEnabled",),
    "hamicore": (),
}
#: Plugins of the original that are not here; turned off, nobody misses them.
ELSEWHERE: Final = frozenset({"nvfractions"})
_PLUGINS: Final = MapOf(Part(BindPluginSpec))
#: Priorities of the two that have an order of their own.
_SHARING, _HAMI = 100, 50


def check(plugins: Mapping[str, BindPluginSpec], at: Place, *, hami_core: bool) -> None:
    """Say which plugins and arguments there are not, and which values cannot be used.

    ``hami_core``: whether hamicore takes part, which the mode of sharing may say too.
    """
    for name, change in plugins.items():
        if name in ELSEWHERE and change.enabled is False:
            continue
        if name not in ARGUMENTS:
            at.unknown(name, ARGUMENTS, what="plugin")
            continue
        _check_arguments(name, change.arguments or {}, at.below(name).below("arguments"))
    if hami_core:
        _check_hamicore(plugins, at)


def check_text(text: str, at: Place) -> None:
    """The same of plugins as the binder is told of them, in JSON: of these alone, whatever a Config says."""
    try:
        given = msgspec.json.decode(text) if text.strip() else {}
    except msgspec.DecodeError as error:
        at.complain(f"is {text!r}: must be a JSON object: {error}")
        return
    plugins = _PLUGINS.read(given, base={}, at=at)
    hami = plugins.get("hamicore", BindPluginSpec())
    check(plugins, at, hami_core=bool(hami.enabled))


def _check_arguments(plugin: str, given: Mapping[str, str], at: Place) -> None:
    for key, text in given.items():
        if key not in ARGUMENTS[plugin]:
            at.below(key).complain(f"is not known: {spelling.unknown('argument', key, ARGUMENTS[plugin])}")
        elif key == _SECONDS and not _is_count(text):
            at.below(key).refuse(text, "a whole number of seconds above 0")
        elif key != _SECONDS and text.lower() not in ("true", "false"):
            at.below(key).refuse(text, "true or false")


def _is_count(text: str) -> bool:
    """Whether it is a whole number above 0 that the binder can read."""
    return text.isdecimal() and len(text) <= _LONGEST_COUNT and int(text) > 0


def _check_hamicore(plugins: Mapping[str, BindPluginSpec], at: Place) -> None:
    """Limits are told to those who have a share."""
    hami, sharing = (plugins.get(name, BindPluginSpec()) for name in ("hamicore", "gpusharing"))
    if sharing.enabled is False:
        at.below("hamicore").complain("needs gpusharing; do not disable that")
        return
    first, second = _or(sharing.priority, _SHARING), _or(hami.priority, _HAMI)
    if first <= second:
        at.below("hamicore").below("priority").complain(
            f"is {second}; it must be below that of gpusharing, {first}"
        )


def _or(given: int | None, default: int) -> int:
    return default if given is None else given
