"""Objects that a release made itself, and that the operator is to take over.

An upgrade deletes what a release has made and makes no longer. So they are marked to be kept, before; else
our processes, their certificates, the password of Redis and the classes of workloads would be gone until they
are made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    PDBS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from kai.model import names
from kai.model.rules.priorities import CLASSES

KEEP: Final = {"helm.sh/resource-policy": "keep"}
#: By this the operator knows that nobody else has an object.
OURS: Final = {"app.kubernetes.io/part-of": names.SCHEDULER_NAME}
_RELEASE: Final = "meta.helm.sh/release-name"
_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
_SCHEDULER: Final = "kai-scheduler-default"
_PROCESSES: Final = (
    "admission",
    "binder",
    "pod-grouper",
    "podgroup-controller",
    "queue-controller",
    _SCHEDULER,
    "kai-redis",
)
_ROLES: Final = ("scheduler", "binder", "podgroup-controller", "queue-controller", "kai-cli")
_SECRETS: Final = (
    "kai-admission-webhook-tls-secret",
    "podgroup-webhook-tls-secret",
    "queue-webhook-tls-secret",
    *(f"{role}-grpc-tls-secret" for role in _ROLES),
    "kai-redis-tls-secret",
    "kai-redis",
)
WEBHOOKS: Final = {
    MUTATING_WEBHOOKS: ("mutating-kai-admission",),
    VALIDATING_WEBHOOKS: (
        "validating-kai-admission",
        "kai-warnings",
        "kai-queue-validation-v2",
        "kai-podgroup-validation-v2alpha2",
    ),
}
_NAMES: Final = {
    DEPLOYMENTS: _PROCESSES,
    SERVICES: _PROCESSES,
    PDBS: _PROCESSES,
    _POLICIES: _PROCESSES,
    SERVICE_ACCOUNTS: (*_PROCESSES[:-2], "scheduler"),
    CONFIG_MAPS: (_SCHEDULER,),
    SECRETS: _SECRETS,
    **WEBHOOKS,
    PRIORITY_CLASSES: tuple(CLASSES),
}


async def keep(
    client: KubeClient,
    *,
    namespace: str,
    release: str,
    say: Callable[[str], None],
    account: tuple[str, str] | None = None,
) -> None:
    """Mark what this release made of these; what is not there, or of somebody else, is left alone.

    ``account`` is that of the pods that hold shared devices, by namespace and name: with another one of the
    same name their tokens would be good no more.

    Raises:
        KubeError: the API server refuses, or cannot be reached.
    """
    places = [(resource, name, namespace if resource.namespaced else "") for resource, name in handed_over()]
    if account is not None:
        places.append((SERVICE_ACCOUNTS, account[1], account[0]))
    for resource, name, place in places:
        try:
            found = await client.get(resource, name, namespace=place)
        except NotFound:
            continue
        annotations = found["metadata"].get("annotations") or {}
        if annotations.get(_RELEASE) != release or KEEP.items() <= annotations.items():
            continue
        patch = {"metadata": {"uid": found["metadata"]["uid"], "annotations": KEEP, "labels": OURS}}
        await client.patch(resource, name, patch, namespace=place)
        say(f"{resource.kind.lower()} {name} is kept for the operator")


def handed_over() -> Iterator[tuple[Resource, str]]:
    """All objects that there may be."""
    for resource, named in _NAMES.items():
        for name in named:
            yield resource, name
