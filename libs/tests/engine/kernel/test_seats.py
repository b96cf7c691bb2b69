"""Where pods begin at once: many of several classes at one node, each where it would begin alone."""

import random

import numpy as np
import pytest

from kai.engine import Engine
from kai.engine.kernel.view import NEVER
from kai.snapshot.status import Status
from libs.tests.engine.builders import NOW, a_job, a_node, a_state, config, leaving, nodes, task_of
from libs.tests.engine.random_worlds import fuzz, random_objects

SPREAD = config(told={"nodeplacement": {"gpu": "spread", "cpu": "spread"}})
HEADROOM = config(told={"nodeplacement": {"gpu": "headroom"}})
#: Pods of one GPU, by what else they ask for.
LIGHT, MIDDLE, HEAVY = "light", "middle", "heavy"
KINDS = {LIGHT: "1", MIDDLE: "2", HEAVY: "6"}
WAITING = [a_job(name, gpus=1, cpu=cpu) for name, cpu in KINDS.items()]


def a_session(*world, by=None):
    """With one pod of each kind that waits, for each of which seats were asked once."""
    session = Engine(by).open(a_state(*world, WAITING), NOW)
    for kind in KINDS:
        session.seating.at_best(cls_of(session, kind))
    return session


def cls_of(session, kind):
    return task_of(session.state, f"{kind}-0").cls


def seated(*world, kinds, by=None):
    """The node at which the first of these kinds begins, and who of the others finds a seat there then."""
    session = a_session(*world, by=by)
    first, *others = [cls_of(session, kind) for kind in kinds]
    seats = session.seating.at_best(first)
    if seats is None:
        return None
    return session.nodes.nodes[seats.row].name, [seats.take(cls) for cls in others]


def test_pods_that_ask_for_as_many_gpus_take_seats_at_one_node_until_one_has_no_room() -> None:
    world = nodes(2, gpus=8, cpu="10")
    assert seated(world, kinds=[HEAVY, LIGHT, MIDDLE, MIDDLE, LIGHT, LIGHT]) == (
        "n0",
        [True, True, False, True, False],
    )


def test_one_for_whom_the_node_of_the_others_has_no_room_begins_where_it_would_alone() -> None:
    world = [*nodes(3, gpus=2, cpu="10"), a_job("old", gpus=1, cpu="8", on="n0")]
    assert seated(world, kinds=[LIGHT, MIDDLE]) == ("n0", [False])
    assert seated(world, kinds=[HEAVY, HEAVY, LIGHT]) == ("n1", [False, False])


def test_nobody_else_takes_a_seat_at_a_node_that_is_the_best_for_one_kind_alone() -> None:
    world = [*nodes(3, gpus=4, cpu="30"), a_job("old", gpus=1, cpu="26", on="n0")]
    assert seated(world, kinds=[HEAVY, MIDDLE, HEAVY]) == ("n1", [False, True])


def test_who_was_never_asked_for_takes_no_seat() -> None:
    session = Engine().open(a_state(nodes(1, gpus=8, cpu="32"), WAITING), NOW)
    seats = session.seating.at_best(cls_of(session, HEAVY))
    assert not seats.take(cls_of(session, LIGHT))


def test_nobody_begins_where_one_has_to_wait() -> None:
    assert seated(nodes(1, gpus=2, cpu="32"), leaving("old", gpus=2, on="n0"), kinds=[LIGHT]) is None


def test_what_is_being_released_is_no_seat() -> None:
    world = nodes(1, gpus=3, cpu="32"), leaving("old", gpus=1, on="n0")
    assert seated(*world, kinds=[LIGHT, LIGHT, LIGHT]) == ("n0", [True, False])


def test_what_is_promised_to_others_is_no_seat() -> None:
    world = nodes(1, gpus=5, cpu="32"), leaving("old", gpus=2, on="n0"), a_job("large", gpus=4)
    session = a_session(*world)
    # Of 3 idle and 2 leaving devices 1 is left.
    session.statement().pipeline(task_of(session.state, "large-0"), session.nodes.nodes[0])
    seats = session.seating.at_best(cls_of(session, LIGHT))
    assert not seats.take(cls_of(session, LIGHT))


@pytest.mark.parametrize("by", [SPREAD, HEADROOM], ids=["spread", "headroom"])
def test_where_a_node_need_not_stay_the_best_there_is_one_seat_at_a_time(by) -> None:
    assert seated(nodes(2, gpus=4, cpu="32"), kinds=[LIGHT, LIGHT, MIDDLE], by=by) == ("n0", [False, False])


def test_a_node_that_only_some_prefer_is_the_best_for_these_alone() -> None:
    term = {"preference": {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}, "weight": 1}
    wish = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    world = a_node("n0", gpus=2), a_node("n1", gpus=2, labels={"fast": "1"})
    state = a_state(*world, WAITING, a_job("choosy", gpus=1, spec={"affinity": wish}))
    session = Engine().open(state, NOW)
    found = {
        name: session.seating.at_best(task_of(state, f"{name}-0").cls).row
        for name in (LIGHT, "choosy", MIDDLE)
    }
    assert found == {LIGHT: 0, "choosy": 1, MIDDLE: 0}


@fuzz
def test_each_pod_in_a_row_sits_at_its_own_best_node(world: int) -> None:
    rng = random.Random(world)
    asks = [
        a_job(f"new-{n}", gpus=rng.choice([0, 1, 1, 1, 2]), cpu=rng.choice("1236"), queue="queue-0-0")
        for n in range(rng.randint(1, 30))
    ]
    state = a_state(random_objects(world, sharing=False), asks)
    by = rng.choice([None, None, SPREAD])
    session = Engine(by).open(state, NOW)
    pending = [task for task in state.tasks.values() if task.status is Status.PENDING]
    rng.shuffle(pending)
    seats = None
    for task in pending:
        scores = [session.view(task.cls).score_of(row) for row in range(len(state.nodes))]
        best = int(np.argmax(scores))
        free = scores[best] != NEVER and session.fits_now(task.cls, best)
        if seats is None or not seats.take(task.cls):
            seats = session.seating.at_best(task.cls)
        assert (seats.row if seats is not None else -1) == (best if free else -1)
        if seats is not None:
            node = state.nodes.nodes[seats.row]
            session.ledger.occupy(node, {task.cls: 1})
            session.decisions.bind([task], [node])
        elif scores[best] != NEVER:
            session.statement().pipeline(task, state.nodes.nodes[best])
        assert (state.nodes.idle + state.nodes.releasing >= 0).all()
    state.check()
