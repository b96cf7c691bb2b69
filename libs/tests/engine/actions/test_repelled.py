"""A pod that is repelled by all who could make room: one of them goes, and no other while that one ends."""

from typing import Any

import pytest

from kai.engine import Engine
from kai.snapshot.state import Kind
from libs.tests.engine.builders import NOW, a_job, a_node, a_pod, a_queue, a_state, read

TIER = {"tier": "first"}
REPELLED: dict[str, Any] = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": TIER}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("gpus", "queue", "priority"),
    [(6, "team", "build-preemptible"), (8, "other", "train"), (4, "team", "train")],
    ids=["preempt", "reclaim", "consolidation"],
)
def test_one_goes_and_no_other_while_it_takes_its_time(gpus: int, queue: str, priority: str) -> None:
    deserved = 0 if queue == "other" else -1
    state = a_state(
        a_node("a", gpus=8),
        a_node("b", gpus=8),
        a_queue("top"),
        a_queue("team", parent="top", gpu=deserved),
        a_queue("other", parent="top", gpu=2),
        *(a_job(f"old-{node}", on=node, gpus=gpus, labels=TIER) for node in "ab"),
        a_job("new", queue=queue, priority=priority, gpus=2, spec=REPELLED),
    )
    engine = Engine()
    first = read(engine.run(state, NOW))
    [victim] = first.evicts
    group, node = victim.removesuffix("-0"), first.waits["new-0"]
    assert group == f"old-{node}"

    def victim_is(**ending: Any) -> None:
        state.apply(Kind.POD, a_pod(victim, group=group, gpus=gpus, node=node, labels=TIER, **ending))

    victim_is(deleted=NOW)
    for second in range(1, 6):
        seen = read(engine.run(state, NOW + second))
        assert (seen.evicts, seen.binds, seen.waits) == (frozenset(), {}, {"new-0": node})
    state.remove(Kind.POD, f"default/{victim}")
    last = read(engine.run(state, NOW + 6))
    assert (last.evicts, last.binds) == (frozenset(), {"new-0": node})
