"""How often the status of queues is written; in virtual time."""

import asyncio

import msgspec
import pytest

from kai.kube import errors
from kai.kube.reflector import Removed, Upserted
from kai.model import names
from kai.model.condition_texts import MOST_BYTES
from kai.model.faults import Fault
from kai.model.objects import Queue
from kai.wire.sessions import NOTHING, SessionUpdate
from kai_queue_controller import accounts, publisher
from kai_queue_controller.faults import with_condition
from kai_queue_controller.publisher import Publisher
from kai_queue_controller.queues import QueueBook
from kai_queue_controller.tree import status_patch

pytestmark = pytest.mark.looptime

ONE = {"requested": {"cpu": "1"}, "allocated": {"cpu": "1"}}


class FakeApi:
    def __init__(self):
        self.objects, self.writes, self.failures, self.version = {}, [], {}, 1000
        self.refused = set()

    async def patch(self, res, name, patch, *, subresource, type):  # noqa: A002
        await asyncio.sleep(0.01)
        self.writes.append((name, patch["status"]))
        if name in self.refused:
            raise errors.Invalid("it breaks a rule", status=422)
        if name in self.failures:
            raise self.failures.pop(name)
        stored = self.objects[name]
        for key, value in patch["status"].items():
            if isinstance(value, dict):
                merged = {**(stored["status"].get(key) or {}), **value}
                stored["status"][key] = {k: v for k, v in merged.items() if v is not None}
            else:
                stored["status"][key] = value
        self.version += 1
        stored["metadata"]["resourceVersion"] = str(self.version)
        return msgspec.convert(stored, type)


class World:
    def __init__(self, build, *chain, **options):
        self.build, self.api, self.queues = build, FakeApi(), QueueBook()
        parents = ["", *chain]
        for name, parent in zip(chain, parents, strict=False):
            self.queue(name, parent=parent)
        self.publisher = Publisher(self.api, self.queues, interval=2.0, **options)

    async def __aenter__(self):
        self.task = asyncio.create_task(self.publisher.run())
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.wait([self.task])

    def queue(self, *args, **options):
        json = self.build.queue_json(*args, **options)
        self.api.objects[json["metadata"]["name"]] = json
        self.queues(Upserted(self.build.queue(*args, **options), False))

    def group(self, *args, **options):
        self.publisher.pod_group_sink(Upserted(self.build.group(*args, **options), False))


def written(world):
    return [name for name, _ in world.api.writes]


async def test_a_tree_of_any_depth_needs_one_patch_for_each_queue_deepest_first(build):
    async with World(build, "root", "department", "team", "project") as world:
        await asyncio.sleep(5)
        world.api.writes.clear()
        world.group("g", queue="project", resources=ONE)
        await asyncio.sleep(60)
    assert written(world) == ["project", "team", "department", "root"]
    assert world.api.objects["root"]["status"]["requested"] == {"cpu": "1"}


async def test_many_changes_cost_few_writes(build):
    async with World(build, "root", "team") as world:
        await asyncio.sleep(5)
        world.api.writes.clear()
        for number in range(1000):
            world.group(f"g{number}", queue="team", resources=ONE)
            await asyncio.sleep(0.01)
        await asyncio.sleep(10)
    assert len(world.api.writes) <= 14
    assert world.api.objects["root"]["status"]["allocated"] == {"cpu": "1000"}


async def test_nothing_changed_nothing_written(build):
    async with World(build, "root", "team") as world:
        world.group("g", queue="team", resources=ONE)
        await asyncio.sleep(5)
        world.api.writes.clear()
        world.group("g", queue="team", resources=ONE)
        world.queues(Upserted(build.queue("team", parent="root", version=5), True))
        await asyncio.sleep(60)
    assert world.api.writes == []


