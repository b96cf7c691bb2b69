"""What runs without a queue is charged to an account of its own, and is the first to make room."""

import pytest

from kai.model.decisions import Outcome
from kai.snapshot import codec
from kai.snapshot.amounts import Totals
from kai.snapshot.kinds import StateParams
from kai.snapshot.queues import NO_QUEUE
from kai.snapshot.state import Kind
from libs.tests.engine.builders import NOW, a_group, a_job, a_queue, add, cycle, one_node, outcomes


def moved(state, name, queue, **group):
    """Its owner has it name another queue."""
    add(state, a_group(name, queue=queue, **group))


def evicted(result):
    return [each.pod.name for each in result.evictions]


@pytest.mark.parametrize("full", [True, False], ids=["all levels share", "leaves share"])
@pytest.mark.parametrize(
    "says", [{}, {"preemptibility": "non-preemptible"}, {"priority": "inference"}], ids=str
)
def test_who_has_what_runs_name_a_queue_that_is_not_there_gains_nothing(full, says):
    params = StateParams(full_hierarchy_fairness=full)
    state = one_node(a_queue("mine", gpu=0), a_queue("yours", gpu=1), gpus=1, params=params)
    add(state, a_job("sly", queue="mine", on="n", gpus=1))
    cycle(state)
    moved(state, "sly", "nowhere", **says)
    assert "charged to no queue" in outcomes(cycle(state))["sly"].message
    assert state.queues[NO_QUEUE].allocated.gpu_centi == 100
    assert state.queues["mine"].allocated.gpu_centi == 0
    add(state, a_job("honest", queue="yours", gpus=1))
    assert evicted(cycle(state)) == ["sly-0"]


def test_nobody_is_evicted_while_there_is_room():
    state = one_node(a_queue("mine"), a_queue("yours"), gpus=2)
    add(state, a_job("lost", queue="nowhere", on="n", gpus=1))
    add(state, a_job("other", queue="yours", gpus=1))
    result = cycle(state)
    assert evicted(result) == []
    assert [each.pod.name for each in result.binds] == ["other-0"]


def test_what_runs_is_charged_again_when_its_queue_is_back():
    state = one_node(a_queue("mine"), a_queue("yours"), gpus=1)
    add(state, a_job("job", queue="mine", on="n", group={"preemptibility": "non-preemptible"}, gpus=1))
    cycle(state)
    state.remove(Kind.QUEUE, "mine")
    cycle(state)
    assert (state.jobs["default/job"].preemptible, state.queues[NO_QUEUE].allocated.gpu_centi) == (True, 100)
    add(state, a_queue("mine"))
    cycle(state)
    assert state.queues["mine"].allocated.gpu_centi == state.queues["mine"].non_preemptible.gpu_centi == 100
    assert not state.jobs["default/job"].preemptible
    add(state, a_queue("third"))
    cycle(state)
    assert NO_QUEUE not in state.queues


def test_what_runs_below_a_queue_that_is_gone_has_no_queue_either():
    state = one_node(
        a_queue("department"), a_queue("team", parent="department"), a_queue("yours", gpu=1), gpus=1
    )
    add(state, a_job("job", queue="team", on="n", gpus=1))
    cycle(state)
    state.remove(Kind.QUEUE, "department")
    assert "'department', above queue 'team', does not exist" in outcomes(cycle(state))["job"].message
    add(state, a_job("honest", queue="yours", gpus=1))
    assert evicted(cycle(state)) == ["job-0"]


def test_what_waits_without_a_queue_is_given_no_place_and_asks_for_nothing():
    state = one_node(a_queue("yours"), gpus=4)
    add(state, a_job("lost", queue="nowhere", gpus=1))
    result = cycle(state)
    assert result.binds == ()
    outcome = outcomes(result)["lost"]
    assert outcome.outcome is Outcome.UNSCHEDULABLE
    assert [each.reason for each in outcome.explanations] == ["QueueDoesNotExist"]
    assert state.queues[NO_QUEUE].pending == Totals()
    add(state, a_queue("nowhere"))
    assert [each.pod.name for each in cycle(state).binds] == ["lost-0"]


def test_many_names_of_queues_that_are_not_there_are_one_account():
    state = one_node(a_queue("yours"), gpus=8)
    for number in range(50):
        add(state, a_job(f"lost-{number}", queue=f"nowhere-{number}", gpus=1))
    cycle(state)
    assert set(state.queues) == {"yours", NO_QUEUE}


def test_a_snapshot_of_it_says_the_same():
    state = one_node(a_queue("yours", gpu=1), gpus=1)
    add(state, a_job("lost", queue="nowhere", on="n", gpus=1))
    add(state, a_job("honest", queue="yours", gpus=1))
    state.settle(NOW)
    again = codec.restore(codec.decode(codec.encode(codec.cut(state))))
    assert evicted(cycle(again)) == ["lost-0"]
