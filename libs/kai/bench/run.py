"""Measuring a benchmark: warm, with the state kept and the change applied, and cold, from the objects."""

from __future__ import annotations

import gc
import math
import platform
import resource
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kai.bench.checks import wrong
from kai.bench.clusters import NOW, Benchmark, Objects
from kai.engine import Engine, SchedulerConfig
from kai.model.decisions import CycleResult
from kai.snapshot.state import ClusterState

_SIZES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One benchmark, in milliseconds; ``events_ms`` is taking in what arrives before the warm cycle."""

    name: str
    warm_ms: float
    cold_ms: float
    min_ms: float
    max_ms: float
    events_ms: float
    runs: int
    peak_rss_mib: float
    binds: int
    evictions: int
    pipelines: int
    correct: bool
    problems: tuple[str, ...] = ()


def machine() -> str:
    """What this was measured on."""
    return f"{platform.machine()} {platform.system()} python {platform.python_version()}"


def measure(benchmark: Benchmark, *, runs: int = 5) -> Measurement:
    """Run a benchmark some times; the cold runs come last, each with fresh objects."""
    engine = Engine(SchedulerConfig(actions=benchmark.actions))
    warm: list[float] = []
    events: list[float] = []
    problems: list[str] = []
    result = CycleResult()
    base, arriving = benchmark.base(), benchmark.arriving()
    for _ in range(runs):
        state = _state(base)
        engine.run(state, NOW)
        _quiet()
        started = time.perf_counter()
        _apply(state, arriving)
        events.append(_since(started))
        _quiet()
        started = time.perf_counter()
        result = engine.run(state, NOW + 1)
        warm.append(_since(started))
        problems += wrong(benchmark, result, state)
    cold: list[float] = []
    for _ in range(max(1, min(runs, 3))):
        _quiet()
        started = time.perf_counter()
        engine.run(_state([*base, *arriving]), NOW + 1)
        cold.append(_since(started))
    gc.unfreeze()
    return Measurement(
        name=benchmark.name,
        warm_ms=round(statistics.median(warm), 3),
        cold_ms=round(statistics.median(cold), 3),
        min_ms=round(min(warm), 3),
        max_ms=round(max(warm), 3),
        events_ms=round(statistics.median(events), 3),
        runs=runs,
        peak_rss_mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        binds=len(result.binds),
        evictions=len(result.evictions),
        pipelines=len(result.nominations),
        correct=not problems,
        problems=tuple(dict.fromkeys(problems)),
    )


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _quiet() -> None:
    """As the scheduler does once its caches are warm: what lives long is not collected again and again."""
    gc.collect()
    gc.freeze()


def _state(objects: Objects) -> ClusterState:
    state = ClusterState()
    state.load(objects)
    return state


def _apply(state: ClusterState, objects: Objects) -> None:
    for kind, obj in objects:
        state.apply(kind, obj)


def exponents(benchmarks: Sequence[Benchmark], results: Sequence[Measurement]) -> dict[str, float]:
    """How warm time grows with size, by family, fitted over at least three sizes."""
    points: dict[str, list[tuple[float, float]]] = {}
    for benchmark, found in zip(benchmarks, results, strict=True):
        points.setdefault(benchmark.family, []).append(
            (math.log(benchmark.size), math.log(max(found.warm_ms, 1e-3)))
        )
    return {
        family: statistics.linear_regression(*zip(*at, strict=True)).slope
        for family, at in points.items()
        if len({size for size, _ in at}) >= _SIZES
    }
