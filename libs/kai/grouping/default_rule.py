"""The default rule, which every other rule starts from: one group per workload, one pod is enough.

Precedence is the same for all settings: labels and annotations of the owners count before those of the pod.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import yaml

from kai.grouping.cluster import Cluster
from kai.grouping.draft import GroupDraft
from kai.grouping.objects.documents import Document
from kai.grouping.objects.pods import Pod
from kai.grouping.options import GroupingOptions
from kai.model import duration, names
from kai.model.queue_labels import queue_named
from kai.model.rules import priorities

TRAIN, BUILD, INFERENCE = "train", "build", "inference"
#: What a label may say; empty leaves it to the priority.
PREEMPTIBILITIES = (*priorities.PREEMPTIBILITIES, "")
#: Texts that YAML reads as strings for certain: words but those that mean something to it, and uids.
_PLAIN: Final = re.compile(
    r"(?!(?:yes|no|on|off|true|false|null)\Z)[a-z][a-z0-9./-]*|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.IGNORECASE | re.ASCII,
)


def default_draft(
    top: Document,
    pod: Pod,
    *,
    owners: Sequence[Document] = (),
    cluster: Cluster,
    options: GroupingOptions,
    notes: list[str],
    fallback_class: str = TRAIN,
) -> GroupDraft:
    """The group of ``top``. ``owners``, nearest first, tell priorities and delays; ``top`` if empty."""
    owners = owners or (top,)
    queue, warnings = queue_of(top.labels, pod, options), []
    if not queue:
        key = options.queue_label_key
        empty = top.of if key in top.labels else f"Pod {pod.key}"
        warnings.append(f'{empty}: label "{key}" is empty, so the pod group has no queue; name a leaf queue')
    return GroupDraft(
        namespace=pod.metadata.namespace,
        name=group_name(top),
        owner=top.reference,
        labels=group_labels(top, pod),
        annotations=group_annotations(top, pod),
        queue=queue,
        priority_class=priority_class(owners, pod, cluster, fallback_class, notes),
        preemptibility=preemptibility(owners, pod, cluster, notes),
        preemption_delay=period(names.PREEMPTION_DELAY, owners, pod, notes, negative=False),
        staleness_grace_period=period(names.STALENESS_GRACE_PERIOD, owners, pod, notes, negative=True),
        topology=top.annotations.get(names.TOPOLOGY, ""),
        required_level=top.annotations.get(names.TOPOLOGY_REQUIRED, ""),
        preferred_level=top.annotations.get(names.TOPOLOGY_PREFERRED, ""),
        warnings=warnings,
        notes=notes,
    )


def group_name(owner: Document) -> str:
    """``pg-<name>-<uid>``."""
    return f"pg-{owner.name}-{owner.uid}"


def group_labels(top: Document, pod: Pod) -> dict[str, str]:
    """The owner's labels, and who the user is."""
    labels = dict(top.labels)
    if names.USER_KEY in pod.labels:
        labels.setdefault(names.USER_KEY, pod.labels[names.USER_KEY])
    return labels


def group_annotations(top: Document, pod: Pod) -> dict[str, str]:
    """Who the user and the owner are, and the owner's annotations, but for what is not his to say."""
    annotations = {}
    if names.USER_KEY in pod.annotations:
        annotations[names.USER_KEY] = pod.annotations[names.USER_KEY]
    annotations[names.TOP_OWNER_METADATA] = top_owner_metadata(top)
    said = {key: value for key, value in top.annotations.items() if key not in names.GROUP_TIMESTAMPS}
    return annotations | said


def top_owner_metadata(top: Document) -> str:
    """The owner as a YAML mapping, each value quoted only where YAML would not read it as a string."""
    fields = {"name": top.name, "uid": top.uid, "group": top.group, "version": top.version, "kind": top.kind}
    return "".join(f"{key}: {_scalar(value)}\n" for key, value in fields.items())


def _scalar(value: str) -> str:
    if _PLAIN.fullmatch(value):  # names and uids; to ask YAML takes longer than all the rest of a group
        return value
    try:
        plain = yaml.safe_load(value) == value
    except yaml.YAMLError:
        plain = False
    return value if plain else json.dumps(value)


def queue_of(owner_labels: Mapping[str, str], pod: Pod, options: GroupingOptions) -> str:
    """The queue that the labels of the owner and the pod name, see :mod:`kai.model.queue_labels`."""
    return queue_named(
        owner_labels,
        pod.labels,
        queue_label_key=options.queue_label_key,
        node_pool_label_key=options.node_pool_label_key,
    )


def priority_class(
    owners: Iterable[Document], pod: Pod, cluster: Cluster, fallback: str, notes: list[str]
) -> str:
    """The first existing class that an owner or the pod names, then its kind's default, then ``fallback``.

    Of an owner, its label, the pod's label and the pod's class only the first that is present is tried. The
    fallback is not checked: it is of the classes that are installed with the product.
    """
    owners = tuple(owners)
    key = names.PRIORITY_CLASS_LABEL
    for owner in owners:
        wanted = owner.labels.get(key, pod.labels.get(key, pod.spec.priority_class_name))
        if wanted and cluster.has_priority_class(wanted):
            return wanted
        if wanted:
            notes.append(f"priority class {wanted!r} of {owner.of} or its pod does not exist; ignored")
    defaults = cluster.type_defaults()
    for owner in owners:
        wanted = defaults.of(owner).priority_name
        if wanted and cluster.has_priority_class(wanted):
            return wanted
    return fallback


def preemptibility(owners: Iterable[Document], pod: Pod, cluster: Cluster, notes: list[str]) -> str:
    """The first valid label of the owners and the pod, then the kind's default, then empty: by priority."""
    owners = tuple(owners)
    key = names.PREEMPTIBILITY_LABEL
    for of, labels in _sources(owners, pod, "labels"):
        if key in labels:
            if labels[key] in PREEMPTIBILITIES:
                return labels[key]
            notes.append(
                f'{of}: label "{key}" must be preemptible, non-preemptible or semi-preemptible;'
                f" {labels[key]!r} is ignored"
            )
    defaults = cluster.type_defaults()
    for owner in owners:
        wanted = defaults.of(owner).preemptibility.lower()
        if wanted and wanted in PREEMPTIBILITIES:
            return wanted
    return ""


def period(key: str, owners: Iterable[Document], pod: Pod, notes: list[str], *, negative: bool) -> str | None:
    """The first valid duration of the owners' and the pod's annotations, as the API prints it."""
    for of, said in _sources(owners, pod, "annotations"):
        if key in said:
            try:
                return parse_period(said[key], negative=negative)
            except ValueError as error:
                notes.append(f'{of}: annotation "{key}" is ignored: {error}')
    return None


def parse_period(text: str, *, negative: bool) -> str:
    """A duration in the form of the API.

    Raises:
        ValueError: not a duration, or a negative one where that has no meaning.
    """
    seconds = duration.parse(text, days=False)
    if seconds < 0 and not negative:
        raise ValueError(f"{text!r} is negative")
    return duration.render(seconds)


def _sources(owners: Iterable[Document], pod: Pod, part: str) -> Iterable[tuple[str, Mapping[str, str]]]:
    for owner in owners:
        yield owner.of, getattr(owner, part)
    yield f"Pod {pod.key}", getattr(pod, part)
