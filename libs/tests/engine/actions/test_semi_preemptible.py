"""What each action does with semi-preemptible jobs: their core is nobody's, the rest is everybody's."""

import random
from typing import Any

import pytest

from kai.engine import Engine
from kai.engine.queueing.chunks import tasks_to_evict
from kai.model.ids import PodUid
from kai.snapshot.core import Holdings
from kai.snapshot.kinds import Kind
from kai.snapshot.state import ClusterState
from libs.tests.engine.builders import (
    NOW,
    Case,
    Part,
    a_group,
    a_job,
    a_pod,
    a_queue,
    a_state,
    decided,
    nodes,
    outcomes,
    table,
    urgent,
)
from libs.tests.engine.random_worlds import fuzz

SEMI = {"preemptibility": "semi-preemptible"}
TWO_OF = {**SEMI, "min_sub_group": 2}
ONE_OF = {**SEMI, "min_sub_group": 1}


def semi(name: str, *parts: Part, group: Any = None, **more: Any) -> list[Any]:
    return a_job(name, *parts, group=group or SEMI, **{"gpus": 1, **more})


def parts(*on: tuple[str, int], min_member: int = 2) -> list[Part]:
    """Subgroups of two pods each that need both, with so many of them on ``n0``."""
    return [Part(name, min_member, on=["n0"] * count, pods=count) for name, count in on]


ALLOCATED = [
    Case(
        "its core within the quota of its queue, and more beyond it",
        [a_queue("team", gpu=2), nodes(1, gpus=4), semi("s", pods=4, min_member=2)],
        binds={f"s-{n}": "n0" for n in range(4)},
    ),
    Case(
        "nothing where its queue does not deserve the core",
        [a_queue("team", gpu=1), nodes(1, gpus=4), semi("s", pods=4, min_member=2)],
        says={"s": "non-preemptible workload: GPU quota is 1 GPU, 0 GPUs in use, 2 GPUs requested"},
    ),
    Case(
        "no more than the limit of its queue",
        [a_queue("team", gpu=2, limit=3), nodes(1, gpus=4), semi("s", pods=4, min_member=2)],
        binds={f"s-{n}": "n0" for n in range(3)},
    ),
    Case(
        "its core where others that cannot be preempted leave room for it",
        [
            a_queue("team", gpu=2),
            nodes(1, gpus=4),
            a_job("fixed", gpus=1, on="n0", priority="build"),
            semi("s", pods=2, min_member=2),
        ],
        says={"s": "GPU quota is 2 GPUs, 1 GPU in use, 2 GPUs requested"},
    ),
    Case(
        "another job's core, whatever it holds beyond its own",
        [
            a_queue("team", gpu=2),
            nodes(1, gpus=4),
            semi("s", on=["n0"] * 3, min_member=1),
            a_job("fixed", gpus=1, priority="build"),
        ],
        binds={"fixed-0": "n0"},
    ),
    Case(
        "as many subgroups as it needs within the quota, and another beyond it",
        [
            a_queue("team", gpu=2),
            nodes(1, gpus=4),
            semi("s", Part("a", 2, pods=2), Part("b", 2, pods=2), group=ONE_OF),
        ],
        binds={f"s-{part}-{n}": "n0" for part in "ab" for n in range(2)},
    ),
    Case(
        "nothing that would become a larger core than its queue deserves",
        [
            a_queue("team", gpu=1),
            nodes(1, gpus=4),
            semi("s", Part("a", 2, pods=2), Part("b", 1, on="n0"), group=ONE_OF),
        ],
        says={"s": "GPU quota is 1 GPU, 1 GPU in use, 1 GPU requested"},
    ),
]

