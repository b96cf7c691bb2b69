"""What ``reclaim`` takes back from other queues, for whom, from whom first, and what it leaves alone."""

from functools import partial

import pytest

from kai.engine import Engine
from libs.tests.engine.builders import (
    NOW,
    Case,
    Part,
    a_constraint,
    a_job,
    a_node,
    a_priority_class,
    a_queue,
    a_state,
    a_topology,
    nodes,
    running,
    table,
)

DEVICES = [f"4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a{number:03}" for number in range(8)]
#: What one has beyond its quota is the other's to take back.
HALVES = [a_queue("rich", gpu=1, weight=0), a_queue("poor", gpu=1, weight=0)]
#: Nobody deserves anything; what there is, is shared by halves.
SHARED = [a_queue("rich", gpu=0), a_queue("poor", gpu=0)]


#: One takes beyond what it deserves, of another that is left with less.
EXCHANGED = [
    [a_queue("rich", gpu=1, weight=0), a_queue("poor", gpu=1)],
    nodes(1, gpus=3),
    a_job("gang", queue="rich", on=["n0"] * 3, gpus=1),
]


rich = partial(running, queue="rich")


def poor(name="p", *, gpus=1, **more):
    return a_job(name, **{"queue": "poor", "gpus": gpus, "created": 100, **more})


def lost(*, more):
    """Two departments share four GPUs. One has them all, the other ``more`` on a node that is lost."""
    return [
        [a_queue("d1", gpu=0), a_queue("d2", gpu=0)],
        [a_queue("poor", parent="d1", gpu=0), a_queue("sister", parent="d1", gpu=0)],
        a_queue("rich", parent="d2", gpu=0),
        a_node("n0", gpus=4),
        a_node("n1", gpus=2, ready=False),
        rich(4),
        [a_job(f"s{n}", queue="sister", gpus=1, on="n1", priority="build") for n in range(more)],
    ]


