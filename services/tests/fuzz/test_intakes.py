"""Hostile objects through the intake of each process: what one user writes is that user's matter alone."""

import os
import random

import msgspec
import pytest

from kai.bench.objects import a_node, a_queue, usual_priorities
from kai.kube.reflector import Removed, Upserted
from kai.model.dra import ResourceClaim
from kai.model.faults import OutOfBounds
from kai.model.objects import Node, Pod, PodGroup, PriorityClass, Queue, Topology
from kai.snapshot.kinds import Kind
from kai.snapshot.state import ClusterState
from kai_admission.cluster_watch import NodeBook, NodeRecord
from kai_local.apiserver.schemas import structural
from kai_pod_grouper.errors import GroupingError
from kai_pod_grouper.grouper import group_pod
from kai_pod_grouper.objects.pods import decode_pod
from kai_pod_grouper.offline.cluster import FileCluster
from kai_pod_grouper.options import GroupingOptions
from kai_podgroup_controller.cluster import Cluster
from kai_podgroup_controller.facts import PodRecord
from kai_queue_controller.queues import QueueBook
from kai_queue_controller.tree import PodGroupRecord, Workloads, status_patch, totals
from kai_scheduler.changes import ChangeQueue

from .values import CUSTOM, SCHEMAS, Maker

SEED = int(os.environ.get("KAI_FUZZ_SEED", "0"))
#: For each intake; they take longer to make than to be taken in.
OBJECTS = int(os.environ.get("KAI_FUZZ_REVIEWS", "2000")) // 5
CHECK_EVERY = 40

OF_SCHEDULER = {
    "Pod": (Kind.POD, Pod),
    "Node": (Kind.NODE, Node),
    "Queue": (Kind.QUEUE, Queue),
    "PodGroup": (Kind.POD_GROUP, PodGroup),
    "PriorityClass": (Kind.PRIORITY_CLASS, PriorityClass),
    "Topology": (Kind.TOPOLOGY, Topology),
    "ResourceClaim": (Kind.RESOURCE_CLAIM, dict),
}


def objects(kinds, *, wrecked=0.4):
    """Number, kind and body of as many objects as wanted; some are not what their schema wants."""
    for number in range(OBJECTS):
        chance = random.Random(f"{SEED}:object:{number}")
        maker, kind = Maker(chance), chance.choice(kinds)
        body = maker.object(kind)
        meta = {key: body["metadata"].get(key, "") for key in ("name", "namespace")}
        meta["uid"] = f"{kind}/{meta['namespace']}/{meta['name']}/{chance.randrange(3)}"
        if chance.random() < wrecked:
            body = maker.wreck(body, chance.choice((1, 1, 2, 4)))
        # Whatever users write, who an object is the API server knows.
        told = body.get("metadata")
        body["metadata"] = (told if isinstance(told, dict) else {}) | meta
        yield number, chance, kind, body


def taken(body, struct):
    """The object as a watch decodes it; None where the watch could not."""
    try:
        return msgspec.json.decode(msgspec.json.encode(body), type=struct)
    except (msgspec.MsgspecError, UnicodeEncodeError, OverflowError):
        return None


def identity(body):
    meta = body["metadata"]
    return (f"{meta['namespace']}/" if meta.get("namespace") else "") + meta["name"], meta.get("uid", "")


class Findings(list):
    """What went wrong, by number of the object."""

    def of(self, number, kind, body, error):
        self.append(f"seed {SEED} object {number} {kind}: {type(error).__name__}: {error}: {str(body)[:500]}")

    def none(self):
        assert not self, f"{len(self)} of {OBJECTS}:\n" + "\n".join(self[:10])


def test_the_scheduler_takes_in_all_but_what_is_out_of_bounds_and_stays_consistent():
    state, wrong = a_state(), Findings()
    for number, chance, kind, body in objects(tuple(OF_SCHEDULER)):
        which, struct = OF_SCHEDULER[kind]
        obj = taken(body, struct)
        if obj is None:
            continue
        try:
            if chance.random() < 0.1:
                state.remove(which, identity(body)[0])
            else:
                state.apply(which, obj)
        except OutOfBounds:
            pass
        except Exception as error:  # noqa: BLE001 (of any kind, it is what is looked for)
            wrong.of(number, kind, body, error)
        if number % CHECK_EVERY == 0:
            try:
                state.check()
            except AssertionError as error:
                wrong.of(number, kind, body, error)
                state = a_state()
    state.check()
    wrong.none()


def a_state():
    state = ClusterState()
    for each in usual_priorities():
        state.apply(Kind.PRIORITY_CLASS, each)
    for number in range(3):
        state.apply(Kind.NODE, a_node(f"node-{number}", gpus=8, gpu_memory_mib=80_000))
    for name, parent in (("org", ""), ("team-a", "org"), ("team-b", "org")):
        state.apply(Kind.QUEUE, a_queue(name, parent=parent))
    return state


def test_the_schedulers_watches_take_in_everything():
    changes, wrong = (
        ChangeQueue(scheduler_name="kai-scheduler", debounce=0.1, period=1, clock=lambda: 0.0),
        Findings(),
    )
    sinks = {kind: changes.sink(which) for kind, (which, _) in OF_SCHEDULER.items()}
    for number, chance, kind, body in objects(tuple(OF_SCHEDULER)):
        obj = taken(body, OF_SCHEDULER[kind][1])
        if obj is not None:
            try:
                tell(sinks[kind], chance, obj)
            except Exception as error:  # noqa: BLE001 (of any kind, it is what is looked for)
                wrong.of(number, kind, body, error)
    changes.take()
    wrong.none()


