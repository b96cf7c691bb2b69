"""No node and no device is given twice, and nobody moves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from e2e.soak.frame import Breach, Frame, called, is_ours, is_reservation, shared_devices
from kai.model import names
from kai.model.objects import Node
from kai_local.parts.objects import LocalPod
from kai_local.parts.requests import Amounts, add, amounts, pod_requests

#: Portions of memory requests are rounded to hundredths by device.
_ROUNDING = 0.011


def devices_have_one_owner(frame: Frame) -> Iterator[Breach]:
    """The parts of a device are one at most, and all its users are on one node."""
    used: dict[str, float] = defaultdict(float)
    where: dict[str, set[str]] = defaultdict(set)
    for pod in frame.holding():
        node = frame.nodes.get(pod.spec.node_name)
        if is_reservation(pod) or node is None:
            continue
        for device in shared_devices(pod):
            used[device] += portion(pod, node)
            where[device].add(pod.spec.node_name)
    for device, sum_ in used.items():
        if sum_ > 1 + _ROUNDING:
            yield Breach("device over 1.0", called("Device", device), f"{sum_:g} of it are given")
        if len(where[device]) > 1:
            yield Breach("device on two nodes", called("Device", device), f"on {sorted(where[device])}")


def devices_are_reserved_once(frame: Frame) -> Iterator[Breach]:
    """No two reservation pods hold the same device of a node."""
    holders: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pod in frame.holding():
        device = pod.annotations.get(names.RESERVED_GPU)
        if is_reservation(pod) and device:
            holders[pod.spec.node_name, device].append(pod.key)
    for (node, device), pods in holders.items():
        if len(pods) > 1:
            yield Breach("device reserved twice", called("Node", node), f"{device} by {sorted(pods)}")


def nodes_have_room(frame: Frame) -> Iterator[Breach]:
    """What pods request of a node together is what it has at most."""
    used: dict[str, Amounts] = defaultdict(dict)
    for pod in frame.holding():
        add(used[pod.spec.node_name], pod_requests(pod))
    for name, sums in used.items():
        node = frame.nodes.get(name)
        if node is None:
            continue
        has = amounts(node.status.allocatable)
        for resource, amount in sums.items():
            if resource in has and amount > has[resource]:
                yield Breach(
                    "node over its allocatable",
                    called("Node", name),
                    f"{amount / 1000:g} of {has[resource] / 1000:g} {resource} are requested",
                )


def claims_have_devices_of_their_own(frame: Frame) -> Iterator[Breach]:
    """A device of a driver is allocated to one claim."""
    owners: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for key, claim in frame.claims.items():
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            if not result.get("adminAccess"):
                owners[result["driver"], result["pool"], result["device"]].append(key)
    for device, claims in owners.items():
        if len(claims) > 1:
            yield Breach("device claimed twice", called("Device", "/".join(device)), f"by {sorted(claims)}")


def claims_are_reserved_for_pods_that_exist(frame: Frame) -> Iterator[Breach]:
    """Who is gone, or has ended, uses no device any more."""
    uids = {pod.metadata.uid for pod in frame.pods.values() if not pod.terminal}
    for key, claim in frame.claims.items():
        users = (claim.get("status") or {}).get("reservedFor") or ()
        gone = sorted(user["name"] for user in users if user["uid"] not in uids)
        if gone:
            yield Breach("claim of a gone pod", called("ResourceClaim", key), f"reserved for {gone}")


def claims_are_held_by_who_has_a_place(frame: Frame) -> Iterator[Breach]:
    """No device is kept from others for a pod that is on no node; asked only once nothing moves any more."""
    nowhere = {pod.metadata.uid for pod in frame.pods.values() if is_ours(pod) and not pod.spec.node_name}
    for key, claim in frame.claims.items():
        users = (claim.get("status") or {}).get("reservedFor") or ()
        for user in users:
            if user["uid"] in nowhere:
                yield Breach("claim of a pod that waits", called("ResourceClaim", key), f"by {user['name']}")


def nodes_take_what_is_bound(frame: Frame) -> Iterator[Breach]:
    """No kubelet refuses a pod, which it does where its node has no room or no device left."""
    for pod in frame.pods.values():
        reason = pod.status.reason
        if pod.status.phase == "Failed" and (
            reason.startswith("OutOf") or reason == "UnexpectedAdmissionError"
        ):
            yield Breach(
                "refused by its node", called("Pod", pod.key), f"{reason} on node {pod.spec.node_name}"
            )


def nobody_moves(before: Frame, now: Frame) -> Iterator[Breach]:
    """A pod that is bound stays bound to its node."""
    for key, pod in now.pods.items():
        old = before.pods.get(key)
        if old is None or old.metadata.uid != pod.metadata.uid or not old.spec.node_name:
            continue
        if pod.spec.node_name != old.spec.node_name:
            message = f"from {old.spec.node_name} to {pod.spec.node_name or 'nowhere'}"
            yield Breach("bound twice", called("Pod", key), message)


def portion(pod: LocalPod, node: Node) -> float:
    """The part of each of its shared devices that the pod asked for."""
    if part := pod.annotations.get(names.GPU_FRACTION):
        return float(part)
    memory = pod.annotations.get(names.GPU_MEMORY)
    device = node.labels.get(names.GPU_MEMORY_LABEL)
    return float(memory) / float(device) if memory and device else 0.0
