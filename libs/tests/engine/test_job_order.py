from kai.engine import Engine
from kai.engine.explain.job_order import OrderedJob
from kai.snapshot import codec
from kai.snapshot.state import ClusterState
from libs.tests.engine.builders import NOW, a_job, a_node, a_queue, a_state


def _state() -> ClusterState:
    """A node without GPUs, and jobs that want some."""
    return a_state(
        a_node("n", gpus=0),
        [a_queue("first", priority=200), a_queue("second")],
        a_job("old", gpus=1, queue="second", created=1),
        a_job("new", gpus=1, queue="second", created=2),
        a_job("high", gpus=1, queue="second", created=1, priority="build"),
        a_job("other", gpus=1, queue="first", created=1),
    )


def test_jobs_are_told_in_the_order_in_which_they_are_looked_at() -> None:
    state, engine = _state(), Engine()
    engine.run(state, NOW)
    before = codec.cut(state).digest
    order = engine.job_order(state)
    assert order is not None
    assert [each.id for each in order.global_order] == [
        "default/other",
        "default/high",
        "default/old",
        "default/new",
    ]
    assert order.queue_order["first"] == [OrderedJob("default/other", 50)]
    assert [each.priority for each in order.queue_order["second"]] == [100, 50, 50]
    assert codec.cut(state).digest == before


def test_of_each_is_told_what_puts_it_before_the_next_of_its_queue() -> None:
    state = a_state(
        a_node("n", gpus=1),
        [a_queue("first", priority=200), a_queue("second")],
        a_job("other", gpus=9, queue="first"),
        a_job("high", gpus=9, queue="second", priority="build", created=9),
        a_job("whole", gpus=9, queue="second", created=8),
        a_job("twin", gpus=9, queue="second", created=8),
        a_job("young", gpus=9, queue="second", created=9),
        a_job("elastic", gpus=1, queue="second", on=("n", ""), min_member=1, created=1),
    )
    engine = Engine()
    engine.run(state, NOW)
    line = engine.service_order(state)
    assert line is not None
    assert [(each.pod_group.partition("/")[2], each.queue, each.ahead_by) for each in line] == [
        ("other", "first", ""),
        ("high", "second", "priority"),
        ("twin", "second", "name"),
        ("whole", "second", "age"),
        ("young", "second", "minimum"),
        ("elastic", "second", ""),
    ]
    assert [each.priority for each in line if each.queue == "second"] == [100, 50, 50, 50, 50]


def test_what_queues_used_in_the_past_counts_between_cycles_as_in_them() -> None:
    teams = [(a_queue(queue, gpu=0), a_job(queue, queue=queue, gpus=3)) for queue in ("a", "b")]
    state = a_state(a_node("n", gpus=2), teams)
    told = {}
    for used in (0.0, 0.9):
        engine = Engine()
        engine.run(state, NOW, usage={"a": (0.0, 0.0, used)})
        order = engine.job_order(state)
        assert order is not None
        told[used] = [each.id for each in order.global_order]
    assert told == {0.0: ["default/a", "default/b"], 0.9: ["default/b", "default/a"]}


def test_there_is_no_order_before_the_first_cycle() -> None:
    assert Engine().job_order(_state()) is None
