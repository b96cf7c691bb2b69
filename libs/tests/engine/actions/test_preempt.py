"""Whose place ``preempt`` takes in a queue, for whom, and whom it leaves alone."""

from kai.engine import Engine
from kai.model import names
from kai.model.decisions import Outcome
from kai.snapshot.times import rfc3339
from libs.tests.engine.builders import (
    NOW,
    SLICE,
    Case,
    Part,
    a_constraint,
    a_job,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    a_state,
    a_topology,
    config,
    nodes,
    outcomes,
    running,
    slices,
    table,
    urgent,
)

DEVICES = [f"4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a{number:03}" for number in range(8)]


def lost_its_place(job, *, at):
    """The same job, of which is said that it lost its place then (Unix seconds)."""
    job[0].metadata.annotations = {names.LAST_EVICTION_TIMESTAMP: rfc3339(at)}
    return job


def done(group, **more):
    """A pod of a group that succeeded."""
    return a_pod(f"{group}-done", group=group, gpus=1, node="n0", phase="Succeeded", **more)


TAKEN = [
    Case(
        "the youngest of a lower priority",
        [nodes(1, gpus=2), running(2), urgent()],
        evicts=["r1-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "the lowest priority first",
        [
            a_priority_class("low", 10),
            nodes(1, gpus=2),
            a_job("low", gpus=1, on="n0", created=1, priority="low"),
            a_job("train", gpus=1, on="n0", created=2),
            urgent(),
        ],
        evicts=["low-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "for one that can be preempted itself",
        [nodes(1, gpus=1), running(1), urgent(priority="build-preemptible")],
        evicts=["r0-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "beyond the fair share of the queue",
        [
            [a_queue("team", gpu=0), a_queue("other", gpu=2)],
            nodes(1, gpus=2),
            running(2),
            urgent(priority="build-preemptible"),
            a_job("o", queue="other", gpus=2),
        ],
        evicts=["r1-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "of an elastic job the surplus",
        [nodes(1, gpus=2), a_job("e", on=["n0"] * 2, min_member=1, gpus=1), urgent()],
        evicts=["e-1"],
        waits={"u-0": "n0"},
    ),
    Case(
        "of two elastic jobs the surplus of each",
        [
            nodes(1, gpus=4),
            [a_job(f"e{n}", on=["n0"] * 2, min_member=1, gpus=1, created=n) for n in range(2)],
            urgent(gpus=2),
        ],
        evicts=["e0-1", "e1-1"],
        waits={"u-0": "n0"},
    ),
    Case(
        "of an elastic job all, where the surplus does not suffice",
        [nodes(1, gpus=2), a_job("e", on=["n0"] * 2, min_member=1, gpus=1), urgent(gpus=2)],
        evicts=["e-0", "e-1"],
        waits={"u-0": "n0"},
    ),
    Case(
        "a gang as a whole",
        [nodes(2, gpus=1), a_job("gang", on=("n0", "n1"), gpus=1), urgent()],
        evicts=["gang-0", "gang-1"],
        waits={"u-0": "n0"},
    ),
    Case(
        "a victim that finds another place moves there",
        [
            nodes(2, gpus=2),
            a_job("r0", gpus=1, on="n0", created=1),
            a_job("r1", gpus=1, on="n1", created=2),
            urgent(gpus=2),
        ],
        evicts=["r1-0"],
        waits={"u-0": "n1", "r1-0": "n0"},
    ),
    Case(
        "on as many nodes as a gang needs",
        [
            nodes(3, gpus=1),
            [a_job(f"r{n}", gpus=1, on=f"n{n}", created=n) for n in range(3)],
            urgent(pods=2),
        ],
        evicts=["r1-0", "r2-0"],
        waits={"u-0": "n1", "u-1": "n2"},
    ),
    Case(
        "what is free, and for the rest the place of others",
        [nodes(2, gpus=1), a_job("r0", gpus=1, on="n0"), urgent(pods=2)],
        evicts=["r0-0"],
        waits={"u-0": "n1", "u-1": "n0"},
    ),
    Case(
        "for each subgroup of a job",
        [
            nodes(2, gpus=1),
            [a_job(f"r{n}", gpus=1, on=f"n{n}", created=n) for n in range(2)],
            a_job("u", Part("a"), Part("b"), gpus=1, priority="build", created=100),
        ],
        evicts=["r0-0", "r1-0"],
        waits={"u-a-0": "n0", "u-b-0": "n1"},
    ),
    Case(
        "for as many subgroups as a job needs",
        [
            nodes(2, gpus=1),
            [a_job(f"r{n}", gpus=1, on=f"n{n}", created=n) for n in range(2)],
            a_job(
                "u",
                Part("a"),
                Part("b"),
                gpus=1,
                priority="build",
                created=100,
                group={"min_sub_group": 1},
            ),
        ],
        evicts=["r1-0"],
        waits={"u-a-0": "n1"},
    ),
    Case(
        "MIG devices",
        [
            a_node("n0", gpus=0, extra={SLICE: "1"}, labels={"nvidia.com/mig.strategy": "mixed"}),
            slices(a_job("r0", on="n0")),
            slices(urgent(gpus=0)),
        ],
        evicts=["r0-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "a device whose parts are all of lower priority",
        [
            nodes(1, gpus=1, gpu_memory_mib=16_000),
            [a_job(f"h{n}", fraction=0.5, groups=(DEVICES[0],), on="n0", created=n) for n in range(2)],
            urgent(),
        ],
        evicts=["h0-0", "h1-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "a part of a device",
        [
            nodes(1, gpus=1, gpu_memory_mib=16_000),
            [a_job(f"h{n}", fraction=0.5, groups=(DEVICES[0],), on="n0", created=n) for n in range(2)],
            urgent(gpus=0, fraction=0.5),
        ],
        evicts=["h1-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "CPUs of a node, for a pod beside one that gets what is left of a device elsewhere",
        [
            nodes(2, gpus=1, gpu_memory_mib=16_000, cpu="4"),
            a_job("part", fraction=0.4, groups=(DEVICES[0],), on="n0", priority="build"),
            a_job("cpus", cpu="4", on="n1"),
            urgent(gpus=0, fraction=0.6, pods=2),
        ],
        evicts=["cpus-0"],
        waits={"u-0": "n0", "u-1": "n1"},
    ),
    Case(
        "CPUs where these are short",
        [
            a_node("n0", gpus=0, cpu="2"),
            [a_job(f"r{n}", cpu="1", on="n0", created=n) for n in range(2)],
            urgent(gpus=0, cpu="1"),
        ],
        evicts=["r1-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "in the domain where the job must be",
        [
            a_topology("rack"),
            [a_node(f"n{n}", gpus=1, labels={"rack": f"r{n // 2}"}) for n in range(4)],
            [a_job(f"r{n}", gpus=1, on=f"n{n}", created=n) for n in (0, 1)],
            [a_job(f"fixed{n}", gpus=1, on=f"n{n}", priority="build") for n in (2, 3)],
            urgent(pods=2, group={"topology": a_constraint("rack")}),
        ],
        evicts=["r0-0", "r1-0"],
        waits={"u-0": "n0", "u-1": "n1"},
    ),
    Case(
        "one chunk for each job",
        [nodes(1, gpus=3), running(3), urgent(pods=3, min_member=1)],
        evicts=["r2-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "for one job after the other",
        [nodes(1, gpus=3), running(3), urgent("u"), urgent("v", created=101)],
        evicts=["r1-0", "r2-0"],
        waits={"u-0": "n0", "v-0": "n0"},
    ),
    Case(
        "for what cannot be preempted, up to the quota of its queue",
        [a_queue("team", gpu=1), nodes(1, gpus=2), running(2), urgent("u"), urgent("v", created=101)],
        evicts=["r1-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "once the delay has passed",
        [nodes(1, gpus=1), running(1), urgent(created=NOW - 601, group={"preemption_delay": "10m"})],
        evicts=["r0-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "whose delay is said to begin next year",
        [
            nodes(1, gpus=1),
            running(1),
            lost_its_place(urgent(group={"preemption_delay": "10m"}), at=NOW + 3e7),
        ],
        evicts=["r0-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "from one that waits for its own delay",
        [nodes(1, gpus=1), running(1, group={"preemption_delay": "10m"}), urgent()],
        evicts=["r0-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "who has run as long as it is protected",
        [
            a_queue("team", preempt_min_runtime="10m"),
            nodes(1, gpus=1),
            running(1, started=NOW - 600),
            urgent(),
        ],
        evicts=["r0-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "of a protected job what it can do without",
        [
            a_queue("team", preempt_min_runtime="10m"),
            nodes(1, gpus=2),
            a_job("e", on=["n0"] * 2, min_member=1, gpus=1, started=NOW - 60),
            urgent(),
        ],
        evicts=["e-1"],
        waits={"u-0": "n0"},
    ),
    Case(
        "for what is left of a gang of which a pod is done",
        [nodes(1, gpus=1), running(1), urgent(min_member=2), done("u")],
        evicts=["r0-0"],
        waits={"u-0": "n0"},
    ),
    Case(
        "for a subgroup beside one that is done",
        [
            nodes(1, gpus=1),
            running(1),
            a_job("u", Part("a"), Part("b", pods=0), gpus=1, priority="build", created=100),
            done("u", sub_group="b"),
        ],
        evicts=["r0-0"],
        waits={"u-a-0": "n0"},
    ),
    Case(
        "for the job after one that had no chance",
        [nodes(1, gpus=1), running(1), urgent("large", gpus=2), urgent(created=101)],
        evicts=["r0-0"],
        waits={"u-0": "n0"},
    ),
]

LEFT = [
    Case(
        "of the same priority, though it is younger",
        [nodes(1, gpus=1), running(1, created=200), urgent(priority="train")],
    ),
    Case("of the same priority", [nodes(1, gpus=1), running(1), urgent(priority="train")]),
    Case(
        "of a higher one",
        [nodes(1, gpus=1), running(1, priority="build-preemptible"), urgent(priority="train")],
    ),
    Case(
        "that cannot be preempted",
        [nodes(1, gpus=1), running(1, priority="build"), urgent(priority="inference")],
    ),
    Case(
        "that says so of itself, whatever its priority",
        [nodes(1, gpus=1), running(1, group={"preemptibility": "non-preemptible"}), urgent()],
    ),
    Case(
        "of another queue",
        [[a_queue("team"), a_queue("other")], nodes(1, gpus=1), running(1), urgent(queue="other")],
    ),
    Case(
        "if the place would not suffice",
        [nodes(1, gpus=2), running(1), a_job("fixed", gpus=1, on="n0", priority="build"), urgent(gpus=2)],
    ),
    Case(
        "if a gang would not fit as a whole",
        [nodes(1, gpus=2), running(2), urgent(pods=3)],
    ),
    Case(
        "above the limit of the queue",
        [a_queue("team", limit=1), nodes(2, gpus=1), a_job("x", gpus=1, on="n0", priority="build"), urgent()],
    ),
    Case(
        "beyond the quota of the queue, for what cannot be preempted",
        [a_queue("team", gpu=0), nodes(1, gpus=1), running(1), urgent()],
    ),
    Case(
        "before the delay has passed since it lost its own",
        [
            nodes(1, gpus=1),
            running(1),
            lost_its_place(urgent(group={"preemption_delay": "10m"}), at=NOW - 599),
        ],
        says={"u": "PreemptionDelayNotElapsed"},
    ),
    Case(
        "before the delay has passed",
        [nodes(1, gpus=1), running(1), urgent(created=NOW - 599, group={"preemption_delay": "10m"})],
        says={"u": "PreemptionDelayNotElapsed"},
    ),
    Case(
        "as long as it is protected",
        [
            a_queue("team", preempt_min_runtime="10m"),
            nodes(1, gpus=1),
            running(1, started=NOW - 599),
            urgent(),
        ],
        says={"u": "MinRuntimeNotElapsed"},
    ),
    Case(
        "below the minimum of a protected job",
        [
            a_queue("team", preempt_min_runtime="10m"),
            nodes(1, gpus=2),
            a_job("e", on=["n0"] * 2, min_member=1, gpus=1, started=NOW - 60),
            urgent(gpus=2),
        ],
    ),
    Case(
        "for a pod that takes nobody's place",
        [nodes(1, gpus=1), running(1), urgent(spec={"preemption_policy": "Never"})],
        says={"u": "preemptionPolicy is Never"},
    ),
    Case(
        "for a pod that no node could take",
        [nodes(2, gpus=1), running(1), urgent(gpus=2)],
    ),
    Case(
        "for a pod that does not tolerate the node",
        [a_node("n0", gpus=1), running(1), urgent(spec={"node_selector": {"disk": "ssd"}})],
    ),
    Case(
        "for a job of which too few pods exist",
        [nodes(1, gpus=1), running(1), urgent(min_member=2)],
    ),
    Case(
        "for jobs beyond the depth of the queue",
        [nodes(1, gpus=1), running(1), urgent("large", gpus=2), urgent(created=101)],
        by={"queue_depth": {"preempt": 1}},
    ),
    Case(
        "where no generator of scenarios is on",
        [nodes(1, gpus=1), running(1), urgent()],
        by={"off": ["sg-nodelocalgreedy", "sg-multinodegang"]},
    ),
    Case(
        "who is on the way out already",
        [nodes(1, gpus=1), running(1, deleted=NOW - 5), urgent()],
    ),
]
#: Whoever searches by one generator alone finds the same.
EITHER = [
    Case(case.name + f" by {generator}", case.world, case.binds, case.evicts, case.waits, by={"off": [other]})
    for generator, other in (
        ("sg-nodelocalgreedy", "sg-multinodegang"),
        ("sg-multinodegang", "sg-nodelocalgreedy"),
    )
    for case in TAKEN
    if not case.by
]


@table(*TAKEN)
def test_it_takes_the_place(case: Case) -> None:
    case.holds("preempt")


@table(*EITHER)
def test_one_generator_suffices_to_take(case: Case) -> None:
    case.holds("preempt")


@table(*LEFT)
def test_it_evicts_nobody(case: Case) -> None:
    case.holds("preempt")


def test_who_has_to_give_up_a_turn_is_told_to_whom_and_does_not_wait_for_what_is_released() -> None:
    """First it was promised what is being released; the larger job takes that, and the place of another."""
    state = a_state(
        nodes(1, gpus=2),
        a_job("leaves", gpus=1, on="n0", deleted=NOW - 5),
        a_job("runs", gpus=1, on="n0"),
        a_job("low", gpus=1, created=1),
        a_job("high", gpus=2, created=2, priority="build-preemptible"),
    )
    result = Engine().run(state, NOW)
    assert [each.pod.name for each in result.nominations] == ["high-0"]
    told = outcomes(result)
    assert told["high"].outcome is Outcome.PIPELINED
    assert told["low"].outcome is Outcome.UNSCHEDULABLE
    assert told["low"].message == "what it waited for is given to workload default/high"


def test_nobody_is_searched_for_where_nobody_is_of_a_lower_priority():
    def searches(waiting):
        state = a_state(nodes(1, gpus=4), running(4), waiting)
        found = Engine(config("preempt")).run(state, NOW).searches
        return sum(map(len, found.values()))

    assert searches(urgent(priority="train")) == 0
    assert searches(urgent()) > 0
