"""How good forecasts are on a trace: ``python -m e2e.bench.forecast --pods TRACE.csv``.

The GPU pods of a trace come, run as long as they did, and go, on a cluster that is small enough for them to
wait. What ran in the first half of the time is learned. In the second half it is asked about pods that found
no place as they came when they will start, and compared with when they did: by forecasts, and by what a
moving average says, over the waits of the pods of the same shape that started last.

A trace has the columns ``cpu_milli``, ``memory_mib``, ``num_gpu``, ``gpu_milli``, ``creation_time``,
``scheduled_time`` and ``deletion_time`` (seconds); pods that never ran are left out. It has no names that say
what belongs together, so pods of the same shape are called alike.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import statistics
import sys
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from kai.bench.objects import a_group, a_node, a_pod, a_queue, usual_priorities
from kai.engine import SchedulerConfig
from kai.forecast.curves import Span
from kai.forecast.learned import Learned
from kai.forecast.runs import Kin, Lasted
from kai.forecast.starting import COURSES, SECONDS, starts
from kai.model.ids import PodGroupKey
from kai.simulate.changes import AddWorkload
from kai.simulate.course import Course, Happened
from kai.simulate.journal import journal
from kai.snapshot import codec
from kai.snapshot.rows import Job
from kai.snapshot.state import ClusterState, Kind

#: The trace begins then.
EPOCH: Final = 1_900_000_000.0
QUEUE: Final = "work"
#: Pods that a moving average is over.
LATELY: Final = 20
#: Who starts so soon did not wait.
SOON_SECONDS: Final = 2.0
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"

Shape: TypeAlias = tuple[str, str, str, str]


class Unusable(ValueError):
    """A file is no trace; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class Coming:
    """A pod of a trace: when it comes and how long it runs, in seconds."""

    name: str
    shape: Shape
    at: float
    lasting: float

    def workload(self) -> AddWorkload:
        """Its pod group, and itself."""
        cpu, memory, gpus, milli = self.shape
        part = int(milli) / 1000
        held = {"fraction": part} if part < 1 else {"gpus": int(gpus)}
        group = a_group(self.name, queue=QUEUE, created=EPOCH + self.at)
        pod = a_pod(
            self.name, group=self.name, cpu=f"{cpu}m", memory=f"{memory}Mi", created=EPOCH + self.at, **held
        )
        return AddWorkload(groups=[group], pods=[pod])


