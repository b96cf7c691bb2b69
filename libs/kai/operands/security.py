"""What pods and containers of the components may do: nothing that they do not need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kai.operands.manifests import Installation, Manifest

_USER: Final[Manifest] = {"runAsUser": 10000, "runAsGroup": 10000}
_POD: Final[Manifest] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
_CONTAINER: Final[Manifest] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def of_pod(installation: Installation, *, user: Mapping[str, int] = _USER) -> Manifest:
    """Security context of every pod, by the ids of a user. On OpenShift they are given out by the cluster."""
    users = {} if installation.openshift else user
    return _over({**_POD, **users}, installation.config.everywhere.pod_security_context)


def of_container(installation: Installation) -> Manifest:
    """Security context of every container."""
    return _over(_CONTAINER, installation.config.everywhere.security_context)


def _over(default: Manifest, given: Mapping[str, Any]) -> Manifest:
    """What is given, filled up with the default at all depths."""
    merged = dict(default)
    for key, each in given.items():
        both = isinstance(each, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _over(merged[key], each) if both else each
    return merged
