"""Dividing resources among sibling queues: first what they deserve, then what is left, by weight.

Many divisions run in lockstep: each entry (a queue in one resource) belongs to one of them, so a whole level
of a forest, in all three resources, costs a few vector operations per round.

The rules are those of the original, with one difference: a remainder never lifts a queue above what it can
use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kai.engine.fairness.queues import RESOURCES, QueueColumns, QueueForest
from kai.model.arrays import Floats, Ints

#: Fractions closer than this are equal, and an amount smaller than this is nothing.
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Who takes part; all arrays have one element for each entry. ``band`` 0 is served first."""

    division: Ints
    band: Ints
    rank: Ints
    deserved: Floats
    limit: Floats
    weight: Floats
    request: Floats
    usage: Floats


def divide(
    entries: Entries, total: Floats, *, k: float, fair_share: Floats | None = None, deserved: bool = True
) -> tuple[Floats, Floats]:
    """Divide ``total[division]`` among the entries of each division.

    Args:
        entries: the queues.
        total: what each division has to give, shape ``[divisions]``.
        k: how strongly past usage above the own weight counts against a queue; below 0 is 0.
        fair_share: what entries hold already; nothing by default.
        deserved: whether deserved amounts are given before the rest is shared by weight.

    Returns:
        The fair share of each entry, and what is left of each total (negative where more is deserved).
    """
    usable = np.where(entries.limit < 0, entries.request, np.minimum(entries.limit, entries.request))
    share = np.zeros(usable.size) if fair_share is None else fair_share.astype(np.float64)
    left = total.astype(np.float64)
    if deserved:
        # Not held to what there is: quotas that together exceed it are all given, as in the original.
        promised = np.where(entries.deserved < 0, left[entries.division], entries.deserved)
        give = np.minimum(promised, usable)
        share += give
        left = _take(left, entries.division, give)
    fraction = np.zeros(usable.size)
    for band in range(int(np.maximum.reduce(entries.band, initial=-1)) + 1):
        if not np.count_nonzero(left > 0):
            break
        _rounds(entries, (entries.band == band).nonzero()[0], usable, share, left, fraction, max(k, 0.0))
    _remainders(entries, usable, share, left, fraction)
    return share, left


def _rounds(
    entries: Entries, rows: Ints, usable: Floats, share: Floats, left: Floats, fraction: Floats, k: float
) -> None:
    """Give one priority band its parts by weight, again while someone wanted less than its part."""
    some = left.take(entries.division) > 0
    rows = rows[((entries.weight > 0) & some & (usable > share)).take(rows)]
    while rows.size:
        division, weight = entries.division.take(rows), entries.weight.take(rows)
        normal = weight / _sum(division, weight, left.size).take(division)
        if k:
            normal = np.maximum(0.0, normal + k * (normal - entries.usage.take(rows)))
        weights = _sum(division, normal, left.size).take(division)
        fair = np.divide(left.take(division) * normal, weights, out=np.zeros(rows.size), where=weights > 0)
        most, has = usable.take(rows), share.take(rows)
        want = most - has
        sated = want <= fair
        floor = _floor(fair)
        give = np.where(sated, want, floor)
        share[rows] = np.where(sated, most, has + floor)
        rest = np.where(sated, 0.0, fair - floor)
        # A part that is whole leaves the fraction of an earlier round, as in the original.
        fraction[rows] = np.where(sated | (rest > _NOTHING), rest, fraction.take(rows))
        left[:] = _take(left, division, give)
        again = np.zeros(left.size, dtype=bool)
        again[division[want < fair]] = True
        again &= left > 0
        rows = rows[again[division] & ~sated]


def _remainders(entries: Entries, usable: Floats, share: Floats, left: Floats, fraction: Floats) -> None:
    """Give what flooring left over, at most one unit each, by band, then largest fraction, then age."""
    rows = ((fraction > _NOTHING) & (left.take(entries.division) > 0)).nonzero()[0]
    if not rows.size:
        return
    by_fraction = -np.round(fraction[rows], 9)
    rows = rows[np.lexsort((entries.rank[rows], by_fraction, entries.band[rows], entries.division[rows]))]
    division = entries.division[rows]
    cap = np.minimum(1.0, usable[rows] - share[rows])
    before = _running(division, cap) - cap
    give = np.clip(left[division] - before, 0.0, cap)
    share[rows] += give
    left[:] = _take(left, division, give)


def _sum(division: Ints, amount: Floats, divisions: int) -> Floats:
    return np.bincount(division, amount, divisions)  # type: ignore[return-value]  # weighted: they are floats


def _running(division: Ints, amount: Floats) -> Floats:
    """Sums up to and with each entry; entries of a division stand together.

    Each division is summed by itself: what is given in one must not depend on the rounding of another.
    """
    first = np.flatnonzero(np.r_[True, division[1:] != division[:-1]])
    sizes = np.diff(np.r_[first, division.size])
    row = np.repeat(np.arange(first.size), sizes)
    position = np.arange(division.size) - first[row]
    table = np.zeros((first.size, int(sizes.max())))
    table[row, position] = amount
    sums: Floats = np.cumsum(table, axis=1)[row, position]
    return sums


def _take(left: Floats, division: Ints, amount: Floats) -> Floats:
    """What is left; rounding noise is nothing."""
    rest = left - _sum(division, amount, left.size)
    rest[np.abs(rest) <= _NOTHING] = 0.0
    return rest


def _floor(amount: Floats) -> Floats:
    """Like floor, but an integer that rounding made a hair smaller stays that integer."""
    near = np.rint(amount)
    slack = np.minimum(_NOTHING, 1e-12 * np.maximum(near, 1.0))
    return np.where(np.abs(amount - near) <= slack, near, np.floor(amount))


def divide_forest(forest: QueueForest, columns: QueueColumns, total: Floats, *, k: float) -> None:
    """Fill ``columns.fair_share``.

    Top queues share ``total`` (shape ``[3]``), children their parent's part.
    """
    for level in forest.levels:
        top = level.parents[:, None] < 0
        totals = np.where(top, total, columns.fair_share[level.parents])
        rows = level.rows
        entries = Entries(
            division=level.division,
            band=level.band,
            rank=level.rank,
            deserved=columns.deserved.take(rows, axis=0).ravel(),
            limit=columns.limit.take(rows, axis=0).ravel(),
            weight=columns.weight.take(rows, axis=0).ravel(),
            request=columns.request.take(rows, axis=0).ravel(),
            usage=columns.usage.take(rows, axis=0).ravel(),
        )
        share, _ = divide(entries, totals.ravel(), k=k)
        columns.fair_share[rows] = share.reshape(-1, RESOURCES)
