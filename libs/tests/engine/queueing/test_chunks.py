"""What a job gives up at a time, and in which order, whenever its pods became known."""

import random
from typing import Any

import pytest

from libs.tests.engine.builders import Part, a_job, a_state, cycle, nodes, urgent


def going(*things: Any) -> list[str]:
    """Who has to go for a job that needs all four GPUs of the only node, in order."""
    state = a_state(nodes(1, gpus=4), *things, urgent(gpus=4))
    return [each.pod.name for each in cycle(state).evictions]


@pytest.mark.parametrize(
    "job",
    [
        a_job("old", gpus=1, min_member=4, on=["n0"] * 4),
        a_job("old", gpus=1, min_member=1, on=["n0"] * 4),
        a_job("old", *(Part(name, 2, on=["n0"] * 2) for name in ("left", "right")), gpus=1),
        a_job("old", *(Part(name, 1, on=["n0"] * 2) for name in ("left", "right")), gpus=1),
    ],
    ids=["a gang", "an elastic job", "subgroups", "elastic subgroups"],
)
def test_pods_go_in_the_same_order_in_whatever_order_they_became_known(job):
    group, *pods = job
    first = going(group, *pods)
    assert len(first) == 4
    for seed in range(4):
        random.Random(seed).shuffle(pods)
        assert going(group, *pods) == first
