"""Which jobs are not tried after one that failed: those that are no easier and demand the same of nodes."""

import pytest

from kai.engine.search.signatures import Representatives
from libs.tests.engine.builders import Part, a_constraint, a_job, a_state, job_of, nodes

SSD = {"spec": {"node_selector": {"disk": "ssd"}}}


def skipped(failed, next_, *, enabled=True):
    state = a_state(nodes(2, gpu_memory_mib=16_000), a_job("failed", **failed), a_job("next", **next_))
    representatives = Representatives(enabled=enabled)
    representatives.failed(job_of(state, "failed"))
    return representatives.covering(job_of(state, "next")) is not None


@pytest.mark.parametrize(
    ("failed", "next_"),
    [
        pytest.param({"gpus": 2}, {"gpus": 2}, id="the same"),
        pytest.param({"gpus": 2}, {"gpus": 3}, id="more of a pod"),
        pytest.param({"pods": 2, "gpus": 1}, {"pods": 3, "gpus": 1}, id="more pods"),
        pytest.param({"gpus": 2, "cpu": "1"}, {"gpus": 1, "cpu": "2"}, id="less of one and more of another"),
        pytest.param({"gpu_memory_mib": 8_000}, {"gpu_memory_mib": 9_000}, id="more memory of a device"),
        pytest.param({"gpus": 2, **SSD}, {"gpus": 2, **SSD}, id="the same on the same nodes"),
    ],
)
def test_a_job_is_skipped_that_asks_for(failed, next_) -> None:
    assert skipped(failed, next_)
    assert not skipped(failed, next_, enabled=False)


@pytest.mark.parametrize(
    ("failed", "next_"),
    [
        pytest.param({"gpus": 2}, {"gpus": 1}, id="less of a pod"),
        pytest.param({"pods": 2, "gpus": 2}, {"pods": 1, "gpus": 2}, id="fewer pods"),
        pytest.param({"pods": 2, "gpus": 1}, {"pods": 1, "gpus": 4}, id="fewer pods, though larger ones"),
        pytest.param({"gpus": 2, "cpu": "2"}, {"gpus": 2, "cpu": "1"}, id="less CPU"),
        pytest.param({"fraction": 0.5}, {"fraction": 0.4}, id="a smaller part of a device"),
        pytest.param({"gpu_memory_mib": 8_000}, {"gpu_memory_mib": 7_000}, id="less memory of a device"),
        pytest.param({"gpus": 2, **SSD}, {"gpus": 2}, id="other nodes"),
        pytest.param({"gpus": 2, "priority": "build", "spec": {"tolerations": []}}, {"gpus": 1}, id="less"),
        pytest.param(
            {"gpus": 2}, {"gpus": 2, "group": {"topology": a_constraint("rack")}}, id="another topology"
        ),
    ],
)
def test_a_job_is_tried_that_asks_for(failed, next_) -> None:
    assert not skipped(failed, next_)


GANG = {"pods": 4, "gpus": 1}


@pytest.mark.parametrize(
    ("failed", "next_", "tried"),
    [
        pytest.param(GANG, {**GANG, "min_member": 1}, True, id="fewer pods to begin with"),
        pytest.param(GANG, {**GANG, "on": ("n0", "n0"), "min_member": 2}, True, id="one more"),
        pytest.param({**GANG, "min_member": 1}, {**GANG, "pods": 1}, False, id="one, as the first of many"),
    ],
)
def test_pods_count_that_would_be_placed_next(failed, next_, tried) -> None:
    assert skipped(failed, next_) is not tried


def test_nobody_is_skipped_before_somebody_failed() -> None:
    state = a_state(a_job("j", gpus=1))
    assert Representatives(enabled=True).covering(job_of(state, "j")) is None


def test_only_what_waits_is_compared() -> None:
    state = a_state(
        nodes(1),
        a_job("failed", gpus=1),
        a_job("grows", gpus=1, on=("n0", "n0", ""), min_member=1),
        a_job("more", gpus=1, on=("n0", "", ""), min_member=1),
    )
    representatives = Representatives(enabled=True)
    representatives.failed(job_of(state, "failed"))
    assert representatives.covering(job_of(state, "grows")) is not None
    assert representatives.covering(job_of(state, "more")) is not None


@pytest.mark.parametrize(
    ("second", "tried"),
    [
        pytest.param({"gpus": 1}, False, id="the easier of two that failed"),
        pytest.param({"gpus": 3}, True, id="the first, where the second was harder"),
        pytest.param({"pods": 2, "gpus": 1}, True, id="the first, where the second had more pods"),
    ],
)
def test_jobs_are_compared_with(second, tried) -> None:
    """After a job of two GPUs and another one failed, one of one GPU is tried or not."""
    state = a_state(a_job("first", gpus=2), a_job("second", **second), a_job("next", gpus=1))
    representatives = Representatives(enabled=True)
    representatives.failed(job_of(state, "first"))
    representatives.failed(job_of(state, "second"))
    assert (representatives.covering(job_of(state, "next")) is None) is tried


def test_a_failure_of_more_pods_says_nothing_of_fewer() -> None:
    """The job of two small pods is no easier than that of a large one, so the large one stays the measure."""
    state = a_state(a_job("large", gpus=2), a_job("two", pods=2, gpus=1), a_job("next", gpus=2))
    representatives = Representatives(enabled=True)
    representatives.failed(job_of(state, "large"))
    representatives.failed(job_of(state, "two"))
    assert representatives.covering(job_of(state, "next")) is not None


def test_subgroups_are_compared_by_what_each_demands() -> None:
    parts = Part("a", pod=SSD), Part("b")
    state = a_state(
        a_job("failed", *parts, gpus=1),
        a_job("same", *parts, gpus=1),
        a_job("other", Part("a"), Part("b"), gpus=1),
    )
    representatives = Representatives(enabled=True)
    representatives.failed(job_of(state, "failed"))
    assert representatives.covering(job_of(state, "same")) is not None
    assert representatives.covering(job_of(state, "other")) is None


def test_pods_that_come_first_are_compared_with_those_that_came_first() -> None:
    """Either of two pods is enough, and one of them demands a disk; it goes by names which one is tried."""
    one_of_two = {"gpus": 1, "group": {"min_sub_group": 1}}
    state = a_state(
        a_job("failed", Part("a", pod=SSD), Part("b"), **one_of_two),
        a_job("alike", Part("a", pod=SSD), Part("b"), **one_of_two),
        a_job("anywhere", Part("a"), Part("b", pod=SSD), **one_of_two),
    )
    representatives = Representatives(enabled=True)
    representatives.failed(job_of(state, "failed"))
    assert representatives.covering(job_of(state, "alike")) is not None
    assert representatives.covering(job_of(state, "anywhere")) is None
