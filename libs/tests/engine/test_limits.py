from kai.engine import Engine
from kai.model.decisions import Outcome
from libs.tests.engine.builders import NOW, a_job, a_node, a_queue, a_state, add, bound, outcomes


def test_a_limit_that_a_queue_is_given_later_holds_from_then_on() -> None:
    state, engine = a_state(a_node("n", gpus=4), a_job("first", gpus=1)), Engine()
    assert len(engine.run(state, NOW).binds) == 1
    add(state, a_queue("top", limit=1), a_job("second", gpus=1))
    result = engine.run(state, NOW + 1)
    assert not result.binds
    outcome = outcomes(result)["second"]
    assert outcome.outcome is Outcome.UNSCHEDULABLE
    assert "GPU limit is 1 GPU" in outcome.message
    add(state, a_queue("top"))
    assert list(bound(engine.run(state, NOW + 2))) == ["second-0"]
