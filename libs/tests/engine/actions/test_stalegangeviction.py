"""Which gangs ``stalegangeviction`` gives up, since too few of their pods are left for too long."""

from kai.model import names
from kai.snapshot.times import rfc3339
from libs.tests.engine.builders import (
    NOW,
    Case,
    Part,
    a_job,
    a_pod,
    a_state,
    add,
    config,
    decided,
    job_of,
    nodes,
    table,
)


def lacking(name="gang", *, left=1, needed=2, **more):
    """A gang of which fewer pods are left than are needed; they can be preempted unless said."""
    return a_job(name, on=["n0"] * left, min_member=needed, gpus=1, **more)


def since(job, seconds):
    """It is known to be stale for so long."""
    job[0].metadata.annotations[names.STALE_TIMESTAMP] = rfc3339(NOW - seconds)
    return job


GIVEN_UP = [
    Case("that was stale for longer than the grace period", since(lacking(), 61), evicts=["gang-0"]),
    Case("just as long", since(lacking(), 60), evicts=["gang-0"]),
    Case("at once, without grace", lacking(), evicts=["gang-0"], by={"default_staleness_grace_seconds": 0}),
    Case(
        "with all of its pods",
        since(lacking(left=3, needed=4), 61),
        evicts=["gang-0", "gang-1", "gang-2"],
    ),
    Case("that cannot be preempted", since(lacking(priority="build"), 61), evicts=["gang-0"]),
    Case(
        "after a grace period of its own",
        since(lacking(group={"stale_after": "5s"}), 6),
        evicts=["gang-0"],
    ),
    Case(
        "whose replacements wait",
        [since(lacking(), 61), a_pod("late", group="gang", gpus=9)],
        evicts=["gang-0"],
    ),
    Case(
        "of which one subgroup lacks pods",
        since(a_job("gang", Part("a", on="n0"), Part("b", 2, on="n0", pods=1), gpus=1), 61),
        evicts=["gang-a-0", "gang-b-0"],
    ),
    Case(
        "of which too few subgroups are left",
        since(
            a_job(
                "gang",
                Part("a", on="n0"),
                Part("b", 2, on="n0"),
                Part("c", 2, on="n0"),
                gpus=1,
                group={"min_sub_group": 2},
            ),
            61,
        ),
        evicts=["gang-a-0", "gang-b-0", "gang-c-0"],
    ),
    Case(
        "and no other",
        [since(lacking("one"), 61), since(lacking("two"), 59), a_job("three", gpus=1, on="n0")],
        evicts=["one-0"],
    ),
]

KEPT = [
    Case("that is whole", lacking(left=2)),
    Case("that has more than it needs", lacking(left=3)),
    Case("that is stale for less than the grace period", since(lacking(), 59)),
    Case("that became stale just now", lacking()),
    Case("whose grace period never ends", since(lacking(group={"stale_after": "-1s"}), 9_999)),
    Case(
        "while the default grace period never ends",
        since(lacking(), 9_999),
        by={"default_staleness_grace_seconds": -1},
    ),
    Case("with a longer grace period of its own", since(lacking(group={"stale_after": "10m"}), 61)),
    Case(
        "of which the pod that is missing succeeded",
        [since(lacking(), 61), a_pod("done", group="gang", gpus=1, node="n0", phase="Succeeded")],
    ),
    Case(
        "of which a pod succeeded, whatever else is missing",
        [since(lacking(needed=4), 61), a_pod("done", group="gang", gpus=1, node="n0", phase="Succeeded")],
    ),
    Case("of which none runs", since(a_job("gang", pods=1, min_member=2, gpus=1, started=NOW - 99), 61)),
    Case(
        "of which the pod that is missing is on its way out still",
        [since(lacking(), 61), a_pod("leaves", group="gang", gpus=1, node="n0", deleted=NOW - 5)],
    ),
    Case(
        "of which enough subgroups are left",
        since(
            a_job("gang", Part("a", on="n0"), Part("b", 2, on="n0"), gpus=1, group={"min_sub_group": 1}),
            61,
        ),
    ),
]


@table(*[Case(c.name, [nodes(1, gpus=8), c.world], evicts=c.evicts, by=c.by) for c in GIVEN_UP])
def test_it_gives_up_a_gang(case: Case) -> None:
    case.holds("stalegangeviction")


@table(*[Case(c.name, [nodes(1, gpus=8), c.world], by=c.by) for c in KEPT])
def test_it_keeps_a_gang(case: Case) -> None:
    case.holds("stalegangeviction")


def test_a_gang_is_stale_from_the_cycle_in_which_it_lacks_pods_until_it_lacks_none() -> None:
    state, by = a_state(nodes(1, gpus=8), lacking()), config("stalegangeviction")
    assert decided(state, by).evicts == frozenset()
    assert job_of(state, "gang").stale_since == NOW
    decided(state, by, now=NOW + 30)
    assert job_of(state, "gang").stale_since == NOW
    add(state, a_pod("gang-1", group="gang", gpus=1, node="n0"))
    decided(state, by, now=NOW + 40)
    assert job_of(state, "gang").stale_since == 0
    assert decided(state, by, now=NOW + 90).evicts == frozenset()
