"""What ``allocate`` places where, what it lets wait for resources being released, and what it says."""

from kai.engine import Engine
from kai.engine.framework.decisions import PROMISED
from kai.model.objects import Taint
from kai.replay.remainder import take
from kai.snapshot.kinds import Kind
from libs.tests.engine.builders import (
    NOW,
    SLICE,
    Case,
    Part,
    a_constraint,
    a_job,
    a_node,
    a_pod,
    a_queue,
    a_state,
    a_topology,
    add,
    config,
    decided,
    job_of,
    leaving,
    nodes,
    slices,
    table,
)

DEVICE = "4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a001"
OTHER = "4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a002"


def racks(*, gpus, racks=2, each=2):
    """Nodes ``r0n0``, ``r0n1`` … in racks, and the tree of them."""
    made = [
        a_node(f"r{rack}n{number}", gpus=gpus, labels={"rack": f"r{rack}"})
        for rack in range(racks)
        for number in range(each)
    ]
    return [a_topology("rack"), *made]


def tainted(node):
    node.spec.taints = [Taint(key="closed", effect="NoSchedule")]
    return node


WHERE = [
    Case("where there is room", [nodes(1, gpus=2), a_job("j", gpus=2)], binds={"j-0": "n0"}),
    Case(
        "on the node that is fuller already",
        [nodes(2, gpus=4), a_job("old", gpus=2, on="n1"), a_job("j", gpus=1)],
        binds={"j-0": "n1"},
    ),
    Case(
        "on the emptier node where that is the strategy",
        [nodes(2, gpus=4), a_job("old", gpus=2, on="n0"), a_job("j", gpus=1)],
        binds={"j-0": "n1"},
        by={"told": {"nodeplacement": {"gpu": "spread", "cpu": "spread"}}},
    ),
    Case(
        "on the first by name of equal nodes",
        [a_node("b", gpus=1), a_node("a", gpus=1), a_job("j", gpus=1)],
        binds={"j-0": "a"},
    ),
    Case(
        "pods without GPUs on nodes without GPUs",
        [a_node("gpu", gpus=4), a_node("plain", gpus=0), a_job("j")],
        binds={"j-0": "plain"},
    ),
    Case(
        "not on a node that is not ready",
        [a_node("n", gpus=2, ready=False), a_job("j", gpus=1)],
        says={"j": "no node has enough resources"},
    ),
    Case(
        "not on a node with a taint that it does not tolerate",
        [tainted(a_node("a", gpus=2)), a_node("b", gpus=2), a_job("j", gpus=1)],
        binds={"j-0": "b"},
    ),
    Case(
        "on a node that its selector names",
        [
            a_node("a", gpus=2),
            a_node("b", gpus=2, labels={"disk": "ssd"}),
            a_job("j", gpus=1, spec={"node_selector": {"disk": "ssd"}}),
        ],
        binds={"j-0": "b"},
    ),
    Case(
        "nowhere, if no node has so many GPUs at once",
        [nodes(2, gpus=2), a_job("j", gpus=3)],
        says={"j": "asks for 3 GPUs, but the largest node has 2 GPUs"},
    ),
    Case(
        "nowhere, if too few GPUs are left on each node",
        [nodes(2, gpus=2), [a_job(f"old{n}", gpus=1, on=f"n{n}") for n in (0, 1)], a_job("j", gpus=2)],
        says={"j": "2 Insufficient GPUs"},
    ),
    Case(
        "nowhere, if no node has the memory",
        [a_node("n", gpus=2, memory="1G"), a_job("j", gpus=1, memory="2G")],
        says={"j": "asks for 2 GB, but the largest node has 1 GB"},
    ),
    Case(
        "nowhere, if all slots for pods are taken",
        [a_node("n", gpus=2, pods=1), a_job("old", on="n"), a_job("j", gpus=1)],
        says={"j": "no node has enough resources"},
    ),
    Case(
        "beside what pods of another scheduler hold",
        [
            a_node("n", gpus=2),
            a_pod("foreign", gpus=1, node="n", scheduler="default-scheduler"),
            a_job("a", gpus=1),
            a_job("b", gpus=1),
        ],
        binds={"a-0": "n"},
    ),
    Case(
        "on MIG devices as on any other resource",
        [
            a_node("n", gpus=0, extra={SLICE: "3"}, labels={"nvidia.com/mig.strategy": "mixed"}),
            slices(a_job("a"), 2),
            slices(a_job("b"), 2),
        ],
        binds={"a-0": "n"},
    ),
]

