"""Objects that no controller has are taken over by the workload whose selector means them, and those that it
no longer means are released.

So what was left behind by ``kubectl delete --cascade=orphan`` goes on under a workload that is made again. A
pod whose labels somebody changes to look at it in peace is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kai.kube import resources
from kai.kube.resources import Resource
from kai_local.controllers.actions import Adopt, Release
from kai_local.controllers.objects import Workload, owner_reference, selects
from kai_local.controllers.stateful_sets import ordinal
from kai_local.parts.objects import LocalPod

#: What each kind of workload takes over. A Job does not: its selector means no pods but its own.
CHILDREN: Final[Mapping[Resource, Resource]] = {
    resources.DEPLOYMENTS: resources.REPLICA_SETS,
    resources.REPLICA_SETS: resources.PODS,
    resources.STATEFUL_SETS: resources.PODS,
    resources.DAEMON_SETS: resources.PODS,
}


def adoptions(resource: Resource, workload: Workload, orphans: Iterable[LocalPod | Workload]) -> list[Adopt]:
    """What a workload of this resource takes over of those in its namespace that have no controller."""
    if workload.terminating:
        return []
    owner = owner_reference(resource.api_version, resource.kind, workload)
    return [
        Adopt.of(CHILDREN[resource], orphan, owner)
        for orphan in orphans
        if not orphan.terminating
        and selects(workload)(orphan.labels)
        and (isinstance(orphan, Workload) or _takes(resource, workload, orphan))
    ]


def releases(
    resource: Resource, workload: Workload, children: Iterable[LocalPod | Workload]
) -> list[Release]:
    """Whom a workload of this resource lets go of those that it controls."""
    if workload.terminating:
        return []
    means = selects(workload)
    return [Release.of(CHILDREN[resource], child, workload) for child in children if not means(child.labels)]


def _takes(resource: Resource, workload: Workload, pod: LocalPod) -> bool:
    if pod.terminal:
        return False
    return resource != resources.STATEFUL_SETS or ordinal(workload, pod) is not None
