"""Events: what is written, aggregated and dropped."""

import asyncio
import re

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from kai.kube import errors, events
from kai.kube.events import EventRecorder, ObjectReference

pytestmark = pytest.mark.looptime

POD = ObjectReference(api_version="v1", kind="Pod", namespace="team", name="worker", uid="u1")


class FakeClient:
    def __init__(self):
        self.created, self.patched, self.fail = [], [], None
        self.names = set()
        self.seconds = 0.001

    async def create(self, res, body, *, namespace):
        await asyncio.sleep(self.seconds)
        if self.fail:
            raise self.fail
        if (name := body["metadata"]["name"]) in self.names:
            raise errors.AlreadyExists("it is there", status=409)
        self.names.add(name)
        self.created.append((namespace, body))

    async def patch(self, res, name, patch, *, namespace):
        self.patched.append((name, patch))


class Recording:
    def __init__(self, **options):
        self.client = FakeClient()
        self.recorder = EventRecorder(self.client, controller="binder", instance="binder-1", **options)

    async def __aenter__(self):
        self.task = asyncio.create_task(self.recorder.run())
        return self.recorder, self.client

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.wait([self.task])


async def test_an_event_says_who_what_and_why():
    async with Recording() as (recorder, client):
        recorder.emit(POD, "Normal", "Scheduled", "pod team/worker goes to n1", {"a": "b"}, action="Binding")
        await recorder.drain()
    namespace, body = client.created[0]
    assert namespace == body["metadata"]["namespace"] == "team"
    assert body["metadata"]["name"].startswith("worker.")
    assert body["metadata"]["annotations"] == {"a": "b"}
    assert (body["type"], body["reason"], body["action"]) == ("Normal", "Scheduled", "Binding")
    assert body["note"] == "pod team/worker goes to n1"
    assert (body["reportingController"], body["reportingInstance"]) == ("binder", "binder-1")
    assert body["regarding"] == POD


@pytest.mark.parametrize("at_the_cut", ["a", "-", ".", "-."])
async def test_the_event_of_an_object_with_a_long_name_has_a_name_that_the_api_takes(at_the_cut):
    name = "n" * (230 - len(at_the_cut)) + at_the_cut + "n" * 23
    async with Recording() as (recorder, client):
        recorder.emit(msgspec.structs.replace(POD, name=name), "Normal", "Scheduled", "pod goes to n1")
        await recorder.drain()
    found = client.created[0][1]["metadata"]["name"]
    label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    assert len(found) <= 253
    assert re.fullmatch(rf"{label}(\.{label})*", found)


async def test_repetitions_are_one_object_with_a_count():
    async with Recording() as (recorder, client):
        for _ in range(5):
            recorder.emit(POD, "Warning", "Unschedulable", "no room")
            await asyncio.sleep(1)
        await asyncio.sleep(90)
        assert len(client.created) == 1
        assert [patch["series"]["count"] for _, patch in client.patched] == [5]
        assert client.patched[0][0] == client.created[0][1]["metadata"]["name"]
        await asyncio.sleep(90)
        assert len(client.patched) == 1


async def test_another_message_or_object_is_another_event():
    async with Recording() as (recorder, client):
        recorder.emit(POD, "Warning", "Unschedulable", "no room")
        recorder.emit(POD, "Warning", "Unschedulable", "no room on 2 nodes")
        recorder.emit(ObjectReference(kind="Queue", name="q"), "Warning", "Unschedulable", "no room")
        await recorder.drain()
    assert sorted(namespace for namespace, _ in client.created) == ["default", "team", "team"]


async def test_after_a_long_pause_the_same_event_is_new():
    async with Recording() as (recorder, client):
        recorder.emit(POD, "Normal", "NotReady", "1 of 2 pods")
        await asyncio.sleep(events.FORGET_SECONDS + 1)
        recorder.emit(POD, "Normal", "NotReady", "1 of 2 pods")
        await recorder.drain()
    assert len(client.created) == 2


