"""Flags of our processes, as far as objects may add some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kai.operands.spec.known_flags import FLAGS
from kai.operands.spec.problems import Place

#: What is told to a process by what surrounds it, and would break that if it were something else.
_FIXED: Final = frozenset(
    {"namespace", "config", "tls-ca", "tls-cert", "tls-key", "cert-dir", "advertise-host", "scheduler-conf"}
)


def check_flags(component: str, given: Mapping[str, str], at: Place) -> None:
    """Say which flags a component does not have, and which are not to be given."""
    for name in given:
        if name in _FIXED:
            at.below(name).complain("is given by the installation itself; remove it")
        elif name not in FLAGS[component]:
            at.unknown(name, FLAGS[component], what="flag")
