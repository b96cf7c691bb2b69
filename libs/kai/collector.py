"""Pausing the collection of cyclic garbage while much is made that lives on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused(*, lasting: bool = False) -> Iterator[None]:
    """Leave collecting for afterwards: rows refer to each other, and walking all of them finds nothing.

    With ``lasting`` what is made meanwhile counts as old at once, and is walked when all that is old is.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if lasting:
            # Both only hand lists over: the young to the permanent, the permanent to the old.
            gc.freeze()
            gc.unfreeze()
        gc.enable()