@pytest.mark.parametrize("came_to_tell", [True, False])
async def test_what_a_predecessor_may_have_told_is_told_once(came_to_tell):
    async with Recording() as (recorder, client):
        if came_to_tell:
            recorder.emit(POD, "Warning", "Unschedulable", "no room")
            await recorder.drain()
        successor = EventRecorder(client, controller="binder", instance="binder-2")
        successor.emit(POD, "Warning", "Unschedulable", "no room", maybe_told=True)
        running = asyncio.create_task(successor.run())
        await successor.drain()
        running.cancel()
    assert [body["note"] for _, body in client.created] == ["no room"]


async def test_what_is_not_repeated_is_forgotten():
    async with Recording() as (recorder, _):
        for number in range(50):
            recorder.emit(POD, "Warning", "BindingError", f"number {number}")
        await recorder.drain()
        assert len(recorder._records) == 50
        await asyncio.sleep(events.FORGET_SECONDS + 2 * events.SERIES_SECONDS)
        assert not recorder._records


async def test_an_event_that_was_lost_is_written_anew_when_it_comes_again():
    async with Recording() as (recorder, client):
        client.fail = errors.ServerError("in trouble", status=500)
        recorder.emit(POD, "Warning", "BindingError", "no volume")
        await recorder.drain()
        client.fail = None
        recorder.emit(POD, "Warning", "BindingError", "no volume")
        await recorder.drain()
    assert [body["note"] for _, body in client.created] == ["no volume"]


async def test_what_does_not_fit_into_the_queue_is_dropped_and_counted():
    recorder = EventRecorder(FakeClient(), controller="binder", capacity=2)
    for number in range(5):
        recorder.emit(POD, "Normal", "Scheduled", f"{number}")
    assert recorder.dropped == 3


async def test_one_namespace_with_thousands_of_events_keeps_back_no_other():
    async with Recording(each=100) as (recorder, client):
        for number in range(1000):
            recorder.emit(POD, "Normal", "NotReady", f"{number}")
        recorder.emit(msgspec.structs.replace(POD, namespace="other"), "Normal", "Scheduled", "at last")
        await recorder.drain()
    assert "other" in [namespace for namespace, _ in client.created[:3]]
    assert recorder.dropped == 900
    assert [body["note"] for namespace, body in client.created if namespace == "team"] == [
        str(number) for number in range(100)
    ]


async def test_a_failed_write_does_not_stop_the_others():
    async with Recording() as (recorder, client):
        client.fail = errors.Forbidden("namespace is terminating", status=403)
        recorder.emit(POD, "Normal", "Scheduled", "first")
        await recorder.drain()
        client.fail = None
        recorder.emit(POD, "Normal", "Scheduled", "second")
        await recorder.drain()
    assert [body["note"] for _, body in client.created] == ["second"]


async def test_what_another_process_has_told_of_the_same_occurrence_is_there_and_is_no_failure():
    names = []
    for failure in (None, errors.AlreadyExists("it is there", status=409)):
        registry = CollectorRegistry()
        async with Recording(registry=registry) as (recorder, client):

            async def create(res, body, *, namespace, failure=failure):
                names.append(body["metadata"]["name"])
                if failure:
                    raise failure

            client.create = create
            recorder.emit(POD, "Normal", "Evict", "goes", occurrence="session 7")
            await recorder.drain()
        assert registry.get_sample_value("kai_events_total", {"result": "written"}) == 1
    assert names[0] == names[1]


async def test_what_occurs_again_is_another_event_once_the_first_is_forgotten():
    async with Recording() as (recorder, client):
        recorder.emit(POD, "Normal", "Evict", "goes", occurrence="session 7")
        await asyncio.sleep(2 * events.FORGET_SECONDS)
        recorder.emit(POD, "Normal", "Evict", "goes", occurrence="session 8")
        await recorder.drain()
    first, second = (body["metadata"]["name"] for _, body in client.created)
    assert first != second


async def test_a_note_keeps_to_the_limit_of_the_api():
    async with Recording() as (recorder, client):
        recorder.emit(POD, "Normal", "Scheduled", "é" * 2000)
        await recorder.drain()
    note = client.created[0][1]["note"]
    assert len(note.encode()) <= 1024
    assert note.endswith("…")
