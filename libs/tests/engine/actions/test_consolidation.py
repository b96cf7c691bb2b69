"""Whom ``consolidation`` moves, so that a job that waits fits as a whole, and when it moves nobody."""

from libs.tests.engine.builders import (
    NOW,
    Case,
    Part,
    a_constraint,
    a_job,
    a_node,
    a_priority_class,
    a_queue,
    a_topology,
    nodes,
    table,
)

DEVICES = [f"4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a{number:03}" for number in range(8)]


def scattered(count=2, *, gpus=1, **more):
    """One job ``s0``, ``s1`` … on each node; the last is the youngest."""
    return [a_job(f"s{n}", gpus=gpus, on=f"n{n}", created=n, **more) for n in range(count)]


MOVED = [
    Case(
        "the last in order goes to where there is room",
        [nodes(2, gpus=2), scattered(), a_job("j", gpus=2, created=9)],
        evicts=["s1-0"],
        waits={"j-0": "n1", "s1-0": "n0"},
    ),
    Case(
        "from any queue",
        [
            [a_queue("a"), a_queue("b")],
            nodes(2, gpus=2),
            scattered(queue="a"),
            a_job("j", queue="b", gpus=2, created=9),
        ],
        evicts=["s1-0"],
        waits={"j-0": "n1", "s1-0": "n0"},
    ),
    Case(
        "of a higher priority than the job that waits",
        [nodes(2, gpus=2), scattered(priority="build-preemptible"), a_job("j", gpus=2, created=9)],
        evicts=["s1-0"],
        waits={"j-0": "n1", "s1-0": "n0"},
    ),
    Case(
        "the lower priority",
        [
            a_priority_class("low", 10),
            nodes(2, gpus=2),
            a_job("s0", gpus=1, on="n0", created=0, priority="low"),
            a_job("s1", gpus=1, on="n1", created=1),
            a_job("j", gpus=2, created=9),
        ],
        evicts=["s0-0"],
        waits={"j-0": "n0", "s0-0": "n1"},
    ),
    Case(
        "the pod that fits elsewhere, though a younger one does not",
        [
            nodes(2, gpus=4),
            a_job("young", gpus=2, on="n0", created=2),
            a_job("old", gpus=1, on="n1", created=1),
            a_job("stays", gpus=1, on="n0", priority="build"),
            a_job("remains", gpus=2, on="n1", priority="build"),
            a_job("j", gpus=2, created=9),
        ],
        evicts=["old-0"],
        waits={"old-0": "n0", "j-0": "n1"},
    ),
    Case(
        "one GPU to the node with two, so that two are free together",
        [
            nodes(2, gpus=4),
            a_job("a", gpus=2, on="n0", created=1),
            a_job("b", gpus=1, on="n0", created=2),
            a_job("c", gpus=3, on="n1", created=3),
            a_job("j", gpus=2, created=9),
        ],
        evicts=["b-0"],
        waits={"b-0": "n1", "j-0": "n0"},
    ),
    Case(
        "for each pod of a gang",
        [nodes(4, gpus=2), scattered(4), a_job("j", pods=2, gpus=2, created=9)],
        evicts=["s2-0", "s3-0"],
        waits={"j-0": "n2", "j-1": "n3", "s2-0": "n0", "s3-0": "n1"},
    ),
    Case(
        "of a gang the pods that have to",
        [
            nodes(3, gpus=2),
            a_job("gang", on=("n0", "n1"), gpus=1, created=1),
            a_job("j", gpus=2, created=9),
            a_job("full", gpus=2, on="n2"),
        ],
        evicts=["gang-1"],
        waits={"gang-1": "n0", "j-0": "n1"},
    ),
    Case(
        "a surplus pod alone",
        [
            nodes(2, gpus=2),
            a_job("elastic", on=("n0", "n1"), min_member=1, gpus=1),
            a_job("j", gpus=2, created=9),
        ],
        evicts=["elastic-1"],
        waits={"elastic-1": "n0", "j-0": "n1"},
    ),
    Case(
        "several surplus pods of one job",
        [
            a_node("n0", gpus=4),
            a_node("n1", gpus=2),
            a_job("elastic", on=["n0"] * 3, min_member=1, gpus=1),
            a_job("j", gpus=3, created=9),
        ],
        evicts=["elastic-1", "elastic-2"],
        waits={"j-0": "n0", "elastic-1": "n1", "elastic-2": "n1"},
    ),
    Case(
        "parts of devices to other devices",
        [
            nodes(2, gpus=1, gpu_memory_mib=16_000),
            [a_job(f"s{n}", fraction=0.5, groups=(DEVICES[n],), on=f"n{n}", created=n) for n in range(2)],
            a_job("j", gpus=1, created=9),
        ],
        evicts=["s1-0"],
        waits={"s1-0": "n0", "j-0": "n1"},
    ),
    Case(
        "between devices of one node",
        [
            nodes(1, gpus=2, gpu_memory_mib=16_000),
            [a_job(f"s{n}", fraction=0.5, groups=(DEVICES[n],), on="n0", created=n) for n in range(2)],
            a_job("j", gpus=1, created=9),
        ],
        evicts=["s1-0"],
        waits={"s1-0": "n0", "j-0": "n0"},
    ),
    Case(
        "so that a domain has room",
        [
            a_topology("rack"),
            [a_node(f"n{n}", gpus=2, labels={"rack": f"r{n // 2}"}) for n in range(4)],
            scattered(4),
            a_job("j", pods=2, gpus=2, created=9, group={"topology": a_constraint("rack")}),
        ],
        evicts=["s2-0", "s3-0"],
        waits={"j-0": "n2", "j-1": "n3", "s2-0": "n0", "s3-0": "n1"},
    ),
    Case(
        "for subgroups, too",
        [nodes(3, gpus=2), scattered(2), a_job("j", Part("a"), Part("b"), gpus=2, created=9)],
        evicts=["s1-0"],
        waits={"j-a-0": "n2", "j-b-0": "n1", "s1-0": "n0"},
    ),
    Case(
        "for jobs one after the other",
        [nodes(4, gpus=2), scattered(4), a_job("j", gpus=2, created=8), a_job("k", gpus=2, created=9)],
        evicts=["s2-0", "s3-0"],
        waits={"j-0": "n3", "k-0": "n2", "s3-0": "n0", "s2-0": "n1"},
    ),
]

