"""What is decided by a statement, and who profits of an eviction when turns change."""

from kai.engine import Engine
from kai.snapshot.status import Status
from libs.tests.engine.builders import NOW, a_job, a_state, job_of, nodes, task_of


def opened():
    """A pod that runs on the only device, and two jobs that wait for it."""
    state = a_state(
        nodes(1, gpus=1), a_job("old", gpus=1, on="n0"), a_job("one", gpus=1), a_job("two", gpus=1)
    )
    return state, Engine().open(state, NOW)


def take(state, session, victim, taker):
    """Evict a pod for a job, whose pod waits in its place."""
    statement = session.statement()
    statement.evict(task_of(state, f"{victim}-0"))
    statement.pipeline(task_of(state, f"{taker}-0"), state.nodes.nodes[0])
    session.decisions.commit(
        statement,
        action="preempt",
        evictor=job_of(state, taker),
        message=lambda task, taker: f"{task.name} gives way to {taker}",
    )


def evictions(session):
    return [(each.pod.name, each.evictor, each.message) for each in session.decisions.evictions]


def test_an_eviction_names_the_job_that_gets_the_place() -> None:
    state, session = opened()
    take(state, session, "old", "one")
    assert evictions(session) == [("old-0", "default/one", "old-0 gives way to default/one")]
    assert [each.pod.name for each in session.decisions.nominations] == ["one-0"]


def test_who_takes_the_turn_of_a_job_takes_over_its_evictions_and_nobody_else_is_evicted() -> None:
    state, session = opened()
    take(state, session, "old", "one")
    take(state, session, "one", "two")
    assert evictions(session) == [("old-0", "default/two", "old-0 gives way to default/two")]
    assert [each.pod.name for each in session.decisions.nominations] == ["two-0"]
    assert session.decisions.outbid == {"default/one": "default/two"}
    assert session.decisions.pipelined == {"default/two"}
    assert task_of(state, "one-0").status is Status.PENDING
    assert "default/one" in state.pending_jobs


def partly_bound():
    """Of a job one pod was promised the place of another, and one is bound: none of them is pending."""
    world = nodes(2, gpus=1), a_job("old", gpus=1, on="n0"), a_job("one", pods=2, min_member=1, gpus=1)
    state = a_state(world, a_job("two", gpus=1))
    session = Engine().open(state, NOW)
    take(state, session, "old", "one")
    task, node = task_of(state, "one-1"), state.nodes.by_name["n1"]
    session.ledger.occupy(node, {task.cls: 1})
    session.decisions.bind([task], [node])
    assert "default/one" not in state.pending_jobs
    return state, session


def test_after_a_session_whoever_was_promised_a_place_waits_again() -> None:
    state, session = partly_bound()
    session.close()
    assert task_of(state, "one-0").status is Status.PENDING
    assert set(state.pending_jobs) == {"default/one", "default/two"}
    state.check()


def test_who_gives_up_a_turn_waits_again() -> None:
    state, session = partly_bound()
    take(state, session, "one", "two")
    assert set(state.pending_jobs) == {"default/one", "default/two"}
