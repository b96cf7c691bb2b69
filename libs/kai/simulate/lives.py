"""What becomes of pods that are deleted: their owners make others, where they have owners."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from kai.model import names
from kai.model.ids import GpuGroup
from kai.model.objects import Json, ObjectMeta, Pod, PodStatus
from kai.model.rules.gpu_groups import is_gpu_group_label
from kai.model.rules.top_owner import top_owner
from kai.model.rules.volumes import claim_name, is_ephemeral, waits_for_consumer
from kai.simulate.journal import Journal
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import Node, Task
from kai.snapshot.state import ClusterState
from kai.snapshot.status import Status
from kai.snapshot.times import rfc3339

#: Between the name of a pod and the number of the one that came for it; no name can have it.
_AGAIN: Final = "~"
_NUMBERED: Final = re.compile(rf"{_AGAIN}[0-9]+")
_ENDED: Final = (Status.SUCCEEDED, Status.FAILED)


def origin(key: str) -> str:
    """The pod (``namespace/name``) that was there first, of all that came for it one after the other."""
    return key.partition(_AGAIN)[0]


def without_numbers(text: str) -> str:
    """A text in which each pod is called by the name of the one that was there first."""
    return _NUMBERED.sub("", text)


def comes_back(state: ClusterState, task: Task) -> bool:
    """Whether somebody makes a pod anew that is deleted: not what has ended, nor a workload of its own.

    What made its pod group is looked at. Of a group without an owner nobody can tell; its pods come back.
    """
    job = task.job
    if job is None or task.status in _ENDED:
        return False
    owner = top_owner(state.group_objects.get(job.key))
    return owner is None or owner.kind != "Pod"


def again(state: ClusterState, task: Task, *, now: float) -> Pod:
    """The pod that an owner makes when this one is deleted: new, and waiting for a place.

    ``now`` is in Unix seconds. Before: the pod of that name is still known, or was.
    """
    facts = task.facts
    assert facts is not None
    first, _, number = task.name.partition(_AGAIN)
    name = f"{first}{_AGAIN}{int(number or 0) + 1}"
    body = facts.pod if facts.pod is not None and not facts.reservation else task.cls.pod
    if task.declared_cls is not None:
        body = task.declared_cls.pod
    labels = {key: text for key, text in (task.labels or {}).items() if not is_gpu_group_label(key)}
    annotations = {**body.annotations}
    if facts.group_key:
        annotations[names.POD_GROUP_ANNOTATION] = facts.group_key.partition("/")[2]
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=task.namespace,
            uid=f"{task.namespace}-{name}",
            labels=labels or None,
            annotations=annotations,
            creation_timestamp=rfc3339(now),
        ),
        spec=msgspec.structs.replace(
            body.spec,
            node_name="",
            scheduler_name=state.params.scheduler_name,
            service_account_name=facts.account,
            scheduling_gates=None,
        ),
        status=PodStatus(phase="Pending", resource_claim_statuses=body.status.resource_claim_statuses),
    )


def replace(journal: Journal, task: Task, *, now: float) -> Task | None:
    """Let a pod be gone, and the one come that its owner makes; None where nobody does."""
    state = journal.state
    if not comes_back(state, task):
        end(journal, task)
        return None
    return instead(journal, task, again(state, task, now=now))


def instead(journal: Journal, task: Task, pod: Pod) -> Task:
    """Let a pod be gone, and one come for it, with claims of its own that hold nothing yet."""
    end(journal, task)
    _free_claims(journal, pod)
    _make_volume_claims(journal, pod, former=task.name)
    return journal.create(pod)


def end(journal: Journal, task: Task) -> None:
    """Let a pod be gone, and the pods that held its devices for it where nobody else uses these."""
    node, groups = task.node, task.groups
    journal.end(task)
    _give_back(journal, node, groups)


def finish(journal: Journal, task: Task) -> None:
    """Let a pod have succeeded, and the pods that held its devices be gone, where nobody else uses these."""
    node, groups = task.node, task.groups
    journal.finish(task)
    _give_back(journal, node, groups)


def _give_back(journal: Journal, node: Node | None, groups: Iterable[GpuGroup]) -> None:
    if node is None or not groups:
        return
    here = list(journal.state.on_node.get(node.name, {}).values())
    reserving = [each for each in here if each.facts is not None and each.facts.reservation]
    for group in groups:
        if any(group in each.groups for each in node.tasks.values() if each not in reserving):
            continue
        for each in reserving:
            if each.facts is not None and group in each.facts.group_ids and each.uid in journal.state.tasks:
                journal.end(each)


def _free_claims(journal: Journal, pod: Pod) -> None:
    """Claims that are made for a pod come anew with it, and hold nothing yet."""
    for made in pod.status.resource_claim_statuses or ():
        key = f"{pod.metadata.namespace}/{made.resource_claim_name}"
        claim = journal.state.objects[Kind.RESOURCE_CLAIM].get(key)
        if claim is not None:
            journal.put(
                Kind.RESOURCE_CLAIM, {field: value for field, value in claim.items() if field != "status"}
            )


def _make_volume_claims(journal: Journal, pod: Pod, *, former: str) -> None:
    """Make the claims of a pod's ephemeral volumes, each like that of the pod which it comes for."""
    claims = journal.state.objects[Kind.PERSISTENT_VOLUME_CLAIM]
    for volume in filter(is_ephemeral, pod.spec.volumes or ()):
        like = claims.get(f"{pod.metadata.namespace}/{claim_name(volume, former)}")
        if like is not None:
            claim = _claim_like(journal.state, like, name=claim_name(volume, pod.metadata.name), pod=pod)
            journal.put(Kind.PERSISTENT_VOLUME_CLAIM, claim)


def _claim_like(state: ClusterState, like: Json, *, name: str | None, pod: Pod) -> Json:
    """A claim that has no volume yet, or where its class binds at once one that the same nodes reach."""
    meta, spec = pod.metadata, dict(like["spec"])
    if waits_for_consumer(state.objects[Kind.STORAGE_CLASS].get(spec.get("storageClassName", ""))):
        spec.pop("volumeName", None)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid, "controller": True}
    return {
        "metadata": {"name": name, "namespace": meta.namespace, "ownerReferences": [owner]},
        "spec": spec,
    }
