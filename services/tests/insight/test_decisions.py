"""Sessions become records: what a cycle did, who was evicted for whom, and how groups stand."""

import pytest

from kai.history.records import Cycle, Decision, Taking
from kai.model.decisions import Eviction, Explanation, Outcome, PodGroupOutcome, PodRef
from kai.wire.sessions import SessionUpdate
from services.tests.insight.builders import NOON


def update(version, *outcomes, **more):
    said = {"epoch": 3, "opened_at": NOON + version, "outcomes": outcomes, **more}
    return SessionUpdate(version=version, **said)


def found(outcome, reason="", *, group="team/train", message="no room", uid=""):
    why = (Explanation(reason=reason, message=message),) if reason else ()
    return PodGroupOutcome(pod_group=group, uid=uid, outcome=outcome, message=message, explanations=why)


def stories(seen):
    """Of each decision the second, outcome and reason."""
    rows = sorted(seen.of(Decision), key=lambda each: each.at)
    return [(row.at - NOON, row.outcome, row.reason) for row in rows]


def test_a_cycle_says_what_changed_in_it_and_who_waits(begun):
    waits = found(Outcome.UNSCHEDULABLE, "OverLimit")
    begun.sessions.take("default", update(7, waits, found(Outcome.PLACED, group="team/b"), binds=4))
    (cycle,) = begun.of(Cycle)
    assert cycle == Cycle(
        shard="default",
        epoch=3,
        cycle=7,
        at=NOON + 7,
        binds=4,
        evictions=0,
        nominations=0,
        outcomes=2,
        waiting=1,
    )


def test_a_full_update_is_no_cycle_since_it_does_not_say_what_was_done(begun):
    begun.sessions.take("default", update(7, found(Outcome.UNSCHEDULABLE), full=True))
    assert begun.of(Cycle) == []
    assert stories(begun) == [(7, "Unschedulable", "")]


def test_an_eviction_says_who_lost_what_and_to_whom(begun):
    begun.pod(bound=5)
    begun.group("urgent", queue="production")
    victim = PodRef(uid="uid-a", namespace="team", name="a", pod_group="team/train")
    eviction = Eviction(pod=victim, action="reclaim", message="it is over quota", evictor="team/urgent")
    begun.sessions.take("default", update(9, evictions=(eviction,)))
    (taking,) = begun.of(Taking)
    assert (taking.pod_uid, taking.at, taking.cycle, taking.action) == ("uid-a", NOON + 9, 9, "reclaim")
    assert (taking.queue, taking.pod_group, taking.gpus) == ("research", "train", 1.0)
    assert (taking.for_namespace, taking.for_pod_group, taking.for_queue) == ("team", "urgent", "production")
    assert taking.message == "it is over quota"
    begun.clock = NOON + 10
    begun.removed()
    assert begun.spans() == [("a", 5, 10, "Evicted")]


def test_a_group_that_waits_for_another_reason_stands_otherwise_but_not_for_other_numbers(begun):
    begun.sessions.take("default", update(1, found(Outcome.UNSCHEDULABLE, "OverLimit", message="2 of 3")))
    begun.sessions.take("default", update(2, found(Outcome.UNSCHEDULABLE, "OverLimit", message="1 of 3")))
    begun.sessions.take("default", update(3, found(Outcome.UNSCHEDULABLE, "NotReady")))
    assert stories(begun) == [(1, "Unschedulable", "OverLimit"), (3, "Unschedulable", "NotReady")]
    assert begun.of(Decision)[0].queue == "research"


def test_a_group_is_placed_once_and_gone_once(begun):
    begun.sessions.take("default", update(1, found(Outcome.PLACED)))
    begun.sessions.take("default", update(2, found(Outcome.SETTLED)))
    begun.group_removed()
    begun.sessions.take("default", update(3, forgotten=("team/train",)))
    begun.sessions.take("default", update(4, forgotten=("team/train",)))
    assert stories(begun) == [(1, "Placed", ""), (3, "Gone", "")]


