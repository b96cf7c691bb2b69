"""Queues are sampled on a grid of times, and only where they changed."""

import pytest

from kai.history.records import QueueState
from kai.model.decisions import QueueShare
from kai.wire.sessions import SessionUpdate
from kai_insight.queue_states import QueueSampler
from services.tests.insight.builders import NOON, Seen


def a_share(queue="research", *, gpus=2.0):
    nothing = (0.0, 0.0, 0.0)
    return QueueShare(
        queue=queue,
        display_name=queue,
        parent="top",
        priority=100,
        deserved=(-1.0, -1.0, 4.0),
        limit=(-1.0, -1.0, 8.0),
        over_quota_weight=nothing,
        fair_share=(0.0, 0.0, 5.0),
        allocated=(1000.0, 2.0**30, gpus),
        allocated_non_preemptible=nothing,
        requested=(0.0, 0.0, 6.0),
        usage=nothing,
    )


class Sampled(Seen):
    def __init__(self):
        super().__init__()
        self.sampler = QueueSampler(interval=60.0, put=self.put, now=lambda: self.clock)

    def told(self, *shares, version=1, **more):
        update = SessionUpdate(version=version, epoch=1, opened_at=self.clock, shares=shares, **more)
        self.sampler.take("default", update)

    def at(self, seconds):
        self.clock = NOON + seconds
        self.sampler.sample()

    def rows(self):
        return [(row.queue, row.at - NOON, row.allocated_gpus) for row in self.of(QueueState)]


@pytest.fixture
def sampled():
    return Sampled()


def test_a_sample_says_what_a_queue_holds_and_is_due(sampled):
    sampled.told(a_share())
    sampled.at(61)
    assert sampled.of(QueueState) == [
        QueueState(
            queue="research",
            shard="default",
            at=NOON + 60,
            parent="top",
            quota_gpus=4.0,
            limit_gpus=8.0,
            fair_share_gpus=5.0,
            allocated_gpus=2.0,
            requested_gpus=6.0,
            allocated_cpu_millis=1000.0,
            allocated_memory_bytes=2.0**30,
        )
    ]


def test_only_queues_that_changed_are_sampled_again(sampled):
    sampled.told(a_share(), a_share("idle", gpus=0.0))
    sampled.at(0)
    sampled.told(a_share(gpus=3.0), a_share("idle", gpus=0.0))
    sampled.at(60)
    sampled.told(version=3)
    sampled.at(120)
    assert sampled.rows() == [("research", 0, 2.0), ("idle", 0, 0.0), ("research", 60, 3.0)]


def test_all_are_sampled_once_an_hour(sampled):
    sampled.told(a_share())
    sampled.at(0)
    sampled.at(3540)
    sampled.at(3600)
    assert sampled.rows() == [("research", 0, 2.0), ("research", 3600, 2.0)]


def test_all_are_sampled_again_after_a_clock_was_put_back(sampled):
    sampled.told(a_share())
    sampled.at(30 * 86_400)
    sampled.at(0)
    sampled.at(3600)
    assert sampled.rows() == [("research", 30 * 86_400, 2.0), ("research", 0, 2.0), ("research", 3600, 2.0)]


def test_one_that_comes_back_within_a_step_writes_the_same_row(sampled):
    second = Sampled()
    for each in (sampled, second):
        each.told(a_share())
    sampled.at(61)
    second.at(119)
    assert sampled.records == second.records


def test_a_scheduler_that_begins_without_queues_has_none(sampled):
    """The first session of a leader tells of everything."""
    sampled.told(a_share())
    sampled.told()
    sampled.at(60)
    assert sampled.rows() == []


def test_a_scheduler_that_is_gone_is_sampled_no_more(sampled):
    sampled.told(a_share())
    sampled.sampler.gone("default")
    sampled.at(60)
    assert sampled.rows() == []
