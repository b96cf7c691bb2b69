"""When a gang holds enough: pods that hold resources and pods that are done count, others do not."""

import pytest

from libs.tests.engine.builders import Part, a_job, a_node, a_pod, a_state, job_of


@pytest.mark.parametrize(
    ("runs", "done", "waits", "needed", "enough"),
    [
        (2, 0, 0, 2, True),
        (1, 1, 0, 2, True),
        (0, 2, 0, 2, True),
        (1, 0, 1, 2, False),
        (1, 1, 1, 3, False),
        (0, 0, 2, 2, False),
    ],
)
def test_pods_that_are_done_are_not_lacking(
    runs: int, done: int, waits: int, needed: int, enough: bool
) -> None:
    state = a_state(
        a_node("n", gpus=8),
        a_job("gang", on=["n"] * runs + [""] * waits, pods=runs + waits, min_member=needed, gpus=1),
        [
            a_pod(f"done-{number}", group="gang", gpus=1, node="n", phase="Succeeded")
            for number in range(done)
        ],
    )
    assert job_of(state, "gang").gang_satisfied is enough


@pytest.mark.parametrize(("done", "enough"), [(0, False), (1, True)])
def test_nor_are_they_in_a_subgroup(done: int, enough: bool) -> None:
    state = a_state(
        a_node("n", gpus=8),
        a_job("gang", Part("a", on="n"), Part("b", 2, on="n", pods=1), gpus=1),
        [a_pod("done", group="gang", sub_group="b", gpus=1, node="n", phase="Succeeded")][:done],
    )
    assert job_of(state, "gang").gang_satisfied is enough