def test_a_group_that_is_seen_to_be_gone_after_its_scheduler_said_so_is_gone_once(begun):
    begun.sessions.take("default", update(1, found(Outcome.PLACED)))
    begun.sessions.take("default", update(3, forgotten=("team/train",)))
    assert stories(begun) == [(1, "Placed", "")]
    begun.group_removed()
    begun.group_removed()
    assert stories(begun) == [(1, "Placed", ""), (3, "Gone", "")]


def test_a_group_that_left_for_another_scheduler_is_gone_when_it_is_deleted(begun):
    begun.sessions.take("default", update(1, found(Outcome.PLACED)))
    begun.sessions.take("default", update(3, forgotten=("team/train",)))
    begun.sessions.take("default", update(70))
    begun.clock = NOON + 100
    begun.group_removed()
    assert stories(begun) == [(1, "Placed", ""), (100, "Gone", "")]
    assert begun.of(Decision)[-1].cycle == 70


def test_a_group_of_another_node_pool_now_is_not_gone(begun):
    waits = found(Outcome.UNSCHEDULABLE, "OverLimit")
    begun.sessions.take("a", update(1, waits))
    begun.sessions.take("a", update(2, forgotten=("team/train",)))
    assert begun.of(Cycle)[-1].waiting == 0
    begun.sessions.take("b", update(3, waits))
    assert stories(begun) == [(1, "Unschedulable", "OverLimit"), (3, "Unschedulable", "OverLimit")]
    begun.group_removed()
    begun.sessions.take("b", update(4, forgotten=("team/train",)))
    assert stories(begun)[2:] == [(4, "Gone", "")]


def test_a_group_made_anew_stands_for_itself(begun):
    waits = found(Outcome.UNSCHEDULABLE, "OverLimit")
    begun.sessions.take("default", update(1, waits))
    begun.sessions.take("default", update(2, waits, forgotten=("team/train",)))
    assert stories(begun) == [(1, "Unschedulable", "OverLimit"), (2, "Unschedulable", "OverLimit")]
    begun.sessions.take("default", update(3, binds=1))
    assert begun.of(Cycle)[-1].waiting == 1


REPLACED = {
    "the watch is late": lambda seen: None,
    "the watch was quicker": lambda seen: (seen.group_removed(), seen.group()),
    "the watch is amid": lambda seen: seen.group_removed(),
}


@pytest.mark.parametrize("watched", REPLACED.values(), ids=REPLACED)
def test_a_group_that_another_takes_the_name_of_between_two_sessions_is_gone_before_that_one_waits(
    begun, watched
):
    begun.sessions.take("default", update(1, found(Outcome.UNSCHEDULABLE, uid="first")))
    watched(begun)
    again = found(Outcome.UNSCHEDULABLE, uid="second")
    begun.sessions.take("default", update(2, again, forgotten=("team/train",)))
    first, gone, second = sorted(begun.of(Decision), key=lambda each: each.at)
    assert [each.outcome for each in (first, gone, second)] == ["Unschedulable", "Gone", "Unschedulable"]
    assert first.at < gone.at < second.at == NOON + 2
    begun.group_removed()
    assert len(begun.of(Decision)) == 3


def test_a_group_known_from_the_store_that_another_takes_the_name_of_is_gone_before_that_one_waits(begun):
    begun.sessions.take("default", update(1, found(Outcome.UNSCHEDULABLE)))
    second = type(begun)()
    second.group()
    second.sessions.begin("default", begun.of(Decision))
    second.group_removed()
    again = found(Outcome.UNSCHEDULABLE, uid="second")
    second.sessions.take("default", update(2, again, forgotten=("team/train",)))
    gone, waits = sorted(second.of(Decision), key=lambda each: each.at)
    assert [each.outcome for each in (gone, waits)] == ["Gone", "Unschedulable"]
    assert gone.at < waits.at == NOON + 2
    second.group_removed()
    assert len(second.of(Decision)) == 2


@pytest.mark.parametrize("watched", REPLACED.values(), ids=REPLACED)
def test_a_settled_group_that_another_takes_the_name_of_is_gone_before_that_one_waits(begun, watched):
    begun.group()
    begun.sessions.take("default", update(1, found(Outcome.UNSCHEDULABLE, uid="first")))
    begun.sessions.take("default", update(2, epoch=4, full=True))
    watched(begun)
    again = found(Outcome.UNSCHEDULABLE, uid="second")
    begun.sessions.take("default", update(3, again, forgotten=("team/train",)))
    outcomes = [row.outcome for row in sorted(begun.of(Decision), key=lambda each: each.at)]
    assert outcomes == ["Unschedulable", "Settled", "Gone", "Unschedulable"]


