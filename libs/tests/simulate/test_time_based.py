"""Fairness over time: scenarios as the original's simulator takes them, on the engine itself."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.config.usage_params import UsageParams
from kai.engine.usage import used_shares
from kai.session.usage_history import Series
from kai.simulate import summary
from kai.simulate.reading import InvalidInput
from kai.simulate.scenario import Scenario
from kai.simulate.time_based import simulate, used

NOW = 1_800_000_000


def a_queue(name, *, parent="department", **more):
    return {"Name": name, "Parent": parent, **more}


def a_scenario(*queues, jobs=None, gpus=16, **more):
    """Two teams of one department that both want the whole of one node, unless told otherwise."""
    teams = queues or (a_queue("team-a"), a_queue("team-b"))
    whole = {"GPUs": gpus, "NumPods": 1, "NumJobs": 10}
    return Scenario.read(
        {
            "Queues": [a_queue("department", parent=""), *teams],
            "Nodes": [{"GPUs": gpus, "Count": 1}],
            "Jobs": jobs or {queue["Name"]: whole for queue in teams},
            **more,
        }
    )


def held(course, queue):
    return course.allocated[:, course.names.index(queue)]


def test_two_teams_that_both_want_everything_take_turns():
    course = simulate(a_scenario(Cycles=200, WindowSize=40, HalfLifePeriod=20))
    a, b = held(course, "team-a"), held(course, "team-b")
    assert set(np.unique(a)) == set(np.unique(b)) == {0, 16}
    assert (a + b)[1:].max() == 16
    turns = {each.queue: each.turns for each in summary.summarize(course)}
    assert turns["team-a"] >= 3
    assert turns["team-b"] >= 3
    assert abs(a.mean() - b.mean()) <= 2


def test_without_the_past_one_of_them_keeps_all():
    course = simulate(a_scenario(Cycles=100, KValue=0))
    assert held(course, "team-a").min() == 16
    assert held(course, "team-b").max() == 0


def test_over_time_each_gets_a_part_by_its_weight():
    teams = a_queue("team-a", Weight=3), a_queue("team-b", Weight=1)
    jobs = {name: {"GPUs": 1, "NumPods": 1, "NumJobs": 16} for name in ("team-a", "team-b")}
    course = simulate(a_scenario(*teams, jobs=jobs, Cycles=200, WindowSize=20))
    a, b = held(course, "team-a").mean(), held(course, "team-b").mean()
    assert a == pytest.approx(12, abs=1)
    assert b == pytest.approx(4, abs=1)


def test_use_is_the_part_of_all_gpus_that_was_held():
    assert used(np.array([[16.0, 8.0, 8.0]] * 5), a_scenario()).tolist() == [1, 0.5, 0.5]


def test_what_is_deserved_is_nobody_elses_whatever_was_used():
    teams = a_queue("owner", DeservedGPUs=8), a_queue("guest")
    jobs = {name: {"GPUs": 1, "NumPods": 1, "NumJobs": 16} for name in ("owner", "guest")}
    course = simulate(a_scenario(*teams, jobs=jobs, Cycles=100, WindowSize=50, KValue=4))
    assert held(course, "owner")[5:].min() >= 8


def test_use_is_that_of_the_cycles_before():
    course = simulate(a_scenario(Cycles=3, KValue=0))
    assert course.usage[:, course.names.index("team-a")].tolist() == [0, 1, 1]
    assert course.usage[:, course.names.index("department")].tolist() == [0, 1, 1]


def test_the_same_scenario_has_the_same_course():
    scenario = a_scenario(Cycles=50, HalfLifePeriod=5)
    first, second = simulate(scenario), simulate(scenario)
    assert np.array_equal(first.allocated, second.allocated)
    assert np.array_equal(first.fair_share, second.fair_share)


def test_all_nodes_of_a_kind_are_there():
    scenario = a_scenario(Nodes=[{"GPUs": 4, "Count": 2}, {"GPUs": 1}], Cycles=2)
    assert (scenario.nodes, scenario.gpus) == ((4, 4, 1), 9)


def test_defaults_are_those_of_the_original():
    scenario = Scenario.read({"queues": [{"name": "q"}], "halfLifePeriod": 0})
    assert (scenario.cycles, scenario.window, scenario.half_life, scenario.k) == (100, 5, None, 1.0)
    (team,) = scenario.teams
    assert (team.priority, team.deserved, team.weight) == (100, 0.0, 1.0)


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=30),
    st.integers(1, 20),
    st.one_of(st.none(), st.integers(1, 10)),
)
def test_use_is_summed_as_the_scheduler_sums_it(gpus, window, half_life):
    scenario = Scenario.read({"nodes": [{"GPUs": 8}], "windowSize": window, "halfLifePeriod": half_life})
    now = NOW + len(gpus)

    def buckets(amounts):
        return Series.of({NOW + at: (0.0, 0.0, float(amount)) for at, amount in enumerate(amounts)})

    expected = used_shares(
        {"q": buckets(gpus)},
        buckets([8] * len(gpus)),
        params=UsageParams(window_size=window, half_life=half_life),
        now=now,
        bucket_seconds=1,
    )
    found = used(np.array(gpus, dtype=float)[:, None], scenario)
    assert found[0] == pytest.approx(expected["q"][2])


# --- figures --------------------------------------------------------------------------------------
def test_every_cycle_stands_in_the_table_for_programs():
    course = simulate(a_scenario(Cycles=2, KValue=0))
    lines = list(csv.DictReader(io.StringIO(summary.as_csv(course))))
    assert list(lines[0])[:4] == ["Time", "QueueID", "Allocation", "FairShare"]
    assert [(line["Time"], line["QueueID"]) for line in lines[:3]] == [
        ("0", "department"), ("0", "team-a"), ("0", "team-b"),
    ]  # fmt: skip
    assert lines[1]["Allocation"] == "16.000000"


def test_the_summary_says_how_often_and_how_long():
    course = simulate(a_scenario(Cycles=4, KValue=0))
    course.allocated[:, 1] = [0, 16, 0, 0]
    _, a, _ = summary.summarize(course)
    assert (a.allocated, a.part, a.turns, a.longest_without) == (4.0, 0.25, 1, 2)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            {"queues": [{"name": "q", "wieght": 1}]},
            "unknown key 'wieght' in queues[0]; did you mean 'weight'?",
        ),
        ({"queues": [{}]}, "queues[0].name is missing; give the queue one"),
        (
            {"queues": [{"name": "q"}, {"name": "q"}]},
            "queues[1].name: queue 'q' is there twice; name it once",
        ),
        (
            {"queues": [{"name": "q", "parent": "p"}]},
            "queue 'q' has a parent 'p' that does not exist; add it",
        ),
        ({"queues": [{"name": "q", "parent": "q"}]}, "queue 'q' is its own ancestor"),
        ({"jobs": {"q": {}}}, "jobs.q: there is no queue 'q'; add it to queues"),
        (
            {"queues": [{"name": "p"}, {"name": "q", "parent": "p"}], "jobs": {"p": {}}},
            "jobs.p: queue 'p' has children; give its jobs to one of them",
        ),
        (
            {"queues": [{"name": "q"}], "jobs": {"q": {"gpus": 0.5}}},
            "jobs.q.GPUs is 0.5; it must be an integer",
        ),
        (
            {"queues": [{"name": "q"}], "jobs": {"q": {"numJobs": 50000, "numPods": 2}}},
            "jobs have more than 50000 pods; ask for fewer",
        ),
        ({"nodes": [{"GPUs": 1, "count": -1}]}, "nodes[0].count is -1; it must be an integer from 0"),
        ({"nodes": [{"count": 10000}] * 2}, "nodes are more than 10000; ask for fewer"),
        ({"cycles": 0}, "cycles is 0; it must be an integer from 1 to 100000"),
        ({"windowSize": "1w"}, "windowSize is '1w'; it must be a number"),
        ({"kValue": -1}, "kValue is -1; it must be at least 0"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_place(document, message):
    with pytest.raises(InvalidInput) as raised:
        Scenario.read(document)
    assert message in str(raised.value)
