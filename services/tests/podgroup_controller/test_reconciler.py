"""When status is written, how often, and what else goes with it; in virtual time."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kai.kube import errors
from kai.kube.reflector import Removed, Unreadable, Upserted
from kai.kube.workqueue import WorkQueue
from kai.model import names
from kai.model.decisions import Eviction, Explanation, Nomination, Outcome, PodRef
from kai.model.faults import Fault
from kai.model.objects import PriorityClass, Queue
from kai.model.verdicts import GroupVerdict
from kai.wire.sessions import NOTHING, SessionUpdate
from kai.wire.verdicts import VerdictNews
from kai_podgroup_controller import reconciler
from kai_podgroup_controller.accounting import MOST_NAMED
from kai_podgroup_controller.announcer import Announcer
from kai_podgroup_controller.faults import FaultBook
from kai_podgroup_controller.outcomes import OutcomeBook
from kai_podgroup_controller.reconciler import Reconciler
from kai_podgroup_controller.verdicts import SILENCE_SECONDS, VerdictBook

pytestmark = pytest.mark.looptime

SCHEDULED = {"type": "PodScheduled", "status": "True"}
WORKER = PodRef(uid="uid-worker", namespace="team", name="worker", pod_group="team/train")
EVICTED = {names.LAST_EVICTION_TIMESTAMP: "2026-11-21T09:59:59Z"}


def merge(target, patch):
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            target[key] = merge(dict(target.get(key) or {}), value)
        else:
            target[key] = value
    return target


class FakeApi:
    """Keeps objects as JSON, applies merge patches, and counts who wrote what."""

    def __init__(self):
        self.objects = {}
        self.version = 1000
        self.writes = []
        #: What the next writes come to, and what all of a kind do.
        self.failures, self.refused = [], {}

    async def patch(self, res, name, patch, *, namespace, subresource="", kind=None, type):  # noqa: A002
        await asyncio.sleep(0.01)
        what = f"{res.plural}/{subresource}".rstrip("/")
        self.writes.append((what, name, patch))
        if self.failures:
            raise self.failures.pop(0)
        if what in self.refused:
            raise self.refused[what]
        stored = self.objects[res.plural, name]
        as_known = patch.get("metadata", {}).get("resourceVersion")
        if as_known is not None and int(as_known) < int(stored["metadata"]["resourceVersion"]):
            raise errors.Conflict("it has changed", status=409)
        merge(stored, patch)
        self.version += 1
        stored["metadata"]["resourceVersion"] = str(self.version)
        return msgspec.convert(stored, type)

    def written(self, resource):
        return [(name, patch) for what, name, patch in self.writes if what == resource]


class FakeRecorder:
    def __init__(self):
        self.events = []
        #: Those of them that are not written where they are there.
        self.maybe_told = []

    def emit(
        self,
        regarding,
        kind,
        reason,
        message,
        annotations=None,
        *,
        action="",
        occurrence="",
        maybe_told=False,
    ):
        event = (regarding.kind, regarding.name, kind, reason, message, annotations)
        self.events.append(event)
        if maybe_told:
            self.maybe_told.append(event)

    def reasons(self):
        return [(kind, name, reason) for kind, name, _, reason, _, _ in self.events]


class World:
    """A controller among fakes."""

    def __init__(self, build, *, now=datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC), **options):
        self.build = build
        self.api, self.recorder, self.book = FakeApi(), FakeRecorder(), OutcomeBook()
        self.verdicts = VerdictBook()
        self.queue = WorkQueue("test")
        self.cluster = build.cluster(lambda key: self.queue.add_after(key, reconciler.SETTLING_SECONDS))
        self.announcer = Announcer(self.cluster, self.recorder, now=lambda: now)
        self.faults = FaultBook(self.cluster, self.recorder)
        self.reconciler = Reconciler(
            self.api, self.cluster, self.book, self.verdicts, self.announcer, now=lambda: now, **options
        )

    async def __aenter__(self):
        self.task = asyncio.create_task(self.queue.run(self.reconciler.reconcile))
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.wait([self.task])

    def group(self, *args, **options):
        json = self.build.group_json(*args, **options)
        self.api.objects["podgroups", json["metadata"]["name"]] = json
        self.cluster.group_sink(Upserted(self.build.group(*args, **options), False))

    def pod(self, *args, **options):
        json = self.build.pod_json(*args, **options)
        self.api.objects["pods", json["metadata"]["name"]] = json
        self.cluster.pod_sink(Upserted(self.build.pod(*args, **options), False))

    def session(self, *outcomes, full=False, shard="default", **fields):
        self.take(
            SessionUpdate(version=1, epoch=1, opened_at=0, full=full, outcomes=outcomes, **fields),
            shard=shard,
        )

    def take(self, update, *, shard):
        self.announcer.announce(update)
        for key in self.faults.take(shard, update) | self.book.take(shard, update):
            self.queue.add_after(key, reconciler.SETTLING_SECONDS)

    def insight(self, *found, forgotten=(), uid="", anew=False):
        """It finds ``(verdict, code, text)`` of the group."""
        told = [
            GroupVerdict(pod_group="team/train", uid=uid, verdict=verdict, code=code, text=text)
            for verdict, code, text in found
        ]
        news = VerdictNews(told=tuple(told), forgotten=tuple(forgotten), anew=anew)
        for key in self.verdicts.take(news):
            self.queue.add_after(key, reconciler.SETTLING_SECONDS)

    async def heartbeats(self, seconds):
        """Insight is there and finds nothing new for so long; the group is looked at if something lapses."""
        for _ in range(seconds // 10):
            await asyncio.sleep(10)
            self.insight()
            if self.verdicts.lapsed():
                self.queue.add_after("team/train", 0)
        await asyncio.sleep(1)

    @property
    def shown(self):
        """The message of the group's newest condition."""
        return self.api.objects["podgroups", "train"]["status"]["schedulingConditions"][-1]["message"]


async def test_a_pod_placed_at_once_costs_one_write(build):
    async with World(build) as world:
        world.group()
        world.pod()
        await asyncio.sleep(1)
        world.session(build.outcome(Outcome.PLACED, message=""))
        await asyncio.sleep(0.5)
        world.pod(bound=True, version=2)
        await asyncio.sleep(0.5)
        world.pod(bound=True, phase="Running", version=3)
        await asyncio.sleep(60)
    resources = {"requested": {"cpu": "1"}, "allocated": {"cpu": "1"}}
    ((what, name, patch),) = world.api.writes
    assert (what, name, patch["status"]) == ("podgroups/status", "train", {"resourcesStatus": resources})
    assert world.recorder.events == []


