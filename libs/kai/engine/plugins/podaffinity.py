"""``podaffinity``: what pods prefer of other pods. What they prefer of nodes is built in."""

from __future__ import annotations

from collections.abc import Iterator

from kai.engine.framework.handle import Handle
from kai.engine.framework.protocols import Plugin
from kai.engine.neighbourhood.affinity import PodAffinity
from kai.engine.neighbourhood.attraction import companions
from kai.engine.neighbourhood.spread import TopologySpread, must_hold


def opened(handle: Handle) -> Iterator[Plugin]:
    """The scores that this cycle needs; none where what pods require counts, and is counted with it."""
    if not handle.waiting or handle.requires:
        return
    others = companions(handle)
    if any(said.wishes for said, _ in others):
        yield PodAffinity(handle, others)
    if any(not must_hold(each) for cls in handle.waiting for each in cls.constraints.spread):
        yield TopologySpread(handle)
