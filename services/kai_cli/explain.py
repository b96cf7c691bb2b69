"""``kai explain``: why a pod group or pod does not run, from the engine itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Final

import typer

from kai.kube.client import KubeClient
from kai.kube.errors import NotFound
from kai.kube.resources import POD_GROUPS, PODS
from kai.model import names
from kai.model.objects import Pod, PodGroup
from kai.wire.clients import SchedulerClient
from kai.wire.errors import PeerUnavailable
from kai.wire.session_codec import decode_shares
from kai.wire.v1 import explain_pb2, session_pb2
from kai_cli.connection import Target, ask
from kai_cli.output import Column, Format, FormatOption, document, emit, fail, table
from kai_cli.views import amounts

app = typer.Typer(no_args_is_help=True, help="Say why a pod group or a pod does not run.")
NamespaceOption = Annotated[
    str, typer.Option("-n", "--namespace", help="Where it is; that of the context if left out.")
]


def _bare(name: str) -> str:
    """The name in ``podgroup/NAME`` and ``pod/NAME``, as ``kubectl get -o name`` prints them."""
    return name.rpartition("/")[2]


Name = Annotated[str, typer.Argument(parser=_bare, metavar="NAME", help="Its name; pod/NAME will do too.")]
_WAITING: Final = "Pending"
_GPU: Final = 2
#: Pods that wait alike share a row where there are more of them than this.
_ALIKE: Final = 3


@app.command("podgroup")
@app.command("pg", hidden=True)
def pod_group(
    context: typer.Context,
    name: Name,
    namespace: NamespaceOption = "",
    output: FormatOption = Format.TABLE,
) -> None:
    """Why a pod group is pending, and what would unblock it.

    Where the scheduler does not answer, what is recorded on the PodGroup is shown instead.
    """
    target = Target.of(context)

    async def question() -> dict[str, Any]:
        async with target.cluster() as client:
            where = namespace or client.namespace
            try:
                async with target.scheduler(client) as scheduler:
                    answer = await scheduler.explain_pod_group(namespace=where, name=name)
            except PeerUnavailable as error:
                typer.echo(f"kai: {error}; showing what the PodGroup says", err=True)
                return await recorded(client, where, name)
            if not answer.found:
                raise fail(await missing(client, where, name))
            return pod_group_document(where, name, answer)

    found = ask(question)
    if output is Format.TABLE:
        print_pod_group(found)
    else:
        document(found, output)


@app.command("pod")
def pod(
    context: typer.Context,
    name: Name,
    namespace: NamespaceOption = "",
    output: FormatOption = Format.TABLE,
) -> None:
    """Why a pod is where it is, or what each node says against it.

    Where the scheduler does not answer, what is recorded on the pod is shown instead.
    """
    target = Target.of(context)

    async def question() -> dict[str, Any]:
        async with target.cluster() as client:
            where = namespace or client.namespace
            try:
                async with target.scheduler(client) as scheduler:
                    return await explained_pod(client, scheduler, where, name)
            except PeerUnavailable as error:
                typer.echo(f"kai: {error}; showing what the pod says", err=True)
                return await recorded_pod(client, where, name)

    found = ask(question)
    if output is Format.TABLE:
        print_pod(found)
    else:
        document(found, output)


async def explained_pod(
    client: KubeClient, scheduler: SchedulerClient, namespace: str, name: str
) -> dict[str, Any]:
    """What the scheduler says of a pod, what its pod group waits for, and how its last bind failed."""
    answer = await scheduler.explain_pod(namespace=namespace, name=name)
    if not answer.found:
        raise fail(await missing_pod(client, namespace, name))
    found = pod_document(namespace, name, answer)
    if answer.status == _WAITING and answer.pod_group:
        where, _, group = answer.pod_group.partition("/")
        waits = await scheduler.explain_pod_group(namespace=where, name=group)
        found["podGroupMessage"] = waits.outcome.message
    with suppress(NotFound):
        pod = await client.get(PODS, name, namespace=namespace, type=Pod)
        found["bindFailure"] = bind_failure(pod)
    return found


def bind_failure(pod: Pod) -> str:
    """How the last attempt to bind a pod failed; empty if none did."""
    conditions = pod.status.conditions or ()
    failed = [c.message for c in conditions if (c.type, c.status) == (names.POD_BOUND, "False")]
    return failed[-1] if failed and not pod.spec.node_name else ""


# --- answers as documents ----------------------------------------------------------------------
def pod_group_document(
    namespace: str, name: str, answer: explain_pb2.ExplainPodGroupResponse
) -> dict[str, Any]:
    """The scheduler's answer as JSON; queue amounts are GPU devices."""
    outcome = answer.outcome
    return {
        "podGroup": f"{namespace}/{name}",
        "queue": answer.queue,
        "priority": answer.priority,
        "preemptible": answer.preemptible,
        "semiPreemptible": answer.semi_preemptible,
        "minMember": answer.min_member,
        "pods": {"total": answer.pods, "pending": answer.pods_pending, "allocated": answer.pods_allocated},
        "outcome": _outcome_name(outcome),
        "message": outcome.message,
        "reasons": [
            {
                "reason": item.reason,
                "message": item.message,
                **({"details": json.loads(item.details)} if item.details else {}),
            }
            for item in outcome.explanations
        ],
        "queues": [
            {
                "queue": share.queue,
                "gpuQuota": share.deserved[_GPU],
                "gpuLimit": share.limit[_GPU],
                "gpuFairShare": share.fair_share[_GPU],
                "gpuAllocated": share.allocated[_GPU],
                "gpuRequested": share.requested[_GPU],
            }
            for share in decode_shares(answer.queues)
        ],
        "podLines": [
            {"name": line.name, "status": line.status, "node": line.node, "message": line.message}
            for line in answer.pod_lines
        ],
        "remedies": list(answer.remedies),
    }