NOBODY = [
    Case("where nobody waits", [nodes(2, gpus=2), scattered()]),
    Case(
        "for a job that cannot be preempted",
        [nodes(2, gpus=2), scattered(), a_job("j", gpus=2, created=9, priority="build")],
    ),
    Case(
        "who cannot be preempted",
        [nodes(2, gpus=2), scattered(priority="build"), a_job("j", gpus=2, created=9)],
    ),
    Case(
        "where too little is free in all",
        [nodes(2, gpus=2), scattered(), a_job("more", gpus=1, on="n0"), a_job("j", gpus=2, created=9)],
    ),
    Case(
        "where what is free is on a node that is not ready",
        [
            a_node("n0", gpus=2),
            a_node("n1", gpus=2, ready=False),
            a_job("s0", gpus=1, on="n0"),
            a_job("j", gpus=2, created=9),
        ],
    ),
    Case(
        "where a victim would not find a place",
        [
            nodes(2, gpus=4),
            a_job("a", gpus=3, on="n0", created=1),
            a_job("b", gpus=3, on="n1", created=2),
            a_job("j", gpus=2, created=9),
        ],
    ),
    Case(
        "where a victim would not find a place, though it is younger than the job that waits",
        [
            nodes(2, gpus=4),
            a_job("a", gpus=3, on="n0", created=11),
            a_job("b", gpus=3, on="n1", created=12),
            a_job("j", gpus=2, created=9),
        ],
    ),
    Case(
        "of an elastic job, where not all of its pods would find a place",
        [
            nodes(2, gpus=3),
            a_job("e", on=("n0", "n0"), min_member=1, gpus=1, created=1),
            a_job("s", gpus=2, on="n1", created=2, priority="build"),
            a_job("j", gpus=3, created=9),
        ],
    ),
    Case(
        "for a job that fits as it is: it waits for what is being released",
        [
            nodes(2, gpus=2),
            scattered(),
            a_node("n2", gpus=2),
            a_job("old", gpus=2, on="n2", deleted=NOW - 5),
            a_job("j", gpus=2, created=9),
        ],
        waits={"j-0": "n2"},
    ),
    Case(
        "for one whose delay has not passed",
        [
            nodes(2, gpus=2),
            scattered(),
            a_job("j", gpus=2, created=NOW - 60, group={"preemption_delay": "10m"}),
        ],
        says={"j": "PreemptionDelayNotElapsed"},
    ),
    Case(
        "for one whose queue is at its limit",
        [a_queue("team", limit=2), nodes(2, gpus=2), scattered(), a_job("j", gpus=2, created=9)],
    ),
    Case(
        "for one of which too few pods exist",
        [nodes(2, gpus=2), scattered(), a_job("j", gpus=2, min_member=2, created=9)],
    ),
    Case(
        "for one that no node could take",
        [nodes(2, gpus=2), scattered(), a_job("j", gpus=3, created=9)],
    ),
    Case(
        "where none may be",
        [nodes(2, gpus=2), scattered(), a_job("j", gpus=2, created=9)],
        by={"max_consolidation_preemptees": 0},
    ),
    Case(
        "where two would have to and one may",
        [nodes(4, gpus=2), scattered(4), a_job("j", pods=2, gpus=2, created=9)],
        by={"max_consolidation_preemptees": 1},
    ),
    Case(
        "where no generator of scenarios is on",
        [nodes(2, gpus=2), scattered(), a_job("j", gpus=2, created=9)],
        by={"off": ["sg-nodelocalgreedy", "sg-multinodegang"]},
    ),
]

CAPPED = [
    Case(
        "two, where two may",
        [nodes(4, gpus=2), scattered(4), a_job("j", pods=2, gpus=2, created=9)],
        evicts=["s2-0", "s3-0"],
        waits={"j-0": "n2", "j-1": "n3", "s2-0": "n0", "s3-0": "n1"},
        by={"max_consolidation_preemptees": 2},
    ),
    Case(
        "as many as it takes, where any number may",
        [nodes(4, gpus=2), scattered(4), a_job("j", pods=2, gpus=2, created=9)],
        evicts=["s2-0", "s3-0"],
        waits={"j-0": "n2", "j-1": "n3", "s2-0": "n0", "s3-0": "n1"},
        by={"max_consolidation_preemptees": -1},
    ),
    Case(
        "one for each job that waits",
        [nodes(4, gpus=2), scattered(4), [a_job(f"j{n}", gpus=2, created=8 + n) for n in (0, 1)]],
        evicts=["s2-0", "s3-0"],
        waits={"j0-0": "n3", "j1-0": "n2", "s3-0": "n0", "s2-0": "n1"},
        by={"max_consolidation_preemptees": 1},
    ),
]


@table(*MOVED)
def test_it_moves(case: Case) -> None:
    case.holds("consolidation")


@table(*NOBODY)
def test_it_moves_nobody(case: Case) -> None:
    case.holds("consolidation")


@table(*CAPPED)
def test_it_moves_at_most(case: Case) -> None:
    case.holds("consolidation")
