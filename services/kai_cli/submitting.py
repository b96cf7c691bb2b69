"""Work that somebody would submit: manifests, grouped as the pod-grouper does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kai.model import quantity
from kai.model.objects import Json, Pod, PodGroup
from kai.replay import objects
from kai.simulate import changes, naming
from kai.simulate.changes import Change, ChangeRefused
from kai.snapshot.kinds import Kind
from kai.snapshot.state import ClusterState
from kai.snapshot.times import rfc3339
from kai_pod_grouper.offline.manifest import Manifest, read_manifest
from kai_pod_grouper.offline.preview import preview_of, with_pods
from kai_pod_grouper.options import GroupingOptions


@dataclass(frozen=True, slots=True)
class Submission:
    """Changes that submit some manifests, and what their author should know."""

    changes: list[Change]
    warnings: Sequence[str]
    notes: Sequence[str]


def submitted(state: ClusterState, text: str, *, now: float, namespace: str, file: str) -> Submission:
    """The workloads of manifests.

    Args:
        state: of the cluster that they would come to.
        text: the manifests, YAML.
        now: Unix seconds.
        namespace: of those that name none.
        file: how they are called in a command.

    Raises:
        GroupingError: they cannot be grouped.
        ChangeRefused: they hold nothing for this scheduler, or what is there already.
    """
    params = state.params
    options = GroupingOptions(
        scheduler_name=params.scheduler_name,
        queue_label_key=params.queue_label_key,
        node_pool_label_key=params.node_pool_label_key,
    )
    manifest = with_pods(read_manifest(text), namespace=namespace)
    whole = (*manifest.objects, *_priority_classes(state))
    made = asyncio.run(preview_of(Manifest(whole, manifest.problems), options))
    if not made.pod_groups:
        raise ChangeRefused(
            "the manifest has no pods for this scheduler; give them schedulerName "
            f"{params.scheduler_name}, and put the pods of kinds that have no template into the file"
        )
    try:
        pods = [_pod(body, params.scheduler_name, now) for body in made.pod_bodies]
        groups = [_group(body, now) for body in made.pod_groups]
    except (msgspec.ValidationError, quantity.InvalidQuantity) as error:
        raise ChangeRefused(f"the manifest cannot be read: {error}") from error
    there = {naming.called(group) for group in state.group_objects.values()}
    if again := sorted({naming.called(group) for group in groups} & there):
        raise ChangeRefused(
            f"{', '.join(again)} is in the cluster already; give it another name in the manifest, "
            "to see what a second one would do"
        )
    ours = [pod for pod in pods if pod.spec.scheduler_name == params.scheduler_name]
    work = changes.AddWorkload(groups=groups, pods=ours, file=file)
    return Submission([work], made.warnings, made.notes)


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
