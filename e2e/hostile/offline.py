"""The scheduler alone under attack, in this process: objects into its state, cycles over it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from e2e.hostile import site
from e2e.hostile.attacks import Attack
from e2e.manifests import a_group
from kai.bench.objects import usual_priorities
from kai.engine import Engine
from kai.model import names
from kai.model.decisions import CycleResult
from kai.model.merge_patch import merged
from kai.model.objects import ApiObject, Node, Pod, PodGroup, Queue
from kai.snapshot.state import ClusterState, Kind
from kai_local.kubelet.nodes import node_status
from kai_local.processes.ports import LOOPBACK

Json = dict[str, Any]
NOW: Final = 1_900_000_000.0
_TYPES: Final[dict[str, tuple[Kind, type[Any]]]] = {
    "Pod": (Kind.POD, Pod),
    "PodGroup": (Kind.POD_GROUP, PodGroup),
    "Queue": (Kind.QUEUE, Queue),
    "Node": (Kind.NODE, Node),
    "ResourceClaim": (Kind.RESOURCE_CLAIM, dict),
    "ResourceSlice": (Kind.RESOURCE_SLICE, dict),
    "DeviceClass": (Kind.DEVICE_CLASS, dict),
    "PodDisruptionBudget": (Kind.POD_DISRUPTION_BUDGET, dict),
}


@dataclass(slots=True)
class World:
    """A cluster as the scheduler knows it; what it binds runs at once."""

    engine: Engine = field(default_factory=Engine)
    state: ClusterState = field(default_factory=ClusterState)
    now: float = NOW
    _uids: itertools.count[int] = field(default_factory=itertools.count)
    _there: dict[tuple[Kind, str], Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in usual_priorities():
            self.state.apply(Kind.PRIORITY_CLASS, each)
        nodes = [body | {"status": body.get("status", {}) | _ready(body)} for body in site.nodes()]
        self.put((*nodes, *site.furniture()))

    def put(self, manifests: Iterable[Json]) -> None:
        """Take objects in, as if no webhook and no schema had looked at them; a lone pod gets its group."""
        for manifest in manifests:
            body = msgspec.json.decode(msgspec.json.encode(manifest))
            if body["kind"] == "Pod" and names.POD_GROUP_ANNOTATION not in body["metadata"].get(
                "annotations", {}
            ):
                self._group(body)
            self._take(body)

    def change(self, manifest: Json, patch: Json) -> None:
        """Merge a patch into an object, if it is there."""
        known = _TYPES.get(manifest["kind"])
        body = self._there.get((known[0], _key(manifest))) if known is not None else None
        if body is not None:
            self._take(merged(body, patch))

    def remove(self, manifests: Iterable[Json]) -> None:
        """Forget objects, and the groups that were made for them."""
        for manifest in manifests:
            known = _TYPES.get(manifest["kind"])
            if known is None:
                continue
            self._drop(known[0], _key(manifest))
            if known[0] is Kind.POD:
                self._drop(Kind.POD_GROUP, f"{_key(manifest)}-alone")

    def cycle(self) -> CycleResult:
        """Decide; what is bound runs."""
        self.now += 1.0
        result = self.engine.run(self.state, self.now)
        for bind in result.binds:
            pod = self._there.get((Kind.POD, f"{bind.pod.namespace}/{bind.pod.name}"))
            if pod is not None:
                labels = {names.GPU_GROUP_LABEL: bind.gpu_groups[0]} if bind.gpu_groups else {}
                bound = {"spec": {"nodeName": bind.node}, "metadata": {"labels": labels}}
                self._take(merged(pod, {**bound, "status": {"phase": "Running"}}))
        return result

    def attack(self, attack: Attack) -> None:
        """All of it at once."""
        self.put(attack.manifests)
        for change in attack.later:
            self.change(change.manifest, change.patch)

    def _group(self, pod: Json) -> None:
        meta = pod["metadata"]
        name = f"{meta['name']}-alone"
        queue = (meta.get("labels") or {}).get(names.QUEUE_LABEL, "")
        self._take(a_group(name, meta["namespace"], queue, minMember=1))
        meta.setdefault("annotations", {})[names.POD_GROUP_ANNOTATION] = name

    def _take(self, body: Json) -> None:
        known = _TYPES.get(body["kind"])
        if known is None:
            return
        kind, type_ = known
        body["metadata"].setdefault("uid", f"uid-{next(self._uids)}")
        self._there[kind, _key(body)] = body
        try:
            obj = body if type_ is dict else msgspec.convert(body, type_)
        except msgspec.ValidationError as error:
            self.state.unread(kind, _key(body), uid=body["metadata"]["uid"], reason=str(error))
            return
        assert isinstance(obj, ApiObject | dict)
        self.state.take(kind, obj)

    def _drop(self, kind: Kind, key: str) -> None:
        if self._there.pop((kind, key), None) is not None:
            self.state.remove(kind, key)


def _ready(body: Json) -> Json:
    return node_status(body["metadata"]["name"], LOOPBACK, NOW) if body["kind"] == "Node" else {}


def _key(manifest: Json) -> str:
    meta = manifest["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
