"""Work that somebody would submit: manifests, grouped as the pod-grouper does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kai.grouping.offline.manifest import Manifest, read_manifest
from kai.grouping.offline.preview import preview_of, with_pods
from kai.grouping.options import GroupingOptions
from kai.kube.resources import POD_GROUPS
from kai.model import names, quantity
from kai.model.objects import Json, Pod, PodGroup
from kai.replay import objects
from kai.simulate import changes, naming
from kai.simulate.changes import Change, ChangeRefused
from kai.snapshot.kinds import Kind, StateParams
from kai.snapshot.state import ClusterState
from kai.snapshot.times import rfc3339


@dataclass(frozen=True, slots=True)
class Submission:
    """Changes that submit some manifests, and what their author should know."""

    changes: list[Change]
    warnings: Sequence[str]
    notes: Sequence[str]


def submitted(
    state: ClusterState, text: str, *, now: float, namespace: str, usual: str = "", files: Sequence[str] = ()
) -> Submission:
    """The workloads of manifests.

    Args:
        state: of the cluster that they would come to.
        text: the manifests, YAML.
        now: Unix seconds.
        namespace: of those that name none.
        usual: where kubectl puts those by itself; empty where nobody knows.
        files: how they are called in a command.

    Raises:
        GroupingError: they cannot be grouped.
        ChangeRefused: they hold nothing for this scheduler, what is of another one's node pool, or what is
            there already.
    """
    params = state.params
    options = GroupingOptions(
        scheduler_name=params.scheduler_name,
        queue_label_key=params.queue_label_key,
        node_pool_label_key=params.node_pool_label_key,
    )
    given = read_manifest(text)
    manifest = with_pods(given, namespace=namespace)
    whole = (*manifest.objects, *_priority_classes(state))
    made = asyncio.run(preview_of(Manifest(whole, manifest.problems), options))
    try:
        pods = [_pod(body, params.scheduler_name, now) for body in made.pod_bodies]
        ours = [pod for pod in pods if pod.spec.scheduler_name == params.scheduler_name]
        groups = [_group(body, now) for body in _groups_of(ours, (*manifest.objects, *made.pod_groups))]
    except (msgspec.ValidationError, quantity.InvalidQuantity) as error:
        raise ChangeRefused(f"the manifest cannot be read: {error}") from error
    if not pods:
        raise ChangeRefused(
            f"the manifest has no pods for this scheduler: {'; '.join((*made.warnings, *made.notes))}"
        )
    if not ours:
        raise ChangeRefused(
            "the manifest has no pods for this scheduler; give them schedulerName "
            f"{params.scheduler_name}, and put the pods of kinds that have no template into the file"
        )
    if not groups:
        raise ChangeRefused(
            f"the pods of the manifest get no pod group: {'; '.join((*made.warnings, *made.notes))}; "
            "put the pod group that they name into the manifest"
        )
    _check_pool(groups, params)
    there = {naming.called(group) for group in state.group_objects.values()}
    if again := sorted({naming.called(group) for group in groups} & there):
        raise ChangeRefused(
            f"{', '.join(again)} is in the cluster already; give it another name in the manifest, "
            "to see what a second one would do"
        )
    where = "" if namespace == usual else _to_say(given.objects, manifest.objects, namespace)
    work = changes.AddWorkload(groups=groups, pods=ours, files=files, namespace=where)
    return Submission([work], made.warnings, made.notes)


def _to_say(given: Sequence[Json], placed: Sequence[Json], namespace: str) -> str | None:
    """What kubectl is told of a namespace, as ``AddWorkload`` has it, from the objects of files and what came
    of them, in the same order and with their pods at the end.
    """
    named = {_namespace_of(body) for body in given} - {""}
    pairs = zip(given, placed, strict=False)
    if not any(_namespace_of(after) and not _namespace_of(before) for before, after in pairs):
        return ""
    return namespace if named <= {namespace} else None


def _namespace_of(body: Json) -> str:
    meta = body.get("metadata")
    return str(meta.get("namespace") or "") if isinstance(meta, dict) else ""


def _groups_of(pods: Sequence[Pod], bodies: Sequence[Json]) -> list[Json]:
    """The pod groups that pods name; of two with the same name the last."""
    named = {(pod.metadata.namespace, pod.annotations.get(names.POD_GROUP_ANNOTATION)) for pod in pods}
    groups = {
        (body["metadata"]["namespace"], body["metadata"]["name"]): body
        for body in bodies
        if (body.get("kind"), body.get("apiVersion")) == (POD_GROUPS.kind, POD_GROUPS.api_version)
    }
    return [body for key, body in groups.items() if key in named]


def _check_pool(groups: Sequence[PodGroup], params: StateParams) -> None:
    """
    Raises:
        ChangeRefused: the scheduler would leave one of them to that of another shard.
    """
    for group in groups:
        if not params.in_pool(group.labels):
            pool = group.labels.get(params.node_pool_label_key, "")
            raise ChangeRefused(
                f"{naming.called(group)} is of the node pool {_pool(pool, params)}, and the scheduler that "
                f"was asked has the one {_pool(params.node_pool, params)}; ask that of the shard with "
                f"partitionLabelValue {pool!r}"
            )


def _pool(value: str, params: StateParams) -> str:
    key = params.node_pool_label_key
    return f"with the label {key}={value}" if value else f"without the label {key}"


def _priority_classes(state: ClusterState) -> list[Json]:
    return [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        for name in state.priority_classes
    ]


def _pod(body: Json, scheduler_name: str, now: float) -> Pod:
    """The pod as it is created: without a place."""
    pod: Pod = objects.read(Kind.POD, body, scheduler_name=scheduler_name)
    created = rfc3339(now)
    meta = msgspec.structs.replace(pod.metadata, creation_timestamp=created, deletion_timestamp=None)
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return Pod(metadata=meta, spec=spec)


def _group(body: Json, now: float) -> PodGroup:
    group = msgspec.convert(body, PodGroup)
    uid = group.metadata.uid or group.metadata.name
    meta = msgspec.structs.replace(group.metadata, creation_timestamp=rfc3339(now), uid=uid)
    return msgspec.structs.replace(group, metadata=meta)
