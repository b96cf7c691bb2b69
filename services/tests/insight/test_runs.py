"""Runs begin where pods are bound, and end as they do."""

from dataclasses import replace

import msgspec
import pytest

from kai.history.records import NAME_CHARACTERS, Run, values
from kai.kube.reflector import Upserted
from kai.model.objects import Node
from kai_insight.runs import EVICTION_SECONDS
from services.tests.insight.builders import NOON


def test_a_pod_without_a_node_does_not_run(begun):
    begun.pod(phase="Pending")
    assert begun.spans() == []


def test_a_run_begins_when_its_pod_was_bound_and_says_whose_it_is(begun):
    begun.clock = NOON + 9
    begun.pod(bound=5)
    (run,) = begun.of(Run)
    assert (run.began, run.ended, run.ending) == (NOON + 5, None, "")
    assert (run.namespace, run.pod, run.node, run.pod_group) == ("team", "a", "n1", "train")
    assert (run.queue, run.user_name, run.workload) == ("research", "ada", "Job/train")
    assert (run.cpu_millis, run.memory_bytes, run.gpus) == (1500, 2**30, 1.0)
    assert run.created == NOON - 60


@pytest.mark.parametrize("said", ["a\0b", "a" * 200_000])
def test_what_anybody_wrote_is_kept_only_as_far_as_a_store_takes_it(begun, said):
    """A text that a store refuses would be tried again for ever, and keep all others waiting."""
    begun.group("odd", queue=said, user="", annotations={"user": said}, owner=said)
    begun.pod("of-odd", bound=5, group="odd")
    begun.pod("alone", bound=5, group=said, annotations={"user": said})
    for run in begun.of(Run):
        texts = [each for each in values(run) if isinstance(each, str)]
        assert all("\0" not in each and len(each) <= NAME_CHARACTERS for each in texts)
    (run,) = (each for each in begun.of(Run) if each.pod == "of-odd")
    assert all(each.startswith("a") for each in (run.queue, run.user_name))
    assert run.workload.startswith("Job/a")


def test_a_part_of_a_gpu_counts_by_portion_and_by_memory(begun):
    node = {"metadata": {"name": "n1", "labels": {"nvidia.com/gpu.memory": "40000"}}}
    begun.surroundings.node_sink(Upserted(msgspec.convert(node, Node), old_known=False))
    begun.pod("half", bound=1, gpus="", annotations={"gpu-fraction": "0.5"})
    begun.pod("memory", bound=1, gpus="", annotations={"gpu-memory": "10000"})
    assert {run.pod: run.gpus for run in begun.of(Run)} == {"half": 0.5, "memory": 0.25}


def test_a_run_ends_when_its_containers_did(begun):
    begun.pod("well", bound=5)
    begun.pod("ill", bound=5)
    begun.clock = NOON + 100
    begun.pod("well", bound=5, phase="Succeeded", ended=90)
    begun.pod("ill", bound=5, phase="Failed", ended=80)
    assert begun.spans() == [("ill", 5, 80, "Failed"), ("well", 5, 90, "Succeeded")]


def test_what_is_over_is_not_recorded_again_while_its_pod_stays(begun):
    begun.pod(bound=5, phase="Succeeded", ended=90)
    before = dict(begun.records)
    begun.pod(bound=5, phase="Succeeded", ended=90, annotations={"seen": "by somebody"})
    begun.removed(bound=5, phase="Succeeded", ended=90)
    assert begun.records == before


def test_a_clock_of_a_node_that_is_hours_ahead_makes_no_run_longer(begun):
    begun.pod("short", bound=5)
    begun.clock = NOON + 100
    begun.pod("short", bound=5, phase="Succeeded", ended=7 * 3600)
    begun.pod("late", bound=7 * 3600)
    assert begun.spans() == [("late", 100, None, ""), ("short", 5, 100, "Succeeded")]