def tell(sink, chance, obj):
    if chance.random() < 0.15 and not isinstance(obj, dict):
        sink(Removed(obj.key, obj.metadata.uid, None))
    else:
        sink(Upserted(obj, False))


async def test_the_pod_grouper_groups_or_says_why_not():
    wrong = Findings()
    owners = ("Job", "CronJob", "Deployment", "StatefulSet")
    for number, chance, kind, body in objects(("Pod", *owners, "PodGroup"), wrecked=0.6):
        pod = Maker(chance).object("Pod")
        manifest = [each for each in (body, pod) if isinstance(each.get("metadata"), dict)]
        meta = body.get("metadata")
        if kind in owners and isinstance(meta, dict):
            reference = {
                "apiVersion": body.get("apiVersion"),
                "kind": kind,
                "name": meta.get("name"),
                "uid": meta.get("uid"),
                "controller": True,
            }
            pod["metadata"]["ownerReferences"] = [reference]
            pod["metadata"]["namespace"] = meta.get("namespace")
        elif kind == "Pod":
            pod = body
        try:
            await group_pod(decode_pod(pod), FileCluster(manifest), GroupingOptions())
        except GroupingError:
            pass
        except Exception as error:  # noqa: BLE001 (of any kind, it is what is looked for)
            wrong.of(number, kind, body, error)
    wrong.none()


def test_the_podgroup_controller_takes_in_everything():
    cluster, wrong = (
        Cluster(node_pool_label_key="kai.scheduler/node-pool", concern=lambda key: None),
        Findings(),
    )
    sinks = {
        "Pod": (cluster.pod_sink, PodRecord),
        "PodGroup": (cluster.group_sink, PodGroup),
        "Node": (cluster.node_sink, Node),
        "Queue": (cluster.queue_sink, Queue),
        "PriorityClass": (cluster.priority_class_sink, PriorityClass),
        "ResourceClaim": (cluster.claim_sink, ResourceClaim),
    }
    for number, chance, kind, body in objects(tuple(sinks)):
        sink, struct = sinks[kind]
        obj = taken(body, struct)
        if obj is not None:
            try:
                tell(sink, chance, obj)
            except Exception as error:  # noqa: BLE001 (of any kind, it is what is looked for)
                wrong.of(number, kind, body, error)
    wrong.none()


def test_the_queue_controller_sums_up_everything():
    book, workloads, wrong = QueueBook(), Workloads(), Findings()
    for number, chance, kind, body in objects(("Queue", "PodGroup")):
        obj = taken(body, Queue if kind == "Queue" else PodGroupRecord)
        if obj is None:
            continue
        try:
            if kind == "Queue":
                tell(book, chance, obj)
            else:
                workloads.put(obj.key, obj.spec.queue, obj.status and obj.status.resources_status)
            for name, total in totals(book.by_name, workloads).items():
                status_patch(total, book.by_name[name].status)
        except Exception as error:  # noqa: BLE001 (of any kind, it is what is looked for)
            wrong.of(number, kind, body, error)
    wrong.none()


def test_admission_measures_every_node():
    book, wrong = NodeBook(), Findings()
    for number, chance, kind, body in objects(("Node",)):
        obj = taken(body, NodeRecord)
        if obj is not None:
            try:
                tell(book, chance, obj)
            except Exception as error:  # noqa: BLE001 (of any kind, it is what is looked for)
                wrong.of(number, kind, body, error)
    wrong.none()


@pytest.mark.parametrize(
    ("kind", "structs"),
    [
        ("Queue", (Queue,)),
        ("PodGroup", (PodGroup, PodGroupRecord)),
        ("Topology", (Topology,)),
        ("Pod", (Pod, PodRecord)),
        ("Node", (Node, NodeRecord)),
        ("ResourceClaim", (ResourceClaim,)),
        ("PriorityClass", (PriorityClass,)),
    ],
)
def test_what_its_schema_admits_every_watch_can_read(kind, structs):
    wrong, admitted = Findings(), 0
    for number, chance, _, body in objects((kind,), wrecked=0):
        if kind in CUSTOM and chance.random() < 0.4:
            body |= Maker(chance).wreck({key: body[key] for key in ("spec", "status") if key in body}, 1)
            body = stored(body)
            causes = []
            structural.validate(SCHEMAS[kind], body, None, causes)
            if causes:
                continue
        admitted += 1
        for struct in structs:
            try:
                msgspec.json.decode(msgspec.json.encode(body), type=struct)
            except msgspec.ValidationError as error:
                wrong.of(number, kind, body, error)
    assert admitted > OBJECTS / 2
    wrong.none()


def stored(value):
    """As an API server keeps it: without nulls, and whole numbers as such."""
    if isinstance(value, dict):
        return {key: stored(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [stored(child) for child in value if child is not None]
    if isinstance(value, float) and value.is_integer():
        return int(max(min(value, 2.0**53), -(2.0**53)))  # beyond that no number counts as whole
    return value
