"""Claims on reservation pods: who counts on a shared device, until when, and what of it is granted to whom.

Each is an annotation of the reservation pod, which nobody but the binder can write, with the uid of the pod
in its name. It is written before the pod is bound, and while the pod is on its node it is the record of what
the pod holds there, whatever the pod's own labels and annotations say by then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from kai.model import limits, names
from kai.model.faults import OutOfBounds
from kai.model.ids import PodUid
from kai.model.rules.gpu_shares import GPU_CENTI, asked_share

#: However its readers tell it from other text.
Group = TypeVar("Group", bound=str)
_GRANT: Final = re.compile(
    r"(?P<devices>[0-9]{1,5})x(?:(?P<portion>[0-9]{1,3}\.[0-9]{2})|(?P<memory>[0-9]{1,19})Mi)"
)


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """What a pod holds of each of so many shared devices: hundredths, or MiB where it asked for memory."""

    devices: int
    portion_centi: int = 0
    memory_mib: int = 0

    @classmethod
    def parse(cls, text: str) -> Grant | None:
        """The grant in the last part of a claim; None for anything that is none."""
        found = _GRANT.fullmatch(text)
        if found is None:
            return None
        portion = found["portion"]
        grant = cls(
            int(found["devices"]), int(portion.replace(".", "")) if portion else 0, int(found["memory"] or 0)
        )
        return grant if grant._is_possible() else None

    @classmethod
    def asked(cls, annotations: Mapping[str, str], *, devices: int) -> Grant | None:
        """What a pod's own annotations ask for; None if they ask for nothing, or for nothing that can be."""
        try:
            share = asked_share(annotations)
        except OutOfBounds:
            return None
        if share is None:
            return None
        grant = cls(devices, share.portion_centi, share.memory_mib)
        return grant if grant._is_possible() else None

    @property
    def annotations(self) -> dict[str, str]:
        """How a pod asks for just that."""
        asked = (
            {names.GPU_FRACTION: self._portion}
            if self.portion_centi
            else {names.GPU_MEMORY: str(self.memory_mib)}
        )
        return asked | ({names.GPU_FRACTION_NUM_DEVICES: str(self.devices)} if self.devices > 1 else {})

    def render(self) -> str:
        """``2x0.50`` or ``1x4096Mi``."""
        return f"{self.devices}x{self._portion if self.portion_centi else f'{self.memory_mib}Mi'}"

    @property
    def _portion(self) -> str:
        return f"{self.portion_centi // GPU_CENTI}.{self.portion_centi % GPU_CENTI:02}"

    def _is_possible(self) -> bool:
        return (
            limits.SHARED_DEVICES.within(self.devices)
            and 0 <= self.portion_centi <= GPU_CENTI * limits.GPU_FRACTION.most
            and (bool(self.portion_centi) or limits.GPU_MEMORY.within(self.memory_mib))
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """A pod (``namespace/name``) counts on a reservation until a Unix time, bound or not.

    ``grant`` is what it holds once it is bound; None where nobody has recorded that.
    """

    until: float
    pod: str
    grant: Grant | None = None

    @classmethod
    def parse(cls, text: str) -> Claim:
        """The claim in an annotation's value; a malformed one is expired, and grants nothing."""
        until, _, rest = text.partition(" ")
        pod, _, granted = rest.partition(" ")
        return cls(float(until) if until.isdecimal() and len(until) < 16 else 0.0, pod, Grant.parse(granted))

    def render(self) -> str:
        """The annotation's value."""
        return f"{self.until:.0f} {self.pod}" + (f" {self.grant.render()}" if self.grant is not None else "")


def claims_of(annotations: Mapping[str, str]) -> dict[PodUid, Claim]:
    """The claims on a reservation pod by pod uid."""
    prefix = names.RESERVATION_CLAIM_PREFIX
    return {
        PodUid(key.removeprefix(prefix)): Claim.parse(value)
        for key, value in annotations.items()
        if key.startswith(prefix)
    }


def granted(claims: Mapping[Group, Claim]) -> tuple[Grant, frozenset[Group]] | None:
    """What a pod was granted, and on which devices, by its claims on those of its node, by GPU group.

    A pod that was decided about again may have left claims where it is not: of its claims the newest count,
    as many as it has devices, and all that are as new as the last of them. None: nothing is recorded.
    """
    found = sorted(
        ((claim.until, claim.grant, group) for group, claim in claims.items() if claim.grant is not None),
        reverse=True,
    )
    if not found:
        return None
    grant = found[0][1]
    least = found[: grant.devices][-1][0]
    return grant, frozenset(group for until, _, group in found if until >= least)