GANGS = [
    Case(
        "a gang over several nodes",
        [nodes(2, gpus=2), a_job("j", pods=4, gpus=1)],
        binds={"j-0": "n0", "j-1": "n0", "j-2": "n1", "j-3": "n1"},
    ),
    Case(
        "a gang as a whole or not at all",
        [nodes(2, gpus=2), a_job("j", pods=5, gpus=1)],
        says={"j": "4 of the 5 pods needed found room"},
    ),
    Case(
        "who comes after a gang without room",
        [nodes(1, gpus=2), a_job("gang", pods=3, gpus=1, created=1), a_job("j", gpus=2, created=2)],
        binds={"j-0": "n0"},
    ),
    Case(
        "as much of an elastic job as there is room for",
        [nodes(1, gpus=3), a_job("j", pods=5, min_member=2, gpus=1)],
        binds={"j-0": "n0", "j-1": "n0", "j-2": "n0"},
    ),
    Case(
        "no elastic job below its minimum",
        [nodes(1, gpus=1), a_job("j", pods=5, min_member=2, gpus=1)],
    ),
    Case(
        "the minimum of another job before growth",
        [
            nodes(1, gpus=2),
            a_job("grows", pods=3, min_member=1, gpus=1, created=1),
            a_job("starts", gpus=1, created=2),
        ],
        binds={"grows-0": "n0", "starts-0": "n0"},
    ),
    Case(
        "the pod that an elastic job lost of its minimum before another's growth",
        [
            nodes(1, gpus=3),
            a_job("grows", on=("n0", ""), min_member=1, gpus=1, created=1),
            a_job("lost", on=("n0", ""), min_member=2, gpus=1, created=2),
        ],
        binds={"lost-1": "n0"},
    ),
    Case(
        "no job of which too few pods exist",
        [nodes(1, gpus=4), a_job("j", pods=2, min_member=3, gpus=1)],
        says={"j": "Waiting for 3 pods, currently 2 exist"},
    ),
    Case(
        "what is left of a gang of which a pod is done",
        [
            nodes(1, gpus=4),
            a_job("j", min_member=2, gpus=1),
            a_pod("done", group="j", gpus=1, node="n0", phase="Succeeded"),
        ],
        binds={"j-0": "n0"},
    ),
    Case(
        "no job whose pods are gated",
        [nodes(1, gpus=4), a_job("j", gpus=1, gated=True)],
    ),
    Case(
        "all subgroups of a job, or none",
        [nodes(1, gpus=3), a_job("j", Part("a", 2, pods=2), Part("b", 2, pods=2), gpus=1)],
        says={"j": "no node has enough resources"},
    ),
    Case(
        "all subgroups of a job if they fit",
        [nodes(2, gpus=2), a_job("j", Part("a", 2, pods=2), Part("b", 2, pods=2), gpus=1)],
        binds={"j-a-0": "n0", "j-a-1": "n0", "j-b-0": "n1", "j-b-1": "n1"},
    ),
    Case(
        "as many subgroups as are needed",
        [nodes(1, gpus=1), a_job("j", Part("a"), Part("b"), gpus=1, group={"min_sub_group": 1})],
        binds={"j-a-0": "n0"},
    ),
    Case(
        "subgroups below an inner one",
        [
            nodes(1, gpus=2),
            a_job("j", Part("top", None), Part("a", parent="top"), Part("b", parent="top"), gpus=1),
        ],
        binds={"j-a-0": "n0", "j-b-0": "n0"},
    ),
]