TAKEN = [
    Case(
        "what is over quota, for what is within",
        [HALVES, nodes(1, gpus=2), rich(2), poor()],
        evicts=["r1-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "what is over the fair share, for what is within",
        [SHARED, nodes(1, gpus=2), rich(2), poor()],
        evicts=["r1-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "of what is shared, for what another deserves",
        [
            [a_queue("rich", gpu=0), a_queue("poor", gpu=2, weight=0)],
            nodes(1, gpus=3),
            rich(2),
            a_job("q", queue="poor", gpus=1, on="n0"),
            poor(),
        ],
        evicts=["r1-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "the last chunk, though less than its quota is left then",
        [
            [a_queue("rich", gpu=2, weight=0), a_queue("poor", gpu=2, weight=0)],
            nodes(1, gpus=4),
            a_job("gang", queue="rich", on=["n0"] * 3, gpus=1),
            poor(gpus=2),
        ],
        evicts=["gang-0", "gang-1", "gang-2"],
        waits={"p-0": "n0"},
    ),
    Case(
        "as many jobs as it takes",
        [
            [a_queue("rich", gpu=1, weight=0), a_queue("poor", gpu=3, weight=0)],
            nodes(1, gpus=4),
            rich(4),
            poor(gpus=3),
        ],
        evicts=["r1-0", "r2-0", "r3-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "for a gang on several nodes",
        [
            [a_queue("rich", gpu=0, weight=0), a_queue("poor", gpu=4, weight=0)],
            nodes(2, gpus=2),
            [a_job(f"r{n}", queue="rich", gpus=2, on=f"n{n}", created=n) for n in range(2)],
            poor(pods=2, gpus=2),
        ],
        evicts=["r0-0", "r1-0"],
        waits={"p-0": "n0", "p-1": "n1"},
    ),
    Case(
        "of an elastic job the pods that it can do without",
        [
            HALVES,
            nodes(1, gpus=2),
            a_job("e", queue="rich", on=["n0"] * 2, min_member=1, gpus=1),
            poor(),
        ],
        evicts=["e-1"],
        waits={"p-0": "n0"},
    ),
    Case(
        "of several elastic jobs a pod each before any of their minimums",
        [
            [a_queue("rich", gpu=2, weight=0), a_queue("poor", gpu=2, weight=0)],
            nodes(1, gpus=4),
            [a_job(f"e{n}", queue="rich", on=["n0"] * 2, min_member=1, gpus=1, created=n) for n in range(2)],
            poor(gpus=2),
        ],
        evicts=["e0-1", "e1-1"],
        waits={"p-0": "n0"},
    ),
    Case(
        "a subgroup that is not required",
        [
            HALVES,
            nodes(1, gpus=2),
            a_job(
                "e",
                Part("a", on="n0"),
                Part("b", on="n0"),
                queue="rich",
                gpus=1,
                group={"min_sub_group": 1},
            ),
            poor(),
        ],
        evicts=["e-b-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "a gang as a whole, on whatever nodes it is",
        [
            HALVES,
            nodes(2, gpus=1),
            a_job("gang", queue="rich", on=("n0", "n1"), gpus=1),
            poor(),
        ],
        evicts=["gang-0", "gang-1"],
        waits={"p-0": "n0"},
    ),
    Case(
        "only the pods around one node where these suffice",
        [
            [a_queue("rich", gpu=0, weight=0), a_queue("poor", gpu=2, weight=0)],
            nodes(2, gpus=2),
            a_job("a", queue="rich", gpus=1, on="n0", created=1),
            a_job("b", queue="rich", gpus=1, on="n1", created=2),
            a_job("c", queue="rich", gpus=1, on="n0", created=3),
            a_job("d", queue="rich", gpus=1, on="n1", created=4),
            poor(gpus=2),
        ],
        evicts=["b-0", "d-0"],
        waits={"p-0": "n1"},
    ),
    Case(
        "a whole device, not its parts",
        [
            HALVES,
            nodes(1, gpus=2, gpu_memory_mib=16_000),
            a_job("half0", queue="rich", fraction=0.5, groups=(DEVICES[0],), on="n0", created=1),
            a_job("whole", queue="rich", gpus=1, on="n0", created=2),
            a_job("half1", queue="rich", fraction=0.5, groups=(DEVICES[0],), on="n0", created=3),
            poor(),
        ],
        evicts=["whole-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "parts of a device for a part",
        [
            [a_queue("rich", gpu=0.5, weight=0), a_queue("poor", gpu=0.5, weight=0)],
            nodes(1, gpus=1, gpu_memory_mib=16_000),
            [
                a_job(f"half{n}", queue="rich", fraction=0.5, groups=(DEVICES[0],), on="n0", created=n)
                for n in (0, 1)
            ],
            poor(gpus=0, fraction=0.5),
        ],
        evicts=["half1-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "memory of a device",
        [
            [a_queue("rich", gpu=0.5, weight=0), a_queue("poor", gpu=0.5, weight=0)],
            nodes(1, gpus=1, gpu_memory_mib=16_000),
            a_job("r", queue="rich", fraction=0.9, groups=(DEVICES[0],), on="n0"),
            poor(gpus=0, gpu_memory_mib=8_000),
        ],
        evicts=["r-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "in one domain, for a gang that must be in one",
        [
            [a_queue("rich", gpu=0, weight=0), a_queue("poor", gpu=2, weight=0)],
            a_topology("rack"),
            [a_node(f"n{n}", gpus=1, labels={"rack": f"r{n // 2}"}) for n in range(4)],
            [a_job(f"r{n}", queue="rich", gpus=1, on=f"n{n}", created=n) for n in (0, 3, 1, 2)],
            poor(pods=2, group={"topology": a_constraint("rack")}),
        ],
        evicts=["r2-0", "r3-0"],
        waits={"p-0": "n2", "p-1": "n3"},
    ),
    Case(
        "between departments, by what these have",
        [
            [a_queue("d1", gpu=1, weight=0), a_queue("d2", gpu=1, weight=0)],
            [a_queue("rich", parent="d1", gpu=2), a_queue("poor", parent="d2", gpu=0)],
            nodes(1, gpus=2),
            rich(2),
            poor(),
        ],
        evicts=["r1-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "of CPUs as of GPUs",
        [
            [a_queue("rich", cpu=1000, gpu=0), a_queue("poor", cpu=1000, gpu=0)],
            a_node("n0", gpus=0, cpu="2"),
            [a_job(f"r{n}", queue="rich", cpu="1", on="n0", created=n) for n in range(2)],
            poor(gpus=0, cpu="1"),
        ],
        evicts=["r1-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "for the next chunk of an elastic job only",
        [
            [a_queue("rich", gpu=0, weight=0), a_queue("poor", gpu=3, weight=0)],
            nodes(1, gpus=3),
            rich(3),
            poor(pods=3, min_member=1),
        ],
        evicts=["r2-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "what cannot be preempted takes within its quota",
        [HALVES, nodes(1, gpus=2), rich(2), poor(priority="build")],
        evicts=["r1-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "also of jobs of higher priority",
        [HALVES, nodes(1, gpus=2), rich(2, priority="build-preemptible"), poor()],
        evicts=["r1-0"],
        waits={"p-0": "n0"},
    ),
]

FIRST = [
    Case(
        "the lower priority",
        [
            a_priority_class("low", 10),
            HALVES,
            nodes(1, gpus=2),
            a_job("low", queue="rich", gpus=1, on="n0", created=1, priority="low"),
            a_job("other", queue="rich", gpus=1, on="n0", created=2),
            poor(),
        ],
        evicts=["low-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "of equals the youngest",
        [HALVES, nodes(1, gpus=2), rich(2), poor()],
        evicts=["r1-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "who is above its minimum before a younger one at it",
        [
            [a_queue("rich", gpu=2, weight=0), a_queue("poor", gpu=1, weight=0)],
            nodes(1, gpus=3),
            a_job("elastic", queue="rich", on=["n0"] * 2, min_member=1, gpus=1, created=1),
            a_job("young", queue="rich", gpus=1, on="n0", created=2),
            poor(),
        ],
        evicts=["elastic-1"],
        waits={"p-0": "n0"},
    ),
    Case(
        "the queue that has most above its share",
        [
            [a_queue("rich", gpu=1, weight=0), a_queue("other", gpu=1, weight=0), a_queue("poor", gpu=3)],
            nodes(1, gpus=5),
            rich(3),
            [a_job(f"o{n}", queue="other", gpus=1, on="n0", created=50 + n) for n in range(2)],
            poor(),
        ],
        evicts=["r2-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "the queue of lower priority",
        [
            [
                a_queue("rich", gpu=0, weight=0, priority=2),
                a_queue("other", gpu=0, weight=0, priority=1),
                a_queue("poor", gpu=1),
            ],
            nodes(1, gpus=2),
            a_job("r", queue="rich", gpus=1, on="n0", created=9),
            a_job("o", queue="other", gpus=1, on="n0", created=1),
            poor(),
        ],
        evicts=["o-0"],
        waits={"p-0": "n0"},
    ),
]

LEFT = [
    Case(
        "within what it deserves",
        [
            [a_queue("rich", gpu=2, weight=0), a_queue("poor", gpu=2, weight=0)],
            nodes(1, gpus=2),
            rich(2),
            poor(),
        ],
    ),
    Case(
        "for one that would have more than its fair share",
        [
            SHARED,
            nodes(1, gpus=4),
            rich(2),
            [a_job(f"q{n}", queue="poor", gpus=1, on="n0") for n in range(2)],
            poor(),
        ],
    ),
    Case(
        "who cannot be preempted",
        [HALVES, nodes(1, gpus=2), rich(2, priority="build"), poor()],
    ),
    Case(
        "for what cannot be preempted, beyond what its queue deserves",
        [SHARED, nodes(1, gpus=2), rich(2), poor(priority="build")],
    ),
    Case(
        "for what cannot be preempted, where such holds the quota already",
        [
            [a_queue("rich", gpu=0, weight=0), a_queue("poor", gpu=1, weight=9)],
            nodes(1, gpus=4),
            rich(3),
            a_job("q", queue="poor", gpus=1, on="n0", priority="build"),
            poor(priority="build"),
        ],
    ),
    Case(
        "of the same queue",
        [HALVES, nodes(1, gpus=1), a_job("q", queue="poor", gpus=1, on="n0"), poor()],
    ),
    Case(
        "if that does not make room for all of a gang",
        [
            [a_queue("rich", gpu=0, weight=0), a_queue("poor", gpu=3)],
            nodes(1, gpus=2),
            rich(2),
            poor(pods=3),
        ],
    ),
    Case(
        "if a subgroup would still have no place",
        [
            [a_queue("rich", gpu=0, weight=0), a_queue("poor", gpu=4)],
            nodes(1, gpus=2),
            rich(2),
            a_job("p", Part("a"), Part("b"), queue="poor", gpus=1, created=9, group={"min_sub_group": 2}),
            a_job("fix", queue="poor", gpus=1, on="n0", priority="build"),
        ],
    ),
    Case(
        "for a pod that no node could take",
        [
            [a_queue("rich", gpu=0, weight=0), a_queue("poor", gpu=4)],
            nodes(2, gpus=2),
            rich(2),
            poor(gpus=3),
        ],
    ),
    Case(
        "above the limit of the taker's queue",
        [
            [a_queue("rich", gpu=0, weight=0), a_queue("poor", gpu=2, limit=0)],
            nodes(1, gpus=1),
            rich(1),
            poor(),
        ],
    ),
    Case(
        "where nothing deserves anything without the plugin",
        [HALVES, nodes(1, gpus=2), rich(2), poor()],
        by={"off": ["proportion"]},
    ),
    Case(
        "for one whose delay has not passed",
        [HALVES, nodes(1, gpus=2), rich(2), poor(created=NOW - 60, group={"preemption_delay": "10m"})],
        says={"p": "PreemptionDelayNotElapsed"},
    ),
    Case(
        "who is protected by minimum runtime",
        [
            [a_queue("rich", gpu=1, weight=0, reclaim_min_runtime="10m"), a_queue("poor", gpu=1, weight=0)],
            nodes(1, gpus=2),
            rich(2, started=NOW - 60),
            poor(),
        ],
        says={"p": "MinRuntimeNotElapsed"},
    ),
    Case(
        "where no generator of scenarios is on",
        [HALVES, nodes(1, gpus=2), rich(2), poor()],
        by={"off": ["sg-nodelocalgreedy", "sg-multinodegang"]},
    ),
    Case(
        "for jobs beyond the depth of the queue",
        [HALVES, nodes(1, gpus=2), rich(2), poor("a", gpus=5), poor("p", created=101)],
        by={"queue_depth": {"reclaim": 1}},
    ),
]

MORE = [
    Case(
        "a job that fails does not keep the next from its own",
        [HALVES, nodes(1, gpus=2), rich(2), poor("a", gpus=5), poor("p", created=101)],
        evicts=["r1-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "the minimum of a protected job alone is protected",
        [
            [a_queue("rich", gpu=1, weight=0, reclaim_min_runtime="10m"), a_queue("poor", gpu=1, weight=0)],
            nodes(1, gpus=2),
            a_job("e", queue="rich", on=["n0"] * 2, min_member=1, gpus=1, started=NOW - 60),
            poor(),
        ],
        evicts=["e-1"],
        waits={"p-0": "n0"},
    ),
    Case(
        "no more of a protected job than it can do without",
        [
            [a_queue("rich", gpu=0, weight=0, reclaim_min_runtime="10m"), a_queue("poor", gpu=2, weight=0)],
            nodes(1, gpus=2),
            a_job("e", queue="rich", on=["n0"] * 2, min_member=1, gpus=1, started=NOW - 60),
            poor(gpus=2),
        ],
    ),
    Case(
        "a victim that fits elsewhere moves there, and its queue loses nothing",
        [
            [a_queue("rich", gpu=3, weight=0), a_queue("poor", gpu=2, weight=0)],
            a_node("n0", gpus=3),
            a_node("n1", gpus=2),
            a_job("r0", queue="rich", gpus=2, on="n0", created=1),
            a_job("r1", queue="rich", gpus=1, on="n1", created=2),
            poor(gpus=2),
        ],
        evicts=["r1-0"],
        waits={"r1-0": "n0", "p-0": "n1"},
    ),
    Case(
        "nobody moves for it where that is switched off",
        [
            [a_queue("rich", gpu=3, weight=0), a_queue("poor", gpu=2, weight=0)],
            a_node("n0", gpus=3),
            a_node("n1", gpus=2),
            a_job("r0", queue="rich", gpus=2, on="n0", created=1),
            a_job("r1", queue="rich", gpus=1, on="n1", created=2),
            poor(gpus=2),
        ],
        by={"allow_consolidating_reclaim": False},
    ),
    Case(
        "no exchange that would at once be taken back",
        [EXCHANGED, a_job("want", queue="rich", gpus=1, created=200), poor(gpus=2)],
    ),
    Case(
        "the same where nobody would take it back",
        [EXCHANGED, poor(gpus=2)],
        evicts=["gang-0", "gang-1", "gang-2"],
        waits={"p-0": "n0"},
    ),
    Case(
        "each of two jobs takes a chunk",
        [
            [a_queue("rich", gpu=0, weight=0), a_queue("poor", gpu=2, weight=0)],
            nodes(1, gpus=2),
            rich(2),
            poor("a"),
            poor("b", created=101),
        ],
        evicts=["r0-0", "r1-0"],
        waits={"a-0": "n0", "b-0": "n0"},
    ),
    Case(
        "for a department over its share, from one that stays above it",
        [lost(more=1), poor()],
        evicts=["r3-0"],
        waits={"p-0": "n0"},
    ),
    Case(
        "not for a department over its share, from one that would be no more so",
        [lost(more=2), poor()],
    ),
]


@table(*TAKEN)
def test_it_takes(case: Case) -> None:
    case.holds("reclaim")


@table(*FIRST)
def test_it_takes_first(case: Case) -> None:
    case.holds("reclaim")


@table(*LEFT)
def test_it_takes_nothing(case: Case) -> None:
    case.holds("reclaim")


@table(*MORE)
def test_of_reclaim(case: Case) -> None:
    case.holds("reclaim")


@pytest.mark.parametrize(("priority", "searched"), [("build-preemptible", True), ("build", False)])
def test_nothing_is_searched_for_what_cannot_be_preempted_beyond_what_its_queue_deserves(
    priority: str, searched: bool
) -> None:
    """Its quota would keep it from every place, so no scenario is tried."""
    state = a_state(SHARED, nodes(1, gpus=2), rich(2), poor(priority=priority))
    result = Engine().run(state, NOW)
    assert any(action == "reclaim" for action, *_ in result.searches) is searched
