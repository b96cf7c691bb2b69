"""What pod groups count of their pods."""

from kai.engine.queueing.chunks import tasks_to_allocate
from kai.snapshot.status import Status
from libs.tests.engine.builders import a_job, job_of, task_of
from libs.tests.snapshot.ledger.cluster import settled


def test_a_job_counts_its_pods_by_their_state() -> None:
    state = settled(a_job("j", pods=3, gpus=0))
    job, task = job_of(state, "j"), task_of(state, "j-0")
    expected = {
        Status.PENDING: (3, 0, 0),
        Status.BINDING: (2, 1, 1),
        Status.RUNNING: (2, 1, 1),
        Status.PIPELINED: (2, 1, 1),
        Status.RELEASING: (2, 0, 1),
        Status.SUCCEEDED: (2, 0, 0),
    }
    for status, counts in [*expected.items(), *reversed(expected.items())]:
        version = job.version
        state.ledger.counts.set_status(task, status)
        assert (job.pending, job.active_allocated, job.active_used) == counts, status
        assert job.version > version
    assert (job.single.pending, job.single.pipelined, job.single.succeeded) == (3, 0, 0)


def test_a_pod_set_of_which_a_pod_waits_again_is_looked_through_from_the_start() -> None:
    state = settled(a_job("j", pods=3, min_member=1))
    job, task = job_of(state, "j"), task_of(state, "j-0")
    state.ledger.counts.set_status(task, Status.BINDING)
    assert [each.name for each in tasks_to_allocate(job)] == ["j-1"]
    state.ledger.counts.set_status(task, Status.PENDING)
    assert [each.name for each in tasks_to_allocate(job)] == ["j-0"]
