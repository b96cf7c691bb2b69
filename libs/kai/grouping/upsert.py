"""From the group that is wanted and the one that exists to the smallest write that reconciles them.

Some fields of an existing group belong to others and are never written: see ``_yield_to``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kai.grouping.objects.pods import Pod
from kai.grouping.options import GroupingOptions
from kai.model import duration, names
from kai.model.objects import Json, PodGroup, PodGroupSpec, SubGroup, TopologyConstraint
from kai.model.rules import minimums
from kai.model.rules.priorities import is_semi_preemptible

_NO_CONSTRAINT: Final = TopologyConstraint()


def body_of(wanted: PodGroup) -> Json:
    """The object to create."""
    body: Json = {"apiVersion": names.POD_GROUP_API_VERSION, "kind": "PodGroup"}
    body |= msgspec.to_builtins(wanted)
    return body


def pod_group_patch(existing: PodGroup, wanted: PodGroup, options: GroupingOptions) -> Json | None:
    """The merge patch that makes ``existing`` what is ``wanted``; ``None`` if it is that already.

    Labels and annotations are added and changed, never removed.
    """
    labels, annotations = dict(wanted.labels), dict(wanted.annotations)
    annotations.pop(names.POD_GROUP_ANNOTATION, None)  # ours, on an owner that is a pod: no news
    spec = _yield_to(existing, wanted.spec, labels, options)
    patch: Json = {}
    if changed := _changed(existing.spec, spec):
        patch["spec"] = changed
    metadata = {
        "labels": _missing(labels, existing.labels),
        "annotations": _missing(annotations, existing.annotations),
    }
    owners = wanted.metadata.owner_references
    if owners != existing.metadata.owner_references:
        metadata["ownerReferences"] = msgspec.to_builtins(owners)
    if metadata := {key: value for key, value in metadata.items() if value}:
        patch["metadata"] = metadata
    if patch and existing.spec.sub_groups is None:  # always said, so that readers need not care
        patch.setdefault("spec", {}).setdefault("subGroups", [])
    return patch or None


def pod_patch(pod: Pod, group: str, sub_group: str) -> Json | None:
    """The merge patch that makes the pod a member; ``None`` if it is one. An old subgroup label stays."""
    patch: Json = {}
    if pod.annotations.get(names.POD_GROUP_ANNOTATION) != group:
        patch["annotations"] = {names.POD_GROUP_ANNOTATION: group}
    if sub_group and pod.labels.get(names.SUBGROUP_LABEL) != sub_group:
        patch["labels"] = {names.SUBGROUP_LABEL: sub_group}
    return {"metadata": patch} if patch else None


def _yield_to(
    existing: PodGroup, wanted: PodGroupSpec, labels: dict[str, str], options: GroupingOptions
) -> PodGroupSpec:
    """Leave to others what is theirs: queue, pool, how failures are told, a topology that no owner set.

    A group without a queue is nobody's yet: its owner was told to name one. And what nobody may take of a
    semi-preemptible group does not grow: the API refuses that.
    """
    queue = existing.spec.queue
    spec = msgspec.structs.replace(
        wanted,
        queue=queue or wanted.queue,
        mark_unschedulable=existing.spec.mark_unschedulable,
        scheduling_backoff=existing.spec.scheduling_backoff,
    )
    if not (wanted.topology_constraint and wanted.topology_constraint.topology):
        spec.topology_constraint = existing.spec.topology_constraint
    if is_semi_preemptible(existing.spec.preemptibility) and is_semi_preemptible(spec.preemptibility):
        spec = minimums.not_raised(existing.spec, spec)
    labels.pop(options.node_pool_label_key, None)
    if queue and options.queue_label_key in existing.labels:
        labels.pop(options.queue_label_key, None)
    return spec


def _changed(existing: PodGroupSpec, wanted: PodGroupSpec) -> Json:
    if existing == wanted:
        return {}
    old, new = _normal(existing), _normal(wanted)
    changed: Json = {key: value for key, value in new.items() if old.get(key) != value}
    changed |= {key: None for key in old if key not in new}
    for key, value in changed.items():
        if isinstance(value, dict):  # a merge patch would keep the old value's other keys
            changed[key] = {k: None for k in old.get(key) or () if k not in value} | value
    return changed


def _normal(spec: PodGroupSpec) -> Json:
    """As JSON in which equal meanings are equal: durations as the API prints them, nothing empty."""
    body: Json = msgspec.to_builtins(
        msgspec.structs.replace(
            spec,
            preemption_delay=_printed(spec.preemption_delay),
            staleness_grace_period=_printed(spec.staleness_grace_period),
            topology_constraint=_stated(spec.topology_constraint),
            sub_groups=[_normal_part(part) for part in spec.sub_groups or ()],
        )
    )
    return body


def _normal_part(part: SubGroup) -> SubGroup:
    if part.topology_constraint is None and part.parent != "":
        return part
    return msgspec.structs.replace(
        part, topology_constraint=_stated(part.topology_constraint), parent=part.parent or None
    )


def _stated(constraint: TopologyConstraint | None) -> TopologyConstraint | None:
    return None if constraint == _NO_CONSTRAINT else constraint


def _printed(period: str | None) -> str | None:
    if period is None:
        return None
    try:
        return duration.render(duration.parse(period, days=False))
    except ValueError:
        return period


def _missing(wanted: Mapping[str, str], existing: Mapping[str, str]) -> Json:
    return {key: value for key, value in wanted.items() if existing.get(key) != value}
