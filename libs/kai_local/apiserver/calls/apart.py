"""Long work beside the event loop, so that everybody else is answered meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
LARGE: Final = 32 * 1024
"""Bytes of JSON. What is smaller is worked on in a few milliseconds."""
#: One, so that large requests wait for each other, and the loop has half of the processor whatever comes.
_worker: Final = ThreadPoolExecutor(1, "large requests")


async def apart(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the function returns or raises, from a thread if it is about so many bytes.

    The function changes nothing that others see, and whoever calls looks again at what it read before.
    """
    if size < LARGE:
        return function(*args, **kwargs)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_worker, lambda: function(*args, **kwargs))
