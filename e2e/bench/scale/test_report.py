"""What the report makes of what was measured."""

from dataclasses import replace

import pytest

from e2e.bench.scale.__main__ import attempt
from e2e.bench.scale.cases import CASES, Result
from e2e.bench.scale.meter import Reading
from e2e.bench.scale.report import as_json
from e2e.bench.scale.world import Size

BY_NAME = {case.name: case for case in CASES}


def results(**seconds: float) -> dict:
    return {BY_NAME[name.replace("_", "-")]: Result(took, 100, Reading()) for name, took in seconds.items()}


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, {"p50": 1, "p90": 1, "p99": 1, "most": 1}),
        (10, {"p50": 5, "p90": 9, "p99": 10, "most": 10}),
        (200, {"p50": 100, "p90": 180, "p99": 198, "most": 200}),
    ],
)
def test_latencies_are_told_by_how_many_of_a_hundred_are_within_them(count: int, expected: dict) -> None:
    found = results(pods_at_rest=30.0)
    for result in found.values():
        result.latencies = [number / 1000 for number in range(1, count + 1)]
    [case] = as_json(Size(10), found, {})["cases"]
    assert case["created_to_bound_ms"] == expected


def test_the_fill_is_held_against_bare_requests_where_both_were_measured() -> None:
    assert as_json(Size(10), results(fill=10.0, bare_requests=8.0), {})["fill_share_of_bare_requests"] == 0.8
    assert as_json(Size(10), results(fill=10.0), {})["fill_share_of_bare_requests"] is None
    both = as_json(Size(10), results(fill=10.0, bare_requests_with_groups=9.0), {})
    assert both["fill_share_of_bare_requests_with_groups"] == 0.9
    assert as_json(Size(10), results(fill=10.0), {})["cases"][0]["created_to_bound_ms"] == {}


async def test_a_case_that_breaks_costs_the_others_nothing() -> None:
    async def breaks(world: object) -> Result:
        raise TimeoutError("no answer")

    result = await attempt(replace(CASES[0], run=breaks), world=None)
    assert (result.seconds, result.faults) == (None, ["TimeoutError: no answer"])