def read(path: Path, *, since: float) -> list[Coming]:
    """The GPU pods of a trace that ran, and came after so many seconds, in order.

    Raises:
        Unusable: the file is not there, or is no trace.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if int(row["num_gpu"]) and row["scheduled_time"]]
            called: dict[Shape, str] = {}
            found = []
            for number, row in enumerate(sorted(rows, key=lambda row: float(row["creation_time"]))):
                shape = (row["cpu_milli"], row["memory_mib"], row["num_gpu"], row["gpu_milli"])
                name = called.setdefault(shape, _letters(len(called)))
                lasting = max(float(row["deletion_time"]) - float(row["scheduled_time"]), 1.0)
                at = float(row["creation_time"]) - since
                if at >= 0:
                    found.append(Coming(f"{name}-{number}", shape, at, lasting))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Unusable(f"{path}: {error}") from None
    except (KeyError, ValueError) as error:
        raise Unusable(f"{path} is no trace of pods: {error!r}; see --help for its columns") from None
    if not found:
        raise Unusable(f"{path}: no pod that asks for a GPU ran after {since:g} s")
    return found


def _letters(number: int) -> str:
    """Three letters, as names keep them where numbers are taken out."""
    return "".join(_LETTERS[number // 26**place % 26] for place in (2, 1, 0))


@dataclass(frozen=True, slots=True)
class Usual:
    """How long pods waited lately (seconds): on average, and nine of ten at most."""

    mean: float
    late: float

    @classmethod
    def of(cls, waits: Sequence[float]) -> Usual:
        """Of these, one at least."""
        ordered = sorted(waits)
        return cls(statistics.fmean(ordered), ordered[math.ceil(0.9 * len(ordered)) - 1])


class Waits:
    """How long pods waited that started lately."""

    def __init__(self) -> None:
        self._by_shape: dict[Shape, deque[float]] = defaultdict(lambda: deque(maxlen=LATELY))
        self._all: deque[float] = deque(maxlen=LATELY)

    def add(self, shape: Shape, waited: float) -> None:
        """A pod started."""
        self._by_shape[shape].append(waited)
        self._all.append(waited)

    def usual(self, shape: Shape) -> Usual:
        """Of pods of the same shape; of all where there are none."""
        return Usual.of(self._by_shape[shape] or self._all or [0.0])


@dataclass(slots=True)
class Guess:
    """What was told of a pod as it began to wait (seconds; None: nothing), and how long it waited."""

    p50: float | None
    p90: float | None
    average: Usual
    #: The same of pods that waited at all.
    waiting: Usual
    waited: float = math.nan


@dataclass(slots=True)
class Score:
    """How good one way to guess is."""

    told50: int = 0
    told90: int = 0
    errors: list[float] = field(default_factory=list)
    held50: int = 0
    held90: int = 0

    def take(self, p50: float | None, p90: float | None, waited: float) -> None:
        """Count a guess."""
        if p50 is not None:
            self.told50 += 1
            self.errors.append(abs(p50 - waited))
            self.held50 += waited <= p50
        if p90 is not None:
            self.told90 += 1
            self.held90 += waited <= p90

    def row(self, name: str) -> str:
        """As a row of a table in Markdown."""
        found = self.errors
        error = f"{statistics.fmean(found):.0f} | {statistics.median(found):.0f}" if found else "– | –"
        return (
            f"| {name} | {self.told50} | {self.told90} | {error} | {_percent(self.held50, self.told50)} "
            f"| {_percent(self.held90, self.told90)} |"
        )


HEAD: Final = (
    "| | p50 told | p90 told | error of p50, mean (s) | median (s) | started by p50 | started by p90 |\n"
    "|---|---|---|---|---|---|---|"
)


def _percent(part: int, of: int) -> str:
    return f"{100 * part / of:.0f} %" if of else "–"


class Replay:
    """A trace on a cluster, with questions on the way."""

    def __init__(
        self,
        coming: Sequence[Coming],
        *,
        nodes: int,
        gpus: int,
        samples: int,
        courses: int,
        seconds: float = SECONDS,
        seed: int = 1,
        keeps_learning: bool = False,
    ) -> None:
        self.coming = {each.name: each for each in coming}
        self.middle = (coming[0].at + coming[-1].at) / 2
        self._nodes = nodes
        self._gpus = gpus
        self._courses = courses
        self._seconds = seconds
        self._keeps_learning = keeps_learning
        self._state = self._cluster()
        self._random = random.Random(seed)
        #: Of those that come in the second half this part is asked about, if they wait.
        self._chance = min(1.0, samples / sum(each.at >= self.middle for each in coming))
        self._waits, self._waits_of_waiting = Waits(), Waits()
        self._began: dict[str, float] = {}
        self._started: set[str] = set()
        self._ended: list[Lasted] = []
        self._learned: Learned | None = None
        self.guesses: dict[str, Guess] = {}
        self.waited = 0

    def _cluster(self) -> ClusterState:
        state = ClusterState()
        objects: list[tuple[Kind, object]] = [(Kind.PRIORITY_CLASS, each) for each in usual_priorities()]
        objects += [
            (Kind.NODE, a_node(f"node-{n}", gpus=self._gpus, cpu="128", memory="1000Gi", pods=500))
            for n in range(self._nodes)
        ]
        objects += [(Kind.QUEUE, a_queue("top")), (Kind.QUEUE, a_queue(QUEUE, parent="top"))]
        state.load(objects)
        return state

    def run(self) -> None:
        """Let it happen; afterwards :attr:`guesses` has what was told and what came of it."""

        def really(job: Job, ran: float, rng: random.Random) -> float:
            del ran, rng
            return self.coming[job.name].lasting

        with journal(self._state) as opened:
            course = Course(opened, SchedulerConfig(), now=EPOCH, runtimes=really)
            for each in self.coming.values():
                course.plan(EPOCH + each.at, [each.workload()])
            seen, known = 0, set[str]()
            for _ in course.moments(math.inf):
                self._happened(course, seen)
                seen = len(course.events)
                for job in list(self._state.pending_jobs.values()):
                    if job.name not in known and job.key in course.outcomes:
                        known.add(job.name)
                        self._waiting(job.name, now=course.now)

    def _happened(self, course: Course, seen: int) -> None:
        for event in course.events[seen:]:
            one = self.coming[event.pod.partition("/")[2]]
            if event.what is Happened.STARTED:
                self._began[one.name] = event.at
                if one.name not in self._started:
                    self._started.add(one.name)
                    self._first(one, event.at - EPOCH - one.at)
            else:
                ended = event.what is Happened.ENDED
                self._ended.append(_lasted(one.name, event.at - self._began.pop(one.name), ended=ended))

    def _first(self, one: Coming, waited: float) -> None:
        self._waits.add(one.shape, waited)
        if waited > SOON_SECONDS:
            self._waits_of_waiting.add(one.shape, waited)
        if one.name in self.guesses:
            self.guesses[one.name].waited = waited

    def _waiting(self, name: str, *, now: float) -> None:
        one = self.coming[name]
        if one.at < self.middle:
            return
        self.waited += 1
        picked = self._random.random() < self._chance
        if self._learned is None or (self._keeps_learning and picked):
            goes_on = [_lasted(other, now - began, ended=False) for other, began in self._began.items()]
            self._learned = Learned.of([*self._ended, *goes_on])
        if not picked:
            return
        there = self._copy()
        found = starts(
            there,
            SchedulerConfig(),
            [PodGroupKey(f"default/{name}")],
            self._learned,
            now=now,
            courses=self._courses,
            seconds=self._seconds,
        )
        before = now - EPOCH - one.at
        self.guesses[name] = Guess(
            None if found is None or found.p50 is None else found.p50 + before,
            None if found is None or found.p90 is None else found.p90 + before,
            self._waits.usual(one.shape),
            self._waits_of_waiting.usual(one.shape),
        )

    def _copy(self) -> ClusterState:
        """When things started pod groups say in a cluster, to whom nobody writes it here."""
        there = codec.restore(codec.cut(self._state))
        for key, job in self._state.jobs.items():
            there.started(there.jobs[key], job.last_start)
        return there


def _lasted(name: str, seconds: float, *, ended: bool) -> Lasted:
    return Lasted(Kin("default", name, "", QUEUE), Span(seconds, ended))


def report(replay: Replay) -> str:
    """What came of it, as a table in Markdown."""
    ours, average, waiting = Score(), Score(), Score()
    for guess in replay.guesses.values():
        ours.take(guess.p50, guess.p90, guess.waited)
        average.take(guess.average.mean, guess.average.late, guess.waited)
        waiting.take(guess.waiting.mean, guess.waiting.late, guess.waited)
    waits = sorted(guess.waited for guess in replay.guesses.values())
    middle = f", half of them for up to {statistics.median(waits):.0f} s" if waits else ""
    return "\n".join(
        [
            f"{replay.waited} pods waited in the second half; {len(waits)} were asked about{middle}",
            HEAD,
            ours.row("forecast"),
            average.row(f"moving average of {LATELY}"),
            waiting.row(f"moving average of {LATELY} that waited"),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures; exit status 2 without a trace."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pods", type=Path, required=True, help="the trace's list of pods, a CSV file")
    parser.add_argument("--since", type=float, default=0.0, help="leave out what came in so many seconds")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--gpus", type=int, default=8, help="of each node")
    parser.add_argument(
        "--samples", type=int, default=100, help="pods that are picked; those that wait count"
    )
    parser.add_argument("--courses", type=int, default=COURSES, help="of each forecast")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that a forecast may take")
    parser.add_argument("--seed", type=int, default=1, help="another picks other pods")
    parser.add_argument(
        "--keep-learning", action="store_true", help="also from the second half, until each question"
    )
    given = parser.parse_args(arguments)
    try:
        coming = read(given.pods, since=given.since)
    except Unusable as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None
    replay = Replay(
        coming,
        nodes=given.nodes,
        gpus=given.gpus,
        samples=given.samples,
        courses=given.courses,
        seconds=given.seconds,
        seed=given.seed,
        keeps_learning=given.keep_learning,
    )
    replay.run()
    sys.stdout.write(f"{report(replay)}\n")


if __name__ == "__main__":
    main()