async def test_a_restart_writes_nothing(build):
    async with World(build, "root", "team") as first:
        first.group("g", queue="team", resources=ONE)
        await asyncio.sleep(5)
    async with World(build) as second:
        for json in first.api.objects.values():
            second.queues(Upserted(msgspec.convert(json, type(build.queue("x"))), False))
        second.group("g", queue="team", resources=ONE)
        await asyncio.sleep(60)
    assert second.api.writes == []


@pytest.mark.parametrize(
    "failure", [errors.ServerError("down", status=500), errors.Conflict("changed", status=409)]
)
async def test_a_write_that_fails_is_tried_again_and_stops_no_other(build, failure):
    async with World(build, "root", "team") as world:
        world.group("g", queue="team", resources=ONE)
        world.api.failures = {"team": failure}
        await asyncio.sleep(20)
    assert written(world) == ["team", "root", "team"]


async def test_a_queue_that_is_refused_again_and_again_is_tried_less_and_less_often(build):
    async with World(build, "root", "team") as world:
        world.api.refused = {"team"}
        for number in range(600):
            world.group(f"g{number}", queue="team", resources=ONE)
            await asyncio.sleep(1)
        assert 5 <= written(world).count("team") <= 30
        assert int(world.api.objects["root"]["status"]["requested"]["cpu"]) >= 590
        world.api.refused = set()
        await asyncio.sleep(70)
        assert world.api.objects["team"]["status"]["requested"] == {"cpu": "600"}
        world.api.writes.clear()
        world.group("more", queue="team", resources=ONE)
        await asyncio.sleep(5)
    assert written(world) == ["team", "root"]


async def test_a_queue_deleted_meanwhile_is_not_asked_for_again(build):
    async with World(build, "team") as world:
        world.group("g", queue="team", resources=ONE)
        world.api.failures = {"team": errors.NotFound("gone", status=404)}
        world.queues(Upserted(build.queue("team"), True))
        await asyncio.sleep(2.5)
        world.queues(Removed("team", "uid-team", None))
        await asyncio.sleep(20)
    assert written(world) == ["team"]


async def test_children_and_moved_groups_are_seen(build):
    async with World(build, "root", "a") as world:
        world.queue("b", parent="root")
        world.group("g", queue="a", resources=ONE)
        await asyncio.sleep(5)
        world.group("g", queue="b", resources=ONE)
        await asyncio.sleep(5)
    status = {name: json["status"] for name, json in world.api.objects.items()}
    assert status["root"]["childQueues"] == ["a", "b"]
    assert status["a"]["allocated"] == {}
    assert status["b"]["allocated"] == {"cpu": "1"}
    assert status["root"]["allocated"] == {"cpu": "1"}


async def test_a_group_that_ends_is_no_longer_counted(build):
    async with World(build, "team") as world:
        world.group("g", queue="team", resources=ONE)
        await asyncio.sleep(5)
        world.publisher.pod_group_sink(Removed("team/g", "uid-g", None))
        await asyncio.sleep(5)
    assert world.api.objects["team"]["status"]["allocated"] == {}


def a_fault(queue="team", message="spec.priority is too large"):
    return Fault(kind="Queue", key=queue, uid=f"uid-{queue}", reason="InvalidObject", message=message)


def an_update(**fields):
    return SessionUpdate(version=1, epoch=1, opened_at=0.0, **fields)


def test_a_fault_of_any_length_is_told_as_far_as_conditions_go_and_once():
    fault = a_fault(message="x" * 100_000)
    (condition,) = told = with_condition([], fault)
    assert len(condition["message"].encode()) == MOST_BYTES
    assert with_condition(told, fault) is None


async def test_a_queue_that_cannot_be_taken_in_says_so_until_it_can(build):
    async with World(build, "root", "team") as world:
        world.publisher.take_faults("default", an_update(full=True, faults=(a_fault(),)))
        await asyncio.sleep(10)
        (condition,) = world.api.objects["team"]["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "Accepted", "False", "InvalidObject",
        )  # fmt: skip
        writes = len(world.api.writes)
        world.publisher.take_faults("default", an_update(faults=(a_fault(),)))
        await asyncio.sleep(60)
        assert len(world.api.writes) == writes
        world.publisher.take_faults("default", an_update(cured=(("Queue", "team"),)))
        await asyncio.sleep(10)
    assert world.api.objects["team"]["status"]["conditions"] == []


