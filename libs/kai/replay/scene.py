"""From a snapshot file to what the engine wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kai.config import SchedulerConfig
from kai.config.arguments import ConfigError
from kai.replay import bind_requests, config, objects, params
from kai.replay.archive import Archive, ArchiveError
from kai.replay.bind_requests import BindRequest
from kai.snapshot.state import ClusterState, Kind, StateParams

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
    state = _state(archive.raw_objects, state_params)
    taken_at = archive.taken_at if now is None else now
    notes = (*notes, *more, *_notes(archive.raw_objects), *_left_out(state))
    return Scene(config=scheduler_config, state=state, now=taken_at, notes=notes)


def _notes(raw_objects: Mapping[str, Any]) -> list[str]:
    found = [
        f"rawObjects.{kind} is not known and was ignored"
        for kind in sorted(set(raw_objects) - {*Kind, _BIND_REQUESTS})
    ]
    if absent := [kind.value for kind in Kind if kind not in raw_objects]:
        found.append(f"rawObjects does not say which {', '.join(absent)} there are; none are assumed")
    if _volumes_are_left_out(raw_objects):
        found.append("volumes are left out too, so those that claims name count as there, for all nodes")
    return found


def _left_out(state: ClusterState) -> list[str]:
    """What the scheduler did without, too: of such objects no more is decided here than there."""
    return [f"{fault.kind} {fault.key} was left out: {fault.message}" for fault in state.faults.values()]


def _volumes_are_left_out(raw_objects: Mapping[str, Any]) -> bool:
    """Schedulers of some versions left them out, and pods that use one could not run."""
    return Kind.PERSISTENT_VOLUME not in raw_objects and bool(raw_objects.get(Kind.PERSISTENT_VOLUME_CLAIM))


def _state(raw_objects: Mapping[str, Any], params: StateParams) -> ClusterState:
    state = ClusterState(params)
    for kind in Kind:
        for number, obj in enumerate(raw_objects.get(kind.value) or ()):
            _apply(state, kind, number, obj)
    if _volumes_are_left_out(raw_objects):
        for volume in objects.stand_in_volumes(raw_objects[Kind.PERSISTENT_VOLUME_CLAIM]):
            state.apply(Kind.PERSISTENT_VOLUME, volume)
    for request in _requests(raw_objects.get(_BIND_REQUESTS) or ()):
        bind_requests.assume(state, request)
    return state


def _apply(state: ClusterState, kind: Kind, number: int, obj: Any) -> None:
    name = _name(kind.value, number, obj)
    try:
        state.take(kind, objects.read(kind, obj, scheduler_name=state.params.scheduler_name))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ArchiveError(f"{name}: {error}") from error


def _requests(raw: Iterable[Any]) -> list[BindRequest]:
    """In order of their names, so that the order of the list does not matter."""
    found: dict[str, BindRequest] = {}
    for number, obj in enumerate(raw):
        name = _name(_BIND_REQUESTS, number, obj)
        try:
            found[name] = msgspec.convert(objects.without_nulls(obj), BindRequest)
        except msgspec.ValidationError as error:
            raise ArchiveError(f"{name}: {error}") from error
    return [found[name] for name in sorted(found)]


def _name(kind: str, number: int, obj: Any) -> str:
    """The object as messages call it.

    Raises:
        ArchiveError: it has no name.
    """
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        raise ArchiveError(f"{kind}[{number}] has no metadata.name; add one, or take the object out")
    return f"{kind} {meta['namespace']}/{meta['name']}" if meta.get("namespace") else f"{kind} {meta['name']}"
