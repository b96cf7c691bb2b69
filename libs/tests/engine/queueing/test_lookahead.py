"""What is foreseen is what serving the best queue, one job after the other, comes to."""

import random

import numpy as np

from kai.engine import Engine
from kai.engine.queueing.lookahead import look_ahead
from kai.engine.queueing.pending import PendingJobs
from kai.snapshot.state import ClusterState
from libs.tests.engine.builders import NOW, a_job, a_node, a_queue, a_state, job_of, task_of
from libs.tests.engine.random_worlds import fuzz


class AnyOrder:
    """Keys of queues that follow from what they hold and their next job, and rise and fall with it."""

    def __init__(self, state: ClusterState, seed: int) -> None:
        self._queues = state.queue_rows
        self.age = range(len(self._queues))
        self._seed = seed

    def _value(self, row, cpu, centi):
        return random.Random(f"{self._seed}/{row}/{int(cpu)}/{round(centi)}").randrange(4)

    def key(self, queue, *, job=(0.0, 0.0, 0.0), victims=(0.0, 0.0, 0.0)):
        held = self._queues[queue].allocated
        return (self._value(queue, held.cpu_millis + job[0], held.gpu_centi + 100 * job[2]), queue)

    def ranks(self, queues, *, held, jobs):
        values = [
            self._value(row, then[0], then[2])
            for row, then in zip(queues.tolist(), (held + jobs).tolist(), strict=True)
        ]
        ranks = np.empty(len(values), dtype=np.int64)
        ranks[np.lexsort((queues, values))] = np.arange(len(values))
        return ranks


def two_departments(rng: random.Random) -> ClusterState:
    """Two departments and their queues, some of which hold something, and jobs that wait."""
    queues = [a_queue(f"q{n}", parent=f"d{n % 2}") for n in range(rng.randint(1, 5))]
    names = [queue.metadata.name for queue in queues]
    return a_state(
        [a_queue("d0"), a_queue("d1"), queues],
        a_node("n", gpus=1_000),
        [a_job(f"r{n}", queue=rng.choice(names), gpus=1, on="n") for n in range(3)],
        [
            a_job(
                f"w{n:02}",
                queue=rng.choice(names),
                gpus=rng.randint(0, 3),
                cpu=str(rng.randint(1, 3)),
                pods=rng.choice([1, 1, 2]),
            )
            for n in range(12)
        ],
    )


@fuzz
def test_jobs_are_foreseen_in_the_order_of_service_whatever_the_order_of_queues(world: int) -> None:
    state = two_departments(random.Random(world))
    session = Engine().open(state, NOW)
    order = AnyOrder(state, world)
    jobs = session.allocatable_jobs()
    leaves = [
        (queue, sorted((job for job in jobs if job.queue is queue), key=session.job_key))
        for queue in state.queue_rows
        if queue.leaf
    ]
    found = look_ahead([each for each in leaves if each[1]], order=order, gpu_memory_mib=0)
    foreseen = [job.name for job, _ in found]
    waiting = PendingJobs(jobs, order, key=session.job_key, gpu_memory_mib=0)
    served = []
    statement = session.statement()
    while (job := waiting.pop()) is not None:
        served.append(job.name)
        for task in job.single.tasks.values():
            statement.pipeline(task, state.nodes.nodes[0])
    assert len(served) == 12
    assert foreseen == served


def test_nothing_is_foreseen_after_a_job_that_takes_more_than_one_step() -> None:
    """Whether it gets all of them, and what its queue holds then, is not known before."""
    state = a_state(
        a_node("n", gpus=8), a_job("a", gpus=1), a_job("b", gpus=1, pods=3, min_member=1), a_job("c", gpus=1)
    )
    session = Engine().open(state, NOW)
    jobs = [job_of(state, name) for name in "abc"]
    found = look_ahead([(jobs[0].queue, jobs)], order=session.queue_order, gpu_memory_mib=0)
    assert [(job.name, task) for job, task in found] == [("a", task_of(state, "a-0")), ("b", None)]


def test_nothing_is_foreseen_after_a_job_that_asks_for_memory_of_devices() -> None:
    """What that is worth depends on the node."""
    state = a_state(
        a_node("n", gpus=8, gpu_memory_mib=16_000), a_job("a", gpu_memory_mib=4_000), a_job("b", gpus=1)
    )
    session = Engine().open(state, NOW)
    jobs = [job_of(state, name) for name in "ab"]
    found = look_ahead([(jobs[0].queue, jobs)], order=session.queue_order, gpu_memory_mib=16_000)
    assert [job.name for job, _ in found] == ["a"]
