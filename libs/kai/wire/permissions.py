"""Who may call what over gRPC.

A caller is known by its certificate, which names its role: ``binder.<namespace>.svc`` is the binder. Without
TLS nobody is known, and whoever reaches a port may call everything that is served there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """Our components, by the names that they have everywhere."""

    SCHEDULER = "scheduler"
    BINDER = "binder"
    ADMISSION = "admission"
    POD_GROUPER = "pod-grouper"
    PODGROUP_CONTROLLER = "podgroup-controller"
    QUEUE_CONTROLLER = "queue-controller"
    INSIGHT = "insight"
    #: The command line, with the certificate that is kept for whoever may read its Secret.
    KAI_CLI = "kai-cli"


#: Method -> who may call it. A method that is not here is refused to all.
PERMISSIONS: Final[Mapping[str, frozenset[Role]]] = {
    "/kai.wire.v1.DecisionService/Bind": frozenset({Role.BINDER}),
    "/kai.wire.v1.SessionService/WatchSessions": frozenset(
        {Role.PODGROUP_CONTROLLER, Role.QUEUE_CONTROLLER, Role.INSIGHT, Role.KAI_CLI}
    ),
    "/kai.wire.v1.SessionService/GetSnapshot": frozenset({Role.KAI_CLI}),
    "/kai.wire.v1.SessionService/WatchCycles": frozenset({Role.INSIGHT}),
    "/kai.wire.v1.SessionService/GetShares": frozenset({Role.KAI_CLI}),
    "/kai.wire.v1.SessionService/GetServiceOrder": frozenset({Role.KAI_CLI}),
    **{
        f"/kai.wire.v1.HistoryService/{method}": frozenset({Role.KAI_CLI})
        for method in (
            "GetRuns",
            "GetEvictions",
            "GetDecisions",
            "GetCycles",
            "GetQueueStates",
            "GetUsage",
            "KeepForecast",
            "GetRecordings",
        )
    },
    "/kai.wire.v1.VerdictService/WatchVerdicts": frozenset({Role.PODGROUP_CONTROLLER}),
    "/kai.wire.v1.AssignmentService/WatchAssignments": frozenset({Role.SCHEDULER}),
    "/kai.wire.v1.GroupingService/Preview": frozenset({Role.KAI_CLI}),
    "/grpc.health.v1.Health/Check": frozenset(Role),
    "/grpc.health.v1.Health/List": frozenset(),  # not served
    "/grpc.health.v1.Health/Watch": frozenset(Role),
}


def identity(role: Role, namespace: str) -> str:
    """The DNS name by which certificates of an installation name a role."""
    return f"{role}.{namespace}.svc"


def role_of(names: Iterable[str], namespace: str) -> Role | None:
    """The role that a certificate with these names has in an installation; None unless it is exactly one."""
    named = set(names)
    roles = [role for role in Role if identity(role, namespace) in named]
    return roles[0] if len(roles) == 1 else None
