"""What stays behind when an installation, or a part of it, is removed.

Objects of shards and of a Config of the user's own, Leases, and scaling pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Final

from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.resources import (
    CONFIG_MAPS,
    CONFIGS,
    DAEMON_SETS,
    DEPLOYMENTS,
    LEASES,
    PDBS,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from kai.model import names
from kai_hooks.abandoned import place_of
from kai_hooks.handover import KEEP, OURS, WEBHOOKS
from kai_hooks.refusals import Refusals, Refused

_OURS: Final = "app.kubernetes.io/managed-by=kai-operator"
_OPERATOR: Final = "app=kai-operator"
#: A label of all that a chart has made.
_OF_A_CHART: Final = "helm.sh/chart"
_SCALING: Final = f"{names.APP_LABEL}={names.SCALING_POD_APP}"
_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_MONITORING, _AUTOSCALING = "monitoring.coreos.com", "autoscaling.k8s.io"
_PROMETHEUSES: Final = Resource(_MONITORING, "v1", "prometheuses", "Prometheus")
_MONITORS: Final = Resource(_MONITORING, "v1", "servicemonitors", "ServiceMonitor")
_AUTOSCALERS: Final = Resource(_AUTOSCALING, "v1", "verticalpodautoscalers", "VerticalPodAutoscaler")
#: In the order in which they go: what runs first. Some are served only where somebody has installed them.
KINDS: Final = (
    DEPLOYMENTS,
    DAEMON_SETS,
    _PROMETHEUSES,
    _MONITORS,
    _AUTOSCALERS,
    PDBS,
    SERVICES,
    _SLICES,
    _POLICIES,
    CONFIG_MAPS,
    SERVICE_ACCOUNTS,
)
#: How long an operator that is being deleted is waited for: it would make anew what is deleted.
_PATIENCE_SECONDS: Final = 60.0
_LOOK_EVERY: Final = 0.5


async def refuse_while_installed(client: KubeClient, *, namespace: str) -> None:
    """Have nothing removed where the release is there: somebody applies all that ``helm template`` prints.

    Hooks are among it. A release that is removed takes its Config along first, unless that is to be kept.

    Raises:
        Refused: the Config of a release is there.
        KubeError: the API server does not say so, or cannot be reached.
    """
    configs: list[dict[str, Any]] = []
    with contextlib.suppress(NotFound):
        configs = await client.list(CONFIGS)
    for each in configs:
        meta = each["metadata"]
        goes, kept = "deletionTimestamp" in meta, KEEP.items() <= (meta.get("annotations") or {}).items()
        if _OF_A_CHART in (meta.get("labels") or {}) and not (goes or kept) and place_of(each) == namespace:
            raise Refused(
                f"config {meta['name']} is of a release that is not removed, so nothing is: leave hooks out "
                "of what you apply (helm template --no-hooks)"
            )


async def remove_leftovers(
    client: KubeClient,
    *,
    namespace: str,
    scheduler_name: str,
    say: Callable[[str], None],
    patience: float = _PATIENCE_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Delete all that the operator made in the namespace, once that is gone, and the Leases of what ran, once
    it runs no more. Waits for both no longer than ``patience``, seconds.

    Webhooks go first, while there is somebody to answer.

    Raises:
        Refused: the API server would not have some of it deleted; all else is.
        KubeError: the API server cannot be reached, or does not say what there is.
    """
    until, refusals = clock() + patience, Refusals()
    await _until_gone(client, namespace, _OPERATOR, until, clock)
    await _remove_webhooks(client, namespace, say, refusals)
    for resource in KINDS:
        await _remove_all(client, resource, namespace, _OURS, say, refusals)
    await _until_gone(client, namespace, _OURS, until, clock)
    await _remove_leases(client, namespace, scheduler_name, say, refusals)
    refusals.tell()


async def remove_scaling_pods(
    client: KubeClient, *, namespace: str, installation: str, say: Callable[[str], None]
) -> None:
    """Delete the scaling pods of a namespace, and what the operator made for them there.

    Who makes such pods must make none any more. In the namespace of the ``installation`` only pods go: the
    operator has rights there, and deletes what it wants no more of all that it has made.

    Raises:
        Refused: the API server would not have some of it deleted; all else is.
        KubeError: the API server cannot be reached.
    """
    refusals = Refusals()
    await _remove_all(client, PODS, namespace, _SCALING, say, refusals)
    if namespace != installation:
        for resource in (SERVICE_ACCOUNTS, _POLICIES):
            await _remove_all(client, resource, namespace, _OURS, say, refusals)
    refusals.tell()


async def _remove_all(
    client: KubeClient,
    resource: Resource,
    namespace: str,
    selector: str,
    say: Callable[[str], None],
    refusals: Refusals,
) -> None:
    found: list[dict[str, Any]] = []
    with contextlib.suppress(NotFound), refusals.gathered(resource.plural):
        found = await client.list(resource, namespace=namespace, label_selector=selector)
    for each in found:
        name = each["metadata"]["name"]
        with contextlib.suppress(NotFound), refusals.gathered(f"{resource.kind.lower()} {name}"):
            await client.delete(resource, name, namespace=namespace, propagation="Background")
            say(f"{resource.kind.lower()} {name} is deleted")


async def _remove_webhooks(
    client: KubeClient, namespace: str, say: Callable[[str], None], refusals: Refusals
) -> None:
    """Those of ours that lead to this namespace."""
    for resource, named in WEBHOOKS.items():
        for name in named:
            with contextlib.suppress(NotFound), refusals.gathered(f"{resource.kind.lower()} {name}"):
                found = await client.get(resource, name)
                labels = found["metadata"].get("labels") or {}
                if OURS.items() <= labels.items() and _led_to(found) == {namespace}:
                    await client.delete(resource, name, uid=found["metadata"]["uid"])
                    say(f"{resource.kind.lower()} {name} is deleted")


def _led_to(configuration: dict[str, Any]) -> set[str]:
    """The namespaces of those whom the API server asks."""
    return {
        (webhook["clientConfig"].get("service") or {}).get("namespace", "")
        for webhook in configuration.get("webhooks") or ()
    }


async def _remove_leases(
    client: KubeClient,
    namespace: str,
    scheduler_name: str,
    say: Callable[[str], None],
    refusals: Refusals,
) -> None:
    """Leases belong to nobody, so that they outlive who made them."""
    others, found = names.LEASES.values(), list[dict[str, Any]]()
    with refusals.gathered(LEASES.plural):
        found = await client.list(LEASES, namespace=namespace)
    for each in found:
        name = each["metadata"]["name"]
        if name in others or name == scheduler_name or name.startswith(f"{scheduler_name}-"):
            with contextlib.suppress(NotFound), refusals.gathered(f"lease {name}"):
                await client.delete(LEASES, name, namespace=namespace)
                say(f"lease {name} is deleted")


async def _until_gone(
    client: KubeClient, namespace: str, pods: str, until: float, clock: Callable[[], float]
) -> None:
    while await client.list(PODS, namespace=namespace, label_selector=pods):
        if clock() >= until:
            return
        await asyncio.sleep(_LOOK_EVERY)
