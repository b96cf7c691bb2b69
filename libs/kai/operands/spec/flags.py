"""Flags of our processes, as far as objects may add some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kai.operands.spec.known_flags import FLAGS
from kai.operands.spec.problems import Place

#: What is told to a process by what surrounds it, and would break that if it were something else.
_FIXED: Final = frozenset(
    {
        "namespace",
        "config",
        "kubeconfig",
        "context",
        "tls-ca",
        "tls-cert",
        "tls-key",
        "cert-dir",
        "advertise-host",
        "grants",
    }
)


#: How switches are set and taken back.
_ON: Final = ("true", "t", "yes", "y", "on", "1")
_OFF: Final = ("false", "f", "no", "n", "off", "0")
#: What several processes must see alike -> the field that tells all of them.
_OF_ALL: Final = {
    "resource-reservation-namespace": "spec.binder.resourceReservation.namespace of the Config",
    "scale-adjust-namespace": "spec.nodeScaleAdjuster.args.nodeScaleNamespace of the Config",
}


def settable(component: str) -> tuple[str, ...]:
    """The flags of a component that objects may add."""
    return tuple(name for name in FLAGS[component] if may_be_added(name))


def may_be_added(flag: str) -> bool:
    """Whether it is left to whoever installs."""
    return flag not in _FIXED and flag not in _OF_ALL


def switched(given: Mapping[str, str], flag: str) -> bool | None:
    """Whether a switch is set or taken back; None if it is not given, or as neither."""
    said = given.get(flag, "").lower()
    return True if said in _ON else False if said in _OFF else None


def check_flags(component: str, given: Mapping[str, str], at: Place) -> None:
    """Say which flags a component does not have, and which are not to be given."""
    for name in given:
        if name in _FIXED:
            at.below(name).complain("is given by the installation itself; remove it")
        elif name in _OF_ALL:
            at.below(name).complain(f"concerns several components; set {_OF_ALL[name]}")
        elif name not in FLAGS[component]:
            at.unknown(name, settable(component), what="flag")
