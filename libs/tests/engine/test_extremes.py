"""Values at their bounds: whatever intake lets through, sums and decisions hold."""

from __future__ import annotations

import os
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kai.engine import Engine
from kai.model import limits
from kai.model.objects import Pod
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import NOW, a_group, a_node, a_pod, a_queue, a_state

SOME = (0.0, 1.0, 1e-300, 4e18, -1.0)


def amount(rng: random.Random, unit: str = "") -> str:
    most = limits.AMOUNT.most
    return rng.choice(["0", "1", "7", str(most // 1000 if not unit else most), "1000000000"])


def at_the_bounds(rng: random.Random) -> ClusterState:
    state = a_state(a_queue("top"))
    for number in range(4):
        gpus = rng.choice([0, 1, 8, limits.NODE_GPUS.most])
        node = a_node(
            f"n{number}",
            gpus=gpus,
            cpu=amount(rng),
            memory=amount(rng, "bytes"),
            gpu_memory_mib=rng.choice([0, 100, 80_000, 2**20 - 1, limits.GPU_MEMORY.most]),
            extra={"example.com/x": amount(rng), "nvidia.com/mig-7g.80gb": str(rng.choice([0, 1, 7]))},
        )
        assert state.take(Kind.NODE, node) is None
    for name in ("left", "right"):
        gpu, limit, weight = (rng.choice(SOME) for _ in range(3))
        cpu = rng.choice(SOME)
        queue = a_queue(name, parent="top", gpu=gpu, limit=limit, weight=min(abs(weight), 2**31), cpu=cpu)
        queue.spec.priority = rng.choice([None, -(2**31), 2**31 - 1])
        assert state.take(Kind.QUEUE, queue) is None
    for number in range(8):
        name = f"g{number}"
        members = rng.choice([1, 1, 2, limits.MIN_MEMBER.most])
        priority = rng.choice(["train", "build", "inference", ""])
        group = a_group(name, queue=rng.choice(["left", "right"]), min_member=members, priority=priority)
        assert state.take(Kind.POD_GROUP, group) is None
        for pod in range(rng.choice([1, 3])):
            state.take(Kind.POD, a_member(rng, f"{name}-{pod}", name))
    for number in range(rng.choice([0, 2, 600])):
        vast = a_pod(f"v{number}", cpu=amount(rng), memory=amount(rng, "bytes"), node="n0", scheduler="other")
        state.take(Kind.POD, vast)
    return state


def a_member(rng: random.Random, name: str, group: str) -> Pod:
    kind = rng.randrange(5)
    node = rng.choice(["", "", f"n{rng.randrange(4)}"])
    pod = a_pod(
        name,
        group=group,
        cpu=amount(rng),
        memory=amount(rng, "bytes"),
        gpus=rng.choice([1, limits.WHOLE_GPUS.most]) if kind == 0 else 0,
        gpu_memory_mib=rng.choice([1, limits.GPU_MEMORY.most]) if kind == 1 else 0,
        fraction=rng.choice([0.01, 0.001, 1]) if kind == 2 else 0,
        devices=rng.choice([1, limits.SHARED_DEVICES.most]) if kind in (1, 2) else 0,
        groups=("a", "b") if node and kind in (1, 2) else (),
        labels={"kai.scheduler/task-priority": str(rng.choice([-(2**31), 2**31 - 1]))},
        node=node,
    )
    if kind == 3:
        pod.spec.containers[0].resources.requests["example.com/x"] = amount(rng)
    if kind == 4:
        pod.spec.containers[0].resources.requests["nvidia.com/mig-7g.80gb"] = str(rng.choice([1, 2**40]))
    return pod


@settings(max_examples=int(os.environ.get("KAI_FUZZ_EXAMPLES", "25")))
@given(seed=st.integers(0, 2**32))
def test_values_at_their_bounds_fail_nothing(seed: int) -> None:
    state = at_the_bounds(random.Random(seed))
    engine = Engine()
    for cycle in range(3):
        result = engine.run(state, NOW + cycle)
        state.check()
        for bind in result.binds:
            state.bind_done(bind.pod.uid)
