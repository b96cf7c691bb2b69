"""What decisions depend on beside the cluster, as a scheduler tells it together with a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kai.config import SchedulerConfig
from kai.config.arguments import ConfigError
from kai.model.decisions import ResourceVector
from kai.model.faults import Fault
from kai.replay import config, params
from kai.replay.remainder import Remainder
from kai.snapshot.state import StateParams


class CircumstancesError(ValueError):
    """The bytes say nothing that can be understood; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Configuration, past use, what is left out and what no object says, at a moment (Unix seconds)."""

    now: float
    config: SchedulerConfig = field(default_factory=SchedulerConfig)
    usage: Mapping[str, ResourceVector] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    remainder: Remainder = field(default_factory=Remainder)


class _Fault(msgspec.Struct):
    kind: str
    key: str
    uid: str = ""
    reason: str = ""
    message: str = ""


class _Document(msgspec.Struct, rename="camel"):
    now: float
    config: dict[str, Any] | None = None
    params: dict[str, Any] | None = None
    usage: dict[str, ResourceVector] = {}
    faults: list[_Fault] = []
    remainder: Remainder = Remainder()


def encode(circumstances: Circumstances, state_params: StateParams) -> bytes:
    """As JSON; configuration and parameters in the keys of snapshot files."""
    found = _Document(
        now=circumstances.now,
        config=config.document(circumstances.config),
        params=params.document(state_params, circumstances.config.params),
        usage={queue: tuple(amounts) for queue, amounts in circumstances.usage.items()},  # type: ignore[misc]
        faults=[
            _Fault(each.kind, each.key, each.uid, each.reason, each.message) for each in circumstances.faults
        ],
        remainder=circumstances.remainder,
    )
    return msgspec.json.encode(found)


def decode(data: bytes) -> Circumstances:
    """The inverse of :func:`encode`.

    Raises:
        CircumstancesError: a field is missing or has the wrong type.
    """
    try:
        found = msgspec.json.decode(data, type=_Document)
        _, engine_params, _ = params.read(found.params)
        scheduler_config, _ = config.read(found.config, engine_params)
    except (msgspec.MsgspecError, params.ParamsError, ConfigError) as error:
        raise CircumstancesError(f"circumstances of the snapshot: {error}") from error
    return Circumstances(
        now=found.now,
        config=scheduler_config,
        usage=found.usage,
        faults=tuple(
            Fault(kind=each.kind, key=each.key, uid=each.uid, reason=each.reason, message=each.message)
            for each in found.faults
        ),
        remainder=found.remainder,
    )
