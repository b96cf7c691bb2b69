"""What is known beside the cluster itself, which differs by who serves the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from kai.answers.answer import Answer, Held
from kai.history.records import Run
from kai.kube.leases import Lease, leader_of
from kai.live.waiting import Known
from kai.snapshot.times import seconds
from kai_insight.live.told import Forecasts, ProcessTold, StoreTold

#: Of its duration a Lease is renewed well before; after so much of it somebody is late.
_LATE: Final = 1.5
_USUAL_SECONDS: Final = 15


class Unknown(Exception):
    """Nothing is known of the past; the message says why."""


class Knowledge(Protocol):
    """Of insight, or of ``kai ui``."""

    def known(self, shard: str) -> Known:
        """What was found of the groups of a shard that wait."""
        ...

    async def runs(self) -> Sequence[Run]:
        """What ran lately, from which it can be learned how long work lasts.

        Raises:
            Unknown: nobody can say.
        """
        ...

    async def keep_forecast(self, answer: Answer, *, at: float) -> dict[str, Held]:
        """Look whether a forecast holds that was told; how others held, by quantile."""
        ...

    async def processes(self) -> list[ProcessTold]:
        """Who holds the Leases of the installation."""
        ...

    def forecasts(self) -> Forecasts | None:
        """How forecasts held; None where that is not known."""
        ...

    def store(self) -> StoreTold | None:
        """How the store of the past does; None where there is none."""
        ...


def processes_of(leases: Iterable[Lease], *, now: float) -> list[ProcessTold]:
    """Those who lead by these Leases, by name."""
    found = []
    for lease in sorted(leases, key=lambda each: each.metadata.name):
        leader, spec = leader_of(lease), lease.spec
        if leader is None:
            continue
        renewed = seconds(spec.renew_time)
        lasts = spec.lease_duration_seconds or _USUAL_SECONDS
        found.append(
            ProcessTold(
                name=lease.metadata.name,
                holder=leader.identity,
                since=seconds(spec.acquire_time),
                renewed=renewed,
                late=now > renewed + _LATE * lasts,
                release=leader.version,
            )
        )
    return found