def test_a_group_that_was_only_forgotten_for_a_moment_is_not_gone_when_we_have_not_seen_it_yet(begun):
    waits = found(Outcome.UNSCHEDULABLE, uid="first")
    begun.sessions.take("default", update(1, waits))
    begun.group_removed()
    begun.sessions.take("default", update(2, waits, forgotten=("team/train",)))
    assert [outcome for _, outcome, _ in stories(begun)] == ["Unschedulable", "Unschedulable"]


def test_a_group_that_another_takes_the_name_of_while_nobody_listened_is_gone(begun):
    begun.sessions.take("default", update(1, found(Outcome.PLACED, uid="first")))
    begun.sessions.take("default", update(9, found(Outcome.PLACED, uid="second"), epoch=4, full=True))
    outcomes = [row.outcome for row in sorted(begun.of(Decision), key=lambda each: each.at)]
    assert outcomes == ["Placed", "Gone", "Placed"]


def test_a_group_that_comes_back_to_its_scheduler_was_never_gone(begun):
    waits = found(Outcome.UNSCHEDULABLE, uid="first")
    begun.sessions.take("default", update(1, waits))
    begun.sessions.take("default", update(2, forgotten=("team/train",)))
    begun.sessions.take("default", update(3, waits))
    assert [outcome for _, outcome, _ in stories(begun)] == ["Unschedulable", "Unschedulable"]


def test_one_that_goes_on_tells_nothing_twice(begun):
    begun.sessions.take("default", update(1, found(Outcome.UNSCHEDULABLE, "OverLimit")))
    second = type(begun)()
    second.group()
    second.sessions.begin("default", begun.of(Decision))
    second.sessions.take("default", update(5, found(Outcome.UNSCHEDULABLE, "OverLimit"), full=True))
    assert second.records == {}
    second.sessions.take("default", update(6, binds=1))
    assert [cycle.waiting for cycle in second.of(Cycle)] == [1]


def test_a_full_update_ends_the_waiting_of_whom_it_does_not_mention(begun):
    groups = ("team/train", "team/gone", "team/runs")
    waits = [found(Outcome.UNSCHEDULABLE, group=group) for group in groups[:2]]
    begun.group("runs")
    begun.sessions.take("default", update(1, *waits, found(Outcome.PLACED, group="team/runs")))
    begun.sessions.take("default", update(2, epoch=4, full=True))
    after = {row.pod_group: row.outcome for row in begun.of(Decision) if row.at == NOON + 2}
    assert after == {"train": "Settled", "gone": "Gone"}


def test_the_first_session_of_a_leader_tells_of_everything_and_what_was_done(begun):
    begun.sessions.take("default", update(1, found(Outcome.UNSCHEDULABLE, group="team/gone")))
    victim = PodRef(uid="uid-a", namespace="team", name="a", pod_group="team/train")
    eviction = Eviction(pod=victim, action="reclaim", message="it is over quota", evictor="team/urgent")
    begun.sessions.take(
        "default", update(1, found(Outcome.UNSCHEDULABLE), epoch=4, binds=2, evictions=(eviction,))
    )
    after = {row.pod_group: row.outcome for row in begun.of(Decision) if row.epoch == 4}
    assert after == {"train": "Unschedulable", "gone": "Gone"}
    assert [(row.epoch, row.pod_uid) for row in begun.of(Taking)] == [(4, "uid-a")]
    assert [(row.epoch, row.binds, row.waiting) for row in begun.of(Cycle)] == [(3, 0, 1), (4, 2, 1)]


def test_shards_know_nothing_of_each_other(begun):
    begun.sessions.take("default", update(1, found(Outcome.UNSCHEDULABLE)))
    begun.sessions.take("other", update(1, full=True))
    begun.sessions.take("default", update(2, binds=1))
    assert [cycle.waiting for cycle in begun.of(Cycle)] == [1, 1]
