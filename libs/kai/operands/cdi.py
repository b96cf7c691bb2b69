"""Whether NVIDIA's device plugin gives devices to containers by CDI, as its operator's ClusterPolicy says.

Then ids of devices are names of CDI. An argument of the plugin gpusharing says more than this, and so does
``spec.binder.cdiEnabled`` (:func:`kai.operands.binder.plugins`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kai.operands.manifests import Manifest

#: Where ClusterPolicies are, and from which version of the operator on CDI is what it uses if it may.
CLUSTER_POLICY: Final = "nvidia.com/ClusterPolicy"
_VERSION_LABEL: Final = "app.kubernetes.io/version"
_BY_DEFAULT_SINCE: Final = (25, 10, 0)
_VERSION: Final = re.compile(r"v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(-[0-9A-Za-z.-]+)?(?:\+.*)?")


def uses_cdi(policies: Iterable[Manifest]) -> bool:
    """What the ClusterPolicies say, of which the first by name counts; no where there is none."""
    first = min(policies, key=_name, default=None)
    if first is None:
        return False
    cdi = _mapping(_mapping(first.get("spec")).get("cdi"))
    if cdi.get("enabled") is not True:
        return False
    labels = _mapping(_mapping(first.get("metadata")).get("labels"))
    return cdi.get("default") is True or _is_by_default(str(labels.get(_VERSION_LABEL, "")))


def _is_by_default(version: str) -> bool:
    """Whether an operator of this version has CDI used where it is enabled. Releases to come are older."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return False
    numbers = tuple(int(part or 0) for part in found.group(1, 2, 3))
    return numbers > _BY_DEFAULT_SINCE or (numbers == _BY_DEFAULT_SINCE and not found[4])


def _name(policy: Manifest) -> str:
    return str(_mapping(policy.get("metadata")).get("name", ""))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