async def test_a_gang_placed_over_some_time_costs_one_write(build):
    async with World(build) as world:
        world.group()
        for number in range(8):
            world.pod(f"w{number}")
        world.session(build.outcome(Outcome.PLACED, message=""))
        for number in range(8):
            await asyncio.sleep(0.3)
            world.pod(f"w{number}", bound=True, version=2)
        await asyncio.sleep(60)
    assert len(world.api.writes) == 1
    assert world.api.objects["podgroups", "train"]["status"]["resourcesStatus"]["allocated"] == {"cpu": "8"}


async def test_a_gang_whose_pods_say_their_group_only_when_they_are_bound_costs_one_write(build):
    async with World(build) as world:
        world.group(spec={"minMember": 8})
        world.session(build.outcome(Outcome.PLACED, message=""))
        for number in range(8):
            await asyncio.sleep(1)
            world.pod(f"w{number}", bound=True)
        await asyncio.sleep(60)
    assert len(world.api.writes) == 1
    assert world.api.objects["podgroups", "train"]["status"]["resourcesStatus"]["allocated"] == {"cpu": "8"}


async def test_a_gang_of_which_some_pods_do_not_come_is_charged_for_the_others_after_a_while(build):
    async with World(build) as world:
        world.group(spec={"minMember": 8})
        world.session(build.outcome(Outcome.PLACED, message=""))
        world.pod("w0", bound=True)
        await asyncio.sleep(reconciler.PATIENCE_SECONDS - 0.5)
        assert world.api.writes == []
        await asyncio.sleep(1)
        assert len(world.api.writes) == 1
        world.pod("w0", bound=True, phase="Succeeded", version=2)
        await asyncio.sleep(2 * reconciler.PAUSE_SECONDS)
    allocated = [patch["status"]["resourcesStatus"]["allocated"] for _, _, patch in world.api.writes]
    assert allocated == [{"cpu": "1"}, {"cpu": None}]


async def test_where_no_scheduler_says_anything_the_request_is_written_after_a_while(build):
    async with World(build) as world:
        world.group()
        world.pod()
        await asyncio.sleep(reconciler.PATIENCE_SECONDS - 0.5)
        assert world.api.writes == []
        await asyncio.sleep(1)
    assert world.api.writes[0][2]["status"] == {"resourcesStatus": {"requested": {"cpu": "1"}}}


async def test_a_group_that_does_not_fit_is_told_at_once_in_one_write(build):
    async with World(build) as world:
        world.group()
        world.pod()
        await asyncio.sleep(0.1)
        world.session(build.outcome(pod_messages={"team/worker": "0/3 nodes"}))
        await asyncio.sleep(1)
    ((_, patch),) = world.api.written("podgroups/status")
    assert patch["status"]["resourcesStatus"] == {"requested": {"cpu": "1"}}
    (condition,) = patch["status"]["schedulingConditions"]
    assert condition == {
        "type": "UnschedulableOnNodePool",
        "nodePool": "default",
        "reason": "Unschedulable",
        "message": "no room",
        "reasons": [],
        "status": "True",
        "transitionID": "1",
        "lastTransitionTime": "2026-11-21T10:00:00Z",
    }
    assert world.recorder.reasons() == [
        ("PodGroup", "train", "Unschedulable"),
        ("Pod", "worker", "Unschedulable"),
    ]


async def test_pods_that_say_only_later_that_they_are_of_a_group_are_told_as_well_and_once(build):
    async with World(build) as world:
        world.group()
        found = build.outcome(pod_messages={"team/worker": "0/3 nodes", "team/other": "0/3 nodes"})
        world.session(found)
        await asyncio.sleep(3)
        assert world.recorder.reasons() == [("PodGroup", "train", "Unschedulable")]
        for name in ("worker", "other"):
            world.pod(name)
            await asyncio.sleep(3)
        world.pod("other", version=3)
        await asyncio.sleep(3)
    assert world.recorder.reasons() == [
        ("PodGroup", "train", "Unschedulable"),
        ("Pod", "worker", "Unschedulable"),
        ("Pod", "other", "Unschedulable"),
    ]
    assert {name for name, _ in world.api.written("pods/status")} == {"worker", "other"}


