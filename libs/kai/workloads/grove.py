"""Grove: sets of cliques, the gangs that these are placed in, and Dynamo's graphs, of which sets are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kai.model import names
from kai.model.objects import Json
from kai.workloads.parts import MOST_MADE, Maker, at, count, listed, numbers, owned, pod

_GROVE: Final = "grove.io/v1alpha1"
_GANGS: Final = "scheduler.grove.io/v1alpha1"
_PREFIX: Final = "grove.io/"


@dataclass(frozen=True, slots=True)
class _Clique:
    """A clique of one replica, under the name that it has in the cluster."""

    name: str
    template: Json

    @property
    def spec(self) -> Json:
        return at(self.template, "spec")

    def pods(self) -> Iterator[str]:
        """Names: numbers stand for what Kubernetes draws."""
        return _pods_of(self.name, self.spec)


def _pods_of(name: str, spec: Json) -> Iterator[str]:
    return (f"{name}-{number}" for number in range(count(spec, "replicas")))


# --- sets --------------------------------------------------------------------------------------------
def _clique_set(owner: Json) -> Iterator[Json]:
    """Of each replica its gangs, and the cliques of these.

    Cliques of scaling groups belong to an object between, which nobody asks about. Levels of a topology are
    left out: what a domain is called on nodes only the cluster knows.
    """
    spec = at(owner, "spec")
    for replica in numbers(count(spec, "replicas")):
        for gang, cliques in _gangs(at(spec, "template"), f"{owner['metadata']['name']}-{replica}"):
            yield _gang(owner, gang, cliques)
            for clique in cliques:
                meta = {f"{_PREFIX}podgang": gang, f"{_PREFIX}podclique": clique.name}
                yield owned(
                    owner,
                    _GROVE,
                    "PodClique",
                    clique.name,
                    labels={**at(clique.template, "labels"), **meta},
                    annotations=at(clique.template, "annotations"),
                    spec=clique.spec,
                )


def _gangs(template: Json, replica: str) -> Iterator[tuple[str, list[_Clique]]]:
    """First all that is needed, then a gang for each replica of a scaling group beyond its least."""
    templates = {str(each.get("name", "")): each for each in listed(template, "cliques")}
    groups = listed(template, "podCliqueScalingGroups")
    grouped = {name for group in groups for name in _members(group, templates)}
    needed = (
        clique
        for group in groups
        for number in range(min(count(group, "minAvailable"), count(group, "replicas")))
        for clique in _of_group(group, templates, replica, number)
    )
    base = [_Clique(f"{replica}-{name}", each) for name, each in templates.items() if name not in grouped]
    yield replica, base + list(islice(needed, MOST_MADE + 1))
    for group in groups:
        least = count(group, "minAvailable")
        for beyond, number in enumerate(range(least, count(group, "replicas"))):
            name = f"{replica}-{group.get('name', '')}-{beyond}"
            yield name, list(_of_group(group, templates, replica, number))


def _members(group: Json, templates: Json) -> list[str]:
    found = group.get("cliqueNames")
    return (
        [each for each in found if isinstance(each, str) and each in templates]
        if isinstance(found, list)
        else []
    )


def _of_group(group: Json, templates: Json, replica: str, number: int) -> Iterator[_Clique]:
    for name in _members(group, templates):
        yield _Clique(f"{replica}-{group.get('name', '')}-{number}-{name}", templates[name])


def _gang(owner: Json, name: str, cliques: list[_Clique]) -> Json:
    """Of more pods than can be made it names some: nobody gets to see it."""
    namespace, parts, left = owner["metadata"]["namespace"], [], MOST_MADE
    for clique in cliques:
        pods = list(islice(clique.pods(), left))
        left -= len(pods)
        part = {
            "name": clique.name,
            "minReplicas": count(clique.spec, "minAvailable", default=count(clique.spec, "replicas")),
            "podReferences": [{"namespace": namespace, "name": pod} for pod in pods],
        }
        parts.append(part)
    spec = {"podgroups": [part for part in parts if part["minReplicas"]]}
    priority = at(owner, "spec", "template").get("priorityClassName")
    return owned(
        owner,
        _GANGS,
        "PodGang",
        name,
        spec={**spec, "priorityClassName": priority} if isinstance(priority, str) and priority else spec,
    )


def _clique(clique: Json) -> Iterator[Json]:
    meta, spec = clique["metadata"], at(clique, "spec")
    template = {"metadata": meta, "spec": at(spec, "podSpec")}
    for number in numbers(count(spec, "replicas")):
        yield pod(clique, template, f"{meta['name']}-{number}")


# --- graphs ------------------------------------------------------------------------------------------
_QUEUE: Final = "nvidia.com/kai-scheduler-queue"
_USUAL_QUEUE: Final = "dynamo"


def _graph(graph: Json) -> Iterator[Json]:
    """A set with a clique for each service; one of several nodes each has a leader and workers."""
    spec = at(graph, "spec")
    cliques: list[Json] = []
    groups: list[Json] = []
    for service in at(spec, "services"):
        part = at(spec, "services", service)
        nodes = count(at(part, "multinode"), "nodeCount")
        name = service.lower()
        if nodes < 2:
            cliques.append(_service(graph, part, name, count(part, "replicas"), least=1))
            continue
        roles = {f"{name}-ldr": 1, f"{name}-wkr": nodes - 1}
        cliques += [_service(graph, part, role, size, least=size) for role, size in roles.items()]
        groups.append({"name": name, "cliqueNames": [*roles], "replicas": count(part, "replicas")})
    if cliques:
        template = {"cliques": cliques, "podCliqueScalingGroups": groups}
        yield owned(
            graph,
            _GROVE,
            "PodCliqueSet",
            graph["metadata"]["name"],
            labels=at(spec, "labels"),
            annotations=at(spec, "annotations"),
            spec={"replicas": 1, "template": template},
        )


def _service(graph: Json, service: Json, name: str, replicas: int, *, least: int) -> Json:
    extra = at(service, "extraPodSpec")
    more = {key: value for key, value in extra.items() if key not in ("mainContainer", "containers")}
    main = {"name": "main", **at(extra, "mainContainer")}
    main.setdefault(
        "resources", {key: _amounts(at(service, "resources", key)) for key in ("requests", "limits")}
    )
    queue = at(graph, "metadata", "annotations").get(_QUEUE)
    return {
        "name": name,
        "labels": {
            **at(service, "labels"),
            **at(service, "extraPodMetadata", "labels"),
            names.QUEUE_LABEL: queue if isinstance(queue, str) and queue else _USUAL_QUEUE,
        },
        "annotations": {**at(service, "annotations"), **at(service, "extraPodMetadata", "annotations")},
        "spec": {
            "roleName": name,
            "replicas": replicas,
            "minAvailable": min(least, replicas),
            "podSpec": {
                **more,
                "schedulerName": names.SCHEDULER_NAME,
                "containers": [main, *listed(extra, "containers")],
            },
        },
    }


def _amounts(amounts: Json) -> Json:
    """As a container has them: GPUs by their full name, and ``custom`` beside the others."""
    kind = amounts.get("gpuType")
    called = {"gpu": kind if isinstance(kind, str) and kind else "nvidia.com/gpu"}
    plain = {key: value for key, value in amounts.items() if key not in ("gpuType", "custom")}
    return {**{called.get(key, key): value for key, value in plain.items()}, **at(amounts, "custom")}


MAKERS: Final[dict[tuple[str, str], Maker]] = {
    ("grove.io", "PodCliqueSet"): _clique_set,
    ("grove.io", "PodGangSet"): _clique_set,
    ("grove.io", "PodClique"): _clique,
    ("nvidia.com", "DynamoGraphDeployment"): _graph,
}