RELEASING = [
    Case(
        "a pod waits for what is being released",
        [nodes(1, gpus=2), leaving("old", gpus=2, on="n0"), a_job("j", gpus=1)],
        waits={"j-0": "n0"},
    ),
    Case(
        "a pod begins at once where it can",
        [nodes(2, gpus=2), leaving("old", gpus=2, on="n0"), a_job("j", gpus=2)],
        binds={"j-0": "n1"},
    ),
    Case(
        "a gang waits as a whole where a part of it must",
        [nodes(1, gpus=2), leaving("old", gpus=1, on="n0"), a_job("j", pods=2, gpus=1)],
        waits={"j-0": "n0", "j-1": "n0"},
    ),
    Case(
        "growth waits while the minimum begins",
        [nodes(1, gpus=2), leaving("old", gpus=1, on="n0"), a_job("j", pods=2, min_member=1, gpus=1)],
        binds={"j-0": "n0"},
        waits={"j-1": "n0"},
    ),
    Case(
        "what is promised to one is not promised to the next",
        [nodes(1, gpus=2), leaving("old", gpus=2, on="n0"), a_job("a", gpus=2), a_job("b", gpus=1)],
        waits={"a-0": "n0"},
    ),
    Case(
        "what is promised of what is idle, too",
        [nodes(1, gpus=2), leaving("old", gpus=1, on="n0"), a_job("a", gpus=2), a_job("b", gpus=1)],
        waits={"a-0": "n0"},
    ),
]

ORDER = [
    Case(
        "the higher priority first",
        [
            nodes(1, gpus=1),
            a_job("old", gpus=1, created=1),
            a_job("new", gpus=1, created=2, priority="build-preemptible"),
        ],
        binds={"new-0": "n0"},
    ),
    Case(
        "by age where priorities do not count",
        [
            nodes(1, gpus=1),
            a_job("old", gpus=1, created=1),
            a_job("new", gpus=1, created=2, priority="build-preemptible"),
        ],
        binds={"old-0": "n0"},
        by={"off": ["priority"]},
    ),
    Case(
        "of equals the older first",
        [nodes(1, gpus=1), a_job("a", gpus=1, created=2), a_job("b", gpus=1, created=1)],
        binds={"b-0": "n0"},
    ),
    Case(
        "of equals of one age the first by name",
        [nodes(1, gpus=1), a_job("b", gpus=1), a_job("a", gpus=1)],
        binds={"a-0": "n0"},
    ),
    Case(
        "the queue that holds less first",
        [
            [a_queue("a", gpu=0), a_queue("b", gpu=0)],
            nodes(1, gpus=4),
            a_job("runs", queue="a", gpus=2, on="n0"),
            a_job("more", queue="a", gpus=2),
            a_job("first", queue="b", gpus=2, created=9),
        ],
        binds={"first-0": "n0"},
    ),
    Case(
        "queues in turn, each to its share",
        [
            [a_queue("a", gpu=0), a_queue("b", gpu=0)],
            nodes(1, gpus=4),
            [a_job(f"a{number}", queue="a", gpus=1) for number in range(4)],
            [a_job(f"b{number}", queue="b", gpus=1) for number in range(4)],
        ],
        binds={"a0-0": "n0", "a1-0": "n0", "b0-0": "n0", "b1-0": "n0"},
    ),
    Case(
        "what a queue deserves before what another has beyond that",
        [
            [a_queue("rich", gpu=2, weight=0), a_queue("poor", gpu=0, weight=9)],
            nodes(1, gpus=2),
            a_job("poor", queue="poor", gpus=1),
            [a_job(f"rich{number}", queue="rich", gpus=1, created=9) for number in range(2)],
        ],
        binds={"rich0-0": "n0", "rich1-0": "n0"},
    ),
    Case(
        "the queue of higher priority first where none deserves anything",
        [
            [a_queue("low", gpu=0, priority=1), a_queue("high", gpu=0, priority=2)],
            nodes(1, gpus=1),
            a_job("low", queue="low", gpus=1),
            a_job("high", queue="high", gpus=1, created=9),
        ],
        binds={"high-0": "n0"},
    ),
    Case(
        "departments before the queues below them",
        [
            [a_queue("d1", gpu=1), a_queue("d2", gpu=1)],
            [a_queue("a", parent="d1", gpu=0), a_queue("b", parent="d2", gpu=0)],
            nodes(1, gpus=2),
            a_job("runs", queue="a", gpus=1, on="n0"),
            a_job("more", queue="a", gpus=1),
            a_job("first", queue="b", gpus=1, created=9),
        ],
        binds={"first-0": "n0"},
    ),
    Case(
        "only the best jobs of a queue where its depth is limited",
        [nodes(1, gpus=4), [a_job(f"j{number}", gpus=1, created=9 - number) for number in range(4)]],
        binds={"j3-0": "n0", "j2-0": "n0"},
        by={"queue_depth": {"allocate": 2}},
    ),
]

