"""Pods that controllers would make of templates, so that a file need not have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from kai.model.objects import Json

_CLUSTER_SCOPED: Final = ("PriorityClass", "Karta", "Namespace", "Node", "CustomResourceDefinition", "Queue")


def completed(objects: Iterable[Json], *, namespace: str) -> list[Json]:
    """The objects as an API server and controllers leave them.

    Who names no namespace is in ``namespace``, everybody has a uid, containers of pods request what they are
    limited to, and owners of the kinds in :data:`MADE` have pods, unless the file has some of theirs. Nothing
    is changed in place.
    """
    found = [_named(body, namespace) for body in objects]
    found = [_requesting(body) if body.get("kind") == "Pod" else body for body in found]
    parents = {
        (owner.get("kind"), body["metadata"].get("namespace"), owner.get("name"))
        for body in found
        for owner in body["metadata"].get("ownerReferences") or ()
    }
    made: list[Json] = []
    for body in found:
        meta = body["metadata"]
        make = MADE.get(str(body.get("kind")))
        if make is not None and (body["kind"], meta.get("namespace"), meta.get("name")) not in parents:
            made += make(body)
    return [*found, *made]


def _named(body: Json, namespace: str) -> Json:
    meta = dict(body.get("metadata") or {})
    if body.get("kind") not in _CLUSTER_SCOPED:
        meta.setdefault("namespace", namespace)
    if "name" not in meta and "generateName" in meta:
        meta["name"] = f"{meta['generateName']}new"
    key = f"{body.get('apiVersion')}/{body.get('kind')}/{meta.get('namespace', '')}/{meta.get('name', '')}"
    meta.setdefault("uid", str(uuid5(NAMESPACE_URL, key)))
    return {**body, "metadata": meta}


def _job(job: Json) -> Iterator[Json]:
    spec = job.get("spec") or {}
    if spec.get("suspend"):
        return
    parallel = _count(spec, "parallelism")
    completions = spec.get("completions")
    indexed = spec.get("completionMode") == "Indexed"
    for number in range(min(parallel, completions) if isinstance(completions, int) else parallel):
        index = {"batch.kubernetes.io/job-completion-index": str(number)} if indexed else {}
        labels = {"batch.kubernetes.io/job-name": job["metadata"]["name"], **index}
        yield _pod(job, f"{job['metadata']['name']}-{number}", labels=labels, annotations=index)


def _replicas(owner: Json) -> Iterator[Json]:
    for number in range(_count(owner.get("spec") or {}, "replicas")):
        yield _pod(owner, f"{owner['metadata']['name']}-{number}")


def _deployment(deployment: Json) -> Iterator[Json]:
    meta = deployment["metadata"]
    replica_set = _named(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{meta['name']}-new",
                "namespace": meta["namespace"],
                "ownerReferences": [_owner(deployment)],
            },
            "spec": deployment.get("spec") or {},
        },
        meta["namespace"],
    )
    yield replica_set
    yield from _replicas(replica_set)


#: What becomes of an owner of each kind.
MADE: Final[dict[str, Callable[[Json], Iterator[Json]]]] = {
    "Job": _job,
    "ReplicaSet": _replicas,
    "ReplicationController": _replicas,
    "StatefulSet": _replicas,
    "Deployment": _deployment,
}


def _count(spec: Json, field: str) -> int:
    """As an API server fills it in where nothing is said; what is no number is for the grouping to refuse."""
    value: Any = spec.get(field)
    return max(value, 0) if isinstance(value, int) else 1


def _owner(owner: Json) -> Json:
    meta = owner["metadata"]
    return {
        "apiVersion": owner.get("apiVersion", ""),
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


def _pod(
    owner: Json, name: str, *, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None
) -> Json:
    template = (owner.get("spec") or {}).get("template") or {}
    meta = template.get("metadata") or {}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": {**(meta.get("labels") or {}), **(labels or {})},
            "annotations": {**(meta.get("annotations") or {}), **(annotations or {})},
            "ownerReferences": [_owner(owner)],
        },
        "spec": template.get("spec") or {},
        "status": {"phase": "Pending"},
    }
    return _requesting(_named(body, owner["metadata"]["namespace"]))


def _requesting(pod: Json) -> Json:
    """A pod whose amounts are texts, and which requests what it is limited to."""
    spec = dict(pod.get("spec") or {})
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            spec[field] = [_with_requests(each) for each in spec[field]]
    return {**pod, "spec": spec}


def _with_requests(container: Any) -> Any:
    resources = container.get("resources") if isinstance(container, dict) else None
    if not isinstance(resources, dict):
        return container
    limits = _amounts(resources.get("limits"))
    amounts = {"limits": limits, "requests": limits | _amounts(resources.get("requests"))}
    amounts = {name: listed for name, listed in amounts.items() if listed}
    return {**container, "resources": {**resources, **amounts}}


def _amounts(listed: Any) -> dict[str, Any]:
    """Numbers as the texts that they are for an API server; what is none is left to who reads it."""
    given = listed if isinstance(listed, dict) else {}
    return {
        name: str(amount) if isinstance(amount, int | float) and not isinstance(amount, bool) else amount
        for name, amount in given.items()
    }
