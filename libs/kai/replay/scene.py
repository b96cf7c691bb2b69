"""From a snapshot file to what the engine wants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kai.engine.config import ConfigError, SchedulerConfig
from kai.model.objects import Node, Pod, PodGroup, PriorityClass, Queue, Topology
from kai.replay import config, params
from kai.replay.archive import Archive, ArchiveError
from kai.snapshot.state import ClusterState, Kind, StateParams

_STRUCTS: Final[Mapping[Kind, type[Any]]] = {
    Kind.POD: Pod,
    Kind.NODE: Node,
    Kind.QUEUE: Queue,
    Kind.POD_GROUP: PodGroup,
    Kind.PRIORITY_CLASS: PriorityClass,
    Kind.TOPOLOGY: Topology,
}
_BIND_REQUESTS: Final = "bindRequests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Everything that one cycle depends on. ``notes`` say what the file left open or said in vain."""

    config: SchedulerConfig
    state: ClusterState
    now: float
    notes: tuple[str, ...]


def set_up(archive: Archive, *, now: float | None = None) -> Scene:
    """The scene of a file, at the time when it was taken unless another is given in Unix seconds.

    Raises:
        ArchiveError: an object or a setting cannot be read; object and field are named.
    """
    try:
        state_params, engine_params, notes = params.read(archive.params)
        scheduler_config, more = config.read(archive.config, engine_params)
    except (params.ParamsError, ConfigError) as error:
        raise ArchiveError(str(error)) from error
    known = {*Kind, _BIND_REQUESTS}
    strange = [
        f"rawObjects.{kind} is not known and was ignored"
        for kind in sorted(archive.raw_objects)
        if kind not in known
    ]
    state = _state(archive.raw_objects, state_params)
    taken_at = archive.taken_at if now is None else now
    return Scene(config=scheduler_config, state=state, now=taken_at, notes=(*notes, *more, *strange))


def _state(raw_objects: Mapping[str, Any], told: StateParams) -> ClusterState:
    state = ClusterState(told)
    for kind in Kind:
        for number, obj in enumerate(raw_objects.get(kind.value) or ()):
            _apply(state, kind, number, obj)
    # In order of their names, so that the order of the list does not matter.
    requests = raw_objects.get(_BIND_REQUESTS) or ()
    for number, request in enumerate(sorted(requests, key=_subject)):
        try:
            _assume(state, msgspec.convert(request, _BindRequest))
        except msgspec.ValidationError as error:
            raise ArchiveError(f"{_BIND_REQUESTS} {_subject(request) or number}: {error}") from error
    return state


def _apply(state: ClusterState, kind: Kind, number: int, obj: Any) -> None:
    if not _subject(obj):
        raise ArchiveError(f"{kind.value}[{number}] has no metadata.name")
    try:
        state.apply(kind, msgspec.convert(obj, _STRUCTS[kind]) if kind in _STRUCTS else obj)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ArchiveError(f"{kind.value} {_subject(obj)}: {error}") from error


def _subject(obj: Any) -> str:
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        return ""
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


class _Meta(msgspec.Struct):
    namespace: str = ""


class _BindSpec(msgspec.Struct, rename="camel"):
    pod_name: str = ""
    selected_node: str = ""
    selected_gpu_groups: list[str] | None = msgspec.field(name="selectedGPUGroups", default=None)


class _BindStatus(msgspec.Struct):
    phase: str = ""


class _BindRequest(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _BindSpec = msgspec.field(default_factory=_BindSpec)
    status: _BindStatus | None = None


def _assume(state: ClusterState, request: _BindRequest) -> None:
    """A bind request that has not failed: its pod is being bound, unless it is bound already."""
    if request.status is not None and request.status.phase == "Failed":
        return
    task = state.task(f"{request.metadata.namespace}/{request.spec.pod_name}")
    if task is None or task.facts is None or task.facts.node_name:
        return
    if request.spec.selected_node:
        groups = tuple(request.spec.selected_gpu_groups or ())
        state.assume_bind(task.uid, request.spec.selected_node, groups)
