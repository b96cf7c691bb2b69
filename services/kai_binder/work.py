"""One pod being bound, and what takes part in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kai.model.decisions import BindDecision, ResourceType
from kai.model.objects import Pod


@dataclass(slots=True)
class Work:
    """A decision with the pod as it was read, and what preparing it brought forth."""

    decision: BindDecision
    pod: Pod
    #: Devices of its GPU groups, in the order of these; empty for whole devices.
    devices: tuple[str, ...] = ()
    #: Names of objects that plugins made and would have to undo, by plugin.
    made: dict[str, list[str]] = field(default_factory=dict)

    @property
    def fraction(self) -> bool:
        """Whether it gets a part of a device."""
        return self.decision.resource_type is ResourceType.FRACTION

    @property
    def portion(self) -> str:
        """The part of each device, as containers are told."""
        return f"{self.decision.gpu_portion:.2f}"


class BindPlugin(Protocol):
    """Something to be done for some pods before they are bound.

    ``pre_bind`` may be called again for the same decision, by another process too, and must then come to
    the same result. ``rollback`` is called after a failure, also if ``pre_bind`` was not or did not finish.
    """

    name: str

    def concerns(self, work: Work) -> bool:
        """Whether there is anything to do for this pod."""

    async def pre_bind(self, work: Work) -> None:
        """Do it.

        Raises:
            BindFailed: it cannot be done.
            KubeError: the API server refuses.
        """

    async def rollback(self, work: Work) -> None:
        """Undo it, as far as there is something to undo."""


Arguments = Mapping[str, str]
