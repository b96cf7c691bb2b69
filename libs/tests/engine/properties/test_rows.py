"""Jobs alike that take the place of one pod each are served in rows, and nothing else is decided by that."""

import random
from unittest import mock

from kai.engine import Engine
from kai.engine.actions.rows import Rows
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import (
    NOW,
    a_group,
    a_job,
    a_node,
    a_pod,
    a_queue,
    a_state,
    config,
    nodes,
    usual_priorities,
)
from libs.tests.engine.random_worlds import fuzz

#: Leaves by the queues above them, from the top.
TREES = (
    {"a-one": ("a",), "a-two": ("a",), "b-one": ("b",), "b-two": ("b",)},
    {"a-one": ("a",), "a-two": ("a",), "a-three": ("a",), "b-one": ("b",), "c-one": ("c",)},
    {"x": (), "y": (), "z": ()},
    {"u-x": ("t", "u"), "u-y": ("t", "u"), "v-x": ("t", "v"), "v-y": ("t", "v"), "w": ()},
)


def full(number: int) -> ClusterState:
    """Nearly full nodes, what runs there mostly of one queue, and crowds of another that wait."""
    rng = random.Random(number)
    state = ClusterState()
    for each in usual_priorities():
        state.apply(Kind.PRIORITY_CLASS, each)
    #: How often something is otherwise than most of its kind.
    stir = rng.choice([0.0, 0.0, 0.03, 0.15])

    #: One of these is so more often.
    odd = rng.choice(["", "node", "pod", "job", "queue"])

    def mostly(usual, *others, of=""):
        return usual if rng.random() >= (0.2 if of and of == odd else stir) else rng.choice(others)

    tree = rng.choice(TREES)
    rich, poor = rng.sample(sorted(tree), 2)
    #: What waits elsewhere; it competes for turns, and so do those beside the victims.
    others = rng.choice([(), (), (rich,), tuple(tree)])
    large = rng.choice([1, 1, 2, 5])
    queues(state, rng, tree, poor, mostly)

    def job(name: str, queue: str, *, node: str = "", gpus: int = 1) -> int:
        """How many GPUs it runs on."""
        created = NOW - 100 + rng.randint(0, rng.choice([0, 40]))
        pods = mostly(1, 2, of="job")
        group = a_group(
            name,
            queue=mostly(queue, *tree),
            min_member=mostly(pods, 1),
            priority=mostly("train", "build", "build-preemptible", "inference", of="job"),
            created=created,
            started=NOW - rng.choice([20, 50]) if node else 0,
            preemptibility=mostly("", "semi-preemptible"),
            preemption_delay=mostly(None, "115s") if not node else None,
        )
        state.apply(Kind.POD_GROUP, group)
        cpu, memory = mostly("1", "2", "0", of="pod"), mostly("1G", "2G", "100M", of="pod")
        for at in range(pods):
            pod = a_pod(
                f"{name}-{at}", group=name, node=node, gpus=gpus, cpu=cpu, memory=memory, created=created
            )
            state.apply(Kind.POD, pod)
        return gpus * pods

    for at in range(rng.randint(1, 6)):
        gpus = rng.choice([2, 4, 8])
        node = a_node(
            f"n{at}",
            gpus=gpus,
            cpu=str(mostly(gpus, gpus - 1, 16, 64, of="node")),
            memory=mostly("20G", "4G"),
        )
        if mostly(False, True, of="node"):
            node.spec.unschedulable = True
        state.apply(Kind.NODE, node)
        left = mostly(gpus, gpus - 1, gpus + 1)
        while left > 0:
            left -= job(f"runs-{at}-{left}", rich, node=f"n{at}", gpus=min(mostly(1, 2), left))
    for waits in range(rng.randint(2, 40)):
        job(f"waits-{waits}", poor, gpus=mostly(1, 2))
    for waits in range(rng.randint(1, 8) if others else 0):
        job(f"beside-{waits}", rng.choice(others), gpus=rng.choice([1, large]))
    return state


def queues(state, rng, tree, poor, mostly) -> None:
    """Those of a tree: the leaf called ``poor`` deserves something, most others nothing."""
    above = {name: line[:depth] for line in tree.values() for depth, name in enumerate(line)}
    for at, (name, line) in enumerate((above | tree).items()):
        leaf = name in tree
        quota = rng.choice([3, 8, 20, 40]) if name == poor else rng.choice([0, 0, 2, -1])
        queue = a_queue(
            name,
            parent=line[-1] if line else "",
            gpu=quota if leaf else mostly(-1, 0, 4, 12),
            limit=mostly(-1, 6, 12, of="queue"),
            weight=rng.choice([0, 1, 2]),
            cpu=mostly(-1, 0, 4000, 12_000, of="queue"),
            priority=mostly(None, 200),
            reclaim_min_runtime=mostly(None, "25s", "45s", "1m", of="queue"),
            created=rng.choice([0, at]),
        )
        queue.spec.resources.memory.quota = mostly(-1.0, 0.0, 4_000.0, 12_000.0, of="queue")
        state.apply(Kind.QUEUE, queue)


