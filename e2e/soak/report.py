"""The report: a table for people, a document for programs, a picture of what grew."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from e2e.soak.frame import ProcessSample
from e2e.soak.journal import Journal
from e2e.soak.judge import Finding
from e2e.soak.rules.latency import Placed, percentile
from kai_cli.output import Column, table

_PERCENTILES = (50, 90, 99, 100)


@dataclass(frozen=True, slots=True)
class Report:
    """All that is told of a soak."""

    seed: int
    minutes: float
    commit: str
    journal: Journal
    findings: Sequence[Finding]
    placed: Sequence[Placed]
    samples: Sequence[ProcessSample]
    restarts: dict[str, int]
    conditions: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds_to_bind(self) -> dict[str, dict[str, float]]:
        """Percentiles from creation to binding, by kind of pod."""
        kinds = {
            "probes, in calm": [one.seconds for one in self.placed if one.probe and not one.troubled],
            "probes, in trouble": [one.seconds for one in self.placed if one.probe and one.troubled],
            "all pods": [one.seconds for one in self.placed if not one.probe],
        }
        return {
            kind: {"count": len(all_)}
            | {f"p{part}": round(percentile(all_, part), 3) for part in _PERCENTILES}
            for kind, all_ in kinds.items()
        }

    @property
    def processes(self) -> list[dict[str, Any]]:
        """What each process was at its first sample, at most, and at the end."""
        by_name: dict[str, list[ProcessSample]] = defaultdict(list)
        for sample in self.samples:
            by_name[sample.name].append(sample)
        return [
            {
                "name": name,
                "first_mib": round(seen[0].rss_mib, 1),
                "peak_mib": round(max(one.rss_mib for one in seen), 1),
                "last_mib": round(seen[-1].rss_mib, 1),
                "first_descriptors": seen[0].descriptors,
                "last_descriptors": seen[-1].descriptors,
                "restarts": self.restarts.get(name, 0),
                "killed": self.journal.killed[name],
            }
            for name, seen in by_name.items()
        ]


def show(report: Report, screen: Console) -> None:
    """Print it."""
    deeds = [
        (what, str(counts["done"]), str(counts["refused"]), str(counts["failed"]))
        for what, counts in sorted(report.journal.outcomes().items())
    ]
    number = [Column("DONE", True), Column("REFUSED", True), Column("FAILED", True)]
    screen.print(table([Column("DEED"), *number], deeds), soft_wrap=True)
    processes = [tuple(str(value) for value in one.values()) for one in report.processes]
    titles = ("MIB", "PEAK", "LAST", "FDS", "LAST FDS", "RESTARTS", "KILLED")
    columns = [Column("PROCESS"), *(Column(title, True) for title in titles)]
    screen.print(table(columns, processes), soft_wrap=True)
    latencies = [
        (kind, *(f"{value:g}" for value in values.values()))
        for kind, values in report.seconds_to_bind.items()
    ]
    columns = [Column("SECONDS TO BIND"), *(Column(t, True) for t in ("PODS", "P50", "P90", "P99", "MOST"))]
    screen.print(table(columns, latencies), soft_wrap=True)
    for finding in report.findings:
        screen.print(_told(finding), highlight=False, markup=False, soft_wrap=True)
    count = len(report.findings) or "no"
    screen.print(
        f"\nseed {report.seed}, {report.minutes:g} minutes, commit {report.commit}: {count} findings",
        highlight=False,
    )


def _told(finding: Finding) -> str:
    lines = [f"\n{finding.at:8.1f} s  {finding.rule.upper()}: {finding.subject}: {finding.message}"]
    lines += [f"    did   {action}" for action in finding.actions]
    lines += [f"    said  {line}" for line in finding.logs]
    return "\n".join(lines)


def write(report: Report, folder: Path) -> None:
    """``report.json``, ``journal.txt`` and ``report.png`` in a folder."""
    document = {
        "seed": report.seed,
        "minutes": report.minutes,
        "commit": report.commit,
        "conditions": report.conditions,
        "findings": [asdict(one) | {"broken": one.broken} for one in report.findings],
        "deeds": {what: dict(counts) for what, counts in report.journal.outcomes().items()},
        "troubles": [asdict(one) for one in report.journal.troubles],
        "seconds_to_bind": report.seconds_to_bind,
        "processes": report.processes,
    }
    (folder / "report.json").write_text(json.dumps(document, indent=2, default=str) + "\n")
    (folder / "journal.txt").write_text("".join(f"{entry}\n" for entry in report.journal.entries))
    draw(report, folder / "report.png")


def draw(report: Report, path: Path) -> None:
    """Memory, descriptors and latency over time, one under the other."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 10), layout="constrained")
    memory, descriptors, latency = figure.subplots(3, 1, sharex=True)
    for axes in (memory, descriptors):
        axes.set_prop_cycle(color=[colormaps["tab20"](number) for number in range(20)])
    lives: dict[str, list[ProcessSample]] = defaultdict(list)
    for sample in report.samples:
        lives[sample.name].append(sample)
    for name, seen in lives.items():
        at = [one.at / 60 for one in seen]
        memory.plot(at, [one.rss_mib for one in seen], label=name, linewidth=1)
        descriptors.plot(at, [one.descriptors for one in seen], label=name, linewidth=1)
    for calm, colour, label in ((True, "C0", "in calm"), (False, "C3", "in trouble")):
        shown = [one for one in report.placed if one.probe and one.troubled is not calm]
        latency.scatter(
            [one.created_at / 60 for one in shown],
            [one.seconds for one in shown],
            s=6,
            color=colour,
            label=label,
        )
    latency.set_yscale("symlog", linthresh=1)
    memory.set_ylabel("resident memory, MiB")
    descriptors.set_ylabel("open descriptors")
    latency.set_ylabel("probes: seconds to bind")
    latency.set_xlabel(f"minutes; seed {report.seed}, commit {report.commit}")
    memory.legend(frameon=False, ncols=4, fontsize="small")
    latency.legend(frameon=False)
    figure.savefig(path, dpi=120)
