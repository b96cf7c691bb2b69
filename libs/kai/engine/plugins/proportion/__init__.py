"""Fair share between queues: what they may hold, and what they may take from each other.

``order``    which queue is served first
``quota``    limits, and quotas for what cannot be preempted
``reclaim``  who may take from whom

The division itself is worked out in :mod:`kai.engine.fairness`, whatever is on, since every queue is told its
share; here it meets jobs and searches.
"""

from __future__ import annotations

from collections.abc import Iterator

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Plugin
from kai.engine.plugins.proportion.order import FairQueues
from kai.engine.plugins.proportion.quota import QueueQuotas
from kai.engine.plugins.proportion.reclaim import FairReclaim


def opened(handle: Handle) -> Iterator[Plugin]:
    """Every queue has a share."""
    yield FairQueues(handle)
    yield QueueQuotas(handle)
    yield FairReclaim(handle)
