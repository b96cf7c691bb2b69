"""All sums at once: what is entered in one step, and what is counted anew."""

import random

from kai.engine import Engine
from libs.tests.engine.builders import NOW, a_job, a_node, a_queue, a_state
from libs.tests.engine.random_worlds import fuzz
from libs.tests.snapshot.ledger.cluster import charges, settled


@fuzz
def test_pods_that_are_bound_together_are_charged_like_each_alone(world: int) -> None:
    rng = random.Random(world)
    names = ["a", "b"]
    jobs = [
        a_job(f"j{n}", queue=rng.choice(names), gpus=1, priority=rng.choice(["train", "build"]))
        for n in range(rng.randint(1, 8))
    ]
    queues = [a_queue("top"), *(a_queue(name, parent="top") for name in names)]
    together, alone = (a_state(a_node("n0", gpus=99), queues, jobs) for _ in range(2))
    for state in (together, alone):
        state.settle(NOW)
    together.ledger.admit(list(together.tasks.values()), together.nodes.nodes[0])
    for task in alone.tasks.values():
        alone.ledger.admit([task], alone.nodes.nodes[0])
    assert charges(together) == charges(alone)
    assert (together.nodes.idle == alone.nodes.idle).all()
    assert [queue.pending for queue in together.queue_order] == [queue.pending for queue in alone.queue_order]
    assert all(queue.pending == [0, 0, 0] for queue in together.queue_order)


def test_whatever_happened_what_is_counted_anew_is_the_same() -> None:
    state = settled(a_job("j", on=("n0", ""), gpus=1, min_member=1), a_job("k", fraction=0.5))
    Engine().run(state, NOW)
    state.check()
