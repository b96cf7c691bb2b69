"""An immutable cut of the cluster state, as columns.

Pods are columns of little-endian arrays beside newline-joined names; what many of them share (classes, label
sets, names of nodes and groups) is listed once and referred to by position, -1 for none. Equal clusters give
equal bytes, in whatever order their objects came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from kai.model import names
from kai.model.decisions import Allotment
from kai.model.failures import blame_one_of
from kai.model.ids import GpuGroup, PodUid
from kai.model.objects import Node, ObjectMeta, Pod, PodGroup, PodStatus, PriorityClass, Queue, Topology
from kai.snapshot.kinds import by_kind, object_key
from kai.snapshot.rows import PodFacts, Task
from kai.snapshot.state import ClusterState, Kind, StateParams
from kai.snapshot.times import rfc3339, seconds

_MAGIC: Final = b"kai-snapshot-1\n"
_GATED, _EVICTING, _DONE = 1, 2, 4
_OTHER_KINDS: Final = tuple(
    kind
    for kind in Kind
    if kind not in (Kind.POD, Kind.NODE, Kind.QUEUE, Kind.POD_GROUP, Kind.PRIORITY_CLASS)
)


class SnapshotError(ValueError):
    """The bytes are not a snapshot, or columns do not fit together; the message says which."""


class PodColumns(msgspec.Struct, frozen=True, gc=False):
    """One row for each pod, in order of ``namespace/name``. All integers are little-endian."""

    keys: str  # newline-joined
    uids: str  # newline-joined
    cls: bytes  # int32, position in ``classes``
    labels: bytes  # int32, position in ``label_sets``
    group: bytes  # int32, position in ``strings``: the pod group's name
    node: bytes  # int32, position in ``strings``
    assumed_node: bytes  # int32, position in ``strings``
    nominated: bytes  # int32, position in ``strings``
    assumed_groups: bytes  # int32, position in ``strings``, newline-joined there
    phase: bytes  # int32, position in ``strings``
    scheduler: bytes  # int32, position in ``strings``
    account: bytes  # int32, position in ``strings``
    flags: bytes  # uint8: 1 gated, 2 being evicted, 4 bound though the watch does not say so
    created: bytes  # float64, unix seconds
    deleted: bytes  # float64, unix seconds, 0 for none
    #: Whole objects of pods with claims or recorded zones, and what was decided for pods (JSON), by key.
    objects: dict[str, Pod]
    allotments: dict[str, bytes] = msgspec.field(name="plugin_results")
    #: float64, unix seconds, 0 for none: since when its kubelet has it. Empty as a release before wrote it.
    started: bytes = b""


class ClusterSnapshot(msgspec.Struct, frozen=True):
    """Everything that decisions depend on. ``version`` is the state's, ``digest`` that of all the rest."""

    version: int
    digest: str
    params: dict[str, Any]
    nodes: list[Node]
    queues: list[Queue]
    pod_groups: list[PodGroup]
    priority_classes: list[PriorityClass]
    #: Other kinds by name, each a JSON array of objects: what came as JSON may hold what only JSON can say.
    others: dict[str, bytes]
    #: One pod for each scheduling class.
    classes: list[Pod]
    label_sets: list[dict[str, str]]
    strings: list[str]
    pods: PodColumns

    def strings_of(self, column: bytes) -> list[str]:
        """The strings that a column refers to; empty for none."""
        return [self.strings[position] if position >= 0 else "" for position in _ints(column)]

    def memberships(self) -> Iterator[tuple[str, str, str]]:
        """Of each pod in a pod group: its key (``namespace/name``), its uid, and the name of the group."""
        columns = self.pods
        groups = self.strings_of(columns.group)
        for key, uid, group in zip(_lines(columns.keys), _lines(columns.uids), groups, strict=True):
            if group:
                yield key, uid, group

    def each_pod(self) -> Iterator[Pod]:
        """All pods in order of rows, with what decisions depend on."""
        columns = self.pods
        rows = zip(
            _lines(columns.keys),
            _lines(columns.uids),
            _ints(columns.cls),
            _ints(columns.labels),
            self.strings_of(columns.group),
            self.strings_of(columns.node),
            self.strings_of(columns.nominated),
            self.strings_of(columns.phase),
            self.strings_of(columns.scheduler),
            self.strings_of(columns.account),
            columns.flags,
            np.frombuffer(columns.created, dtype="<f8").tolist(),
            np.frombuffer(columns.deleted, dtype="<f8").tolist(),
            np.frombuffer(columns.started or bytes(len(columns.created)), dtype="<f8").tolist(),
            strict=True,
        )
        for (
            key,
            uid,
            cls,
            labels,
            group,
            node,
            nominated,
            phase,
            scheduler,
            account,
            flags,
            born,
            gone,
            started,
        ) in rows:
            whole = columns.objects.get(key)
            if whole is not None:
                yield whole
                continue
            namespace, _, name = key.rpartition("/")
            pattern = self.classes[cls]
            annotations = dict(pattern.annotations)
            if group:
                annotations[names.POD_GROUP_ANNOTATION] = group
            yield Pod(
                metadata=ObjectMeta(
                    name=name,
                    namespace=namespace,
                    uid=uid,
                    labels=self.label_sets[labels],
                    annotations=annotations or None,
                    creation_timestamp=_time(born),
                    deletion_timestamp=_time(gone),
                ),
                spec=msgspec.structs.replace(
                    pattern.spec,
                    node_name="" if flags & _DONE else node,
                    scheduler_name=scheduler,
                    service_account_name=account,
                    scheduling_gates=[{"name": "gated"}] if flags & _GATED else None,
                ),
                status=PodStatus(
                    phase=phase,
                    qos_class=pattern.status.qos_class,
                    nominated_node_name=nominated,
                    start_time=_time(started),
                ),
            )

    def check(self) -> None:
        """Assert that columns have one element for each pod and refer to what exists."""
        count = len(_lines(self.pods.keys))
        for name, dtype, bound in (
            ("cls", "<i4", len(self.classes)),
            ("labels", "<i4", len(self.label_sets)),
            ("group", "<i4", len(self.strings)),
            ("node", "<i4", len(self.strings)),
            ("assumed_node", "<i4", len(self.strings)),
            ("nominated", "<i4", len(self.strings)),
            ("assumed_groups", "<i4", len(self.strings)),
            ("phase", "<i4", len(self.strings)),
            ("scheduler", "<i4", len(self.strings)),
            ("account", "<i4", len(self.strings)),
            ("flags", "u1", 256),
            ("created", "<f8", None),
            ("deleted", "<f8", None),
            ("started", "<f8", None),
        ):
            column: bytes = getattr(self.pods, name)
            if name == "started" and not column:
                continue
            if len(column) != count * np.dtype(dtype).itemsize:
                raise SnapshotError(f"column {name} has {len(column)} bytes for {count} pods")
            values = np.frombuffer(column, dtype=dtype)
            if bound is not None and count and (values.min() < -1 or values.max() >= bound):
                raise SnapshotError(f"column {name} refers to something that is not in the snapshot")
        if len(_lines(self.pods.uids)) != count:
            raise SnapshotError("uids and keys of pods differ in number")


