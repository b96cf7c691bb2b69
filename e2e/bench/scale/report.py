"""The report: a table, a document, a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from rich.console import Console

from e2e.bench.scale.cases import Case, Result
from e2e.bench.scale.world import Size
from kai_cli.output import Column, table

#: The original in the fill of 4,000 pods: CPU seconds of its services, their memory, requests per pod.
_ORIGINAL_FILL = "13.7 requests per pod, 345 CPU s, 1500 MiB (aims: 6, 60, 900)"
_LARGEST = 12
#: What the fill is held against, by case.
_CEILINGS = {
    "bare-requests": "bare requests",
    "bare-requests-with-groups": "bare requests that make a PodGroup for each pod",
}


def show(size: Size, results: Mapping[Case, Result], screen: Console) -> None:
    """Print it for people."""
    columns = [
        Column("CASE"),
        Column("SECONDS", True),
        Column("AIM", True),
        Column("ORIGINAL", True),
        Column("REQUESTS/POD", True),
        Column("OUR CPU S", True),
        Column("OTHER CPU S", True),
        Column("OUR PEAK MIB", True),
        Column("PROPORTIONAL", True),
        Column("RESULT"),
    ]
    rows = [
        (
            case.title(size),
            result.told,
            "" if case.aim is None else f"{case.aim:g}",
            _original(case),
            f"{result.requests_per_pod:.1f}",
            f"{result.reading.services_cpu_seconds:.1f}",
            f"{result.reading.surroundings_cpu_seconds:.1f}",
            f"{result.reading.services_peak_mib:.0f}",
            f"{result.reading.services_peak_proportional_mib:.0f}",
            "right"
            if not result.faults
            else f"WRONG: {'; '.join(fault.splitlines()[0] for fault in result.faults[:3])}",
        )
        for case, result in results.items()
    ]
    screen.print(table(columns, rows), soft_wrap=True)
    if latencies := [(case, found) for case, result in results.items() if (found := _latency_ms(result))]:
        columns = [Column("CREATED TO BOUND, MS"), *(Column(name.upper(), True) for name in latencies[0][1])]
        found = [(case.title(size), *(f"{ms:.0f}" for ms in told.values())) for case, told in latencies]
        screen.print(table(columns, found), soft_wrap=True)
    for ceiling, what in _CEILINGS.items():
        if (share := _share_of(ceiling, results)) is not None:
            screen.print(f"The fill reaches {share:.0%} of the pace of {what}.")
    screen.print(f"Aims and the original are for 500 nodes; the original's fill: {_ORIGINAL_FILL}.")
    for case, result in results.items():
        screen.print()
        screen.print(_spent(case, size, result), soft_wrap=True)


def _latency_ms(result: Result) -> dict[str, float]:
    """Of the sorted latencies the middle, the 90th and 99th of a hundred, and the largest."""
    if not (found := result.latencies):
        return {}
    at = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "most": 1.0}
    return {name: 1000 * found[max(0, ceil(part * len(found)) - 1)] for name, part in at.items()}


def _share_of(ceiling: str, results: Mapping[Case, Result]) -> float | None:
    """How fast the fill is, as a share of bare requests for as many pods; None where one was not measured."""
    seconds = {case.name: result.seconds for case, result in results.items()}
    fill, bare = seconds.get("fill"), seconds.get(ceiling)
    return bare / fill if fill and bare else None


def _original(case: Case) -> str:
    known = [seconds for seconds in (case.original, case.unlimited) if seconds is not None]
    return " / ".join(f"{seconds:g}" for seconds in known)


def _spent(case: Case, size: Size, result: Result) -> Any:
    """Who spent how much: processes on the left, requests of services on the right."""
    usage = sorted(result.reading.usage, key=lambda one: (not one.ours, -one.cpu_seconds))
    requests = result.reading.requests.most_common(_LARGEST)
    rows = []
    for number in range(max(len(usage), len(requests))):
        process, request = ["", "", ""], ["", ""]
        if number < len(usage):
            one = usage[number]
            process = [one.process, f"{one.cpu_seconds:.2f}", f"{one.peak_mib:.0f}"]
        if number < len(requests):
            (service, verb, resource), count = requests[number]
            request = [f"{service} {verb} {resource}", str(count)]
        rows.append([*process, *request])
    columns = [
        Column("PROCESS"),
        Column("CPU S", True),
        Column("PEAK MIB", True),
        Column("REQUESTS OF OURS"),
        Column("COUNT", True),
    ]
    return table(columns, rows, title=case.title(size))


def as_json(size: Size, results: Mapping[Case, Result], conditions: dict[str, Any]) -> dict[str, Any]:
    """The report for programs. ``conditions``: under which it was measured."""
    return {
        "nodes": size.nodes,
        "gpus_per_node": size.gpus_per_node,
        **conditions,
        "fill_share_of_bare_requests": _share_of("bare-requests", results),
        "fill_share_of_bare_requests_with_groups": _share_of("bare-requests-with-groups", results),
        "cases": [
            {
                "name": case.name,
                "title": case.title(size),
                "seconds": result.seconds and round(result.seconds, 3),
                "aim_seconds": case.aim,
                "original_seconds": case.original,
                "original_without_limits_seconds": case.unlimited,
                "pods": result.pods,
                "created_to_bound_ms": {name: round(ms, 1) for name, ms in _latency_ms(result).items()},
                "faults": result.faults,
                "requests_per_pod": round(result.requests_per_pod, 2),
                "requests": _requests(result.reading.requests),
                "services_cpu_seconds": round(result.reading.services_cpu_seconds, 2),
                "surroundings_cpu_seconds": round(result.reading.surroundings_cpu_seconds, 2),
                "services_peak_mib": round(result.reading.services_peak_mib, 1),
                "services_peak_proportional_mib": round(result.reading.services_peak_proportional_mib, 1),
                "processes": [
                    {
                        "name": one.process,
                        "cpu_seconds": round(one.cpu_seconds, 2),
                        "peak_mib": round(one.peak_mib, 1),
                    }
                    for one in result.reading.usage
                ],
            }
            for case, result in results.items()
        ],
    }


def _requests(requests: Counter[tuple[str, str, str]]) -> list[dict[str, Any]]:
    return [
        {"service": service, "verb": verb, "resource": resource, "count": count}
        for (service, verb, resource), count in requests.most_common()
        if count
    ]


def draw(size: Size, results: Mapping[Case, Result], path: Path) -> None:
    """Bars of seconds: ours, the aim, the original. The suffix of the path is the format."""
    from matplotlib.figure import Figure

    cases: Sequence[Case] = list(results)[::-1]
    figure = Figure(figsize=(9, 1 + 0.8 * len(cases)), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(cases))
    seconds = [results[case].seconds or 0 for case in cases]
    axes.barh([p + 0.2 for p in places], seconds, 0.4, label="ours", color="C0")
    axes.barh(
        [p - 0.2 for p in places], [case.original or 0 for case in cases], 0.4, label="original", color="0.7"
    )
    for place, case in zip(places, cases, strict=True):
        if case.aim is not None:
            axes.plot([case.aim] * 2, [place, place + 0.4], color="C3", label="aim" if not place else None)
    axes.set_yticks(list(places), [case.title(size) for case in cases])
    axes.set_xscale("log")
    axes.set_xlabel(f"seconds, {size.nodes} nodes x {size.gpus_per_node} GPUs")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
