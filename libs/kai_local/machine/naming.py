"""What a pod is called: by its key, as one of an application, and as a process."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Final

from kai.model import names
from kai_local.machine.launch import Manifest

_SHORT: Final = {"kai-scheduler-default": "scheduler", "kai-redis": "redis"}


def key(obj: Manifest) -> str:
    """Its namespace and name."""
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def application(pod: Manifest) -> str:
    """What it is one of."""
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get("app") or pod["spec"]["containers"][0]["name"])


def kin(pod: Manifest) -> tuple[str, str]:
    """Equal for pods that have one place after the other."""
    return pod["metadata"]["namespace"], application(pod)


def base(pod: Manifest) -> str:
    """The name of a pod's process where it is the only one: that of the service, whatever the shard."""
    of, namespace = application(pod), pod["metadata"]["namespace"]
    name = _SHORT.get(of, of)
    return name if namespace == names.NAMESPACE else f"{name}.{namespace}"


def free_name(pod: Manifest, taken: Collection[str], *, alone: bool) -> str:
    """A name for a pod's process: the service's if there is to be one such pod, else with a number."""
    first = base(pod)
    if alone and first not in taken:
        return first
    numbers = itertools.count(2 if first in taken else 1)
    return next(name for number in numbers if (name := f"{first}-{number}") not in taken)