def a_life(number: int) -> list[object]:
    """What is decided and told in three cycles, between which some of the victims go."""
    rng = random.Random(-number)
    told_of_plugins = {"proportion": {"relcaimerSaturationMultiplier": "1.5"}} if rng.random() < 0.2 else {}
    state, engine = full(number), Engine(config(told=told_of_plugins))
    engine.validate = number % 3 == 0  # it takes as long as all else
    told: list[object] = []
    for cycle in range(3):
        result = engine.run(state, NOW + 10.0 * (1 + cycle))
        told += [result.binds, result.evictions, result.nominations, result.shares, result.outcomes]
        told.append((result.next_due, result.alarm, result.cuts))
        counted = ("podgroups_scheduled_by_action", "podgroups_acted_on_by_action")
        told.append({key: by for key, by in result.counters.items() if key[0] in counted})
        told.append([tuple(node.tasks) for node in state.nodes.nodes])
        for bind in result.binds:
            state.bind_done(bind.pod.uid)
        going = sorted(each.pod.namespace + "/" + each.pod.name for each in result.evictions)
        for key in rng.sample(going, rng.randint(0, len(going))):
            state.remove(Kind.POD, key)
    return told


@fuzz
def test_serving_those_alike_in_rows_changes_nothing(world: int) -> None:
    in_rows = a_life(world)
    with mock.patch.object(Rows, "follow"):
        one_by_one = a_life(world)
    assert in_rows == one_by_one


def simulated(result) -> float:
    """How many sets of victims were tried."""
    return result.counters["scenarios_simulation_by_action", "reclaim"]


def taking(pods: int, *, deserved: float) -> list[object]:
    """As many pods run as wait, of a queue that deserves nothing and one that deserves so much."""
    return [
        [a_queue("rich", gpu=0, weight=0), a_queue("poor", gpu=deserved, weight=0)],
        nodes(pods, gpus=1),
        [a_job(f"r{n}", queue="rich", gpus=1, on=f"n{n}", created=n) for n in range(pods)],
        [a_job(f"p{n}", queue="poor", gpus=1, created=100 + n) for n in range(pods)],
    ]


def test_of_many_alike_few_are_looked_at() -> None:
    result = Engine(config()).run(a_state(*taking(40, deserved=40)), NOW)
    assert [each.pod.name for each in result.evictions] == [f"r{n}-0" for n in reversed(range(40))]
    assert [each.evictor for each in result.evictions] == [f"default/p{n}" for n in range(40)]
    assert [each.pod.name for each in result.nominations] == [f"p{n}-0" for n in range(40)]
    assert simulated(result) < 10


def test_a_row_ends_where_nothing_more_is_deserved() -> None:
    result = Engine(config()).run(a_state(*taking(40, deserved=23)), NOW)
    assert len(result.evictions) == len(result.nominations) == 23
    assert simulated(result) < 20


def test_a_node_that_holds_more_than_it_offers_has_no_room_when_one_leaves() -> None:
    state = a_state(
        [a_queue("rich", gpu=0, weight=0), a_queue("poor", gpu=3, weight=0)],
        [a_node("fair", gpus=4, cpu="4"), a_node("over", gpus=4, cpu="3")],
        [
            a_job(f"{node}{n}", queue="rich", gpus=1, cpu="1", on=node, created=2 * n + (node == "fair"))
            for node in ("fair", "over")
            for n in range(4)
        ],
        [a_job(f"p{n}", queue="poor", gpus=1, cpu="1", created=100 + n) for n in range(3)],
    )
    result = Engine(config()).run(state, NOW)
    taken = [(each.pod.name, each.evictor.removeprefix("default/")) for each in result.evictions]
    assert taken == [("fair3-0", "p0"), ("fair2-0", "p1"), ("over3-0", "p2"), ("over2-0", "p2")]


def test_victims_of_a_row_are_told_what_their_queues_held_when_each_was_taken() -> None:
    result = Engine(config()).run(a_state(*taking(9, deserved=9)), NOW)
    lines = [each.message.splitlines()[1:] for each in result.evictions]
    assert [giver.split(": ")[1].split(" of ")[0] for giver, _ in lines] == [
        f"{9 - n} GPU{'' if n == 8 else 's'}" for n in range(9)
    ]


def test_queues_that_take_by_turns_are_served_by_turns() -> None:
    """The next of a queue waits while the other one has less."""
    state = a_state(
        [a_queue("rich", gpu=0, weight=0), a_queue("left", gpu=8), a_queue("right", gpu=8)],
        nodes(1, gpus=16),
        [a_job(f"r{n}", queue="rich", gpus=1, on="n0", created=n) for n in range(16)],
        [a_job(f"{q}{n}", queue=q, gpus=1, created=100 + n) for q in ("left", "right") for n in range(8)],
    )
    result = Engine(config()).run(state, NOW)
    takers = [each.evictor.removeprefix("default/") for each in result.evictions]
    assert takers == [f"{queue}{n}" for n in range(8) for queue in ("left", "right")]