_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(ClusterSnapshot)
_as_json: Final = msgspec.json.Encoder(order="deterministic").encode


def encode(snapshot: ClusterSnapshot) -> bytes:
    """The snapshot as bytes."""
    return _MAGIC + _ENCODER.encode(snapshot)


def decode(data: bytes) -> ClusterSnapshot:
    """The inverse of :func:`encode`.

    Raises:
        SnapshotError: these are not the bytes of a snapshot.
    """
    if not data.startswith(_MAGIC):
        raise SnapshotError("not a snapshot of this version; it must begin with kai-snapshot-1")
    try:
        snapshot = _DECODER.decode(memoryview(data)[len(_MAGIC) :])
    except msgspec.MsgspecError as error:
        raise SnapshotError(f"the snapshot cannot be read: {error}") from error
    snapshot.check()
    return snapshot


class _Strings:
    """Positions of values, by first use."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._known: dict[bytes | str, int] = {}

    def of(self, value: str) -> int:
        if not value:
            return -1
        return self._at(value, value)

    def of_labels(self, labels: dict[str, str]) -> int:
        return self._at(_ENCODER.encode(labels), labels)

    def _at(self, key: bytes | str, value: Any) -> int:
        position = self._known.get(key)
        if position is None:
            position = self._known[key] = len(self.values)
            self.values.append(value)
        return position


def cut(state: ClusterState) -> ClusterSnapshot:
    """Take an immutable picture of a state.

    Costs time by the number of its objects. Where the state changes later, the picture does not: objects are
    never changed, only replaced.

    Raises:
        FailedOver: an object cannot be encoded.
    """
    held: dict[Kind, Sequence[Any]] = {
        Kind.POD: sorted(state.tasks.values(), key=lambda task: task.key),
        Kind.NODE: [node.object for node in sorted(state.nodes.nodes, key=lambda node: node.name)],
        Kind.QUEUE: _by_key(state.queue_objects),
        Kind.POD_GROUP: _by_key(state.group_objects),
        Kind.PRIORITY_CLASS: _by_key(state.priority_classes),
        **{kind: _by_key(state.objects[kind]) for kind in _OTHER_KINDS},
    }
    try:
        found = _picture(held, state.params)
    except Exception:
        blame_one_of(
            [(kind, each) for kind, listed in held.items() for each in listed],
            lambda some: _picture(dict(by_kind(some)), state.params),
            about=_about,
        )
        raise
    return msgspec.structs.replace(found, version=state.version)


def _by_key(objects: Mapping[Any, Any]) -> list[Any]:
    return [objects[key] for key in sorted(objects)]


def _about(held: tuple[Kind, Any]) -> str:
    kind, obj = held
    return f"{kind.kubernetes} {obj.key if isinstance(obj, Task) else object_key(obj)}"


def _picture(held: Mapping[Kind, Sequence[Any]], params: StateParams) -> ClusterSnapshot:
    """Of rows of pods, and objects of all other kinds. It has no version: equal states have one digest."""
    tasks: Sequence[Task] = held.get(Kind.POD, ())
    strings, labels = _Strings(), _Strings()
    classes, numbers = _classes(tasks)
    facts = [_facts(task) for task in tasks]

    def column(values: Sequence[int]) -> bytes:
        return np.fromiter(values, dtype="<i4", count=len(tasks)).tobytes()

    pods = PodColumns(
        keys="\n".join(each.key for each in facts),
        uids="\n".join(task.uid for task in tasks),
        cls=column(numbers),
        labels=column([labels.of_labels(task.labels or {}) for task in tasks]),
        group=column([strings.of(each.group_key.partition("/")[2]) for each in facts]),
        node=column([strings.of(each.node_name) for each in facts]),
        assumed_node=column([strings.of(each.assumed_node) for each in facts]),
        nominated=column([strings.of(each.nominated) for each in facts]),
        assumed_groups=column([strings.of("\n".join(each.assumed_groups)) for each in facts]),
        phase=column([strings.of(each.phase) for each in facts]),
        scheduler=column([strings.of(params.scheduler_name if each.ours else "") for each in facts]),
        account=column([strings.of(each.account) for each in facts]),
        flags=bytes(
            _GATED * each.gated
            + _EVICTING * each.evicting
            + _DONE * bool(each.assumed_node and each.node_name == each.assumed_node)
            for each in facts
        ),
        created=np.fromiter((task.created for task in tasks), dtype="<f8", count=len(tasks)).tobytes(),
        deleted=np.fromiter((each.deleted_at for each in facts), dtype="<f8", count=len(tasks)).tobytes(),
        objects={each.key: each.pod for each in facts if each.pod is not None},
        allotments={
            each.key: _as_json(each.assumed_allotment) for each in facts if each.assumed_allotment is not None
        },
        started=np.fromiter(
            (seconds(each.started) for each in facts), dtype="<f8", count=len(tasks)
        ).tobytes(),
    )
    rest = ClusterSnapshot(
        version=0,
        digest="",
        params={key: getattr(params, key) for key in StateParams.__dataclass_fields__},
        nodes=list(held.get(Kind.NODE, ())),
        queues=list(held.get(Kind.QUEUE, ())),
        pod_groups=list(held.get(Kind.POD_GROUP, ())),
        priority_classes=list(held.get(Kind.PRIORITY_CLASS, ())),
        others={kind.value: _as_json(held[kind]) for kind in _OTHER_KINDS if held.get(kind)},
        classes=classes,
        label_sets=labels.values,
        strings=strings.values,
        pods=pods,
    )
    digest = hashlib.blake2b(_ENCODER.encode(rest), digest_size=16).hexdigest()
    return msgspec.structs.replace(rest, digest=digest)


def _classes(tasks: Sequence[Task]) -> tuple[list[Pod], list[int]]:
    """Classes in order of first use, each by the specification of its first pod."""
    known: dict[int, int] = {}
    found: list[Pod] = []
    numbers: list[int] = []
    for task in tasks:
        number = known.get(task.cls.id)
        if number is None:
            number = known[task.cls.id] = len(found)
            found.append(_exemplar(task))
        numbers.append(number)
    return found, numbers


def _exemplar(task: Task) -> Pod:
    pod = task.cls.pod
    spec = msgspec.structs.replace(pod.spec, node_name="", scheduler_name="", scheduling_gates=None)
    return Pod(
        metadata=ObjectMeta(namespace=task.namespace, annotations=pod.metadata.annotations),
        spec=spec,
        status=PodStatus(qos_class=pod.status.qos_class),
    )


def restore(snapshot: ClusterSnapshot) -> ClusterState:
    """A state that equals the one that was cut, decisions under way included; it is not settled yet."""
    state = ClusterState(StateParams(**snapshot.params))
    for kind, objects in (
        (Kind.PRIORITY_CLASS, snapshot.priority_classes),
        (Kind.QUEUE, snapshot.queues),
        (Kind.NODE, snapshot.nodes),
        (Kind.POD_GROUP, snapshot.pod_groups),
    ):
        for obj in objects:
            state.take(kind, obj)
    for name, others in snapshot.others.items():
        for obj in msgspec.json.decode(others):
            state.take(Kind(name), _typed(Kind(name), obj))
    _restore_pods(state, snapshot)
    state.version = snapshot.version
    return state


def _typed(kind: Kind, obj: Any) -> Any:
    return msgspec.convert(obj, Topology) if kind is Kind.TOPOLOGY else obj


def _restore_pods(state: ClusterState, snapshot: ClusterSnapshot) -> None:
    columns = snapshot.pods
    assumed = snapshot.strings_of(columns.assumed_node)
    groups = snapshot.strings_of(columns.assumed_groups)
    for row, pod in enumerate(snapshot.each_pod()):
        state.take(Kind.POD, pod)
        uid = PodUid(pod.metadata.uid or pod.key)
        if assumed[row]:
            devices = tuple(map(GpuGroup, _lines(groups[row])))
            encoded = columns.allotments.get(pod.key)
            allotted = msgspec.json.decode(encoded, type=Allotment) if encoded else None
            state.assume_bind(uid, assumed[row], groups=devices, allotment=allotted)
            if columns.flags[row] & _DONE:
                state.bind_done(uid)
        if columns.flags[row] & _EVICTING:
            state.assume_evicted(uid)


def _time(moment: float) -> str | None:
    return rfc3339(moment) if moment else None


def _facts(task: Task) -> PodFacts:
    assert task.facts is not None
    return task.facts


def _ints(column: bytes) -> list[int]:
    return list(np.frombuffer(column, dtype="<i4").tolist())


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []
