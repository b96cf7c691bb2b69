"""A cluster, its queues and their work, whose life is to be simulated.

The form is that of the original's ``time-based-fairshare-simulator``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kai.model.rules.queue_amounts import PRIORITY
from kai.simulate.reading import Fields, InvalidInput, ordered

_INPUT: Final = ("queues", "jobs", "nodes", "cycles", "windowSize", "halfLifePeriod", "kValue")
_QUEUE: Final = ("name", "parent", "priority", "deservedGPUs", "weight")
_JOBS: Final = ("GPUs", "numPods", "numJobs")
_NODES: Final = ("GPUs", "count")
_MOST_CYCLES: Final = 100_000
_MOST_PODS: Final = 50_000
_MOST_NODES: Final = 10_000
_MOST_GPUS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A queue; GPUs are all that its jobs compete for."""

    name: str
    parent: str
    priority: int
    deserved: float
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Equal jobs of one queue, there from the beginning. Each starts with one pod and grows to all."""

    queue: str
    gpus: int
    pods: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is simulated. A cycle lasts a second; window and half-life are seconds."""

    teams: tuple[Team, ...]
    jobs: tuple[Jobs, ...]
    #: GPUs of each node.
    nodes: tuple[int, ...]
    cycles: int
    window: int
    #: None: all of the window counts the same.
    half_life: int | None
    k: float

    @property
    def gpus(self) -> int:
        """All there are."""
        return sum(self.nodes)

    @classmethod
    def read(cls, document: Any) -> Scenario:
        """Read the JSON form; what is absent has its default.

        Raises:
            InvalidInput: something is unknown, or cannot be meant.
        """
        fields = Fields(document, where="", known=_INPUT)
        teams = _teams(fields)
        jobs = tuple(
            _jobs(str(queue), value, where=f"{fields.place('jobs')}.{queue}", teams=teams)
            for queue, value in fields.mapped("jobs").items()
        )
        if sum(each.count * each.pods for each in jobs) > _MOST_PODS:
            raise InvalidInput(f"jobs have more than {_MOST_PODS} pods; ask for fewer")
        half_life = fields.whole("halfLifePeriod", default=0, least=0, most=_MOST_CYCLES * 10)
        return cls(
            teams=tuple(teams.values()),
            jobs=jobs,
            nodes=_nodes(fields),
            cycles=fields.whole("cycles", default=100, least=1, most=_MOST_CYCLES),
            window=fields.whole("windowSize", default=5, least=1, most=_MOST_CYCLES * 10),
            half_life=half_life or None,
            k=fields.number("kValue", default=1.0, least=0.0),
        )


def _teams(fields: Fields) -> dict[str, Team]:
    """By name, parents before children."""
    found: dict[str, Team] = {}
    for number, value in enumerate(fields.listed("queues")):
        each = Fields(value, where=f"{fields.place('queues')}[{number}]", known=_QUEUE)
        name = each.text("name")
        if not name:
            raise InvalidInput(f"{each.place('name')} is missing; give the queue one")
        if name in found:
            raise InvalidInput(f"{each.place('name')}: queue {name!r} is there twice; name it once")
        found[name] = Team(
            name=name,
            parent=each.text("parent"),
            priority=each.whole("priority", default=PRIORITY, least=-(2**31), most=2**31 - 1),
            deserved=each.unlimited("deservedGPUs", default=0.0),
            weight=each.number("weight", default=1.0, least=0.0),
        )
    for team in found.values():
        if team.parent and team.parent not in found:
            raise InvalidInput(
                f"queue {team.name!r} has a parent {team.parent!r} that does not exist; add it"
            )
    return {name: found[name] for name in ordered({team.name: team.parent for team in found.values()})}


def _jobs(queue: str, value: Any, *, where: str, teams: dict[str, Team]) -> Jobs:
    each = Fields(value, where=where, known=_JOBS)
    if queue not in teams:
        raise InvalidInput(f"{where}: there is no queue {queue!r}; add it to queues")
    if any(team.parent == queue for team in teams.values()):
        raise InvalidInput(f"{where}: queue {queue!r} has children; give its jobs to one of them")
    return Jobs(
        queue=queue,
        gpus=each.whole("GPUs", default=0, least=0, most=_MOST_GPUS),
        pods=each.whole("numPods", default=0, least=0, most=_MOST_PODS),
        count=each.whole("numJobs", default=0, least=0, most=_MOST_PODS),
    )


def _nodes(fields: Fields) -> tuple[int, ...]:
    found: list[int] = []
    for number, value in enumerate(fields.listed("nodes")):
        each = Fields(value, where=f"{fields.place('nodes')}[{number}]", known=_NODES)
        gpus = each.whole("GPUs", default=0, least=0, most=_MOST_GPUS)
        found += [gpus] * each.whole("count", default=1, least=0, most=_MOST_NODES)
        if len(found) > _MOST_NODES:
            raise InvalidInput(f"{fields.place('nodes')} are more than {_MOST_NODES}; ask for fewer")
    return tuple(found)
