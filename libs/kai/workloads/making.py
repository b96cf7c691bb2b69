"""From the objects of a file to the pods that would come of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from kai.model.ids import derived_uuid
from kai.model.objects import Json
from kai.workloads import (
    argo,
    grove,
    jobset,
    knative,
    kubeflow,
    kubernetes,
    leader_worker_set,
    others,
    ray,
    tekton,
    trainer,
)
from kai.workloads.parts import MOST_MADE, Maker, TooMany, listed
from kai.workloads.references import filled

#: Who makes what, by API group and kind.
MAKERS: Final[dict[tuple[str, str], Maker]] = {
    **kubernetes.MAKERS,
    **kubeflow.MAKERS,
    **jobset.MAKERS,
    **leader_worker_set.MAKERS,
    **ray.MAKERS,
    **knative.MAKERS,
    **grove.MAKERS,
    **trainer.MAKERS,
    **argo.MAKERS,
    **tekton.MAKERS,
    **others.MAKERS,
}
#: Of these the kinds that Kubernetes does not bring along, by API group.
OF_OPERATORS: Final = MAKERS.keys() - kubernetes.MAKERS.keys()
#: Objects that make nothing themselves: so many are kept for who asks about them by name, as about gangs.
_MOST_BESIDE: Final = 100
_CLUSTER_SCOPED: Final = (
    "PriorityClass",
    "Karta",
    "Namespace",
    "Node",
    "CustomResourceDefinition",
    "Queue",
    "Topology",
    "SchedulingShard",
    "Config",
    "DeviceClass",
    "ResourceSlice",
    "StorageClass",
    "PersistentVolume",
    "RuntimeClass",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrainingRuntime",
    "ClusterWorkflowTemplate",
)


@dataclass(slots=True)
class Sort:
    """The pods of one template: the first of them, and how many there are."""

    pod: Json
    #: What it is made by, the object that a user writes first.
    makers: tuple[Json, ...]
    #: What is made of that object as well and makes nothing itself, a few of them.
    beside: list[Json]
    count: int = 1


class TooManyPods(ValueError):
    """Somebody asks for more than :data:`MOST_MADE`; the message names him."""


def completed(objects: Iterable[Json], *, namespace: str) -> list[Json]:
    """The objects as an API server and controllers leave them.

    Who names no namespace is in ``namespace``, everybody has a uid, containers of pods request what they are
    limited to, and who makes pods has them, unless the file has somebody that he owns, or lacks what he takes
    them from. Nothing is changed in place.

    Raises:
        TooManyPods: together they have more than can be looked at.
    """
    found = [_as_served(body, namespace) for body in objects]
    parents = set(_owners(found))
    whole: list[Json] = []
    made: list[Json] = []
    for body in found:
        if not _is_sound(body) or _key(body) in parents:
            whole.append(body)
            continue
        whole.append(body := amended(body))
        maker, missing = filled(body, found)
        if not missing:
            made += _bounded(body, _below(maker), most=MOST_MADE - len(made))
    return [*whole, *made]


def children_of(body: Json) -> list[Json]:
    """What is made of an object directly; nothing without a template. It has a name, a namespace and a uid.

    Raises:
        TooManyPods: that is more than can be looked at.
    """
    return _bounded(body, _children(body), most=MOST_MADE)


def sorts(body: Json, *, namespace: str, most: int) -> list[Sort]:
    """The pods that would come of an object, by template: few, however many pods there are.

    Raises:
        TooManyPods: they are more than ``most``, or than can be made; what they are made by counts as well.
    """
    top = _as_served(body, namespace)
    if not _is_sound(top):
        return []
    top = amended(top)
    try:
        return _sorted(_made(top, (top,)), most)
    except TooMany:
        raise _too_many(top, most) from None


def _sorted(made: Iterable[tuple[Json, tuple[Json, ...]]], most: int) -> list[Sort]:
    found: dict[int, Sort] = {}
    beside: list[Json] = []
    seen = 0
    for child, makers in made:
        seen += _size(child)
        if seen > most:
            raise TooMany
        if child["kind"] != "Pod":
            if maker_of(child) is None and len(beside) < _MOST_BESIDE:
                beside.append(child)
            continue
        # All pods of a template have its very list of containers, which is kept as long as the pod is.
        template = id(child["spec"].get("containers"))
        if template in found:
            found[template].count += 1
        else:
            pod = _requesting(_named(child, child["metadata"]["namespace"]))
            found[template] = Sort(pod, makers, beside)
    return list(found.values())


def _size(child: Json) -> int:
    """In pods, by what it costs to make it. A gang of Grove's names its pods."""
    if child["kind"] == "Pod":
        return 1
    return 4 + sum(len(listed(part, "podReferences")) for part in listed(child, "spec", "podgroups"))


