"""Which breaches are a matter of time: a machine that is busy with something else may have made them.

No slowness explains any other: a device given twice, a process that ended by itself, a cycle that failed; nor
what stands wrong for minutes, where the patience with it is the longer the slower the machine is.
"""

from __future__ import annotations

from typing import Final

PACE: Final = frozenset(
    {
        # Somebody waited for too long.
        "late",
        "slow",
        "nobody is told",
        "never runs",
        "no answer",
        # What has an end had not come to it.
        "not ready",
        "cannot be asked",
        "does not come to rest",
        "placeable, but pending",
        "eviction not carried out",
        "does not end",
        # Memory is given back when there is time for it.
        "memory grows",
        "memory stays",
        "descriptors grow",
    }
)