QUEUES = [
    Case(
        "no more than the limit of the queue",
        [
            a_queue("q", limit=1),
            nodes(1, gpus=4),
            a_job("a", queue="q", gpus=1),
            a_job("b", queue="q", gpus=1),
        ],
        binds={"a-0": "n0"},
        says={"b": "OverLimit"},
    ),
    Case(
        "no more than the limit of a queue above",
        [
            [a_queue("dept", limit=1), a_queue("a", parent="dept"), a_queue("b", parent="dept")],
            nodes(1, gpus=4),
            a_job("a", queue="a", gpus=1),
            a_job("b", queue="b", gpus=1),
        ],
        binds={"a-0": "n0"},
        says={"b": "OverLimit: queue 'dept'"},
    ),
    Case(
        "a gang counts as a whole against the limit",
        [a_queue("q", limit=3), nodes(1, gpus=4), a_job("gang", queue="q", pods=4, gpus=1)],
        says={"gang": "OverLimit"},
    ),
    Case(
        "growth up to the limit",
        [a_queue("q", limit=2), nodes(1, gpus=4), a_job("j", queue="q", pods=4, min_member=1, gpus=1)],
        binds={"j-0": "n0", "j-1": "n0"},
    ),
    Case(
        "without the plugin there are no limits",
        [a_queue("q", limit=1), nodes(1, gpus=4), a_job("a", queue="q", gpus=2)],
        binds={"a-0": "n0"},
        by={"off": ["proportion"]},
    ),
    Case(
        "what cannot be preempted within its quota",
        [
            a_queue("q", gpu=1),
            nodes(1, gpus=4),
            a_job("a", queue="q", gpus=1, priority="build", created=1),
            a_job("b", queue="q", gpus=1, priority="build", created=2),
        ],
        binds={"a-0": "n0"},
        says={"b": "NonPreemptibleOverQuota"},
    ),
    Case(
        "what can be preempted does not use up that quota",
        [
            a_queue("q", gpu=1),
            nodes(1, gpus=4),
            a_job("runs", queue="q", gpus=2, on="n0"),
            a_job("b", queue="q", gpus=1, priority="build"),
        ],
        binds={"b-0": "n0"},
    ),
    Case(
        "what cannot be preempted within the quota of the queue above",
        [
            [a_queue("dept", gpu=1), a_queue("a", parent="dept"), a_queue("b", parent="dept")],
            nodes(1, gpus=4),
            a_job("runs", queue="a", gpus=1, on="n0", priority="build"),
            a_job("more", queue="b", gpus=1, priority="build"),
        ],
        says={"more": "NonPreemptibleOverQuota: queue 'dept'"},
    ),
    Case(
        "what says of itself that it is preemptible, whatever its priority",
        [
            a_queue("q", gpu=0),
            nodes(1, gpus=1),
            a_job("j", queue="q", gpus=1, priority="build", group={"preemptibility": "preemptible"}),
        ],
        binds={"j-0": "n0"},
    ),
    Case(
        "nothing of a queue that does not exist",
        [nodes(1, gpus=4), a_job("j", queue="nowhere", gpus=1)],
        says={"j": "queue 'nowhere' does not exist"},
    ),
    Case(
        "nothing of a queue with queues below",
        [nodes(1, gpus=4), a_job("j", queue="top", gpus=1)],
        says={"j": "has child queues"},
    ),
]