SHOWN = {
    "type": "Accepted", "status": "False", "reason": "InvalidObject", "message": "spec.priority is too large",
}  # fmt: skip


async def test_what_a_queue_says_stands_until_a_scheduler_has_told_whether_it_is_so(build):
    async with World(build) as world:
        world.queue("team", status={"conditions": [SHOWN]})
        await asyncio.sleep(60)
        assert world.api.objects["team"]["status"]["conditions"] == [SHOWN]
        world.publisher.take_faults("default", an_update(full=True, faults=(a_fault(),)))
        await asyncio.sleep(60)
        assert world.api.writes == []


async def test_what_is_no_longer_so_is_taken_back_when_the_first_scheduler_tells(build):
    async with World(build) as world:
        world.queue("team", status={"conditions": [SHOWN]})
        await asyncio.sleep(60)
        world.publisher.take_faults("default", an_update(full=True))
        await asyncio.sleep(60)
    assert world.api.objects["team"]["status"]["conditions"] == []


@pytest.mark.parametrize(
    ("pool", "other"), [("", "a"), ("a", ""), ("a", "b"), (names.DEFAULT_NODE_POOL, "a")]
)
async def test_what_a_queue_says_is_taken_back_by_the_scheduler_of_its_own_node_pool_alone(
    build, pool, other
):
    """Of a queue that is not its own another scheduler does not look at all that may be wrong."""
    async with World(build) as world:
        labels = {names.NODE_POOL_LABEL: pool} if pool else {}
        world.queue("team", labels=labels, status={"conditions": [SHOWN]})
        world.publisher.take_faults("another", an_update(full=True, node_pool=other))
        await asyncio.sleep(60)
        assert world.api.objects["team"]["status"]["conditions"] == [SHOWN]
        world.publisher.take_faults("own", an_update(full=True, node_pool=pool))
        await asyncio.sleep(60)
        assert world.api.objects["team"]["status"]["conditions"] == []


async def test_what_schedulers_found_is_taken_back_when_all_of_them_say_so_whosever_the_queue_is(
    build,
):
    """The node pool of a queue need not have a scheduler."""
    async with World(build, "root") as world:
        world.queue("team", labels={names.NODE_POOL_LABEL: "nobody"})
        for shard in ("a", "b"):
            update = an_update(full=True, node_pool=shard, faults=(a_fault(),))
            world.publisher.take_faults(shard, update)
        await asyncio.sleep(60)
        assert world.api.objects["team"]["status"]["conditions"] == [SHOWN]
        world.publisher.take_faults("a", an_update(node_pool="a", cured=(("Queue", "team"),)))
        await asyncio.sleep(60)
        assert world.api.objects["team"]["status"]["conditions"] == [SHOWN]
        world.publisher.take_faults("b", an_update(full=True, node_pool="b"))
        await asyncio.sleep(60)
    assert world.api.objects["team"]["status"]["conditions"] == []


async def test_what_a_scheduler_that_is_gone_found_counts_no_more(build):
    async with World(build, "team") as world:
        world.publisher.take_faults("a", an_update(full=True, node_pool="a", faults=(a_fault(),)))
        await asyncio.sleep(60)
        assert world.api.objects["team"]["status"]["conditions"] == [SHOWN]
        world.publisher.take_faults("a", NOTHING)
        await asyncio.sleep(60)
    assert world.api.objects["team"]["status"]["conditions"] == []


