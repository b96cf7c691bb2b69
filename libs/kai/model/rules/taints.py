"""Which taints are tolerated: Kubernetes' rule, for nodes and for devices.

A toleration that no API server takes (an unknown operator; no key but a value) tolerates nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

from kai.model.quantity import integer

#: Effects that keep new pods away.
REPELLING: Final = ("NoSchedule", "NoExecute")
#: The effect that only asks to look elsewhere first.
AVOIDED: Final = "PreferNoSchedule"
#: What Kubernetes puts on nodes by itself, and takes off when the node can be used: cordoned, not ready,
#: unreachable, under pressure, not set up yet by its cloud.
_OF_STATE: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


class AnyTaint(Protocol):
    """A taint of a node or of a device."""

    @property
    def key(self) -> str:
        """What it is about."""
        ...

    @property
    def value(self) -> str:
        """May be empty."""
        ...

    @property
    def effect(self) -> str:
        """``NoSchedule``, ``NoExecute`` or ``PreferNoSchedule``."""
        ...


class AnyToleration(AnyTaint, Protocol):
    """A toleration of a pod or of a request; without effect or key it is of all of them."""

    @property
    def operator(self) -> str:
        """``Exists``, ``Gt``, ``Lt``, or ``Equal``, which is meant where nothing is said."""
        ...


T = TypeVar("T", bound=AnyTaint)


def tells_of_state(taint: AnyTaint) -> bool:
    """Whether a taint of a node only tells how the node is; others were put there by somebody."""
    return taint.key.startswith(_OF_STATE)


def tolerates(toleration: AnyToleration, taint: AnyTaint) -> bool:
    """Whether a toleration covers a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    if not toleration.key:
        return False
    if toleration.operator in ("Gt", "Lt"):
        return _compares(taint.value, toleration.operator, toleration.value)
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def _compares(value: str, operator: str, bound: str) -> bool:
    """Whether the number of a taint is greater or less than that of a toleration; not if one is no number."""
    have, than = _number(value), _number(bound)
    if have is None or than is None:
        return False
    return have > than if operator == "Gt" else have < than


def _number(text: str) -> int | None:
    """Kubernetes takes numbers in one spelling only: without a plus sign and leading zeros."""
    number = integer(text)
    return number if str(number) == text else None


def untolerated(
    taints: Iterable[T], tolerations: Iterable[AnyToleration], *, effects: tuple[str, ...] = REPELLING
) -> T | None:
    """The first taint of these effects that no toleration covers; None if there is none."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.effect in effects and not any(tolerates(each, taint) for each in tolerations):
            return taint
    return None
