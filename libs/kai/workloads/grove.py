"""Grove: sets of cliques, the gangs that these are placed in, and Dynamo's graphs, of which sets are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kai.model import names
from kai.model.objects import Json
from kai.workloads.parts import MOST_MADE, Maker, TooMany, at, count, listed, numbers, owned, pod, text

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


def _pod_name(clique: str, number: int) -> str:
    """The number stands for what Kubernetes draws."""
    return f"{clique}-{number}"


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
    templates = {text(each, "name"): each for each in listed(template, "cliques")}
    groups = [(group, _members(group, templates)) for group in listed(template, "podCliqueScalingGroups")]
    grouped = {name for _, members in groups for name in members}
    needed = (
        clique
        for group, members in groups
        if members
        for number in numbers(min(count(group, "minAvailable"), count(group, "replicas")))
        for clique in _of_group(group, members, replica, number)
    )
    base = [_Clique(f"{replica}-{name}", each) for name, each in templates.items() if name not in grouped]
    yield replica, base + list(islice(needed, MOST_MADE + 1))
    for group, members in groups:
        least = count(group, "minAvailable")
        for beyond, number in enumerate(range(least, count(group, "replicas"))):
            name = f"{replica}-{text(group, 'name')}-{beyond}"
            yield name, list(_of_group(group, members, replica, number))


def _members(group: Json, templates: Json) -> Json:
    """The templates of the cliques that a scaling group has, by name."""
    found = group.get("cliqueNames")
    said = found if isinstance(found, list) else []
    return {each: templates[each] for each in said if isinstance(each, str) and each in templates}


def _of_group(group: Json, members: Json, replica: str, number: int) -> Iterator[_Clique]:
    for name, template in members.items():
        yield _Clique(f"{replica}-{text(group, 'name')}-{number}-{name}", template)


def _gang(owner: Json, name: str, cliques: list[_Clique]) -> Json:
    """It names all its pods.

    Raises:
        TooMany: there are more than can be made.
    """
    namespace, parts, left = owner["metadata"]["namespace"], [], MOST_MADE
    for clique in cliques:
        pods = count(clique.spec, "replicas")
        left -= pods
        if left < 0:
            raise TooMany
        part = {
            "name": clique.name,
            "minReplicas": count(clique.spec, "minAvailable", default=pods),
            "podReferences": [
                {"namespace": namespace, "name": _pod_name(clique.name, number)} for number in range(pods)
            ],
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
        yield pod(clique, template, _pod_name(meta["name"], number))


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
