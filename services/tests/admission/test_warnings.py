"""Who is warned of what, and that nobody is held up for it."""

import asyncio
import time

import msgspec
import pytest

from deadlines import eventually
from kai.advice.facts import Facts
from kai.advice.finding import Reference
from kai.kube.reflector import Removed, Upserted
from kai.model.objects import Queue
from kai.runtime.webhook import AdmissionRequest, GroupVersionKind
from kai_admission import cluster_watch
from kai_admission.advisor import advisor
from kai_admission.cluster_watch import ClusterWatch, NodeBook, NodeRecord
from services.tests.admission.builders import a_pod_of

FACTS = Facts(queues={"team": msgspec.convert({"metadata": {"name": "team"}}, Queue)})


async def warned(obj, *, kind="Pod", old=None, facts=FACTS, missing=True, **request):
    asked = []

    async def is_missing(reference):
        asked.append(reference)
        return missing

    review = AdmissionRequest(
        uid="u",
        operation="UPDATE" if old else "CREATE",
        kind=GroupVersionKind(kind=kind),
        namespace="ns",
        object=obj,
        old_object=old,
        **request,
    )

    async def renewed(namespace, queue):
        return facts

    answer = await advisor(lambda: facts, is_missing, renewed)(review)
    assert answer.allowed
    return answer.warnings, asked


async def test_a_slip_is_told_and_the_pod_allowed():
    warnings, asked = await warned(a_pod_of("team", annotations={"gpu-fractoin": "0.5"}))
    assert warnings == (
        (
            "pod ns/p: annotation gpu-fractoin is not known and ignored; "
            "did you mean annotation gpu-fraction? [MisspeltKey]"
        ),
    )
    assert asked == []


async def test_what_is_called_missing_is_looked_for_once_more():
    warnings, asked = await warned(a_pod_of("new"))
    assert 'queue "new" does not exist' in warnings[0]
    assert asked == [Reference("Queue", "new")]
    assert (await warned(a_pod_of("new"), missing=False))[0] == ()


async def test_nothing_is_said_again_while_nothing_changes():
    wrong = a_pod_of("team", annotations={"gpu-fractoin": "0.5"})
    finalized = a_pod_of("team", annotations={"gpu-fractoin": "0.5"}, metadata={"finalizers": ["x/y"]})
    assert (await warned(finalized, old=wrong))[0] == ()
    assert (await warned(wrong, old=a_pod_of("team")))[0] != ()


async def test_what_is_on_its_way_out_needs_no_advice():
    going = a_pod_of(
        "team", annotations={"gpu-fractoin": "1"}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}
    )
    assert (await warned(going))[0] == ()


@pytest.mark.parametrize("kind", ["Pod", "Job", "CronJob", "PodGroup", "Queue", "Topology", "Secret"])
@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"metadata": None},
        {"metadata": []},
        {"metadata": {}, "spec": None},
        {"spec": {"template": 3}},
    ],
)
async def test_what_cannot_be_understood_is_left_to_who_refuses_it(kind, body):
    await warned(body, kind=kind)  # which looks whether it is allowed


async def test_nobody_reads_more_than_ten():
    slips = {f"kai.scheduler/none-{number}": "x" for number in range(5_000)}
    began = time.process_time()
    warnings, _ = await warned(a_pod_of("team", annotations=slips))
    assert len(warnings) == 10
    assert time.process_time() - began < 1


# --- what the watches know ---------------------------------------------------------------------
async def test_before_anything_is_known_nothing_is_said_of_it_and_nothing_is_read():
    watch = ClusterWatch(Facts())
    assert (watch.facts().queues, watch.facts().priority_classes, watch.facts().capacity) == (None,) * 3
    assert not await watch.is_missing(Reference("Queue", "x"))


async def test_an_api_server_that_is_not_there_is_tried_again_and_again(tmp_path, monkeypatch):
    pauses = []

    class AtOnce:
        def __init__(self, **_):
            pass

        def next(self):
            pauses.append(0.0)
            return pauses[-1]

    monkeypatch.setattr(cluster_watch, "Backoff", AtOnce)
    watch = ClusterWatch(Facts(), kubeconfig=str(tmp_path / "none"))
    running = asyncio.create_task(watch.run())
    await eventually(lambda: len(pauses) > 2, what="it is tried for the third time")
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()


def a_node(name, *, labels=None, **allocatable):
    body = {"metadata": {"name": name, "labels": labels or {}}, "status": {"allocatable": allocatable}}
    return Upserted(msgspec.convert(body, NodeRecord), False)


def test_devices_count_also_while_their_plugin_has_not_told_of_them():
    starting, replaced = NodeBook(), NodeBook()
    starting(a_node("a", cpu="8", labels={"nvidia.com/gpu.count": "8"}))
    assert starting.capacity.largest == {"cpu": 8, "nvidia.com/gpu": 8}
    body = {
        "allocatable": {"cpu": "7", "example.com/nic": "0"},
        "capacity": {"cpu": "8", "example.com/nic": "4"},
    }
    replaced(Upserted(msgspec.convert({"metadata": {"name": "b"}, "status": body}, NodeRecord), False))
    assert replaced.capacity.largest == {"cpu": 7, "example.com/nic": 4}
    divided = NodeBook()
    divided(a_node("c", labels={"nvidia.com/gpu.count": "8"}, **{"nvidia.com/mig-1g.5gb": "7"}))
    assert divided.capacity.largest == {"nvidia.com/mig-1g.5gb": 7}


def test_the_most_that_nodes_ever_offered_is_remembered():
    book = NodeBook()
    book(a_node("a", cpu="8", memory="1Gi"))
    book(a_node("b", cpu="16", labels={"nvidia.com/gpu.memory": "81559", "rack": "1"}))
    book(a_node("b", cpu="4"))
    book(Removed("a", "", None))
    seen = book.capacity
    assert seen.nodes == 2
    assert seen.largest == {"cpu": 16, "memory": 2**30}
    assert seen.total == {"cpu": 24, "memory": 2**30}
    assert seen.gpu_memory_mib == 81559
    assert seen.label_keys == {"nvidia.com/gpu.memory", "rack"}