def pod_document(namespace: str, name: str, answer: explain_pb2.ExplainPodResponse) -> dict[str, Any]:
    """The scheduler's answer as JSON."""
    return {
        "pod": f"{namespace}/{name}",
        "podGroup": answer.pod_group,
        "status": answer.status,
        "node": answer.node,
        "message": answer.message,
        "nodes": [
            {"node": verdict.node, "fits": verdict.fits, "filter": verdict.filter, "reason": verdict.reason}
            for verdict in answer.nodes
        ],
    }


def _outcome_name(outcome: session_pb2.PodGroupOutcome) -> str:
    label = session_pb2.PodGroupOutcome.Outcome.Name(outcome.outcome)
    return label.removeprefix("OUTCOME_").replace("_", " ").lower()


async def recorded(client: KubeClient, namespace: str, name: str) -> dict[str, Any]:
    """What the PodGroup itself records, for when the scheduler cannot be asked."""
    group = await client.get(POD_GROUPS, name, namespace=namespace, type=PodGroup)
    conditions = (group.status and group.status.scheduling_conditions) or []
    last = conditions[-1] if conditions else None
    return {
        "podGroup": f"{namespace}/{name}",
        "queue": group.spec.queue,
        "minMember": group.spec.min_member,
        "outcome": "unschedulable" if last else "nothing recorded",
        "message": last.message if last else "",
        "reasons": (last.reasons if last else None) or [],
    }


async def recorded_pod(client: KubeClient, namespace: str, name: str) -> dict[str, Any]:
    """What the pod itself records, for when the scheduler cannot be asked."""
    pod = await client.get(PODS, name, namespace=namespace, type=Pod)
    group = pod.annotations.get(names.POD_GROUP_ANNOTATION)
    told = [one.message for one in pod.status.conditions or () if one.type == "PodScheduled" and one.message]
    return {
        "pod": f"{namespace}/{name}",
        "podGroup": f"{namespace}/{group}" if group else "",
        "status": pod.status.phase,
        "node": pod.spec.node_name,
        "message": told[-1] if told else "",
        "bindFailure": bind_failure(pod),
        "nodes": [],
    }


async def missing(client: KubeClient, namespace: str, name: str) -> str:
    """Why the scheduler does not know a pod group: it is not there, or not the scheduler's."""
    try:
        group = await client.get(POD_GROUPS, name, namespace=namespace, type=PodGroup)
    except NotFound:
        return f"podgroup {namespace}/{name} does not exist; see kai get podgroups -n {namespace}"
    return (
        f"podgroup {namespace}/{name} is not known to this scheduler: it belongs to another node pool, "
        f"or queue {group.spec.queue!r} gave it up after one try"
    )


