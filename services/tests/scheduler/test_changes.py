"""What the watches tell: gathered, reduced, and acted on as soon as it matters and not before."""

import asyncio
import math

import pytest

from kai.kube.reflector import Removed, Synced, Unreadable, Upserted
from kai.model.objects import (
    Condition,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodSpec,
    PodStatus,
    Queue,
    SubGroup,
)
from kai.snapshot.state import Kind
from kai_scheduler.changes import ChangeQueue, Started, Vanished

DEBOUNCE, PERIOD = 0.03, 1.0


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def changes(clock):
    return ChangeQueue(scheduler_name="kai-scheduler", debounce=DEBOUNCE, period=PERIOD, clock=clock)


def a_pod(name="p", *, uid="u1", node="", phase="Pending", refused=False, ours=True, volumes=None):
    conditions = [Condition(type="PodScheduled", status="False")] if refused else None
    return Pod(
        metadata=ObjectMeta(name=name, namespace="ns", uid=uid),
        spec=PodSpec(scheduler_name="kai-scheduler" if ours else "other", node_name=node, volumes=volumes),
        status=PodStatus(phase=phase, conditions=conditions),
    )


def a_node(*, heartbeat="1", gpus="8", ready="True"):
    condition = Condition(type="Ready", status=ready, last_transition_time=heartbeat)
    return Node(
        metadata=ObjectMeta(name="n", uid="n", resource_version=heartbeat),
        status=NodeStatus(allocatable={"nvidia.com/gpu": gpus}, conditions=[condition]),
    )


async def due_after(changes, clock, *, timer=math.inf, not_before=0.0):
    """How long the wait would take, found without waiting."""
    waiting = asyncio.ensure_future(changes.wait(timer=timer, not_before=not_before))
    await asyncio.sleep(0)
    for delay in (0.0, DEBOUNCE, PERIOD, 5.0):
        clock.now += delay
        changes._wake.set()
        for _ in range(3):
            await asyncio.sleep(0)
        if waiting.done():
            return delay
        clock.now -= delay
    waiting.cancel()
    return math.inf


async def test_without_a_change_nothing_is_ever_due(changes, clock):
    assert await due_after(changes, clock) == math.inf


async def test_a_new_pod_is_looked_at_at_once(changes, clock):
    changes.sink(Kind.POD)(Upserted(a_pod(), False))
    assert await due_after(changes, clock) == DEBOUNCE


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(refused=True),
        a_pod(node="n", phase="Running"),
        a_pod(ours=False, node="n"),
    ],
    ids=["condition written", "runs", "somebody else's"],
)
async def test_what_changes_little_waits_for_the_period(changes, clock, pod):
    sink = changes.sink(Kind.POD)
    sink(Upserted(a_pod(), False))
    changes.take()
    sink(Upserted(pod, True))
    assert await due_after(changes, clock) == PERIOD


@pytest.mark.parametrize("change", ["finished", "removed"])
async def test_room_that_becomes_free_is_looked_at_at_once(changes, clock, change):
    sink = changes.sink(Kind.POD)
    sink(Upserted(a_pod(node="n", phase="Running"), False))
    changes.take()
    sink(
        Removed("ns/p", "u1", None)
        if change == "removed"
        else Upserted(a_pod(node="n", phase="Succeeded"), True)
    )
    assert await due_after(changes, clock) == DEBOUNCE


async def test_a_heartbeat_of_a_node_is_no_change(changes, clock):
    sink = changes.sink(Kind.NODE)
    sink(Upserted(a_node(), False))
    changes.take()
    sink(Upserted(a_node(heartbeat="2"), True))
    assert await due_after(changes, clock) == math.inf
    assert changes.take().objects == {}


@pytest.mark.parametrize("change", [{"gpus": "4"}, {"ready": "False"}])
async def test_a_node_that_has_more_or_less_to_give_is(changes, clock, change):
    sink = changes.sink(Kind.NODE)
    sink(Upserted(a_node(), False))
    changes.take()
    sink(Upserted(a_node(**change), True))
    assert await due_after(changes, clock) == DEBOUNCE


async def test_the_status_of_a_queue_is_no_change(changes):
    sink = changes.sink(Kind.QUEUE)
    for version in ("1", "2"):
        meta = ObjectMeta(name="q", uid="q", generation=1, resource_version=version)
        sink(Upserted(Queue(metadata=meta), version != "1"))
    assert list(changes.take().objects[Kind.QUEUE]) == ["q"]
    sink(Upserted(Queue(metadata=ObjectMeta(name="q", uid="q", generation=1)), True))
    assert changes.take().objects == {}


async def test_changes_of_one_object_replace_each_other(changes):
    sink = changes.sink(Kind.POD)
    for node in ("", "n1", "n2"):
        sink(Upserted(a_pod(node=node), True))
    batch = changes.take()
    assert [pod.spec.node_name for pod in batch.objects[Kind.POD].values()] == ["n2"]
    sink(Removed("ns/p", "u1", None))
    assert changes.take().objects[Kind.POD] == {"ns/p": None}