async def test_without_a_label_of_node_pools_every_scheduler_looks_at_every_queue(build):
    async with World(build, nodepool_label_key="") as world:
        world.queue("team", status={"conditions": [SHOWN]})
        world.publisher.take_faults("default", an_update(full=True, node_pool="a"))
        await asyncio.sleep(60)
    assert world.api.objects["team"]["status"]["conditions"] == []


async def test_a_scheduler_that_is_gone_has_told_nothing_of_anybody(build):
    async with World(build) as world:
        world.queue("team", status={"conditions": [SHOWN]})
        world.publisher.take_faults("default", NOTHING)
        await asyncio.sleep(60)
    assert world.api.objects["team"]["status"]["conditions"] == [SHOWN]


async def test_what_is_wrong_with_a_queue_is_not_said_of_one_made_anew_under_its_name(build):
    async with World(build, "team") as world:
        world.publisher.take_faults("default", an_update(full=True, faults=(a_fault(),)))
        await asyncio.sleep(10)
        assert "conditions" in world.api.objects["team"]["status"]
        world.queues(Removed("team", "uid-team", None))
        world.queue("team", uid="another", version=5000)
        await asyncio.sleep(10)
    assert "conditions" not in world.api.objects["team"]["status"]


async def test_a_queue_that_is_moved_while_its_status_is_written_counts_where_it_is(build):
    async with World(build, "root", "team") as world:
        world.queue("other")
        await asyncio.sleep(5)
        world.api.objects["team"]["spec"]["parentQueue"] = "other"
        world.group("g", queue="team", resources=ONE)
        await asyncio.sleep(5)
        moved = world.build.queue_json("team", parent="other", version=1000)
        world.queues(Upserted(msgspec.convert(moved, Queue), True))
        await asyncio.sleep(5)
    status = {name: json["status"] for name, json in world.api.objects.items()}
    assert (status["other"].get("requested"), status["other"]["childQueues"]) == ({"cpu": "1"}, ["team"])
    assert (status["root"].get("requested", {}), status["root"]["childQueues"]) == ({}, [])


async def test_a_defect_over_the_queues_ends_neither_the_controller_nor_later_statuses(build, monkeypatch):
    def broken(*args):
        raise ZeroDivisionError

    monkeypatch.setattr(accounts, "totals", broken)
    async with World(build, "root", "team") as world:
        world.group("g", queue="team", resources=ONE)
        await asyncio.sleep(5)
        monkeypatch.undo()
        await asyncio.sleep(60)
        assert not world.task.done()
    assert world.api.objects["root"]["status"]["requested"] == {"cpu": "1"}


async def test_what_comes_back_of_our_own_writes_has_nothing_looked_at(build, monkeypatch):
    looked = []

    def noted(*args):
        looked.append(args)
        return status_patch(*args)

    monkeypatch.setattr(publisher, "status_patch", noted)
    async with World(build, "root", "team", "project") as world:
        await asyncio.sleep(5)
        world.group("g", queue="team", resources=ONE)
        await asyncio.sleep(5)
        for name, json in world.api.objects.items():
            assert world.queues.by_name[name].metadata.resource_version == json["metadata"]["resourceVersion"]
            looked.clear()
            world.queues(Upserted(msgspec.convert(json, Queue), True))
        await asyncio.sleep(20)
    assert looked == []


async def test_the_answer_about_a_queue_that_another_has_replaced_is_not_taken_for_the_new_one(build):
    async with World(build, "root") as world:
        await asyncio.sleep(5)
        old = world.queues.by_name["root"]
        json = build.queue_json("root")
        json["metadata"] |= {"uid": "uid-of-another", "resourceVersion": "2000"}
        world.queues(Removed("root", old.metadata.uid, old))
        world.queues(Upserted(msgspec.convert(json, Queue), False))
        world.queues.take_written(old)
        assert world.queues.by_name["root"].metadata.uid == "uid-of-another"
        world.queues(Removed("root", "uid-of-another", None))
        world.queues.take_written(old)
        assert world.queues.by_name == {}
