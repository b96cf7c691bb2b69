from kai.bench.objects import a_group, a_node, a_pod, a_queue, usual_priorities
from kai.engine import Engine
from kai.model.decisions import Outcome
from kai.snapshot.state import ClusterState, Kind

NOW = 1_900_000_000.0


def test_a_limit_that_a_queue_is_given_later_holds_from_then_on() -> None:
    state, engine = ClusterState(), Engine()
    for priority in usual_priorities():
        state.apply(Kind.PRIORITY_CLASS, priority)
    state.apply(Kind.NODE, a_node("n", gpus=4))
    state.apply(Kind.QUEUE, a_queue("top"))
    state.apply(Kind.QUEUE, a_queue("team", parent="top"))

    def submit(name: str) -> None:
        state.apply(Kind.POD_GROUP, a_group(name, queue="team"))
        state.apply(Kind.POD, a_pod(f"{name}-0", group=name, gpus=1))

    submit("first")
    assert len(engine.run(state, NOW).binds) == 1
    state.apply(Kind.QUEUE, a_queue("top", limit=1))
    submit("second")
    result = engine.run(state, NOW + 1)
    assert not result.binds
    [outcome] = [each for each in result.outcomes if each.pod_group == "default/second"]
    assert outcome.outcome is Outcome.UNSCHEDULABLE
    assert "GPU limit is 1 GPU" in outcome.message
    state.apply(Kind.QUEUE, a_queue("top"))
    assert [bind.pod.name for bind in engine.run(state, NOW + 2).binds] == ["second-0"]