async def test_why_a_group_waits_is_told_at_once_and_before_its_pods_tell_it(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.session(build.outcome(Outcome.NOT_READY))
        await asyncio.sleep(0.5)
        assert [what for what, _, _ in world.api.writes] == ["podgroups/status"]
        world.session(build.outcome())
        await asyncio.sleep(0.5)
        assert [what for what, _, _ in world.api.writes[1:]] == ["podgroups/status", "pods/status"]
        [condition] = world.api.objects["podgroups", "train"]["status"]["schedulingConditions"]
        assert condition["message"] == "no room"


async def test_its_pods_show_why_unless_the_group_asks_not_to(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.group("quiet", spec={"markUnschedulable": False})
        world.pod("q", group="quiet")
        world.session(
            build.outcome(pod_messages={"team/worker": "0/3 nodes"}),
            build.outcome(pod_group="team/quiet", invalid_pods=()),
        )
        await asyncio.sleep(1)
    ((name, patch),) = world.api.written("pods/status")
    assert name == "worker"
    assert patch["metadata"] == {"uid": "uid-worker", "resourceVersion": "1"}
    (condition,) = patch["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["message"]) == (
        "PodScheduled",
        "False",
        "0/3 nodes",
    )
    assert ("Pod", "q", "Unschedulable") in world.recorder.reasons()


async def test_pods_of_an_unknown_subgroup_are_told_also_in_a_group_that_runs(build):
    async with World(build) as world:
        world.group(spec={"markUnschedulable": False})
        world.pod("good", bound=True)
        world.pod("lost")
        world.session(build.outcome(Outcome.SETTLED, message="no subgroup x", invalid_pods=("team/lost",)))
        await asyncio.sleep(1)
    assert [name for name, _ in world.api.written("pods/status")] == ["lost"]
    assert world.recorder.reasons() == [("Pod", "lost", "Unschedulable")]


async def test_a_pod_bound_meanwhile_is_left_alone(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.session(build.outcome())
        world.pod(bound=True, version=2)
        await asyncio.sleep(1)
    assert world.api.written("pods/status") == []


async def test_the_conditions_go_once_nothing_waits(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.session(build.outcome())
        await asyncio.sleep(5)
        world.pod(bound=True, version=2000)
        world.session(build.outcome(Outcome.SETTLED, message="", clear_conditions=True))
        await asyncio.sleep(5)
    writes = world.api.written("podgroups/status")
    assert len(writes) == 2
    assert writes[1][1]["status"] == {
        "resourcesStatus": {"allocated": {"cpu": "1"}},
        "schedulingConditions": [],
    }


@pytest.mark.parametrize(
    ("passed", "maybe_told"),
    [
        pytest.param(timedelta(minutes=5), [], id="long after"),
        pytest.param(
            timedelta(seconds=5),
            [("PodGroup", "train", "Unschedulable"), ("Pod", "worker", "Unschedulable")],
            id="before its events may have been written",
        ),
    ],
)
async def test_a_restart_writes_nothing_and_announces_only_what_may_have_been_lost(build, passed, maybe_told):
    async with World(build) as first:
        first.group()
        first.pod()
        first.session(build.outcome(pod_messages={"team/worker": "0/3 nodes"}))
        await asyncio.sleep(5)
    async with World(build, now=datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC) + passed) as second:
        for (kind, name), json in first.api.objects.items():
            second.api.objects[kind, name] = json
        group, pod = first.api.objects["podgroups", "train"], first.api.objects["pods", "worker"]
        second.cluster.take_group(msgspec.convert(group, type(build.group())))
        second.cluster.take_pod(msgspec.convert(pod, type(build.pod())))
        second.cluster.begin()
        second.session(build.outcome(pod_messages={"team/worker": "0/3 nodes"}), full=True)
        await asyncio.sleep(60)
    assert second.api.writes == []
    assert second.recorder.reasons() == maybe_told
    assert second.recorder.events == second.recorder.maybe_told


async def test_a_restart_announces_what_its_predecessor_had_no_time_for(build):
    """And what it may have told before it could show it is told under the same name."""
    async with World(build) as world:
        world.group()
        world.pod()
        world.cluster.begin()
        world.session(build.outcome(), full=True)
        await asyncio.sleep(5)
    assert world.recorder.reasons() == [
        ("PodGroup", "train", "Unschedulable"),
        ("Pod", "worker", "Unschedulable"),
    ]
    assert world.recorder.events == world.recorder.maybe_told


async def test_what_came_after_the_start_is_announced_even_if_the_news_is_old(build):
    async with World(build) as world:
        world.group("old")
        world.cluster.begin()
        world.group("new")
        found = {name: build.outcome(Outcome.NOT_READY, pod_group=f"team/{name}") for name in ("old", "new")}
        world.session(*found.values(), full=True)
        await asyncio.sleep(5)
    assert world.recorder.reasons() == [("PodGroup", "new", "NotReady")]


async def test_what_befalls_a_group_while_schedulers_change_is_announced(build):
    """As where a node is lost on which the one that led ran as well as pods of the group."""
    async with World(build) as world:
        world.group()
        world.cluster.begin()
        world.session(build.outcome(Outcome.SETTLED, message=""), full=True)
        await asyncio.sleep(5)
        stale = build.outcome(Outcome.NOT_READY, message="1 of 2 pods", staleness="1 active")
        world.session(stale, full=True)
        await asyncio.sleep(5)
        world.session(stale, full=True)
        await asyncio.sleep(5)
    assert world.recorder.reasons() == [("PodGroup", "train", "StaleJob"), ("PodGroup", "train", "NotReady")]


async def test_a_message_that_changes_with_every_cycle_is_written_now_and_then(build):
    async with World(build) as world:
        world.group()
        for cycle in range(40):
            world.session(build.outcome(message=f"no room on {cycle} nodes"))
            await asyncio.sleep(0.5)
        await asyncio.sleep(5)
    writes = world.api.written("podgroups/status")
    assert 5 <= len(writes) <= 12
    assert writes[-1][1]["status"]["schedulingConditions"][0]["message"] == "no room on 39 nodes"


async def test_what_is_said_of_pods_and_changes_with_every_cycle_is_written_now_and_then(build):
    async with World(build) as world:
        world.group()
        world.pod()
        for cycle in range(40):
            text = f"no room on {cycle} nodes"
            world.session(build.outcome(pod_messages={"team/worker": text, "team/late": text}))
            await asyncio.sleep(0.5)
        world.pod("late")
        await asyncio.sleep(0.5)
        assert [name for name, _ in world.api.written("pods/status")].count("late") == 1
        await asyncio.sleep(5)
    writes = [patch for name, patch in world.api.written("pods/status") if name == "worker"]
    assert 5 <= len(writes) <= 12
    assert writes[-1]["status"]["conditions"][0]["message"] == "no room on 39 nodes"


async def test_an_outcome_that_comes_before_its_group_is_told_when_the_group_is_there(build):
    async with World(build) as world:
        world.session(build.outcome())
        await asyncio.sleep(2)
        world.group()
        world.pod()
        await asyncio.sleep(2)
    assert len(world.api.written("podgroups/status")) == 1
    assert ("PodGroup", "train", "Unschedulable") in world.recorder.reasons()


async def test_a_group_made_anew_is_told_nothing_of_the_one_that_had_its_name(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.session(build.outcome(uid="uid-train"))
        world.insight(SCARCE)
        await asyncio.sleep(5)
        world.recorder.events.clear()
        world.group(uid="another", version=50, spec={"schedulingBackoff": 1})
        await asyncio.sleep(5)
        assert "schedulingConditions" not in world.api.objects["podgroups", "train"]["status"]
        assert world.recorder.events == []
        world.session(build.outcome(uid="another"))
        await asyncio.sleep(5)
    assert world.shown == "Node-Pool 'default': no room"


async def test_what_was_to_be_told_of_a_group_is_not_written_to_one_made_anew_before_that_is_seen(build):
    anew = {"uid": "another", "version": 5000, "spec": {"schedulingBackoff": 1}}
    async with World(build) as world:
        world.group(spec={"schedulingBackoff": 1})
        world.pod()
        world.session(build.outcome(uid="uid-train"))
        world.api.objects["podgroups", "train"] = build.group_json(**anew)
        await asyncio.sleep(5)
        assert world.api.objects["podgroups", "train"]["status"] == {}
        world.group(**anew)
        world.session(build.outcome(uid="another"))
        await asyncio.sleep(5)
    assert world.shown == "Node-Pool 'default': no room"


async def test_a_group_whose_newest_version_nobody_can_read_is_told_all_the_same(build):
    async with World(build) as world:
        world.group()
        world.api.objects["podgroups", "train"] = build.group_json(version=5000)
        world.cluster.group_sink(Unreadable("team/train", "uid-train", "odd"))
        world.pod()
        world.session(build.outcome())
        await asyncio.sleep(5)
    assert world.shown == "no room"


async def test_one_group_in_trouble_does_not_stop_the_others(build):
    async with World(build) as world:
        world.group()
        world.group("other")
        world.pod(phase="Running")
        world.pod("o", group="other", phase="Running")
        world.api.failures = [errors.Conflict("changed", status=409)]
        await asyncio.sleep(10)
    assert {name for name, _ in world.api.written("podgroups/status")} == {"train", "other"}
    assert len(world.api.writes) == 3


async def test_a_group_deleted_meanwhile_is_no_failure(build):
    async with World(build) as world:
        world.group()
        world.pod(phase="Running")
        world.api.failures = [errors.NotFound("gone", status=404)]
        await asyncio.sleep(60)
    assert len(world.api.writes) == 1


@pytest.mark.parametrize(
    "failure",
    [
        errors.ServerError("down", status=500),
        errors.TransportError("no answer"),
        errors.NotSent("too many wait"),
    ],
)
async def test_a_pod_that_could_not_be_told_why_it_waits_is_told_later(build, failure):
    async with World(build) as world:
        world.group(status={"resourcesStatus": {"requested": {"cpu": "2"}}})
        world.pod("a")
        world.pod("b")
        world.session(build.outcome(Outcome.SETTLED, invalid_pods=("team/a", "team/b")))
        world.api.failures = [failure, failure]
        await asyncio.sleep(5)
    assert sorted(name for name, _ in world.api.written("pods/status")) == ["a", "a", "b", "b"]
    for name in ("a", "b"):
        assert world.api.objects["pods", name]["status"]["conditions"][0]["reason"] == "Unschedulable"


@pytest.mark.parametrize("refused", ["podgroups/status", "podgroups"])
@pytest.mark.parametrize(
    "failure",
    [
        errors.Invalid("it breaks a rule", status=422),
        errors.ServerError("webhook away", status=500),
        errors.DeadlineExceeded("webhook hangs"),
    ],
)
async def test_what_is_refused_of_a_group_keeps_nothing_else_from_its_users(build, refused, failure):
    async with World(build) as world:
        world.group()
        world.pod()
        world.api.refused = {refused: failure}
        world.session(build.outcome(annotations=EVICTED))
        await asyncio.sleep(5)
        done = {"podgroups/status", "podgroups", "pods/status"} - {refused}
        assert all(len(world.api.written(what)) == 1 for what in done)
        world.api.refused.clear()
        await asyncio.sleep(60)
    group = world.api.objects["podgroups", "train"]
    assert group["status"]["schedulingConditions"][0]["message"] == "no room"
    assert group["metadata"]["annotations"] == EVICTED


# --- timestamps ------------------------------------------------------------------------------------
START = {names.LAST_START_TIMESTAMP: "2026-11-21T09:00:00Z"}


async def test_the_last_start_is_not_written_where_nobody_reads_it(build):
    async with World(build) as world:
        world.group()
        world.session(build.outcome(Outcome.PLACED, annotations=START))
        await asyncio.sleep(60)
    assert world.api.written("podgroups") == []


async def test_it_is_written_if_asked_for(build):
    async with World(build, persist_last_start=True) as world:
        world.group()
        world.session(build.outcome(Outcome.PLACED, annotations=START))
        await asyncio.sleep(60)
    assert world.api.written("podgroups") == [
        ("train", {"metadata": {"uid": "uid-train", "annotations": START}})
    ]


async def test_it_is_written_as_soon_as_a_queue_sets_a_minimum_runtime(build):
    async with World(build) as world:
        world.group()
        world.session(build.outcome(Outcome.PLACED, annotations=START))
        await asyncio.sleep(5)
        world.cluster.queue_sink(
            Upserted(
                msgspec.convert({"metadata": {"name": "q"}, "spec": {"preemptMinRuntime": "5m"}}, Queue),
                False,
            )
        )
        await asyncio.sleep(5)
    assert len(world.api.written("podgroups")) == 1


async def test_staleness_and_eviction_are_always_written_and_take_the_start_along(build):
    stale = {names.STALE_TIMESTAMP: None, names.LAST_EVICTION_TIMESTAMP: "2026-11-21T09:30:00Z"}
    async with World(build) as world:
        world.group(annotations={names.STALE_TIMESTAMP: "2026-11-21T08:00:00Z"})
        world.session(build.outcome(Outcome.NOT_READY, annotations={**START, **stale}))
        await asyncio.sleep(60)
    ((_, patch),) = world.api.written("podgroups")
    assert patch["metadata"]["annotations"] == {**START, **stale}


# --- events ----------------------------------------------------------------------------------------
async def test_an_eviction_tells_who_profits(build):
    ref = PodRef(uid="u", namespace="team", name="worker", pod_group="team/train")
    eviction = Eviction(pod=ref, action="reclaim", message="pod goes", gang_size=3, evictor="other/big")
    async with World(build) as world:
        world.group()
        world.session(evictions=(eviction,))
    assert world.recorder.events == [
        (
            "PodGroup",
            "train",
            "Normal",
            "Evict",
            "pod goes",
            {
                "num-evicted-pods": "3",
                "evictor-action-type": "reclaim",
                "evictor-pod-group-namespace": "other",
                "evictor-pod-group-name": "big",
            },
        )
    ]


async def test_a_gang_that_is_evicted_is_one_event_and_its_owner_is_told_as_well(build):
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-job", "controller": True}
    evictions = tuple(
        Eviction(
            pod=PodRef(uid=name, namespace="team", name=name, pod_group="team/train"),
            action="reclaim",
            message=f"pod {name} goes",
            gang_size=7,
            evictor="other/big",
        )
        for name in "abcdefg"
    )
    async with World(build) as world:
        world.group(owners=[owner])
        world.session(evictions=evictions)
    said = "pod a goes, and with it 6 more of its pods: b, c, d, e and 2 more"
    assert [event[:5] for event in world.recorder.events] == [
        ("PodGroup", "train", "Normal", "Evict", said),
        ("Job", "train", "Normal", "Evict", said),
    ]
    assert {event[5]["num-evicted-pods"] for event in world.recorder.events} == {"7"}


async def test_an_eviction_of_a_session_that_was_heard_is_not_told_again_when_it_is_still_kept(build):
    def goes(name):
        ref = PodRef(uid=name, namespace="team", name=name, pod_group="team/train")
        return (Eviction(pod=ref, action="reclaim", message=f"pod {name} goes"),)

    async with World(build) as world:
        world.group()
        world.take(SessionUpdate(version=7, epoch=1, opened_at=0, evictions=goes("a")), shard="default")
        kept = ((7, goes("a")), (8, goes("b")))
        world.take(SessionUpdate(version=9, epoch=1, opened_at=0, full=True, kept=kept), shard="default")
        world.take(
            SessionUpdate(version=2, epoch=5, opened_at=0, full=True, kept=((1, goes("c")),)), shard="default"
        )
    assert [event[4] for event in world.recorder.events] == ["pod a goes", "pod b goes", "pod c goes"]


async def test_waiting_for_resources_not_ready_and_stale_are_events_of_their_own(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.session(
            build.outcome(Outcome.NOT_READY, message="1 of 2 pods", staleness="1 active"),
            nominations=(Nomination(pod=WORKER, node="n1"),),
        )
        await asyncio.sleep(1)
        world.session(build.outcome(Outcome.NOT_READY, message="1 of 3 pods", staleness="1 active"))
        await asyncio.sleep(1)
    assert world.recorder.reasons() == [
        ("Pod", "worker", "Pipelined"),
        ("PodGroup", "train", "StaleJob"),
        ("PodGroup", "train", "NotReady"),
        ("PodGroup", "train", "NotReady"),
    ]
    assert world.api.written("pods/status") == []


async def test_what_befell_a_pod_is_nothing_to_its_successor_of_the_same_name(build):
    """As where a pod ends at once, or sessions come late since the connection was lost."""
    before = PodRef(uid="uid-before", namespace="team", name="worker", pod_group="team/train")
    async with World(build) as world:
        world.group()
        world.pod()
        world.session(nominations=(Nomination(pod=before, node="n1"),))
        world.cluster.expect_end(before)
        world.session(build.outcome())
        await asyncio.sleep(1)
        assert world.shown == "no room"
    assert world.recorder.reasons() == [
        ("PodGroup", "train", "Unschedulable"),
        ("Pod", "worker", "Unschedulable"),
    ]


async def test_running_work_whose_queue_is_gone_is_told_so(build):
    gone = "queue 'team' does not exist"
    said = Explanation(reason="QueueDoesNotExist", message=gone)
    async with World(build) as world:
        world.group()
        world.pod(bound=True, phase="Running")
        world.session(build.outcome(Outcome.SETTLED, message=gone, explanations=(said,)))
        await asyncio.sleep(15)
        world.session(build.outcome(Outcome.SETTLED, message=""))
        await asyncio.sleep(1)
    assert world.recorder.reasons() == [("PodGroup", "train", "QueueDoesNotExist")]


# --- what concerns whom ----------------------------------------------------------------------------
async def test_a_priority_class_changes_what_is_preemptible(build):
    async with World(build) as world:
        world.group(spec={"priorityClassName": "p"})
        world.pod(phase="Running")
        await asyncio.sleep(5)
        high = msgspec.convert({"metadata": {"name": "p"}, "value": 200}, PriorityClass)
        world.cluster.priority_class_sink(Upserted(high, False))
        await asyncio.sleep(5)
        world.cluster.priority_class_sink(Removed("p", "u", None))
        await asyncio.sleep(5)
    patches = [patch["status"]["resourcesStatus"] for _, patch in world.api.written("podgroups/status")]
    assert patches[1:] == [
        {"allocatedNonPreemptible": {"cpu": "1"}},
        {"allocatedNonPreemptible": {"cpu": None}},
    ]


async def test_of_a_large_core_the_first_names_are_told_and_all_its_pods_are_charged(build):
    """All the names might be more than etcd takes, and with them the rest of the status were refused."""
    many = tuple(f"p{at:05}" for at in range(MOST_NAMED + 1))
    semi = {"preemptibility": "semi-preemptible"}
    async with World(build) as world:
        world.group(spec=semi)
        for name in many:
            world.pod(name, phase="Running")
        world.session(build.outcome(Outcome.SETTLED, message="", core_pods=many))
        await asyncio.sleep(15)
    ((_, patch),) = world.api.written("podgroups/status")
    status = patch["status"]
    assert status["schedulingState"] == {"corePods": list(many[:MOST_NAMED])}
    assert status["resourcesStatus"]["allocatedNonPreemptible"] == {"cpu": str(len(many))}
    async with World(build) as world:  # as after a restart, while there is no scheduler
        world.group(spec=semi, status=status)
        for name in many:
            world.pod(name, phase="Running")
        await asyncio.sleep(15)
    assert world.api.written("podgroups/status") == []


async def test_the_core_of_a_semi_preemptible_group_is_told_with_what_it_holds(build):
    async with World(build) as world:
        world.group(spec={"preemptibility": "semi-preemptible"})
        world.pod("a", phase="Running")
        world.pod("b", phase="Running")
        world.session(build.outcome(Outcome.SETTLED, message="", core_pods=("a",)))
        await asyncio.sleep(15)
        world.session(build.outcome(Outcome.SETTLED, message="", core_pods=("a", "b")))
        await asyncio.sleep(15)
        status = {
            "schedulingState": {"corePods": ["a", "b"]},
            "resourcesStatus": {"allocatedNonPreemptible": {"cpu": "2"}},
        }
        world.group(spec={"preemptibility": "preemptible"}, status=status, version=2000)
        await asyncio.sleep(15)
    statuses = [patch["status"] for _, patch in world.api.written("podgroups/status")]
    assert [each["schedulingState"] for each in statuses] == [
        {"corePods": ["a"]},
        {"corePods": ["a", "b"]},
        None,
    ]
    sums = [each["resourcesStatus"]["allocatedNonPreemptible"] for each in statuses]
    assert sums == [{"cpu": "1"}, {"cpu": "2"}, {"cpu": None}]


async def test_pods_that_end_or_move_change_the_sums(build):
    async with World(build) as world:
        world.group()
        world.group("other")
        world.pod("a", phase="Running")
        world.pod("b", phase="Running")
        world.pod("c", phase="Running")
        await asyncio.sleep(5)
        world.pod("a", phase="Succeeded", version=2)
        world.pod("b", group="other", phase="Running", version=2)
        world.cluster.pod_sink(Removed("team/c", "uid-c", None))
        await asyncio.sleep(5)
    status = {
        name: json["status"]["resourcesStatus"]
        for (kind, name), json in world.api.objects.items()
        if kind == "podgroups"
    }
    assert status == {
        "train": {"requested": {}, "allocated": {}},
        "other": {"requested": {"cpu": "1"}, "allocated": {"cpu": "1"}},
    }


async def test_news_older_than_our_own_write_is_not_believed(build):
    async with World(build) as world:
        world.group()
        world.pod(phase="Running")
        await asyncio.sleep(5)
        world.cluster.group_sink(Upserted(build.group(version=999), True))
        await asyncio.sleep(60)
    assert len(world.api.writes) == 1


@pytest.mark.parametrize("told_by", ["watch", "scheduler"])
async def test_nothing_is_written_to_a_group_that_goes_with_its_last_pod(build, told_by):
    async with World(build) as world:
        world.group()
        world.pod(bound=True, phase="Running")
        await asyncio.sleep(1)
        writes = len(world.api.writes)

        if told_by == "watch":
            world.pod(bound=True, phase="Running", version=2, going=True)
        else:
            world.cluster.expect_end(WORKER)
        world.session(build.outcome(Outcome.SETTLED, annotations=EVICTED))
        await asyncio.sleep(1)
        world.cluster.pod_sink(Removed("team/worker", "uid-worker", None))
        await asyncio.sleep(1)
        world.cluster.group_sink(Removed("team/train", "uid-train", None))
        await asyncio.sleep(2 * reconciler.PATIENCE_SECONDS)
        assert len(world.api.writes) == writes


A_POD = {"apiVersion": "v1", "kind": "Pod", "name": "worker", "uid": "uid-worker"}
A_JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-job"}


@pytest.mark.parametrize(
    ("owners", "written"),
    [
        pytest.param([A_POD], 0, id="its pod"),
        pytest.param([A_JOB], 1, id="a Job"),
        pytest.param([A_POD, A_JOB], 1, id="its pod and a Job"),
        pytest.param([{**A_POD, "uid": "uid-other"}], 1, id="another pod"),
    ],
)
async def test_an_evicted_pods_own_group_is_left_to_the_garbage_collector(build, owners, written):
    async with World(build) as world:
        world.group(owners=owners)
        world.pod(bound=True, phase="Running")
        await asyncio.sleep(1)
        world.api.writes.clear()

        world.cluster.expect_end(WORKER)
        world.session(build.outcome(Outcome.SETTLED, annotations=EVICTED))
        await asyncio.sleep(2 * reconciler.PATIENCE_SECONDS)
        world.pod(bound=True, phase="Running", version=2, going=True)
        await asyncio.sleep(2 * reconciler.PATIENCE_SECONDS)
        assert len(world.api.written("podgroups")) == written
        world.cluster.pod_sink(Removed("team/worker", "uid-worker", None))
        await asyncio.sleep(2 * reconciler.PATIENCE_SECONDS)
        assert len(world.api.written("podgroups/status")) == written
        world.cluster.group_sink(Removed("team/train", "uid-train", None))


async def test_a_pod_that_is_not_let_go_keeps_its_group_from_nothing_for_long(build):
    async with World(build) as world:
        world.group(owners=[A_POD])
        world.pod(bound=True, phase="Running")
        await asyncio.sleep(1)
        for moment in ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"):
            world.cluster.expect_end(WORKER)
            told = {names.LAST_EVICTION_TIMESTAMP: moment}
            world.session(build.outcome(Outcome.SETTLED, annotations=told))
            await asyncio.sleep(1.1 * reconciler.EVICTING_SECONDS)
            assert world.api.objects["podgroups", "train"]["metadata"]["annotations"] == told
        later = {names.LAST_EVICTION_TIMESTAMP: "2026-01-01T00:02:00Z"}
        world.session(build.outcome(Outcome.SETTLED, annotations=later))
        await asyncio.sleep(1)  # of nobody it is expected any more
        assert world.api.objects["podgroups", "train"]["metadata"]["annotations"] == later


async def test_a_group_that_its_pod_has_left_for_another_is_charged_for_it_no_longer(build):
    async with World(build) as world:
        world.group(owners=[A_POD])
        world.group("other")
        world.pod(bound=True, phase="Running")
        await asyncio.sleep(5)
        world.pod(group="other", bound=True, phase="Running", version=2)
        await asyncio.sleep(5)
        allocated = {
            name: json["status"]["resourcesStatus"].get("allocated")
            for (kind, name), json in world.api.objects.items()
            if kind == "podgroups"
        }
    assert allocated == {"train": {}, "other": {"cpu": "1"}}


async def test_a_group_that_nobody_collects_is_brought_up_to_date_in_the_end(build):
    async with World(build) as world:
        world.group(owners=[A_POD])
        world.pod(bound=True, phase="Running")
        await asyncio.sleep(1)
        world.cluster.pod_sink(Removed("team/worker", "uid-worker", None))
        await asyncio.sleep(1.1 * reconciler.FAREWELL_SECONDS)
        assert not world.api.objects["podgroups", "train"]["status"]["resourcesStatus"].get("allocated")


async def test_a_group_that_outlives_its_pods_is_brought_up_to_date(build):
    async with World(build) as world:
        world.group()
        world.pod(bound=True, phase="Running")
        await asyncio.sleep(1)
        world.cluster.pod_sink(Removed("team/worker", "uid-worker", None))
        world.session(build.outcome(Outcome.SETTLED, annotations=EVICTED))
        await asyncio.sleep(2 * reconciler.PATIENCE_SECONDS)
        group = world.api.objects["podgroups", "train"]
        assert group["metadata"]["annotations"] == EVICTED
        assert not group["status"]["resourcesStatus"].get("allocated")


async def test_a_pod_that_comes_in_place_of_the_last_one_is_told_without_delay(build):
    async with World(build) as world:
        world.group()
        world.pod(bound=True, phase="Running")
        await asyncio.sleep(1)
        world.cluster.pod_sink(Removed("team/worker", "uid-worker", None))
        await asyncio.sleep(1)
        world.pod("other", requests=[{"cpu": "3"}], bound=True, phase="Running")
        await asyncio.sleep(reconciler.PAUSE_SECONDS)
        status = world.api.objects["podgroups", "train"]["status"]
        assert status["resourcesStatus"]["allocated"]["cpu"] == "3"


# --- objects that cannot be taken in -------------------------------------------------------------
def a_fault(kind="Pod", key="team/worker", uid="uid-worker", message="gpu-memory is too much"):
    return Fault(kind=kind, key=key, uid=uid, reason="InvalidObject", message=message)


async def test_a_pod_that_cannot_be_taken_in_is_told_by_event_and_condition(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.pod("other")
        await asyncio.sleep(0.1)
        world.session(build.outcome(), faults=(a_fault(),))
        await asyncio.sleep(1)
    written = {name: patch["status"]["conditions"] for name, patch in world.api.written("pods/status")}
    assert written["worker"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "InvalidObject",
            "message": "gpu-memory is too much",
            "lastTransitionTime": "2026-11-21T10:00:00Z",
        }
    ]
    assert written["other"][0]["reason"] == "Unschedulable"
    assert [event[:5] for event in world.recorder.events if event[3] == "InvalidObject"] == [
        ("Pod", "worker", "Warning", "InvalidObject", "gpu-memory is too much")
    ]
    assert ("Pod", "worker", "Unschedulable") not in world.recorder.reasons()


async def test_a_pod_that_is_put_right_is_told_of_again_as_every_other(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.session(full=True, faults=(a_fault(),))
        await asyncio.sleep(1)
        world.session(build.outcome(), cured=(("Pod", "team/worker"),))
        await asyncio.sleep(5)
    reasons = [patch["status"]["conditions"][0]["reason"] for _, patch in world.api.written("pods/status")]
    assert reasons == ["InvalidObject", "Unschedulable"]


@pytest.mark.parametrize("kind", ["PodGroup", "ResourceClaim", "Queue", "Node", "NodeResourceTopology"])
async def test_an_object_of_any_kind_that_cannot_be_taken_in_gets_one_event(build, kind):
    async with World(build) as world:
        world.session(full=True, faults=(a_fault(kind, "team/it", "uid-it"),))
        world.session(faults=(a_fault("Pod"),))
        await asyncio.sleep(1)
    assert world.recorder.reasons()[0] == (kind, "it", "InvalidObject")
    assert len(world.recorder.events) == 2


async def test_what_a_pod_shows_already_is_told_after_a_restart_only_if_it_was_not(build):
    async with World(build) as world:
        world.group()
        shown = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "InvalidObject",
            "message": "gpu-memory is too much",
        }
        world.pod(conditions=[shown])
        world.session(full=True, faults=(a_fault(),))
        await asyncio.sleep(1)
    assert world.recorder.reasons() == [("Pod", "worker", "InvalidObject")]
    assert world.recorder.events == world.recorder.maybe_told
    assert world.api.written("pods/status") == []


async def test_a_condition_about_a_fault_that_is_over_is_set_right_though_nobody_says_more(build):
    async with World(build) as world:
        world.group()
        shown = {"type": "PodScheduled", "status": "False", "reason": "SetAside", "message": "it failed"}
        world.pod(conditions=[shown])
        world.session(full=True)
        await asyncio.sleep(1)
    ((_, patch),) = world.api.written("pods/status")
    (condition,) = patch["status"]["conditions"]
    assert (condition["reason"], condition["status"]) == ("Unschedulable", "False")
    assert "over" in condition["message"]


async def test_only_the_scheduler_of_its_node_pool_says_that_nothing_is_wrong_with_a_pod(build):
    async with World(build) as world:
        world.group(labels={"kai.scheduler/node-pool": "blue"})
        shown = {"type": "PodScheduled", "status": "False", "reason": "SetAside", "message": "it failed"}
        world.pod(conditions=[shown])
        world.session(full=True)
        await asyncio.sleep(1)
        blue = {"shard": "night", "node_pool": "blue"}
        world.session(full=True, **blue, faults=(replace(a_fault(message="it failed"), reason="SetAside"),))
        await asyncio.sleep(1)
        assert world.api.written("pods/status") == []
        assert world.recorder.events == world.recorder.maybe_told
        world.session(**blue, cured=(("Pod", "team/worker"),))
        await asyncio.sleep(1)
    ((_, patch),) = world.api.written("pods/status")
    assert "over" in patch["status"]["conditions"][0]["message"]


async def test_a_shard_that_is_gone_says_nothing_of_pods_whose_own_scheduler_is_away(build):
    async with World(build) as world:
        world.group()
        shown = {"type": "PodScheduled", "status": "False", "reason": "SetAside", "message": "it failed"}
        world.pod(conditions=[shown])
        world.take(NOTHING, shard="night")
        await asyncio.sleep(1)
        assert world.api.written("pods/status") == []
        world.session(full=True)
        await asyncio.sleep(1)
    ((_, patch),) = world.api.written("pods/status")
    assert "over" in patch["status"]["conditions"][0]["message"]


# --- verdicts --------------------------------------------------------------------------------------
SCARCE = ("ESCALATE", "NotEnoughFree", "it asks for 8 GPUs, and 2 are free")
OWN = "no room; verdict ESCALATE (NotEnoughFree): it asks for 8 GPUs, and 2 are free"


async def test_a_verdict_stands_behind_what_the_scheduler_says_in_condition_and_event(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.session(build.outcome())
        await asyncio.sleep(5)
        assert world.shown == "no room"
        world.insight(SCARCE)
        await asyncio.sleep(5)
        assert world.shown == OWN
        world.insight(("ESCALATE", "NotEnoughFree", "it asks for 8 GPUs, and 3 are free"))
        await asyncio.sleep(5)
        assert world.shown.endswith("3 are free")
    about_group = [event[3:5] for event in world.recorder.events if event[0] == "PodGroup"]
    assert about_group == [("Unschedulable", "no room"), ("Unschedulable", OWN)]
    assert len(world.api.written("podgroups/status")) == 3
    condition = world.api.objects["podgroups", "train"]["status"]["schedulingConditions"][-1]
    assert condition["transitionID"] == "1"


async def test_a_verdict_that_is_known_before_the_outcome_is_told_with_it(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.insight(SCARCE)
        await asyncio.sleep(1)
        world.session(build.outcome())
        await asyncio.sleep(5)
    assert [event[4] for event in world.recorder.events if event[0] == "PodGroup"] == [OWN]
    assert world.shown == OWN


async def test_a_verdict_on_a_group_is_told_of_none_that_was_made_anew_under_its_name(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.session(build.outcome(uid="uid-train"))
        world.group(uid="another", version=5000)
        await asyncio.sleep(5)
        world.session(build.outcome(uid="another"))
        world.insight(SCARCE, uid="uid-train")  # it has not seen the other one yet
        await asyncio.sleep(5)
        assert world.shown == "no room"
        world.insight(SCARCE, uid="another")
        await asyncio.sleep(5)
    assert world.shown == OWN
    assert [event[4] for event in world.recorder.events if event[0] == "PodGroup"] == ["no room", OWN]


async def test_a_verdict_on_a_group_made_anew_stands_though_the_other_was_there_when_it_came(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.session(build.outcome(uid="uid-train"))
        await asyncio.sleep(5)
        world.session(build.outcome(uid="another"))
        world.insight(SCARCE, uid="another")
        await asyncio.sleep(5)
        world.group(uid="another", version=5000)
        await asyncio.sleep(5)
    assert world.shown == OWN


async def test_a_group_that_is_not_ready_is_told_what_it_lacks(build):
    async with World(build) as world:
        world.group()
        world.session(build.outcome(Outcome.NOT_READY, message="1 of 2 pods"))
        await asyncio.sleep(1)
        world.insight(("CHANGE", "PodsMissing", "one more has to be made"))
        await asyncio.sleep(1)
    assert [event[3:5] for event in world.recorder.events] == [
        ("NotReady", "1 of 2 pods"),
        ("NotReady", "1 of 2 pods; verdict CHANGE (PodsMissing): one more has to be made"),
    ]


async def test_another_verdict_on_a_group_from_before_the_start_is_told_though_the_first_is_not(build):
    async with World(build) as world:
        world.group()
        world.cluster.begin()
        world.session(build.outcome(Outcome.NOT_READY, message="1 of 2 pods"), full=True)
        world.insight(("CHANGE", "PodsMissing", "one more has to be made"))
        await asyncio.sleep(1)
        assert world.recorder.events == []
        world.insight(SCARCE)
        await asyncio.sleep(1)
    assert [event[3:5] for event in world.recorder.events] == [
        ("NotReady", OWN.replace("no room", "1 of 2 pods"))
    ]


async def test_a_verdict_that_is_forgotten_is_taken_back_and_one_on_who_runs_is_not_told(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.session(build.outcome())
        world.insight(SCARCE)
        await asyncio.sleep(5)
        world.insight(forgotten=["team/train"])
        await asyncio.sleep(5)
        assert world.shown == "no room"
        world.insight(SCARCE)
        world.session(build.outcome(Outcome.PLACED, message="", clear_conditions=True))
        await asyncio.sleep(5)
        world.session(build.outcome())
        await asyncio.sleep(5)
    assert world.shown == "no room"


SHOWN = {
    "type": "UnschedulableOnNodePool",
    "nodePool": "default",
    "reason": "Unschedulable",
    "message": OWN,
    "status": "True",
    "transitionID": "1",
    "lastTransitionTime": "2026-11-21T09:00:00Z",
}


async def test_who_starts_lets_a_verdict_stand_until_it_knows_better(build):
    async with World(build) as world:
        world.group(status={"schedulingConditions": [SHOWN]})
        world.cluster.begin()
        world.pod()
        world.session(build.outcome(), full=True)
        await asyncio.sleep(60)
        world.insight(SCARCE)
        await asyncio.sleep(60)
        written = [patch["status"] for _, patch in world.api.written("podgroups/status")]
        assert not any("schedulingConditions" in status for status in written)
        assert "PodGroup" not in [event[0] for event in world.recorder.events]
        world.session(build.outcome(message="another reason"))
        await asyncio.sleep(5)
        assert world.shown == OWN.replace("no room", "another reason")


async def test_where_insight_falls_silent_its_verdicts_count_no_more(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.session(build.outcome())
        world.insight(SCARCE)
        await asyncio.sleep(SILENCE_SECONDS - 1)
        assert not world.verdicts.lapsed()
        world.insight()
        await asyncio.sleep(SILENCE_SECONDS + 1)
        assert [world.verdicts.lapsed() for _ in range(2)] == [True, False]
        world.queue.add_after("team/train", 0)
        await asyncio.sleep(5)
    assert world.shown == "no room"


async def test_a_verdict_of_which_the_next_insight_knows_nothing_stands_for_five_minutes_and_no_longer(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.session(build.outcome())
        world.insight(SCARCE, anew=True)
        await world.heartbeats(600)
        assert world.shown == OWN
        world.insight(anew=True)
        await world.heartbeats(200)
        world.insight(anew=True)  # its stream broke: what it has not renewed is no younger for that
        await world.heartbeats(60)
        assert world.shown == OWN
        await world.heartbeats(60)
        assert world.shown == "no room"
        world.insight(SCARCE)
        await world.heartbeats(600)
    assert world.shown == OWN
    assert [event[4] for event in world.recorder.events if event[0] == "PodGroup"] == [OWN]


async def test_a_verdict_that_the_next_insight_finds_as_well_stands_all_the_time(build):
    async with World(build) as world:
        world.group()
        world.pod()
        world.session(build.outcome())
        world.insight(SCARCE, anew=True)
        await asyncio.sleep(5)
        world.insight(anew=True)
        await world.heartbeats(200)
        world.insight(SCARCE)
        await world.heartbeats(600)
    assert world.shown == OWN
    assert [event[4] for event in world.recorder.events if event[0] == "PodGroup"] == [OWN]


async def test_a_verdict_from_before_the_start_that_insight_does_not_know_stands_for_five_minutes(build):
    async with World(build) as world:
        world.group(status={"schedulingConditions": [SHOWN]})
        world.cluster.begin()
        world.pod()
        world.session(build.outcome(), full=True)
        world.insight(anew=True)
        await world.heartbeats(280)
        assert world.shown == OWN
        await world.heartbeats(40)
    assert world.shown == "no room"
