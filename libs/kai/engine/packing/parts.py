"""What the free part of a device is worth to pods that take parts, given how many there are of each size.

What a part is worth is not what would fit into it, but what it saves: devices that need not be opened. These
are the prices of the smallest number of devices that all parts asked for fit on (cutting stock, solved by
column generation after Gilmore and Gomory). So 0.35 is worth a third of a device where enough pods ask for
0.32, and 0.19 is worth nothing where far more devices are left with it than there are pods that take it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kai.model.arrays import Floats, Ints

#: Parts are told apart by this many steps of a device.
STEPS: Final = 100
#: How much the devices that parts save weigh beside what all shapes could use. The public trace packs within
#: 0.15 points of the best by any weight from 1 to 8.
SAVED: Final = 2.0
#: Free parts are rounded to six digits as they are taken.
STEP_ROUNDING: Final = 1e-3
#: So many sizes are looked at, those that most of the devices are asked in.
_MOST_SIZES: Final = 32
#: Prices are good long before they are exact; they are scaled so that a device is never worth more than one.
_MOST_ROUNDS: Final = 200
_TINY: Final = 1e-6


def part_worth(portion: Floats, count: Floats) -> Floats:
    """The worth of free parts, in devices: ``[STEPS + 1]`` from none to a whole one, which is worth 1.

    It never falls with the size, and is 0 for all parts where no pod takes parts.

    Args:
        portion: the part that each shape takes of a device.
        count: how many such parts are asked for.
    """
    sizes, counts = _sizes(portion, count)
    worth = np.zeros(STEPS + 1)
    if sizes.size:
        worth = _priced(sizes, counts)
    worth[STEPS] = 1.0
    return worth


def _sizes(portion: Floats, count: Floats) -> tuple[Ints, Floats]:
    """The sizes in steps, rounded up, and how often each is asked for."""
    steps = np.ceil(portion * STEPS - _TINY).astype(np.int64)
    asked = np.bincount(steps, weights=count, minlength=STEPS + 1)[:STEPS].astype(np.float64)
    asked[0] = 0.0
    most = np.argsort(-asked * np.arange(STEPS), kind="stable")[:_MOST_SIZES]
    sizes: Ints = np.sort(most[asked[most] > 0])[::-1].astype(np.int64)
    return sizes, asked[sizes]


def _priced(sizes: Ints, counts: Floats) -> Floats:
    # Each column of the basis is a way to fill a device; to begin with, each with parts of one size.
    basis = np.diag((STEPS // sizes).astype(np.float64))
    worth = np.zeros(STEPS + 1)
    for _ in range(_MOST_ROUNDS):
        price: Floats = np.linalg.solve(basis.T, np.ones(len(sizes))).astype(np.float64)
        worth, filled = _best_fill(sizes, price)
        if worth[STEPS] <= 1.0 + _TINY:
            break
        used = np.maximum(np.linalg.solve(basis, counts), 0.0)
        step = np.linalg.solve(basis, filled)
        ratio = np.full(len(sizes), np.inf)
        np.divide(used, step, out=ratio, where=step > _TINY)
        basis[:, int(ratio.argmin())] = filled
    result: Floats = worth / max(worth[STEPS], 1.0)
    return result


def _best_fill(sizes: Ints, price: Floats) -> tuple[Floats, Floats]:
    """The most that parts of each size can be filled with, and how often each size is in a full device."""
    worth = np.zeros(STEPS + 1)
    chosen = np.full(STEPS + 1, -1, dtype=np.int64)
    for room in range(1, STEPS + 1):
        gain = np.where(sizes <= room, worth[np.maximum(room - sizes, 0)] + price, -np.inf)
        best = int(gain.argmax())
        worth[room] = worth[room - 1]
        if gain[best] > worth[room] + _TINY:
            worth[room], chosen[room] = gain[best], best
    filled = np.zeros(len(sizes))
    room = STEPS
    while room > 0:
        if chosen[room] < 0:
            room -= 1
        else:
            filled[chosen[room]] += 1
            room -= int(sizes[chosen[room]])
    return worth, filled
