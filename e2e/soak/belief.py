"""What a scheduler believes, against what anybody reads who lists all objects now.

Both are snapshots of states that took objects in by the same watches: every kind is compared that a decision
depends on, and what the watches or a state leave out is left out of both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from e2e.soak.frame import Breach, called
from kai.kube.client import KubeClient
from kai.model import names
from kai.model.faults import INVALID_OBJECT, Fault
from kai.model.objects import Pod
from kai.snapshot import codec
from kai.snapshot.changes import take_in
from kai.snapshot.class_table import ClassTable
from kai.snapshot.codec import ClusterSnapshot
from kai.snapshot.kinds import Kind, object_key
from kai.snapshot.resources import ResourceTable
from kai.snapshot.state import ClusterState, StateParams
from kai_scheduler.changes import ChangeQueue
from kai_scheduler.sources import reflectors

Json: TypeAlias = dict[str, Any]

_DIFFERENCES_TOLD: Final = 3
_NOTHING: Final = object()


async def read_anew(client: KubeClient, params: StateParams) -> ClusterState:
    """The state of one who has just read everything, of the part of a cluster that ``params`` say.

    It waits for an API server that is away; who does not want to, says for how long.
    """
    changes = ChangeQueue(
        scheduler_name=params.scheduler_name, debounce=0.0, period=0.0, clock=time.monotonic
    )
    pairs = list(reflectors(client, changes, config_maps=True))
    async with asyncio.TaskGroup() as tasks:
        watches = [tasks.create_task(reflector.run(sink)) for reflector, sink in pairs]
        for reflector, _ in pairs:
            await reflector.synced.wait()
        for watch in watches:
            watch.cancel()
    state = ClusterState(params)
    take_in(state, changes.take())
    return state


def differences(believed: ClusterSnapshot, faults: Collection[Fault], true: ClusterState) -> Iterator[Breach]:
    """Where they differ, by object: who is known to one only, left out by one only, or known otherwise.

    ``faults`` are those of who believes. What both leave out is not looked at any further.
    """
    left_out = {_subject(fault) for fault in faults if fault.reason == INVALID_OBJECT}
    to_leave_out = {_subject(fault) for fault in true.faults.values()}
    for subject in sorted(left_out ^ to_leave_out):
        yield _breach(subject, "left out" if subject in left_out else "not left out, though it is to be")
    classes = ClassTable(ResourceTable())
    one, other = _objects(believed, classes), _objects(codec.cut(true), classes)
    for subject in sorted((one.keys() | other.keys()) - left_out - to_leave_out):
        if subject not in other:
            yield _breach(subject, "believed to be there, and is not")
        elif subject not in one:
            yield _breach(subject, "there, and not known")
        elif told := list(_paths(one[subject], other[subject])):
            more = f"; {len(told) - _DIFFERENCES_TOLD} more" if len(told) > _DIFFERENCES_TOLD else ""
            yield _breach(subject, "; ".join(told[:_DIFFERENCES_TOLD]) + more)


def _breach(subject: str, message: str) -> Breach:
    return Breach("state differs from a list", subject, message)


def _subject(fault: Fault) -> str:
    return called(fault.kind, fault.key)


# --- what there is to compare ------------------------------------------------------------------
def _objects(snapshot: ClusterSnapshot, classes: ClassTable) -> Mapping[str, Json]:
    """Everything in a snapshot by subject (``Kind namespace/name``), as far as a state keeps it as it is."""
    found: dict[str, Json] = {}
    for kind, listed in (
        (Kind.NODE, snapshot.nodes),
        (Kind.QUEUE, snapshot.queues),
        (Kind.POD_GROUP, snapshot.pod_groups),
        (Kind.PRIORITY_CLASS, snapshot.priority_classes),
        *((Kind(name), msgspec.json.decode(encoded)) for name, encoded in snapshot.others.items()),
    ):
        for obj in listed:
            found[called(kind.kubernetes, object_key(obj))] = _content(kind, msgspec.to_builtins(obj))
    assumed = snapshot.strings_of(snapshot.pods.assumed_node)
    for pod, node in zip(snapshot.each_pod(), assumed, strict=True):
        # Nobody who reads everything anew knows of what is under way.
        under_way = {"bound to, by a decision under way": node}
        found[called(Kind.POD.kubernetes, pod.key)] = _content_of_pod(pod, classes) | under_way
    return found


def _content(kind: Kind, body: Json) -> Json:
    """Without what changes nothing: heartbeats, statuses of queues, and what ConfigMaps hold."""
    meta = body["metadata"]
    meta.pop("resourceVersion", None)
    meta.pop("managedFields", None)
    match kind:
        case Kind.CONFIG_MAP:
            return {"metadata": {key: meta.get(key) for key in ("name", "namespace")}}
        case Kind.QUEUE:
            body.pop("status", None)
        case Kind.NODE:
            conditions = body["status"].get("conditions") or ()
            body["status"]["conditions"] = {each["type"]: each.get("status") for each in conditions}
    return body


def _content_of_pod(pod: Pod, classes: ClassTable) -> Json:
    """Who it is, where, of what group and class.

    All that pods say for themselves shows in their class: a state has the words of one of them for all.
    """
    meta, spec = pod.metadata, pod.spec
    return {
        "metadata": {
            "uid": meta.uid,
            "labels": meta.labels or {},
            "creationTimestamp": meta.creation_timestamp,
            "deletionTimestamp": meta.deletion_timestamp,
        },
        "pod group": pod.annotations.get(names.POD_GROUP_ANNOTATION, ""),
        "spec": {
            "nodeName": spec.node_name,
            "schedulerName": spec.scheduler_name,
            "serviceAccountName": spec.service_account_name,
            "gated": bool(spec.scheduling_gates),
        },
        "status": {"phase": pod.status.phase, "nominatedNodeName": pod.status.nominated_node_name},
        "class": classes.of(pod).id,
    }


def _paths(believed: Any, true: Any, at: str = "") -> Iterator[str]:
    """Each place where two objects differ, with both values."""
    if isinstance(believed, dict) and isinstance(true, dict):
        for key in sorted(believed.keys() | true.keys()):
            below = f"{at}.{key}" if at else key
            yield from _paths(believed.get(key, _NOTHING), true.get(key, _NOTHING), below)
    elif believed != true:
        yield f"{at} is {_shown(true)}, believed {_shown(believed)}"


def _shown(value: Any) -> str:
    return "not there" if value is _NOTHING else repr(value)[:120]
