"""Names that are close to ours but not ours.

The rule, so that another tool's label is never taken for a slip of the pen:

* what stands in our domain (``kai.scheduler/…``) and is not known is a mistake;
* a domain that differs from ours by two letters or by separators and case only, with a name that is close to
  one of ours, is a mistake;
* of names without a domain only those that are close to one of ours: the same but for separators and case,
  or different by one letter, by two where the name has ten or more;
* a name of ours with ten or more letters that has lost its domain is a mistake;
* what stands in any other domain is somebody else's.

A letter too many, too few, another one, or two exchanged count as one difference each.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from kai.model import names

_DOMAIN = names.KAI_GROUP
_LONG = 10
#: Nobody writes longer ones by hand.
_LONGEST = 80


def skeleton(text: str) -> str:
    """The letters and digits alone, in lower case."""
    return "".join(filter(str.isalnum, text.lower()))


def distance(one: str, other: str, most: int) -> int:
    """How many differences there are; more than ``most`` where there are more."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        two_before, before, row = before, row, [i]
        for j, another in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != another))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == another:
                best = min(best, two_before[j - 2] + 1)
            row.append(best)
        if min(row) > most:
            return most + 1
    return row[-1]


def tolerance(name: str) -> int:
    """How many differences still look like a slip."""
    return 2 if len(name) >= _LONG else 1


def nearest(text: str, known: Iterable[str]) -> str:
    """The name that is closest; empty where none is close."""
    found, least = "", 3
    if len(text) > _LONGEST:
        return found
    mine = skeleton(text)
    for name in sorted(known):
        theirs = skeleton(name)
        difference = distance(mine, theirs, tolerance(theirs))
        if difference <= tolerance(theirs) and difference < least:
            found, least = name, difference
    return found


@lru_cache(maxsize=4096)
def key_meant(key: str, known: frozenset[str]) -> str | None:
    """Which of the ``known`` keys was surely meant by one that is not known.

    Empty if it is surely a mistake but none is close; None if it is somebody else's.
    """
    if len(key) > _LONGEST:
        return None
    domain, slash, name = key.rpartition("/")
    ours = {each.rpartition("/")[2]: each for each in known if each.startswith(f"{_DOMAIN}/")}
    bare = {each: each for each in known if "/" not in each}
    if domain == _DOMAIN:
        meant = nearest(name, {**bare, **ours})
        return (ours | bare)[meant] if meant else ""
    if slash:
        if distance(skeleton(domain), skeleton(_DOMAIN), 2) > 2:
            return None
        meant = nearest(name, ours)
        return ours[meant] if meant else None
    if meant := nearest(name, bare):
        return meant
    lost = {skeleton(each): full for each, full in ours.items() if len(each) >= _LONG}
    return lost.get(skeleton(name))


def is_scheduler_meant(name: str, ours: str) -> bool:
    """Whether a scheduler's name is not ours but surely meant to be; with a number it is another one."""
    if name == ours or len(name) > _LONGEST or name.rstrip("0123456789-") == ours:
        return False
    mine, theirs = skeleton(name), skeleton(ours)
    return mine in ("kai", "kaisched") or distance(mine, theirs, 2) <= 2
