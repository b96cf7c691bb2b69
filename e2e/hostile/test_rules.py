"""Every rule is silent about what is right, and speaks of a state that breaks it."""

import pytest

from e2e.hostile import rules, site
from e2e.soak.frame import Frame, ProcessSample
from e2e.soak.journal import Entry
from e2e.soak.rules import placement
from e2e.soak.rules.latency import Placed
from e2e.soak.test_rules import a_frame, a_group, a_node, a_pod, a_queue, a_share
from kai.model import names
from kai.model.objects import ObjectMeta, QueueStatus
from kai_local.parts.objects import LocalPodSpec

CALM = {"slowness": lambda begin, end: 1.0}


def by_us(pod):
    pod.spec.scheduler_name = names.SCHEDULER_NAME
    return pod


def waiting(pod):
    return type(pod)(
        metadata=pod.metadata, spec=LocalPodSpec(scheduler_name=names.SCHEDULER_NAME), status=pod.status
    )


def granted(*pods, now=()):
    """The frame after pods waited, were bound as they are, and then said what they say ``now``."""
    grants = rules.Grants()
    grants.as_granted(a_frame(*(waiting(pod) for pod in pods)))
    grants.as_granted(a_frame(*(by_us(pod) for pod in pods)))
    return grants.as_granted(a_frame(*(by_us(pod) for pod in now or pods)))


# --- what was granted ------------------------------------------------------------------------------
def test_a_pod_that_says_less_than_when_it_was_bound_still_counts_as_then():
    bound = [a_share("a", "0.9"), a_share("b", "0.9")]
    lies = [a_share("a", "0.01"), a_share("b", "0.01")]
    assert [breach.rule for breach in placement.devices_have_one_owner(granted(*bound, now=lies))] == [
        "device over 1.0"
    ]
    assert not list(placement.devices_have_one_owner(a_frame(*lies)))


def test_what_a_pod_says_that_nobody_of_us_placed_counts_for_nothing():
    frame = rules.Grants().as_granted(a_frame(a_share("a", "0.9"), a_share("b", "0.9")))
    assert not list(placement.devices_have_one_owner(frame))


def test_what_is_held_and_not_charged_is_told():
    pod = a_pod("a", node="n", gpus=2, group="g")
    queue = a_queue("q")

    def charged(gpus):
        queue.status = QueueStatus(allocated={names.NVIDIA_GPU: gpus})
        frame = granted(pod)
        return Frame(
            pods=frame.pods, nodes={"n": a_node()}, queues={"q": queue}, groups={"ns/g": a_group("g")}
        )

    assert not list(rules.what_is_held_is_charged(charged("2")))
    [breach] = rules.what_is_held_is_charged(charged("0.5"))
    assert (breach.rule, breach.subject) == ("held without charge", "Queue q")


def test_a_device_that_is_held_for_nobody_is_told():
    holder = a_pod("r", node="n", namespace=names.RESERVATION_NAMESPACE, labels={names.GPU_GROUP_LABEL: "g"})
    assert not list(rules.devices_are_held_for_somebody(a_frame(holder, a_share("a", "0.5"))))
    [breach] = rules.devices_are_held_for_somebody(a_frame(holder))
    assert breach.rule == "held for nobody"


def test_who_was_put_there_by_hand_and_pays_for_a_part_holds_the_device():
    grants = rules.Grants()
    placed, theirs = by_us(a_share("a", "0.5")), a_share("b", "0.5")
    grants.as_granted(a_frame(placed, theirs))
    assert grants.named == frozenset({"g"})
    grants.as_granted(a_frame(theirs))
    assert grants.named == frozenset()


# --- others ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("seconds", "slowness", "late"), [(4, 1, False), (6, 1, True), (9, 2, False)])
def test_a_pod_of_others_is_late_after_five_seconds_of_an_idle_machine(seconds, slowness, late):
    pod = Placed("team/p", created_at=10, bound_at=10 + seconds, probe=True)
    how_slow = {"slowness": lambda begin, end: slowness}
    assert bool(list(rules.others_are_placed_soon([pod], [], **how_slow))) is late
    assert bool(list(rules.others_are_placed_soon([], [pod], **how_slow))) is late


def test_pods_of_the_tenant_may_be_late():
    assert not list(rules.others_are_placed_soon([Placed("h/p", created_at=0, bound_at=90)], [], **CALM))


def test_a_pod_of_others_that_ends_against_their_will_is_told():
    pod = a_pod("p", node="n", namespace=site.TEAM_NAMESPACE)
    assert not list(rules.others_are_left_alone(a_frame(pod), ()))
    going = type(pod)(
        metadata=ObjectMeta(name="p", namespace=site.TEAM_NAMESPACE, uid="p", deletion_timestamp="now"),
        spec=pod.spec,
        status=pod.status,
    )
    assert [breach.rule for breach in rules.others_are_left_alone(a_frame(going), ())] == ["evicted"]
    assert not list(rules.others_are_left_alone(a_frame(going), {"p"}))
    refused = a_pod("p", node="n", namespace=site.TEAM_NAMESPACE, phase="Failed", reason="OutOfcpu")
    assert [breach.rule for breach in rules.others_are_left_alone(a_frame(refused), {"p"})] == ["failed"]


def test_a_request_that_nobody_answers_is_told():
    entries = [Entry(1.0, "a flood", ("Pod h/p",), outcome) for outcome in ("done", "refused: 422 no")]
    assert not list(rules.everybody_is_answered(entries))
    failed = Entry(2.0, "a flood", ("Pod h/p",), "failed: 500 webhook")
    assert [breach.rule for breach in rules.everybody_is_answered([*entries, failed])] == ["no answer"]
    about_nobody = Entry(3.0, "a list", (), "failed: 500 webhook")
    assert [breach.subject for breach in rules.everybody_is_answered([about_nobody])] == ["request a list"]


# --- memory ----------------------------------------------------------------------------------------
def test_memory_that_stays_is_told_by_the_smallest_sample_of_each_time():
    def samples(*sizes):
        return [ProcessSample(float(at), "scheduler", 1, size, 10) for at, size in enumerate(sizes)]

    before = samples(130.0, 100.0, 120.0)
    assert not list(rules.memory_comes_back(before, samples(180.0, 119.0)))
    assert [breach.rule for breach in rules.memory_comes_back(before, samples(140.0, 125.0))] == [
        "memory stays"
    ]
