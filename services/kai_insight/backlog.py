"""How much of what schedulers told may wait: bases are large, and one makes those before it needless."""

from __future__ import annotations

from collections.abc import Iterable

from kai.history.recordings import Entry


def bounded(waiting: Iterable[Entry], shard: str, *, most: int) -> tuple[list[Entry], list[Entry]]:
    """What waits on, and what is given up: both in order.

    Where the bases of this shard are more than ``most`` bytes together, its eldest ones are given up with the
    cycles that follow them. Its newest base waits however large it is, and what is not of this shard as well.
    """
    entries = list(waiting)
    sizes = [len(each.data) for each in entries if each.base and each.shard == shard]
    surplus = 0
    while surplus < len(sizes) - 1 and sum(sizes[surplus:]) > most:
        surplus += 1
    kept: list[Entry] = []
    dropped: list[Entry] = []
    bases = 0
    for each in entries:
        ours = each.shard == shard
        bases += ours and each.base
        (dropped if ours and 0 < bases <= surplus else kept).append(each)
    return kept, dropped