SHARING = [
    Case(
        "a part of a device where another part is used",
        [
            nodes(2, gpus=2, gpu_memory_mib=16_000),
            a_job("old", fraction=0.5, groups=(DEVICE,), on="n1"),
            a_job("j", fraction=0.5),
        ],
        binds={"j-0": "n1"},
    ),
    Case(
        "a part of another device where too little is left of the first",
        [
            nodes(1, gpus=2, gpu_memory_mib=16_000),
            a_job("old", fraction=0.6, groups=(DEVICE,), on="n0"),
            a_job("j", fraction=0.5),
        ],
        binds={"j-0": "n0"},
    ),
    Case(
        "nowhere, if too little is left of every device",
        [
            nodes(1, gpus=2, gpu_memory_mib=16_000),
            a_job("a", fraction=0.6, groups=(DEVICE,), on="n0"),
            a_job("b", fraction=0.6, groups=(OTHER,), on="n0"),
            a_job("j", fraction=0.5),
        ],
        says={"j": "no node has enough resources"},
    ),
    Case(
        "no whole device where each is shared",
        [
            nodes(1, gpus=1, gpu_memory_mib=16_000),
            a_job("old", fraction=0.1, groups=(DEVICE,), on="n0"),
            a_job("j", gpus=1),
        ],
        says={"j": "no node has enough resources"},
    ),
    Case(
        "memory of a device as a part of it",
        [
            nodes(1, gpus=1, gpu_memory_mib=16_000),
            a_job("old", fraction=0.5, groups=(DEVICE,), on="n0"),
            a_job("large", gpu_memory_mib=9_000, created=1),
            a_job("small", gpu_memory_mib=8_000, created=2),
        ],
        binds={"small-0": "n0"},
    ),
    Case(
        "parts of several devices of one node",
        [
            nodes(1, gpus=2, gpu_memory_mib=16_000),
            a_job("a", fraction=0.5, devices=2, created=1),
            a_job("b", fraction=0.5, devices=2, created=2),
            a_job("c", fraction=0.5, created=3),
        ],
        binds={"a-0": "n0", "b-0": "n0"},
    ),
    Case(
        "a part of a device that is being released waits",
        [
            nodes(1, gpus=1, gpu_memory_mib=16_000),
            a_job("old", fraction=0.6, groups=(DEVICE,), on="n0", deleted=NOW - 5),
            a_job("j", fraction=0.5),
        ],
        waits={"j-0": "n0"},
    ),
    Case(
        "parts count against the limit",
        [
            a_queue("q", limit=0.5),
            nodes(1, gpus=2, gpu_memory_mib=16_000),
            a_job("a", queue="q", fraction=0.5, created=1),
            a_job("b", queue="q", fraction=0.1, created=2),
        ],
        binds={"a-0": "n0"},
        says={"b": "OverLimit"},
    ),
]

TOPOLOGY = [
    Case(
        "a gang within one domain",
        [
            racks(gpus=2),
            a_job("old", gpus=2, on="r0n0"),
            a_job("j", pods=2, gpus=2, group={"topology": a_constraint("rack")}),
        ],
        binds={"j-0": "r1n0", "j-1": "r1n1"},
    ),
    Case(
        "no gang over several domains",
        [
            racks(gpus=2),
            a_job("a", gpus=2, on="r0n0"),
            a_job("b", gpus=2, on="r1n0"),
            a_job("j", pods=2, gpus=2, group={"topology": a_constraint("rack")}),
        ],
    ),
    Case(
        "a gang over several domains if it would only rather not",
        [
            racks(gpus=2),
            a_job("a", gpus=2, on="r0n0"),
            a_job("b", gpus=2, on="r1n0"),
            a_job("j", pods=2, gpus=2, group={"topology": a_constraint(preferred="rack")}),
        ],
        binds={"j-0": "r1n1", "j-1": "r0n1"},
    ),
    Case(
        "each subgroup within a domain of its own",
        [
            racks(gpus=1),
            a_job(
                "j",
                Part("a", 2, pods=2, constraint=a_constraint("rack")),
                Part("b", 2, pods=2, constraint=a_constraint("rack")),
                gpus=1,
            ),
        ],
        binds={"j-a-0": "r0n0", "j-a-1": "r0n1", "j-b-0": "r1n0", "j-b-1": "r1n1"},
    ),
    Case(
        "growth in the domain where the job is",
        [
            racks(gpus=2),
            a_job("j", on=("r1n0", ""), min_member=1, gpus=2, group={"topology": a_constraint("rack")}),
        ],
        binds={"j-1": "r1n1"},
    ),
]


