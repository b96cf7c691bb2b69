"""No device is given twice, whatever claims share it and however late the API tells what has become of it.

Binds are carried out in the steps in which the API shows them, and claims are given back after their pods are
gone; cycles run between any two of those steps.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kai.engine import Engine
from kai.model.decisions import BindDecision
from kai.model.ids import PodUid
from kai.model.objects import Pod
from kai.model.rules.device_claims import released
from kai.snapshot.idle_claims import idle_reservations
from kai.snapshot.state import ClusterState, Kind
from libs.tests.engine.builders import NOW, a_node, a_queue, a_single, a_state, add, claiming
from libs.tests.engine.dra.builders import a_claim, a_class, a_request, a_slice, in_cluster
from libs.tests.engine.random_worlds import fuzz

RESOURCE = "example.com/gpu"
SHARED = ("c0", "c1", "c2")
QUEUES = ("ours", "theirs")
Device = tuple[str, str]
Step = Callable[[], None]


@dataclass
class Life:
    """A cluster of devices, the API objects in it, and what is still to be shown of what was decided."""

    rng: random.Random
    state: ClusterState = field(init=False)
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    #: Pod -> claim -> devices, from the decision until the API shows all of it; and the steps to that.
    under_way: dict[str, dict[str, set[Device]]] = field(default_factory=dict)
    binding: dict[str, list[Step]] = field(default_factory=dict)
    #: What else will be, in any order.
    later: list[Step] = field(default_factory=list)
    made: int = 0

    def __post_init__(self) -> None:
        nodes = [f"n{number}" for number in range(self.rng.randint(1, 3))]
        self.state = a_state(
            a_queue("top"),
            *(a_queue(name, parent="top", gpu=self.rng.randint(0, 3)) for name in QUEUES),
            *(a_node(name, gpus=0) for name in nodes),
            in_cluster(
                a_class("gpu", extendedResourceName=RESOURCE),
                *(a_slice(name, self.rng.randint(1, 3)) for name in nodes),
            ),
        )
        for name in SHARED:
            self._claim(name, queue=self.rng.choice(QUEUES))

    # --- what users and controllers do ------------------------------------------------------------
    def arrive(self) -> None:
        """A pod that shares a claim, has one of its own, or asks for a resource that devices are behind."""
        self.made += 1
        name = f"p{self.made:02}"
        kind = self.rng.choice(["shares", "shares", "owns", "asks"])
        queue, spec = self.rng.choice(QUEUES), {}
        if kind == "shares":
            claim = self.rng.choice(SHARED)
            queue = self.claims[claim]["metadata"]["labels"]["kai.scheduler/queue"]
            spec = claiming(claim)
        elif kind == "owns":
            self._claim(f"own-{name}", queue=queue)
            spec = claiming(f"own-{name}")
        priority = self.rng.choice(["train", "build"])
        job = a_single(name, queue=queue, namespace="ns", priority=priority, created=self.made, spec=spec)
        if kind == "asks":
            amount = str(self.rng.randint(1, 2))
            job[1].spec.containers[0].resources.requests = {"cpu": "1", RESOURCE: amount}
        self.pods[job[1].metadata.uid] = job[1]
        add(self.state, job)

    def end(self, pod: Pod) -> None:
        """It is deleted at once, or is on its way out for a while, or has ended by itself."""
        how = self.rng.choice(["gone", "leaving", "done"])
        if how == "leaving":
            pod.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
            self._stop(pod)
            self._show(pod)
            self.later.append(lambda: self._gone(pod))
        elif how == "done":
            pod.status.phase = "Succeeded"
            self._show(pod)
            self._leave(pod)
        else:
            self._gone(pod)

    def _gone(self, pod: Pod) -> None:
        if self.pods.pop(pod.metadata.uid, None) is not None:
            self.state.remove(Kind.POD, pod.key)
            self._leave(pod)

    def _leave(self, pod: Pod) -> None:
        """The controller of claims comes by some time."""
        self._stop(pod)
        self.later.append(lambda: self._give_back(pod.metadata.uid))

    def _stop(self, pod: Pod) -> None:
        """What its binding has not done yet is done no more: the API server binds no pod that is deleted."""
        self.under_way.pop(pod.metadata.uid, None)
        self.binding.pop(pod.metadata.uid, None)

    def _give_back(self, uid: str) -> None:
        for name, claim in list(self.claims.items()):
            users = claim["status"].get("reservedFor") or []
            kept = [user for user in users if user["uid"] != uid]
            if len(kept) == len(users):
                continue
            claim["status"] = {"reservedFor": kept} | (
                {"allocation": claim["status"]["allocation"]} if kept else {}
            )
            if kept or name in SHARED:
                self.state.apply(Kind.RESOURCE_CLAIM, claim)
            else:
                del self.claims[name]
                self.state.remove(Kind.RESOURCE_CLAIM, f"ns/{name}")

    # --- what binders do ----------------------------------------------------------------------------
    def bind(self, decision: BindDecision) -> None:
        """Claims are allocated, an extended resource gets one, and then the pod is bound."""
        pod = self.pods[decision.pod.uid]
        given = {item["name"]: item["allocation"] for item in decision.claim_allocations}
        steps = [lambda name=name: self._allocate(pod, name, given[name]) for name in given]
        if decision.extended_claim is not None:
            name, allocation = f"{pod.metadata.name}-x", decision.extended_claim["allocation"]
            given[name] = allocation
            steps += [
                lambda: self._extended(pod, name),
                lambda: self._allocate(pod, name, allocation),
                lambda: self._names(pod, name),
            ]
        self.under_way[pod.metadata.uid] = {name: devices(each) for name, each in given.items()}
        self.binding[pod.metadata.uid] = [*steps, lambda: self._bound(pod, decision.node)]

    def crash(self, uid: str) -> None:
        """Its binder ends between two steps, and its leader decides anew; what was done stays done."""
        self._stop(self.pods[uid])
        self.state.bind_failed(PodUid(uid))

    def give_back(self) -> None:
        """What such binders have left to pods that are nowhere."""
        under_way = {PodUid(uid) for uid in self.under_way}
        for idle in idle_reservations(self.state, under_way=under_way):
            claim = self.claims[idle.claim]
            claim["status"] = released(claim, idle.pods) or {}
            self.state.apply(Kind.RESOURCE_CLAIM, claim)

    def _allocate(self, pod: Pod, name: str, allocation: dict[str, Any]) -> None:
        status = self.claims[name]["status"]
        assert devices(status.get("allocation") or allocation) == devices(allocation), name
        user = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
        users = [each for each in status.get("reservedFor") or [] if each != user]
        self.claims[name]["status"] = {"allocation": allocation, "reservedFor": [*users, user]}
        self.state.apply(Kind.RESOURCE_CLAIM, self.claims[name])

    def _extended(self, pod: Pod, name: str) -> None:
        if name in self.claims:
            return
        meta = pod.metadata
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid, "controller": True}
        self._claim(name, owner=owner)

    def _names(self, pod: Pod, name: str) -> None:
        pod.status.extended_resource_claim_status = {"resourceClaimName": name, "requestMappings": []}
        self._show(pod)

    def _bound(self, pod: Pod, node: str) -> None:
        has = {claim: devices(self.claims[claim]["status"]["allocation"]) for claim in self._claims_of(pod)}
        assert all(pool == node for each in has.values() for pool, _ in each), (pod.key, has)
        if asked := int((pod.spec.containers[0].resources.requests or {}).get(RESOURCE, 0)):
            assert [len(each) for each in has.values()] == [asked], (pod.key, has)
        pod.spec.node_name, pod.status.phase = node, "Running"
        self.under_way.pop(pod.metadata.uid, None)
        self._show(pod)

    def _claims_of(self, pod: Pod) -> list[str]:
        made = (pod.status.extended_resource_claim_status or {}).get("resourceClaimName")
        named = [each.resource_claim_name for each in pod.spec.resource_claims or ()]
        return named + ([made] if made else [])

    def _show(self, pod: Pod) -> None:
        self.state.apply(Kind.POD, msgspec.convert(msgspec.to_builtins(pod), Pod))

    def _claim(self, name: str, *, queue: str = "q", owner: dict[str, Any] | None = None) -> None:
        [(kind, body)] = in_cluster(a_claim(name, a_request(count=self.rng.choice([1, 1, 2])), queue=queue))
        if owner is not None:
            body["metadata"] |= {
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
                "ownerReferences": [owner],
            }
        self.claims[name] = body | {"status": {}}
        self.state.apply(kind, self.claims[name])

    def some_steps(self) -> None:
        """Any number of the things that are to come next."""
        for _ in range(self.rng.randint(0, 10)):
            begun = [steps for steps in self.binding.values() if steps]
            if self.later and (not begun or self.rng.random() < 0.4):
                self.later.pop(self.rng.randrange(len(self.later)))()
            elif begun:
                self.rng.choice(begun).pop(0)()

    # --- what must hold -----------------------------------------------------------------------------
    def holders(self) -> Iterator[tuple[Device, str]]:
        """Devices, each with the claim that has it or is to have it."""
        for name, claim in self.claims.items():
            for device in devices(claim["status"].get("allocation")):
                yield device, name
        for given in self.under_way.values():
            for name, some in given.items():
                for device in some:
                    yield device, name


def devices(allocation: dict[str, Any] | None) -> set[Device]:
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    return {(each["pool"], each["device"]) for each in results}


def lived(number: int) -> Life:
    """A life of some cycles; raises where a device is given twice."""
    life, engine = Life(random.Random(number)), Engine()
    for cycle in range(12):
        for _ in range(life.rng.randint(0, 4)):
            life.arrive()
        running = [pod for pod in life.pods.values() if pod.spec.node_name and pod.status.phase == "Running"]
        if running and life.rng.random() < 0.5:
            life.end(life.rng.choice(running))
        if life.binding and life.rng.random() < 0.3:
            life.crash(life.rng.choice(sorted(life.binding)))
        result = engine.run(life.state, NOW + cycle)
        for eviction in result.evictions:
            life.end(life.pods[eviction.pod.uid])
        for decision in result.binds:
            life.bind(decision)
        owners: dict[Device, set[str]] = {}
        for device, claim in life.holders():
            owners.setdefault(device, set()).add(claim)
        twice = {device: found for device, found in owners.items() if len(found) > 1}
        assert not twice, (cycle, twice)
        if life.rng.random() < 0.3:
            life.give_back()
        life.some_steps()
    return life


@fuzz(share=3)
def test_no_device_is_given_twice(world: int) -> None:
    lived(world)


def test_in_most_lives_devices_pass_from_hand_to_hand() -> None:
    """Else the property above would say nothing."""
    lives = [lived(number) for number in range(20)]
    assert sum(life.made > len(life.pods) + 3 for life in lives) >= 10