def amended(body: Json) -> Json:
    """With what an operator writes to an object before anything comes of it; else the object itself."""
    is_ray = maker_of(body) is not None and body["kind"] in ("RayJob", "RayService")
    return ray.with_cluster_named(body) if is_ray else body


def childless(objects: Iterable[Json]) -> list[Json]:
    """The objects that own none of the others."""
    found = [body for body in objects if _is_sound(body)]
    parents = set(_owners(found))
    return [body for body in found if _key(body) not in parents]


def maker_of(body: Json) -> Maker | None:
    """Who makes something of this object; None if that is not known."""
    group, _, version = str(body.get("apiVersion")).rpartition("/")
    return MAKERS.get((group if version else "", str(body.get("kind"))))


def _bounded(body: Json, made: Iterator[Json], *, most: int) -> list[Json]:
    """Those that say what they are to be; of the others there may not be more either."""
    try:
        found = list(islice(made, most + 1))
    except TooMany:
        raise _too_many(body) from None
    if len(found) > most:
        raise _too_many(body)
    return [child for child in found if child["spec"]]


def _too_many(body: Json, most: int = MOST_MADE) -> TooManyPods:
    return TooManyPods(
        f"{body['kind']} {body['metadata']['name']}: with it there are more than {most:,} pods and "
        "other objects; ask for fewer replicas"
    )


def _below(body: Json) -> Iterator[Json]:
    """What is made of an object, and of that."""
    for child in _children(body):
        child = _named(child, child["metadata"]["namespace"])
        yield _requesting(child) if child["kind"] == "Pod" else child
        if child["spec"]:
            yield from _below(child)


def _made(maker: Json, makers: tuple[Json, ...]) -> Iterator[tuple[Json, tuple[Json, ...]]]:
    """What is made of an object and of that, each with its makers; pods have no uid yet."""
    for child in _children(maker):
        is_pod = child["kind"] == "Pod"
        below = child if is_pod else _named(child, child["metadata"]["namespace"])
        yield below, makers
        if child["spec"] and not is_pod:
            yield from _made(below, (*makers, below))


def _children(body: Json) -> Iterator[Json]:
    make = maker_of(body)
    return make(body) if make is not None else iter(())


def _as_served(body: Json, namespace: str) -> Json:
    if not isinstance(body.get("metadata") or {}, dict):
        return body
    body = _named(body, namespace)
    return _requesting(body) if body.get("kind") == "Pod" else body


def _is_sound(body: Json) -> bool:
    """Whether it is said what it is and how it is called; what is not, whoever reads the file refuses."""
    meta = body.get("metadata")
    if not isinstance(meta, dict):
        return False
    texts = (body.get("kind"), meta.get("name"), meta.get("uid"))
    return all(isinstance(text, str) and text for text in texts)


def _key(body: Json) -> tuple[str, str, str]:
    meta = body["metadata"]
    return body["kind"], str(meta.get("namespace", "")), meta["name"]


def _owners(objects: Iterable[Json]) -> Iterator[tuple[str, str, str]]:
    for body in objects:
        meta = body.get("metadata")
        if not isinstance(meta, dict):
            continue
        references = meta.get("ownerReferences")
        for owner in references if isinstance(references, list) else ():
            if isinstance(owner, dict):
                yield str(owner.get("kind")), str(meta.get("namespace", "")), str(owner.get("name"))


def _named(body: Json, namespace: str) -> Json:
    meta = dict(body.get("metadata") or {})
    if body.get("kind") not in _CLUSTER_SCOPED:
        meta["namespace"] = meta.get("namespace") or namespace
    if "name" not in meta and "generateName" in meta:
        meta["name"] = f"{meta['generateName']}new"
    key = f"{body.get('apiVersion')}/{body.get('kind')}/{meta.get('namespace', '')}/{meta.get('name', '')}"
    meta.setdefault("uid", str(derived_uuid(key)))
    return {**body, "metadata": meta}


def _requesting(pod: Json) -> Json:
    """A pod whose amounts are texts, and which requests what it is limited to."""
    given = pod.get("spec")
    spec = dict(given) if isinstance(given, dict) else {}
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            spec[field] = [_with_requests(each) for each in spec[field]]
    return {**pod, "spec": spec} if isinstance(given, dict) else pod


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
