"""Possible victims of a queue, kept in order from search to search."""

import pytest

from kai.engine import Engine
from libs.tests.engine.builders import NOW, a_running, a_state, nodes, running, task_of


@pytest.mark.parametrize("looked", [True, False], ids=["looked at meanwhile", "not looked at"])
def test_what_victims_lost_for_a_trial_leaves_no_trace(looked: bool) -> None:
    state = a_state(nodes(1, gpus=99), running(3), a_running("large", gpus=4))
    session = Engine().open(state, NOW)
    queue, pools = state.queues["team"], session.pools
    jobs, sizes = list(pools.of(queue).jobs), pools.of(queue).chunks()
    some = [task_of(state, f"r{number}-0") for number in range(3)]
    for _ in range(5):
        trial = session.statement()
        trial.evict_all(some)
        pools.mend(some)
        if looked:
            assert [job.name for job in pools.of(queue).jobs] == ["large"]
        trial.rollback()
        pools.put_back(some)
    assert pools.of(queue).jobs == jobs
    # Sizes are measured anew once many are gone, and that is one only.
    decided = session.statement()
    decided.evict(task_of(state, "large-0"))
    session.decisions.commit(decided, action="reclaim")
    assert len(pools.of(queue).jobs) == 3
    assert pools.of(queue).chunks() == sizes
