"""What an installation leaves in a cluster before the services start: CRDs, classes, queues, namespaces."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from kai.kube import resources
from kai.kube.client import KubeClient
from kai.kube.resources import Resource
from kai.model import documents, names
from kai.model.rules.priorities import CLASSES, description
from kai_local.errors import ClusterError
from kai_local.parts.furnishing import ensure, until_served

_RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
_NAMESPACES = (
    names.NAMESPACE,
    names.RESERVATION_NAMESPACE,
    names.SCALE_ADJUST_NAMESPACE,
    "kube-node-lease",
)
#: Accounts of pods that our processes make, with their namespaces.
_ACCOUNTS = {
    names.RESERVATION_SERVICE_ACCOUNT: names.RESERVATION_NAMESPACE,
    names.SCALE_ADJUST_NAMESPACE: names.SCALE_ADJUST_NAMESPACE,
}

Manifest = dict[str, Any]


def crd_directory() -> Path:
    """Where the chart's ``crds/`` are: in a checkout, or where an installation has put them.

    Raises:
        ClusterError: nowhere, or not where ``KAI_CRD_DIR`` says.
    """
    if told := os.environ.get("KAI_CRD_DIR"):
        if any(Path(told).glob("*.yaml")):
            return Path(told)
        raise ClusterError(f"KAI_CRD_DIR is {told!r}, where no custom resource definitions are")
    candidates = [
        Path(__file__).resolve().parents[3] / "helm" / "kai-scheduler" / "crds",
        Path(sys.prefix) / "share" / "kai-scheduler" / "crds",
    ]
    for candidate in candidates:
        if any(candidate.glob("*.yaml")):
            return candidate
    raise ClusterError("the custom resource definitions are not found; name their folder with KAI_CRD_DIR")


def definitions(*kinds: Resource) -> list[Manifest]:
    """The chart's custom resource definitions: those of these kinds, or all where none is named.

    Raises:
        ClusterError: they are not found, or one of them is not.
    """
    folder = crd_directory()
    files = [folder / f"{kind.plural}.{kind.group}.yaml" for kind in kinds] or sorted(folder.glob("*.yaml"))
    try:
        return [documents.load_written(file.read_text()) for file in files]
    except FileNotFoundError as error:
        raise ClusterError(
            f"{error.filename} is missing: the custom resource definitions are of another release; name the "
            "folder of this one's with KAI_CRD_DIR"
        ) from error


def default_queues() -> list[Manifest]:
    """``default-parent-queue`` with ``default-queue`` in it: no quota, no limit."""
    free = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    shares = {"cpu": free, "gpu": free, "memory": free}
    parent: Manifest = {"metadata": {"name": names.DEFAULT_PARENT_QUEUE}, "spec": {"resources": shares}}
    child: Manifest = {
        "metadata": {"name": names.DEFAULT_QUEUE},
        "spec": {"parentQueue": names.DEFAULT_PARENT_QUEUE, "resources": shares},
    }
    return [parent, child]


def priority_classes() -> list[Manifest]:
    """Those of an installation by chart."""
    return [
        {
            "metadata": {"name": name},
            "value": value,
            "globalDefault": False,
            "description": description(value),
        }
        for name, value in CLASSES.items()
    ]


def default_storage_class(provisioner: str) -> Manifest:
    """The class of claims that name none; its volumes are made where the first pod that uses them goes."""
    return {
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": provisioner,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


async def furnish(client: KubeClient, *, storage_class: Manifest | None = None) -> None:
    """Put in what a cluster with GPUs has before the product comes, if it is not there yet.

    Raises:
        ClusterError: the server does not take it.
    """
    await ensure(client, _RUNTIME_CLASSES, {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
    if storage_class:
        await ensure(client, resources.STORAGE_CLASSES, storage_class)


async def install(client: KubeClient) -> None:
    """Put everything of the product in that is not there yet; returns when its resources are served.

    Raises:
        ClusterError: the definitions are missing, or the server does not take them.
    """
    ours = definitions()
    objects: list[tuple[Resource, Manifest, str]] = [
        *((resources.CRDS, definition, "") for definition in ours),
        *((resources.NAMESPACES, {"metadata": {"name": name}}, "") for name in _NAMESPACES),
        *((resources.PRIORITY_CLASSES, manifest, "") for manifest in priority_classes()),
    ]
    await asyncio.gather(*(ensure(client, *one) for one in objects))
    for account, namespace in _ACCOUNTS.items():
        manifest = {"metadata": {"name": account}}
        await ensure(client, resources.SERVICE_ACCOUNTS, manifest, namespace)
    await until_served(client, ours)
    for queue in default_queues():
        await ensure(client, resources.QUEUES, queue)