async def test_a_batch_is_applied_with_what_others_refer_to_first(changes):
    for kind, obj in [
        (Kind.POD, a_pod()),
        (Kind.POD_GROUP, PodGroup(metadata=ObjectMeta(name="g", namespace="ns"))),
        (Kind.NODE, a_node()),
        (Kind.QUEUE, Queue(metadata=ObjectMeta(name="q"))),
    ]:
        changes.sink(kind)(Upserted(obj, False))
    kinds = [kind for kind, _ in changes.take().ordered()]
    assert kinds == [Kind.QUEUE, Kind.NODE, Kind.POD_GROUP, Kind.POD]


async def test_time_alone_may_be_a_reason(changes, clock):
    assert await due_after(changes, clock, timer=clock.now + DEBOUNCE) == DEBOUNCE


async def test_a_cycle_does_not_start_before_it_may(changes, clock):
    changes.sink(Kind.POD)(Upserted(a_pod(), False))
    assert await due_after(changes, clock, not_before=clock.now + PERIOD) == PERIOD


async def test_pods_with_volume_claims_are_known_until_they_are_bound(changes):
    sink = changes.sink(Kind.POD)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    sink(Upserted(a_pod(volumes=volumes), False))
    assert changes.pods_with_claims == {"u1"}
    sink(Upserted(a_pod(volumes=volumes, node="n"), True))
    assert changes.pods_with_claims == set()


@pytest.mark.parametrize(
    ("spec", "gang"),
    [
        (PodGroupSpec(min_member=1), False),
        (PodGroupSpec(), False),
        (PodGroupSpec(min_member=2), True),
        (PodGroupSpec(min_member=1, sub_groups=[SubGroup(name="a", min_member=1)]), True),
    ],
)
async def test_a_group_is_a_gang_if_its_pods_make_sense_only_together(changes, spec, gang):
    group = PodGroup(metadata=ObjectMeta(name="g", namespace="ns", uid="g"), spec=spec)
    changes.sink(Kind.POD_GROUP)(Upserted(group, False))
    assert changes.groups["ns/g"].gang is gang


async def test_a_relist_says_which_pods_there_are(changes):
    sink = changes.sink(Kind.POD)
    sink(Upserted(a_pod("a", uid="1"), False))
    sink(Synced())
    assert changes.take().pods_after_relist is None
    sink(Upserted(a_pod("b", uid="2"), False))
    sink(Removed("ns/a", "1", None))
    sink(Synced())
    assert changes.take().pods_after_relist == frozenset({"2"})


async def test_pods_that_come_and_go_after_a_relist_are_not_mistaken_for_its_findings(changes):
    sink = changes.sink(Kind.POD)
    sink(Upserted(a_pod("a", uid="1"), False))
    sink(Synced())
    changes.take()
    sink(Synced())
    sink(Upserted(a_pod("b", uid="2"), False))
    sink(Removed("ns/a", "1", None))
    assert changes.take().pods_after_relist == frozenset({"2"})
    assert changes.take().pods_after_relist is None


def test_what_could_not_be_read_is_news_as_soon_as_it_can_though_nothing_else_changed(changes):
    queues, nodes = changes.sink(Kind.QUEUE), changes.sink(Kind.NODE)
    queue, node = Queue(metadata=ObjectMeta(name="q", uid="1")), a_node()
    for sink, obj in ((queues, queue), (nodes, node)):
        sink(Upserted(obj, False))
        sink(Unreadable(obj.key, obj.metadata.uid, "Expected `str`, got `int`"))
        changes.take()
        sink(Upserted(obj, True))
        (told,) = changes.take().objects.values()
        assert told == {obj.key: obj}


def test_only_a_change_that_wants_a_prompt_look_is_a_hurry_and_only_until_it_is_taken(changes):
    sink = changes.sink(Kind.POD)
    sink(Upserted(a_pod(node="n", phase="Running"), old_known=False))
    assert not changes.prompt
    sink(Upserted(a_pod("q", uid="u2"), old_known=False))
    assert changes.prompt
    changes.take()
    assert not changes.prompt


async def test_what_decisions_go_by_is_a_reason_for_a_cycle_within_the_period(changes, clock):
    changes.nudge()
    assert not changes.prompt
    clock.now += PERIOD
    await changes.wait()
    assert changes.take().objects == {}


# --- how the wait for a node ends ----------------------------------------------------------------
@pytest.mark.parametrize(
    ("versions", "told"),
    [
        ([a_pod(), a_pod(node="n"), None], [Vanished("n", "ns", "p", "u1")]),
        ([a_pod(), a_pod(node="n"), a_pod(node="n", phase="Running"), None], [Started("n", "ns")]),
        ([a_pod(), a_pod(node="n", phase="Running")], [Started("n", "ns")]),
        ([a_pod(), None], []),
        ([a_pod(node="n"), None], []),
        ([a_pod(node="n"), a_pod(node="n", phase="Running")], []),
        ([a_pod(ours=False), a_pod(node="n", ours=False), None], []),
    ],
    ids=["refused", "ran", "ran at once", "went", "came with a node", "came and ran", "of another scheduler"],
)
def test_only_pods_that_were_given_a_node_tell_something_of_it(changes, versions, told):
    """Whoever names a node in his pod may have it refused there as often as he likes."""
    found = []
    changes.ends = found.append
    for pod in versions:
        changes.sink(Kind.POD)(Removed("ns/p", "u1", None) if pod is None else Upserted(pod, True))
    assert found == told
