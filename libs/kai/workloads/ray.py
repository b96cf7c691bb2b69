"""KubeRay: clusters, and the jobs and services that have one made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kai.model.objects import Json
from kai.workloads.parts import Maker, at, count, listed, numbers, owned, pod, text

_STATUS: Final = {"RayJob": ("rayClusterName",), "RayService": ("pendingServiceStatus", "rayClusterName")}
_SPEC: Final = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}


def _cluster(cluster: Json) -> Iterator[Json]:
    """The head, and of each worker group the replicas that are wanted, but its least at least."""
    spec, name = at(cluster, "spec"), cluster["metadata"]["name"]
    if spec.get("suspend") is True:
        return
    labels = {"ray.io/cluster": name, "ray.io/group": "headgroup", "ray.io/node-type": "head"}
    yield pod(cluster, at(spec, "headGroupSpec", "template"), f"{name}-head", labels=labels)
    for index, part in enumerate(listed(spec, "workerGroupSpecs")):
        group = text(part, "groupName") or f"worker-group-{index}"
        labels = {"ray.io/cluster": name, "ray.io/group": group, "ray.io/node-type": "worker"}
        least = count(part, "minReplicas", default=0)
        wanted = 0 if part.get("suspend") is True else max(count(part, "replicas", default=0), least)
        for number in numbers(wanted * count(part, "numOfHosts")):
            yield pod(cluster, at(part, "template"), f"{name}-{group}-worker-{number}", labels=labels)


def _of_a_cluster(owner: Json) -> Iterator[Json]:
    """The cluster that its status names; a job may take one that there is already."""
    spec = at(owner, "spec")
    if spec.get("suspend") is not True and not spec.get("clusterSelector"):
        name = _named_in(owner)
        yield owned(owner, owner["apiVersion"], "RayCluster", name, spec=at(spec, _SPEC[owner["kind"]]))


def with_cluster_named(owner: Json) -> Json:
    """A job or service whose status names its cluster, as the operator has it do first."""
    has_one = at(owner, "status", "activeServiceStatus") or _named_in(owner)
    if has_one or not at(owner, "spec", _SPEC[owner["kind"]]):
        return owner
    *above, last = _STATUS[owner["kind"]]
    status: Json = {last: f"{owner['metadata']['name']}-new"}
    for key in above:
        status = {key: status}
    return {**owner, "status": {**at(owner, "status"), **status}}


def _named_in(owner: Json) -> str:
    *above, last = _STATUS[owner["kind"]]
    found = at(owner, "status", *above).get(last) or at(owner, "status", "activeServiceStatus").get(last)
    return found if isinstance(found, str) else ""


MAKERS: Final[dict[tuple[str, str], Maker]] = {
    ("ray.io", "RayCluster"): _cluster,
    ("ray.io", "RayJob"): _of_a_cluster,
    ("ray.io", "RayService"): _of_a_cluster,
}
