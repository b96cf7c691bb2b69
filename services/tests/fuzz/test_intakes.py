"""Hostile objects through the intake of each process: what one user writes is that user's matter alone."""

import os
import random
import sys

import msgspec
import pytest

from kai.bench.objects import a_node, a_queue, usual_priorities
from kai.engine import Engine
from kai.grouping.errors import GroupingError
from kai.grouping.grouper import group_pod
from kai.grouping.objects.pods import decode_pod
from kai.grouping.offline.cluster import FileCluster
from kai.grouping.options import GroupingOptions
from kai.kube.reflector import Removed, Upserted
from kai.model import names
from kai.model.dra import ResourceClaim
from kai.model.objects import Node, Pod, PodGroup, PriorityClass, Queue, Topology
from kai.snapshot.kinds import Kind
from kai.snapshot.state import ClusterState
from kai_admission.cluster_watch import NodeBook, NodeRecord
from kai_local.apiserver.schemas import structural
from kai_podgroup_controller.cluster import Cluster
from kai_podgroup_controller.facts import PodRecord
from kai_queue_controller.queues import QueueBook
from kai_queue_controller.tree import PodGroupRecord, Workloads, status_patch, totals
from kai_scheduler.changes import ChangeQueue

from .reviews import swollen
from .values import CUSTOM, SCHEMAS, Maker, lengthened, places

SEED = int(os.environ.get("KAI_FUZZ_SEED", "0"))
#: For each intake; they take longer to make than to be taken in.
OBJECTS = int(os.environ.get("KAI_FUZZ_REVIEWS", "2000")) // 5
CHECK_EVERY = 40
#: Kinds that come more often where something is to be decided.
_MORE = ("Pod",) * 8 + ("PodGroup",) * 4
#: Of Python for a cycle over some dozens of objects.
MOST_LINES = 1_000_000

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
    """Number, kind and body of as many objects as wanted; some are not what their schema wants, some huge."""
    for number in range(OBJECTS):
        chance = random.Random(f"{SEED}:object:{number}")
        maker, kind = Maker(chance), chance.choice(kinds)
        body = maker.object(kind)
        meta = {key: body["metadata"].get(key, "") for key in ("name", "namespace")}
        meta["uid"] = f"{kind}/{meta['namespace']}/{meta['name']}/{chance.randrange(3)}"
        if chance.random() < wrecked:
            body = maker.wreck(body, chance.choice((1, 1, 2, 4)))
        if chance.random() < 0.06:
            body = chance.choice((swollen, lengthened, lengthened))(chance, body)
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


def test_the_scheduler_takes_in_all_but_what_is_out_of_bounds_and_decides_about_all_that_it_took_in():
    state, engine, wrong = a_state(), Engine(contained=True), Findings()
    for number, chance, kind, body in objects((*OF_SCHEDULER, *_MORE)):
        which, struct = OF_SCHEDULER[kind]
        if kind in _MODERATE and chance.random() < 0.8:
            _MODERATE[kind](chance, body)
        obj = taken(body, struct)
        try:
            if chance.random() < 0.1:
                state.remove(which, identity(body)[0])
            elif obj is not None:
                state.take(which, obj)
        except Exception as error:  # noqa: BLE001 (of any kind, it is what is looked for)
            wrong.of(number, kind, body, error)
        if number % CHECK_EVERY == 0:
            try:
                state.check()
                decide(state, engine, chance, now=float(number))
                state.check()
            except Exception as error:  # noqa: BLE001 (of any kind, it is what is looked for)
                wrong.of(number, kind, body, error)
                state, engine = a_state(), Engine(contained=True)
    state.check()
    wrong.none()


def moderate_pod(chance, body):
    """Let a pod ask for what nodes have, and wait, whatever else it says: else next to none is taken in."""
    spec, meta = body.get("spec"), body["metadata"]
    if not isinstance(spec, dict):
        return
    number = chance.randrange(6)
    meta["name"], meta["uid"] = f"{meta['name']}-{number}", f"{meta['uid']}/{number}"
    group = {names.POD_GROUP_ANNOTATION: chance.choice(("a", "b", "c", "g", "p"))}
    meta["annotations"] = group | ({names.GPU_FRACTION: "0.5"} if chance.random() < 0.3 else {})
    meta["labels"] = {names.QUEUE_LABEL: "team-a"}
    for key in ("nodeName", "schedulingGates", "resources", "overhead"):
        if chance.random() < 0.9:
            spec.pop(key, None)
    if chance.random() < 0.9:
        body.pop("status", None)
    for key in ("containers", "initContainers"):
        for container in spec.get(key) if isinstance(spec.get(key), list) else ():
            if isinstance(container, dict):
                asked = {"cpu": chance.choice(("1m", "1", "2")), "memory": chance.choice(("1Mi", "1Gi"))}
                container["resources"] = {"requests": asked}
    for holder, key in list(places(spec)):
        if key in ("maxSkew", "minDomains", "weight"):
            holder[key] = chance.choice((1, 2, 100))


def moderate_group(chance, body):
    """Let a pod group need as many pods as there may be, and have a queue."""
    if isinstance(spec := body.get("spec"), dict):
        spec |= {"minMember": chance.choice((0, 1, 2)), "queue": chance.choice(("team-a", "team-b"))}
        for key in ("subGroups", "minSubGroup", "topologyConstraint", "schedulingBackoff"):
            if chance.random() < 0.7:
                spec.pop(key, None)
        body["metadata"].pop("labels", None)


_MODERATE = {"Pod": moderate_pod, "PodGroup": moderate_group}


def decide(state, engine, chance, *, now):
    """A cycle over all that was taken in, in which nothing may fail; some of what it decides is carried out.

    Half of the time the queues that most groups name are as they should be, so that there is more to decide.
    """
    if chance.random() < 0.5:
        for queue in queues():
            state.apply(Kind.QUEUE, queue)
    with Work() as work:
        result = engine.run(state, now)
    assert not result.setbacks, "\n".join(f"{fault}\n{trace}" for fault, trace in result.setbacks)
    assert work.lines < MOST_LINES, f"{work.lines} lines were run for {len(state.tasks)} pods"
    for bind in result.binds:
        if chance.random() < 0.7:
            state.bind_done(bind.pod.uid)


class Work:
    """Counts the lines of Python that are run meanwhile: as many on a machine of any speed."""

    def __init__(self):
        self.lines = 0

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *failure):
        sys.settrace(self._before)

    def _trace(self, frame, event, argument):
        self.lines += event == "line"
        return self._trace


def a_state():
    state = ClusterState()
    for each in usual_priorities():
        state.apply(Kind.PRIORITY_CLASS, each)
    for number in range(3):
        state.apply(Kind.NODE, a_node(f"node-{number}", gpus=8, gpu_memory_mib=80_000))
    for queue in queues():
        state.apply(Kind.QUEUE, queue)
    return state


def queues():
    return [a_queue("org"), a_queue("team-a", parent="org"), a_queue("team-b", parent="org")]


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
