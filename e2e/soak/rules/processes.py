"""Processes live on, do not fail in their cycles, and do not grow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from e2e.soak.frame import Breach, LogLine, ProcessSample, called

#: What a process may take to find its size, and how long a look has to be to say anything.
WARM_UP_SECONDS, SHORTEST_SECONDS = 300.0, 300.0
#: Growth in an hour, as told by a line through what was seen: of memory by part and at least, of descriptors.
GROWTH_PART, GROWTH_MIB, GROWTH_DESCRIPTORS = 0.5, 40.0, 60.0
#: Pools of connections fill up to what was once needed at the same time, and stay so: as many are no leak.
POOLED_DESCRIPTORS = 32.0


def nothing_restarts_by_itself(restarts: Mapping[str, int], killed: Mapping[str, int]) -> Iterator[Breach]:
    """A process ends as often as it was killed."""
    for name, count in restarts.items():
        if count > killed.get(name, 0):
            yield Breach(
                "restarted by itself",
                called("process", name),
                f"{count} restarts, of which the soak made {killed.get(name, 0)}",
            )


def counters_stand_still(
    before: Mapping[tuple[str, str], float], now: Mapping[tuple[str, str], float]
) -> Iterator[Breach]:
    """Counters of what must not happen, by process and metric; a new process counts from zero."""
    for (process, metric), value in now.items():
        if value > before.get((process, metric), 0.0):
            yield Breach(metric, called("process", process), f"rose to {value:g}")


def nobody_complains(lines: Iterable[LogLine]) -> Iterator[Breach]:
    """No error and no traceback in a log."""
    for line in lines:
        if line.level in ("error", "critical") or "Traceback (most recent call last)" in line.text:
            yield Breach("error in a log", called("process", line.process), line.text[:600])


def sizes_level_off(samples: Iterable[ProcessSample]) -> Iterator[Breach]:
    """Memory and descriptors of a process that lives long do not grow on."""
    lives: dict[tuple[str, int], list[ProcessSample]] = defaultdict(list)
    for sample in samples:
        lives[sample.name, sample.pid].append(sample)
    for (name, _), life in lives.items():
        settled = [one for one in life if one.at >= life[0].at + WARM_UP_SECONDS]
        if not settled or settled[-1].at - settled[0].at < SHORTEST_SECONDS:
            continue
        at = [one.at for one in settled]
        sizes = [one.rss_mib for one in settled]
        memory = 3600 * slope(at, sizes)
        if memory > max(GROWTH_MIB, GROWTH_PART * settled[0].rss_mib) and _rises(sizes):
            message = f"{memory:.0f} MiB more each hour, from {settled[0].rss_mib:.0f} MiB"
            yield Breach("memory grows", called("process", name), message)
        descriptors = [float(one.descriptors) for one in settled]
        opened = 3600 * slope(at, descriptors)
        more = max(descriptors) - descriptors[0]
        if opened > GROWTH_DESCRIPTORS and more > POOLED_DESCRIPTORS and _rises(descriptors):
            yield Breach("descriptors grow", called("process", name), f"{opened:.0f} more each hour")


def _rises(values: Sequence[float]) -> bool:
    """Whether it goes up all the time: a step is no leak, as where more is asked for at once for a while."""
    fifth = len(values) // 5
    means = [sum(values[number * fifth : (number + 1) * fifth]) / fifth for number in range(5)]
    return sum(later > earlier * 1.005 for earlier, later in pairwise(means)) >= 3


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the line that fits best."""
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((one - middle_x) ** 2 for one in x)
    if not spread:
        return 0.0
    return sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True)) / spread