async def missing_pod(client: KubeClient, namespace: str, name: str) -> str:
    """Why the scheduler does not know a pod: it is not there, or not the scheduler's."""
    try:
        pod = await client.get(PODS, name, namespace=namespace, type=Pod)
    except NotFound:
        return f"pod {namespace}/{name} does not exist; see kubectl get pods -n {namespace}"
    return (
        f"pod {namespace}/{name} is not known to this scheduler: its schedulerName is "
        f"{pod.spec.scheduler_name or 'default-scheduler'!r}, or it belongs to another node pool"
    )


# --- answers for people ------------------------------------------------------------------------
def print_pod_group(found: dict[str, Any]) -> None:
    """A page: verdict first, then reasons, queues, pods and remedies."""
    pods = found.get("pods")
    outcome = "has no pods" if pods and not pods["total"] else found["outcome"]
    emit(f"{found['podGroup']}: {outcome}" + (f": {found['message']}" if found["message"] else ""))
    counts = (
        f", {pods['allocated']} of {pods['total']} pods placed, {pods['pending']} pending" if pods else ""
    )
    kind = "preemptible" if found.get("preemptible") else "non-preemptible"
    kind = "semi-preemptible" if found.get("semiPreemptible") else kind
    priority = f", priority {found['priority']} ({kind})" if "priority" in found else ""
    queue = f"queue {found['queue']}" if found["queue"] else "no queue"
    unknown = " (does not exist)" if found["queue"] and found.get("queues") == [] else ""
    emit(f"{queue}{unknown}{priority}, minimum {found['minMember']}{counts}")
    _section("reasons", [f"{item['reason']}: {item['message']}" for item in found["reasons"]])
    if found.get("queues"):
        columns = [
            Column("QUEUE"),
            *(
                Column(heading, True)
                for heading in ("GPU QUOTA", "GPU LIMIT", "FAIR SHARE", "ALLOCATED", "REQUESTED")
            ),
        ]
        keys = ("gpuQuota", "gpuLimit", "gpuFairShare", "gpuAllocated", "gpuRequested")
        rows = [
            ("  " * depth + item["queue"], *(amounts.gpus(item[key]) for key in keys))
            for depth, item in enumerate(found["queues"])
        ]
        emit("", table(columns, rows))
    if found.get("podLines"):
        columns = [Column("POD"), Column("STATUS"), Column("NODE"), Column("WHY", prose=True)]
        emit("", table(columns, pod_rows(found["podLines"])))
    _section("what would help", found.get("remedies", ()))


def pod_rows(lines: Sequence[dict[str, str]]) -> list[tuple[str, str, str, str]]:
    """A row for each pod, and one for all that are in the same state for the same reason if they are many."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for line in lines:
        alike.setdefault((line["status"], line["node"], line["message"]), []).append(line["name"])
    rows: list[tuple[str, str, str, str]] = []
    for (status, node, message), pods in alike.items():
        shown = [f"{pods[0]} and {len(pods) - 1} more"] if len(pods) > _ALIKE else pods
        rows += [(name, status, node, message) for name in shown]
    return rows


def print_pod(found: dict[str, Any]) -> None:
    """A page: where the pod is, or each node's verdict."""
    emit(f"{found['pod']}: {found['status']}" + (f" on {found['node']}" if found["node"] else ""))
    if found["podGroup"]:
        reason = found.get("podGroupMessage")
        emit(f"in pod group {found['podGroup']}" + (f", which waits: {reason}" if reason else ""))
    if found["message"]:
        emit(found["message"])
    if found.get("bindFailure"):
        emit(f"the last bind failed: {found['bindFailure']}")
    if found["nodes"]:
        rows = [
            (one["node"], "yes" if one["fits"] else "no", one["filter"], one["reason"])
            for one in found["nodes"]
        ]
        columns = [Column("NODE"), Column("FITS"), Column("FILTER"), Column("REASON", prose=True)]
        emit("", table(columns, rows))


def _section(title: str, lines: Sequence[str]) -> None:
    if lines:
        emit("", f"{title}:", *(f"  - {text}" for text in lines))
