"""Pods are where they may be: in one domain, apart, at their devices, on nodes that take pods."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator

from e2e.soak import site
from e2e.soak.frame import Breach, Frame, called, is_ours
from e2e.soak.rules.groups import satisfied
from kai.model import names
from kai.model.objects import Json, Node
from kai_local.parts.objects import LocalPod
from kai_local.parts.requests import container_requests

_HOSTNAME = "kubernetes.io/hostname"
#: What was decided before a node was closed is carried out after it.
UNDER_WAY_SECONDS = 20.0


def gangs_are_in_one_domain(frame: Frame) -> Iterator[Breach]:
    """Whose gang requires one domain of its topology has all of its pods there."""
    for key, pods in frame.members().items():
        group = frame.groups.get(key)
        wanted = group.spec.topology_constraint if group is not None else None
        if group is None or wanted is None or not wanted.required_topology_level:
            continue
        placed = [frame.nodes.get(pod.spec.node_name) for pod in pods if pod.spec.node_name]
        nodes = [node for node in placed if node is not None]
        if group.metadata.uid in frame.thinned or any(node.metadata.name in frame.moved for node in nodes):
            continue
        domains = {_domain(node, wanted.required_topology_level, frame.levels) for node in nodes}
        if len(domains) > 1:
            yield Breach("gang in several domains", called("PodGroup", key), f"in {sorted(domains)}")


def _domain(node: Node, level: str, levels: tuple[str, ...]) -> tuple[str, ...]:
    depth = levels.index(level) + 1 if level in levels else 0
    return tuple(node.labels.get(each, "") for each in levels[:depth])


def who_must_be_apart_is(frame: Frame) -> Iterator[Breach]:
    """Pods that avoid their like have none of them on their node."""
    by_node: dict[str, list[LocalPod]] = defaultdict(list)
    for pod in frame.holding():
        by_node[pod.spec.node_name].append(pod)
    for node, pods in by_node.items():
        for pod in pods:
            others = [other for other in pods if other is not pod and _avoids(pod, other)]
            if others:
                message = f"on node {node} beside {sorted(other.key for other in others)}"
                yield Breach("not kept apart", called("Pod", pod.key), message)


def _avoids(pod: LocalPod, other: LocalPod) -> bool:
    terms = ((pod.spec.affinity or {}).get("podAntiAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or ()
    return other.metadata.namespace == pod.metadata.namespace and any(
        term["topologyKey"] == _HOSTNAME
        and all(
            other.labels.get(key) == value
            for key, value in (term["labelSelector"].get("matchLabels") or {}).items()
        )
        for term in terms
    )


def zones_have_room(frame: Frame) -> Iterator[Breach]:
    """GPUs of a NUMA zone are given once, as the scheduler has noted on its pods."""
    used: dict[tuple[str, str], float] = defaultdict(float)
    for pod in frame.holding():
        for share in json.loads(pod.annotations.get(names.NUMA_PREDICTED, "[]")):
            used[pod.spec.node_name, share["zone"]] += float(share["amount"].get(names.NVIDIA_GPU, 0))
    for (node, zone), gpus in used.items():
        has = frame.zones.get(node, {}).get(zone)
        if has is not None and gpus > has:
            yield Breach(
                "zone over its GPUs", called("Node", node), f"{gpus:g} of {has:g} of {zone} are given"
            )


def claims_are_served_where_their_pod_is(frame: Frame) -> Iterator[Breach]:
    """The devices of a pod's claims are those of its node (here each node has a pool of its name)."""
    for pod in frame.holding():
        pools = {result["pool"] for result in _devices(frame, pod)}
        if pools - {pod.spec.node_name}:
            message = f"on node {pod.spec.node_name}, its devices on {sorted(pools)}"
            yield Breach("devices elsewhere", called("Pod", pod.key), message)


def devices_asked_for_as_a_resource_are_given(frame: Frame) -> Iterator[Breach]:
    """Whoever asks for devices by the resource of their class has so many of them."""
    for pod in frame.holding():
        asked = sum(container_requests(each).get(site.DEVICE, 0) for each in pod.spec.containers) // 1000
        given = len(_devices(frame, pod))
        if asked and given != asked:
            message = f"{given} are given, {asked} asked for"
            yield Breach("devices not as asked", called("Pod", pod.key), message)


def _devices(frame: Frame, pod: LocalPod) -> list[Json]:
    """Results of the allocations of all claims of a pod."""
    found: list[Json] = []
    for name in _claims(pod):
        claim = frame.claims.get(f"{pod.metadata.namespace}/{name}") or {}
        allocation = (claim.get("status") or {}).get("allocation") or {}
        found += (allocation.get("devices") or {}).get("results") or ()
    return found


def _claims(pod: LocalPod) -> Iterable[str]:
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses or ()}
    for claim in pod.spec.resource_claims or ():
        if name := claim.resource_claim_name or made.get(claim.name):
            yield name
    if extended := pod.status.extended_resource_claim_status:
        yield extended["resourceClaimName"]


def closed_nodes_get_nothing(before: Frame, now: Frame) -> Iterator[Breach]:
    """No pod of ours is bound to a node that has been cordoned for a while."""
    for key, pod in now.pods.items():
        old = before.pods.get(key)
        node = now.nodes.get(pod.spec.node_name)
        if old is None or old.spec.node_name or node is None or not is_ours(pod):
            continue
        since = now.closed.get(node.metadata.name)
        if node.spec.unschedulable and since is not None and now.at - since > UNDER_WAY_SECONDS:
            yield Breach("bound to a cordoned node", called("Pod", key), f"node {node.metadata.name}")


def who_runs_is_not_told_to_wait(frame: Frame) -> Iterator[Breach]:
    """No condition says of a pod, or of a group, that it cannot be scheduled, once it has been."""
    for key, pod in frame.pods.items():
        condition = pod.condition("PodScheduled")
        if pod.spec.node_name and condition is not None and condition.status == "False":
            yield Breach("told to wait, and runs", called("Pod", key), condition.reason)
    for key, pods in frame.members().items():
        group = frame.groups.get(key)
        told = (
            [one.reason for one in (group.status and group.status.scheduling_conditions) or ()]
            if group
            else []
        )
        all_placed = all(pod.spec.node_name for pod in pods)
        if group is not None and told and all_placed and satisfied(group, pods):
            yield Breach("told to wait, and runs", called("PodGroup", key), ", ".join(told))