def test_a_pod_that_is_deleted_ends_its_run_then(begun):
    begun.pod(bound=5)
    begun.clock = NOON + 70
    begun.removed()
    assert begun.spans() == [("a", 5, 70, "Deleted")]


def test_the_last_word_of_a_deleted_pod_counts(begun):
    begun.pod(bound=5)
    begun.clock = NOON + 70
    begun.removed(bound=5, phase="Succeeded", ended=60)
    assert begun.spans() == [("a", 5, 60, "Succeeded")]


def test_an_evicted_pod_says_so_whether_its_end_or_its_eviction_is_told_first(begun):
    for name in ("early", "late"):
        begun.pod(name, bound=5)
    begun.clock = NOON + 70
    begun.runs.evicted("uid-early", at=NOON + 68)
    begun.removed("early")
    begun.removed("late")
    begun.runs.evicted("uid-late", at=NOON + 69)
    assert begun.spans() == [("early", 5, 70, "Evicted"), ("late", 5, 70, "Evicted")]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_one_that_was_asked_to_go_was_evicted_however_it_ended_then(begun, phase):
    for name in ("early", "late"):
        begun.pod(name, bound=5)
    begun.runs.evicted("uid-early", at=NOON + 30)
    begun.clock = NOON + 41
    for name in ("early", "late"):
        begun.pod(name, bound=5, going=30, phase=phase, ended=40)
    begun.runs.evicted("uid-late", at=NOON + 30)
    assert begun.spans() == [("early", 5, 40, "Evicted"), ("late", 5, 40, "Evicted")]


@pytest.mark.parametrize(("phase", "going"), [("Succeeded", None), ("Succeeded", 45), ("Failed", 45)])
def test_one_that_ended_before_it_was_asked_to_go_was_not_evicted(begun, phase, going):
    for name in ("early", "late"):
        begun.pod(name, bound=5)
    begun.runs.evicted("uid-early", at=NOON + 39)
    begun.clock = NOON + 46
    for name in ("early", "late"):
        begun.pod(name, bound=5, going=going, phase=phase, ended=40)
    begun.runs.evicted("uid-late", at=NOON + 39)
    assert begun.spans() == [("early", 5, 40, phase), ("late", 5, 40, phase)]


def test_a_pod_that_lived_on_after_an_eviction_that_failed_was_deleted(begun):
    begun.pod(bound=5)
    begun.runs.evicted("uid-a", at=NOON + 10)
    begun.clock = NOON + 11 + EVICTION_SECONDS
    begun.removed()
    assert begun.spans()[0][3] == "Deleted"


def test_one_that_takes_its_time_to_go_was_evicted_all_the_same(begun):
    begun.pod(bound=5)
    begun.runs.evicted("uid-a", at=NOON + 10)
    begun.pod(bound=5, going=11)
    begun.clock = NOON + 11 + 2 * EVICTION_SECONDS
    begun.removed()
    assert begun.spans()[0][3] == "Evicted"


def test_a_run_is_divided_where_its_group_is_charged_to_another_queue(begun):
    begun.pod(bound=5)
    begun.clock = NOON + 50
    begun.group(queue="production")
    begun.clock = NOON + 80
    begun.removed()
    assert begun.spans() == [("a", 5, 50, "Changed"), ("a", 50, 80, "Deleted")]
    assert sorted(run.queue for run in begun.of(Run)) == ["production", "research"]


def test_a_run_is_divided_where_its_pod_is_resized(begun):
    begun.pod(bound=5, gpus="1")
    begun.clock = NOON + 50
    begun.pod(bound=5, gpus="2")
    assert begun.spans() == [("a", 5, 50, "Changed"), ("a", 50, None, "")]


def test_a_group_that_is_known_late_is_written_into_the_run_that_has_begun(seen):
    seen.begin()
    seen.pod(bound=5)
    seen.clock = NOON + 50
    seen.group()
    assert seen.spans() == [("a", 5, None, "")]
    assert [run.queue for run in seen.of(Run)] == ["research"]