PREEMPTED = [
    Case(
        "what it holds beyond its minimum",
        [nodes(1, gpus=3), semi("s", on=["n0"] * 3, min_member=1), urgent(gpus=2)],
        evicts=["s-1", "s-2"],
        waits={"u-0": "n0"},
    ),
    Case(
        "nothing where that does not suffice",
        [nodes(1, gpus=3), semi("s", on=["n0"] * 3, min_member=2), urgent(gpus=2)],
    ),
    Case("nothing where all of it is needed", [nodes(1, gpus=2), semi("s", on=["n0"] * 2), urgent()]),
    Case(
        "everything where nothing is needed",
        [nodes(1, gpus=2), semi("s", on=["n0"] * 2, min_member=0), urgent(gpus=2)],
        evicts=["s-0", "s-1"],
        waits={"u-0": "n0"},
    ),
    Case(
        "nothing for a job of no higher priority",
        [nodes(1, gpus=2), semi("s", on=["n0"] * 2, min_member=1), a_job("u", gpus=1, created=9)],
    ),
    Case(
        "what others hold where its surplus is too little",
        [
            nodes(1, gpus=4),
            semi("s", on=["n0"] * 2, min_member=1),
            a_job("r", gpus=2, on="n0"),
            urgent(gpus=3),
        ],
        evicts=["s-1", "r-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "the subgroup that is not needed, as a whole",
        [nodes(1, gpus=6), semi("s", *parts(("a", 2), ("b", 2), ("c", 2)), group=TWO_OF), urgent()],
        evicts=["s-c-0", "s-c-1"],
        waits={"u-0": "n0"},
    ),
    Case(
        "no subgroup that is needed",
        [nodes(1, gpus=4), semi("s", *parts(("a", 2), ("b", 2)), group=TWO_OF), urgent()],
    ),
    Case(
        "surplus of a subgroup before a subgroup",
        [
            nodes(1, gpus=4),
            semi("s", *parts(("a", 2), ("b", 2), min_member=1), group=ONE_OF),
            urgent(),
        ],
        evicts=["s-b-1"],
        waits={"u-0": "n0"},
    ),
    Case(
        "first what is of no use where it is",
        [
            nodes(1, gpus=4),
            semi("s", *parts(("a", 1), ("b", 2)), Part("c", 1, on="n0"), group=TWO_OF),
            urgent(),
        ],
        evicts=["s-a-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "what one subgroup holds beyond its minimum, though another has one that needs no pods",
        [
            nodes(1, gpus=4),
            semi(
                "s",
                Part("x", None, min_sub_group=1),
                Part("xa", 1, on="n0", parent="x"),
                Part("xb", 0, pods=0, parent="x"),
                Part("a", 1, on=["n0"] * 3),
            ),
            urgent(gpus=2),
        ],
        evicts=["s-a-1", "s-a-2"],
        waits={"u-0": "n0"},
    ),
]

RECLAIMED = [
    Case(
        "what it holds beyond its minimum",
        [
            [a_queue("rich", gpu=1), a_queue("poor", gpu=2)],
            nodes(1, gpus=3),
            semi("s", queue="rich", on=["n0"] * 3, min_member=1),
            a_job("p", queue="poor", gpus=2),
        ],
        evicts=["s-1", "s-2"],
        waits={"p-0": "n0"},
    ),
    Case(
        "no more than that, though its queue deserves nothing",
        [
            [a_queue("rich", gpu=0), a_queue("poor", gpu=3)],
            nodes(1, gpus=3),
            semi("s", queue="rich", on=["n0"] * 3, min_member=2),
            a_job("p", queue="poor", gpus=2),
        ],
    ),
    Case(
        "for another's core what its queue deserves",
        [
            [a_queue("rich", gpu=0), a_queue("poor", gpu=1)],
            nodes(1, gpus=2),
            [a_job(f"r{n}", queue="rich", gpus=1, on="n0", created=n) for n in range(2)],
            semi("s", queue="poor", pods=2, min_member=1),
        ],
        evicts=["r1-0"],
        waits={"s-0": "n0"},
    ),
    Case(
        "nothing for a core that its queue does not deserve",
        [
            [a_queue("rich", gpu=0), a_queue("poor", gpu=0)],
            nodes(1, gpus=2),
            [a_job(f"r{n}", queue="rich", gpus=1, on="n0", created=n) for n in range(2)],
            semi("s", queue="poor", pods=1),
        ],
    ),
    Case(
        "for more than a core what its queue has a share in",
        [
            [a_queue("rich", gpu=0), a_queue("poor", gpu=1)],
            nodes(1, gpus=3),
            [a_job(f"r{n}", queue="rich", gpus=1, on="n0", created=n) for n in range(2)],
            semi("s", queue="poor", on=["n0", ""], min_member=1),
        ],
        evicts=["r1-0"],
        waits={"s-1": "n0"},
    ),
]

MOVED = [
    Case(
        "what it holds beyond its minimum",
        [
            nodes(2, gpus=2),
            semi("s", on=["n0", "n1"], min_member=1),
            a_job("u", gpus=2, created=100),
        ],
        evicts=["s-1"],
        waits={"u-0": "n1", "s-1": "n0"},
    ),
    Case(
        "nothing of what it needs",
        [nodes(2, gpus=2), semi("s", on=["n0", "n1"]), a_job("u", gpus=2, created=100)],
    ),
    Case(
        "nobody for it",
        [
            nodes(2, gpus=2),
            [a_job(f"r{n}", gpus=1, on=f"n{n}") for n in range(2)],
            semi("s", gpus=2, created=100),
        ],
    ),
]

GIVEN_UP = [
    Case(
        "as a whole where it stays below its minimum",
        [
            nodes(1, gpus=3),
            semi("s", on=["n0", ""], group={**SEMI, "stale_after": "0s"}),
        ],
        evicts=["s-0"],
    ),
    Case(
        "not while it has its minimum",
        [
            nodes(1, gpus=3),
            semi("s", on=["n0", ""], min_member=1, group={**SEMI, "stale_after": "0s"}),
        ],
    ),
]


@table(*ALLOCATED)
def test_allocate_gives_it(case: Case) -> None:
    case.holds("allocate")


@table(*PREEMPTED)
def test_preempt_takes_of_it(case: Case) -> None:
    case.holds("preempt")


@table(*RECLAIMED)
def test_reclaim_takes_of_it(case: Case) -> None:
    case.holds("reclaim")


@table(*MOVED)
def test_consolidation_moves_of_it(case: Case) -> None:
    case.holds("consolidation")


@table(*GIVEN_UP)
def test_stalegangeviction_gives_it_up(case: Case) -> None:
    case.holds("stalegangeviction")


# --- what it is charged ----------------------------------------------------------------------------
def fixed(state: ClusterState) -> float:
    """GPUs that the queue is charged as non-preemptible."""
    state.settle(NOW)
    return state.queues["team"].non_preemptible.gpu_centi / 100


@pytest.mark.parametrize(
    ("job", "gpus"),
    [
        (semi("s", on=["n0"] * 3, min_member=2), 2),
        (semi("s", on=["n0", "", ""], min_member=2), 1),
        (semi("s", on=["n0"] * 2, min_member=0), 0),
        (semi("s", *parts(("a", 2), ("b", 2), ("c", 2)), group=TWO_OF), 4),
        (semi("s", *parts(("a", 1), ("b", 2), ("c", 2)), group=TWO_OF), 4),
        (semi("s", *parts(("a", 1), ("b", 1), ("c", 2)), group=TWO_OF), 3),
        (semi("s", *parts(("a", 2), ("b", 2))), 4),
        (
            semi(
                "s",
                Part("x", None, min_sub_group=1),
                Part("y", None),
                *(Part(name, 1, on="n0", parent=name[0]) for name in ("xa", "xb", "ya", "yb")),
            ),
            3,
        ),
    ],
    ids=[
        "its minimum",
        "what there is of it",
        "nothing",
        "so many subgroups",
        "complete ones first",
        "then by name",
        "all subgroups",
        "at each level",
    ],
)
def test_queues_are_charged_for_its_core(job: list[Any], gpus: int) -> None:
    state = a_state(nodes(1, gpus=9), job)
    assert fixed(state) == gpus
    state.check()


def test_what_its_core_is_charged_follows_what_happens_to_its_pods() -> None:
    job = semi("s", on=["n0"] * 3, min_member=2)
    state = a_state(nodes(1, gpus=9), job)
    found = []
    for step in (
        lambda: state.remove(Kind.POD, "default/s-0"),
        lambda: state.remove(Kind.POD, "default/s-1"),
        lambda: state.apply(Kind.POD, a_pod("s-0", group="s", gpus=2, node="n0")),
        lambda: state.apply(Kind.POD_GROUP, a_group("s", queue="team", min_member=1, **SEMI)),
        lambda: state.apply(Kind.POD_GROUP, a_group("s", queue="team", min_member=1)),
        lambda: state.apply(Kind.POD_GROUP, a_group("s", queue="team", min_member=1, priority="build")),
        lambda: state.apply(Kind.POD_GROUP, a_group("s", queue="team", min_member=1, **SEMI)),
        lambda: state.remove(Kind.POD_GROUP, "default/s"),
    ):
        step()
        state.check()
        found.append(fixed(state))
    assert found == [2, 1, 3, 2, 0, 3, 2, 0]


def test_queues_that_are_linked_anew_are_charged_as_before() -> None:
    state = a_state(
        [a_queue("top"), a_queue("team")], nodes(1, gpus=9), semi("s", on=["n0"] * 3, min_member=2)
    )
    state.apply(Kind.QUEUE, a_queue("team", parent="top"))
    state.settle(NOW)
    assert (fixed(state), state.queues["top"].non_preemptible.gpu_centi) == (2, 200)
    state.check()


def test_the_scheduler_says_which_pods_are_its_core() -> None:
    state = a_state(nodes(1, gpus=9), semi("s", pods=3, min_member=2), a_job("plain", gpus=1))
    told = outcomes(Engine().run(state, NOW))
    assert (told["s"].core_pods, told["plain"].core_pods) == (("s-0", "s-1"), ())
    state.remove(Kind.POD, "default/s-0")
    assert outcomes(Engine().run(state, NOW + 1))["s"].core_pods == ("s-1", "s-2")


def test_a_second_cycle_takes_no_more_than_the_first_left() -> None:
    """Where the surplus is gone the core stays, however long somebody waits for it."""
    state = a_state(nodes(1, gpus=2), semi("s", on=["n0"] * 2, min_member=1), urgent(gpus=2))
    for number in range(3):
        assert decided(state, now=NOW + number).evicts == frozenset()


def random_parts(rng: random.Random, prefix: str = "", *, depth: int = 2) -> list[Part]:
    """A tree of subgroups of all shapes, some of whose pods run."""
    found = []
    for letter in "abc"[: rng.randint(1, 3)]:
        name = prefix + letter
        if depth and rng.random() < 0.4:
            below = random_parts(rng, name, depth=depth - 1)
            members = sum(part.parent == name for part in below)
            needed = rng.choice([None, *range(members + 1)])
            found += [Part(name, None, parent=prefix, min_sub_group=needed), *below]
        else:
            on = ["n0"] * rng.randint(0, 4)
            found.append(
                Part(name, rng.randint(0, 3), on=on, pods=len(on) + rng.randint(0, 1), parent=prefix)
            )
    return found


def test_of_a_set_that_is_not_complete_no_member_is_spare() -> None:
    """Whichever of them is completed, the others are needed until then."""
    some = parts(("a", 2), ("b", 1), ("c", 1))
    state = a_state(nodes(1, gpus=9), semi("s", *some, group={**SEMI, "min_sub_group": 2}))
    [job] = state.jobs.values()
    assert tasks_to_evict(job) == ([], False)


@fuzz
def test_all_but_its_core_can_be_taken_in_turn_and_nothing_of_it(world: int) -> None:
    rng = random.Random(world)
    made = random_parts(rng)
    top = sum(not part.parent for part in made)
    shape = rng.choice([None, *range(top + 1)])
    group = {**SEMI, **({} if shape is None else {"min_sub_group": shape})}
    state = a_state(nodes(1, gpus=64), semi("s", *made, group=group))
    [job] = state.jobs.values()
    core = {task.uid for task in Holdings(job).core()}
    taken: set[PodUid] = set()
    while chunk := tasks_to_evict(job, without=taken)[0]:
        taken |= {task.uid for task in chunk}
        assert core.isdisjoint(taken)
    left = Holdings(job, gone=taken)
    assert {task.uid for task in left.core()} == core
    if left.satisfied(job.root):
        assert {task.uid for task in left.below(job.root)} == core


@fuzz
def test_whoever_comes_and_goes_what_queues_are_charged_is_what_cores_hold(world: int) -> None:
    rng = random.Random(world)
    shape = rng.choice([None, 1, 2])
    names = ["a", "b", "c"] if shape else [""]
    made = [Part(name, rng.randint(0, 2), pods=0) for name in names] if shape else []
    group = {**SEMI, **({"min_sub_group": shape} if shape else {})}
    state = a_state(
        nodes(2, gpus=9),
        semi("s", *made, pods=None if shape else 0, min_member=rng.randint(0, 3), group=group),
    )
    there: dict[str, Any] = {}
    for number in range(12):
        if there and rng.random() < 0.4:
            key = rng.choice(sorted(there))
            del there[key]
            state.remove(Kind.POD, f"default/{key}")
        else:
            key = f"p{number}"
            there[key] = a_pod(
                key,
                group="s",
                gpus=rng.randint(0, 2),
                node=rng.choice(["n0", "n1", ""]),
                sub_group=rng.choice(names),
                created=rng.randint(1, 5),
            )
            state.apply(Kind.POD, there[key])
        state.check()
    Engine().run(state, NOW)
    state.check()