@table(*WHERE)
def test_it_places(case: Case) -> None:
    case.holds("allocate")


@table(*GANGS)
def test_it_starts(case: Case) -> None:
    case.holds("allocate")


@table(*RELEASING)
def test_of_resources_being_released(case: Case) -> None:
    case.holds("allocate")


@table(*ORDER)
def test_it_serves(case: Case) -> None:
    case.holds("allocate")


@table(*QUEUES)
def test_queues_get(case: Case) -> None:
    case.holds("allocate")


@table(*SHARING)
def test_devices_are_shared(case: Case) -> None:
    case.holds("allocate")


@table(*TOPOLOGY)
def test_domains_are_kept(case: Case) -> None:
    case.holds("allocate")


def test_a_job_begins_when_its_first_pods_are_bound_and_not_again_when_it_grows() -> None:
    state = a_state(
        nodes(1, gpus=4),
        a_job("begins", gpus=1),
        a_job("grows", on=("n0", ""), min_member=1, gpus=1, started=NOW - 900),
        a_job("waits", gpus=4),
    )
    decided(state, config("allocate"))
    assert [job_of(state, name).last_start for name in ("begins", "grows", "waits")] == [NOW, NOW - 900, 0]


def test_a_job_that_only_waits_for_its_place_has_not_begun() -> None:
    state = a_state(nodes(1, gpus=1), leaving("old", gpus=1, on="n0"), a_job("j", gpus=1))
    assert decided(state, config("allocate")).waits == {"j-0": "n0"}
    assert job_of(state, "j").last_start == 0


def test_who_keeps_away_from_a_gang_keeps_away_from_all_places_that_it_waits_for() -> None:
    """One place is idle and one is being released, so that the gang as a whole waits."""
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}}}
    away = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    state = a_state(
        *[a_node(f"n{number}", gpus=1, labels={"host": f"n{number}"}) for number in range(2)],
        a_node("free", cpu="1", labels={"host": "free"}),
        leaving("old", gpus=1, on="n1"),
        a_job("before", cpu="1", spec=away, created=1),
        a_job("gang", gpus=1, on=("", ""), min_member=2, labels={"app": "x"}, created=2),
        a_job("after", cpu="1", spec=away, created=3),
    )
    got = decided(state, config("allocate"))
    assert got.waits == {"gang-0": "n0", "gang-1": "n1"}
    assert got.binds == {"before-0": "free"}


def test_who_is_made_anew_inherits_no_promise_of_the_former_of_his_name() -> None:
    state = a_state(nodes(1, gpus=1), leaving("old", gpus=1, on="n0"), a_job("g", gpus=1, created=1))
    engine = Engine(config("allocate"))
    assert [each.pod.name for each in engine.run(state, NOW).nominations] == ["g-0"]
    add(state, a_job("h", gpus=1, created=2))
    state.remove(Kind.POD, "default/g-0")
    state.remove(Kind.POD_GROUP, "default/g")
    anew = a_job("g", gpus=1, created=3)
    for each in anew:
        each.metadata.uid += "-anew"
    add(state, anew)
    state.remove(Kind.POD, "default/old-0")
    assert PROMISED.of(state.kept) == ("default/g",)
    assert not take(state, engine.turns).promised
    assert [each.pod.name for each in engine.run(state, NOW + 1).binds] == ["h-0"]
