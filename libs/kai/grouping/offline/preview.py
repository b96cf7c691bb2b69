"""What a manifest would become, without a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from kai.grouping.errors import GroupingError, InvalidWorkload
from kai.grouping.grouper import LeftAlone, Membership, group_pod
from kai.grouping.objects.pods import decode_pod
from kai.grouping.offline import acceptance
from kai.grouping.offline.cluster import FileCluster
from kai.grouping.offline.manifest import Manifest, read_manifest
from kai.grouping.options import GroupingOptions
from kai.grouping.rules import is_known
from kai.grouping.upsert import body_of, pod_group_patch, pod_patch
from kai.model import merge_patch, names
from kai.model.objects import Json, PodGroup
from kai.workloads.making import TooManyPods, childless, completed, maker_of
from kai.workloads.no_pods import why_none
from kai.workloads.parts import at, listed
from kai.workloads.references import filled


@dataclass(frozen=True, slots=True)
class PodMembership:
    """A pod of the manifest. ``pod_group`` is empty if it is left alone or cannot be grouped."""

    namespace: str
    name: str
    pod_group: str = ""
    sub_group: str = ""


@dataclass(frozen=True, slots=True)
class Preview:
    """Groups that were made or changed, whole; pods in the manifest's order; warnings as events would be.

    ``notes`` are what a log would say: labels and annotations that were ignored. ``pod_bodies`` are all pods
    as they would be.
    """

    pod_groups: tuple[Json, ...]
    pods: tuple[PodMembership, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    pod_bodies: tuple[Json, ...]


async def preview(text: str, options: GroupingOptions, *, defaults: str = "") -> Preview:
    """Take the objects of a manifest for the cluster and group its pods one after the other.

    Pods that are not in it are made of templates, as controllers and operators do.

    Raises:
        InvalidWorkload: the manifest cannot be read at all, or asks for more pods than can be looked at. A
            pod that cannot be grouped is a warning.
    """
    return await preview_of(with_pods(read_manifest(text), namespace="default"), options, defaults=defaults)


def with_pods(manifest: Manifest, *, namespace: str) -> Manifest:
    """The manifest with what would come of its objects; who names no namespace is in ``namespace``.

    Raises:
        InvalidWorkload: that is more than can be looked at.
    """
    try:
        return replace(manifest, objects=tuple(completed(manifest.objects, namespace=namespace)))
    except TooManyPods as error:
        raise InvalidWorkload(str(error)) from error


async def preview_of(manifest: Manifest, options: GroupingOptions, *, defaults: str = "") -> Preview:
    """The same of objects that were read already."""
    return await _Session(manifest, options, defaults=defaults).run()


class _Session:
    def __init__(self, manifest: Manifest, options: GroupingOptions, *, defaults: str) -> None:
        self._cluster = cluster = FileCluster(manifest.objects, defaults=defaults)
        self._options = options
        self._touched: dict[tuple[str, str], None] = {}
        self._warnings = [*manifest.problems, *cluster.problems]
        self._notes = cluster.notes
        self._without_pods = [
            note
            for body in childless(manifest.objects)
            if is_known(str(body.get("apiVersion")), body["kind"])
            and (note := _without_pods(body, manifest.objects))
        ]

    async def run(self) -> Preview:
        pods = [await self._take(namespace, name) for namespace, name in list(self._cluster.pod_bodies)]
        self._notes += self._without_pods
        if not pods and not self._without_pods:
            self._notes.append("the file has no pods; add one of each sort, as of kubectl get pods -o yaml")
        return Preview(
            pod_groups=tuple(self._cluster.pod_group_bodies[key] for key in self._touched),
            pods=tuple(pods),
            warnings=tuple(self._warnings),
            notes=tuple(dict.fromkeys(self._notes)),
            pod_bodies=tuple(self._cluster.pod_bodies.values()),
        )

    async def _take(self, namespace: str, name: str) -> PodMembership:
        try:
            pod = decode_pod(self._cluster.pod_bodies[namespace, name])
            outcome = await group_pod(pod, self._cluster, self._options)
            if isinstance(outcome, LeftAlone):
                self._notes.append(f"Pod {namespace}/{name} is left alone: {outcome.reason}")
                return PodMembership(namespace, name)
            self._notes += outcome.notes
            self._warnings += [_about(namespace, name, text) for text in _warnings_about(outcome)]
            self._store(outcome.pod_group)
        except GroupingError as error:
            self._warnings.append(_about(namespace, name, str(error)))
            return PodMembership(namespace, name)
        group = outcome.pod_group.metadata.name
        patch = pod_patch(pod, group, outcome.sub_group)
        if patch:
            self._cluster.patch_pod(namespace, name, patch)
        return PodMembership(
            namespace, name, group, outcome.sub_group or pod.labels.get(names.SUBGROUP_LABEL, "")
        )

    def _store(self, wanted: PodGroup) -> None:
        key = (wanted.metadata.namespace, wanted.metadata.name)
        existing = self._cluster.pod_group(*key)
        if existing is None:
            body = body_of(wanted)
        else:
            patch = pod_group_patch(existing, wanted, self._options)
            if patch is None:
                return
            body = merge_patch.merged(self._cluster.pod_group_bodies[key], patch)
        acceptance.check(msgspec.convert(body, PodGroup), before=existing)
        self._cluster.pod_group_bodies[key] = body
        self._touched[key] = None


def _without_pods(body: Json, objects: Sequence[Json]) -> str:
    """Why nothing is known of the pods of an owner, or why it has none; empty where it does not say."""
    if why := why_none(body):
        # Of a Deployment its ReplicaSet says the same, which nobody has written.
        makers = [each.get("uid") for each in listed(body, "metadata", "ownerReferences")]
        above = (each for each in objects if at(each, "metadata").get("uid") in makers and why_none(each))
        return f"{_called(next(above, body))} {why}"
    name, missing = _called(body), filled(body, objects)[1]
    if maker_of(body) is not None and not missing:
        return ""
    what = f"takes what its pods are from {missing[0]}" if missing else "does not say what its pods are"
    return f"{name} {what}; put one of each sort into the file, as of kubectl get pods -o yaml"


def _called(body: Json) -> str:
    return f"{body['kind']} {body['metadata'].get('namespace', '')}/{body['metadata']['name']}"


def _warnings_about(outcome: Membership) -> tuple[str, ...]:
    return (*([outcome.walk_note] if outcome.walk_note else []), *outcome.warnings)


def _about(namespace: str, name: str, text: str) -> str:
    """The text with the pod's name in front, unless it begins with that anyway."""
    pod = f"Pod {namespace}/{name}: "
    return text if text.startswith(pod) else f"{pod}{text}"
