"""When a gang holds enough: pods that hold resources and pods that are done count, others do not."""

import pytest
from msgspec.structs import replace

from kai.model import names
from kai.snapshot.rows import Past
from kai.snapshot.times import rfc3339
from libs.tests.engine.builders import (
    NOW,
    Part,
    a_group,
    a_job,
    a_node,
    a_pod,
    a_priority_class,
    a_state,
    add,
    job_of,
)


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


# --- what befell a group outlasts its row ------------------------------------------------------------
def test_another_row_of_a_group_knows_what_befell_it_as_the_annotations_do_not_say_yet() -> None:
    said = {names.STALE_TIMESTAMP: rfc3339(NOW - 900)}
    group = a_group("gang", queue="team")
    group = replace(group, metadata=replace(group.metadata, annotations=said))
    state = a_state(a_node("n"), group)
    job = job_of(state, "gang")
    assert job.stale_since == NOW - 900
    past = Past(last_start=NOW - 60, last_eviction=NOW - 30, stale_since=NOW - 10, completing=True)
    job.inherit(past)
    add(state, a_priority_class("train", 51))
    assert job_of(state, "gang") is not job
    assert job_of(state, "gang").past == past


def test_nobody_else_of_the_name_knows_it() -> None:
    group = a_group("gang", queue="team")
    state = a_state(a_node("n"), group)
    job_of(state, "gang").inherit(Past(last_start=NOW, completing=True))
    add(state, replace(group, metadata=replace(group.metadata, uid="another")))
    assert job_of(state, "gang").past == Past()