def test_a_group_that_goes_before_its_pods_changes_nothing(begun):
    begun.pod(bound=5)
    before = dict(begun.records)
    begun.group_removed()
    begun.pod(bound=5, annotations={"seen": "by somebody"})
    assert begun.records == before


# --- going on -----------------------------------------------------------------------------------
def recorded_by(seen):
    return [run for run in seen.of(Run) if run.ended is None]


def again(seen):
    """A second one, that begins with what is in the store."""
    second = type(seen)()
    second.group()
    return second


def test_what_still_runs_after_a_restart_is_the_same_run(begun):
    begun.pod(bound=5)
    second = again(begun)
    second.pod(bound=5)
    second.begin(running=recorded_by(begun), recorded={"uid-a"}, seen=60)
    assert second.records == {}


def test_what_ended_meanwhile_and_is_still_there_tells_when(begun):
    begun.pod(bound=5)
    second = again(begun)
    second.clock = NOON + 100
    second.pod(bound=5, phase="Failed", ended=75)
    second.begin(running=recorded_by(begun), recorded={"uid-a"}, seen=60)
    assert second.spans() == [("a", 5, 75, "Failed")]


def test_what_vanished_meanwhile_ended_unseen_when_it_was_looked_at_last(begun):
    begun.pod(bound=5)
    second = again(begun)
    second.clock = NOON + 500
    second.begin(running=recorded_by(begun), recorded={"uid-a"}, seen=60)
    assert second.spans() == [("a", 5, 60, "Unseen")]


def test_what_was_evicted_meanwhile_says_so_once_its_scheduler_tells(begun):
    begun.pod(bound=5)
    second = again(begun)
    second.begin(running=recorded_by(begun), recorded={"uid-a"}, seen=60)
    second.runs.evicted("uid-a", at=NOON + 65)
    assert second.spans() == [("a", 5, 65, "Evicted")]


def test_of_two_runs_of_a_pod_that_last_only_the_later_goes_on(begun):
    """One who leads no more may write his last word after the next one has begun."""
    begun.pod(bound=5)
    (first,) = recorded_by(begun)
    later = replace(first, began=NOON + 30)
    second = again(begun)
    second.pod(bound=5)
    second.begin(running=[later, first], recorded={"uid-a"}, seen=60)
    second.clock = NOON + 70
    second.removed()
    assert second.spans() == [("a", 5, 30, "Changed"), ("a", 30, 70, "Deleted")]


def test_a_clock_that_was_ahead_when_pods_were_looked_at_last_makes_no_run_longer(begun):
    begun.pod(bound=5)
    second = again(begun)
    second.clock = NOON + 100
    second.begin(running=recorded_by(begun), recorded={"uid-a"}, seen=7 * 3600)
    assert second.spans() == [("a", 5, 100, "Unseen")]


def test_what_began_meanwhile_is_filled_in_also_where_it_has_ended(seen):
    seen.group()
    seen.clock = NOON + 500
    seen.pod("lasts", bound=100)
    seen.pod("short", bound=110, phase="Succeeded", ended=120)
    seen.begin(seen=60)
    assert seen.spans() == [("lasts", 100, None, ""), ("short", 110, 120, "Succeeded")]


def test_what_was_over_before_a_restart_is_not_recorded_twice(begun):
    begun.pod(bound=5)
    begun.clock = NOON + 50
    begun.group(queue="production")
    begun.pod(bound=5, phase="Succeeded", ended=90)
    second = again(begun)
    second.pod(bound=5, phase="Succeeded", ended=90)
    second.begin(recorded={"uid-a"}, seen=100)
    second.pod(bound=5, phase="Succeeded", ended=90)
    assert second.records == {}


def test_a_pod_that_went_before_the_beginning_leaves_no_trace(seen):
    seen.pod(bound=5)
    seen.removed()
    seen.begin()
    assert seen.records == {}
