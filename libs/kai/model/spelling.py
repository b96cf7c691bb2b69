"""Names that are not known, told with the nearest one that is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that ``name`` most likely stands for, whatever its case; empty if none is near."""
    by_folded = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(name.casefold(), list(by_folded), n=1)
    return by_folded[close[0]] if close else ""


def unknown(what: str, name: str, known: Iterable[str], *, where: str = "") -> str:
    """``unknown plugin 'podafinity'; did you mean 'podaffinity'? known: …``."""
    names = [str(each) for each in known]  # members of an enumeration show themselves otherwise
    near = nearest(name, names)
    hint = f" did you mean {near!r}?" if near else ""
    return f"unknown {what} {name!r}{where};{hint} known: {', '.join(names) or 'none'}"
