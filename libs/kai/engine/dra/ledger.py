"""Claims and the devices they hold, through placements and evictions that may all be undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import msgspec

from kai.engine.dra.allocator import Unfit, allocate
from kai.engine.dra.extended import extended_requests, resources_of
from kai.engine.dra.inventory import CounterId, DeviceId, Inventory
from kai.engine.dra.pods import SYNTHETIC, PodClaim, PodDemand, claims_of, made_for_extended
from kai.model import dra, names
from kai.model.objects import Json, ObjectMeta, Pod
from kai.model.rules.device_claims import claimed_gpus, may_take_gpus
from kai.model.rules.selectors import node_selector

_NOBODY: frozenset[str] = frozenset()
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class _State:
    """One claim at one moment. Pods by uid; ``placed`` and ``releasing`` are among ``reserved``."""

    claim: dra.ResourceClaim
    allocation: dra.AllocationResult | None = None
    reserved: frozenset[str] = _NOBODY
    placed: frozenset[str] = _NOBODY
    releasing: frozenset[str] = _NOBODY
    #: What it held before it moved, until its users are gone.
    leaving: tuple[dra.AllocationResult, ...] = ()
    #: Its devices must first be given up by others, so nobody can be bound who shares it.
    waits: bool = False

    @property
    def is_releasing(self) -> bool:
        return bool(self.releasing) and self.reserved == self.releasing


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Allocations for all claims of a pod on a node."""

    node: str
    #: What each claim is to have; the pod's names for them come with it.
    allocations: tuple[tuple[PodClaim, dra.AllocationResult], ...]
    #: The synthetic claim for extended resources, allocated; and which container uses what.
    extended: dra.ResourceClaim | None = None
    mappings: tuple[Json, ...] = ()
    #: Some of it must first be given up by pods that are being evicted.
    waits: bool = False

    @property
    def claim_allocations(self) -> tuple[dict[str, Any], ...]:
        """``[{name: the pod's name for the claim, allocation}]`` in API form."""
        return tuple(
            {"name": claim.name, "allocation": msgspec.to_builtins(allocation)}
            for claim, allocation in self.allocations
        )

    @property
    def extended_claim(self) -> dict[str, Any] | None:
        """``{allocation, deviceRequests, containerMappings}`` in API form."""
        if self.extended is None:
            return None
        return {
            "allocation": msgspec.to_builtins(self.extended.status.allocation),
            "deviceRequests": msgspec.to_builtins(self.extended.spec.devices.requests),
            "containerMappings": list(self.mappings),
        }


class ClaimLedger:
    """The claims of a cluster, with exact undo.

    A device is free when no claim holds it. A claim all of whose pods are releasing still holds its devices,
    but what may wait can have them. Placing, releasing and removing pods are logged; facts (``put_claim``,
    ``drop_claim``, ``adopt``) are not, and end the time over which can be undone.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._claims: dict[str, _State] = {}
        self._used: Counter[DeviceId] = Counter()
        self._releasing: Counter[DeviceId] = Counter()
        self._log: list[tuple[str, _State | None]] = []
        #: Synthetic claims that exist as objects, by namespace and uid of the pod that they were made for.
        self._made_for: dict[tuple[str, str], str] = {}

    # --- facts ----------------------------------------------------------------------------------
    def put_claim(self, claim: dra.ResourceClaim, *, gone: Collection[str] = ()) -> None:
        """Add or replace a claim. What the API does not show yet of placed pods is kept.

        Pods (uids) that are ``gone`` count as releasing: their reservations stay until the claim controller
        comes by, and until then nobody else need give up anything for the devices.
        """
        old = self._claims.get(claim.key, _State(claim))
        reserved = old.placed | {consumer.uid for consumer in claim.status.reserved_for}
        allocation = claim.status.allocation or (old.allocation if old.placed else None)
        releasing = reserved & old.releasing.union(gone)
        new = replace(old, claim=claim, allocation=allocation, reserved=reserved, releasing=releasing)
        self._set(claim.key, new)
        self._disown(old.claim)
        if (owner := _synthetic_owner(claim)) is not None:
            self._made_for[owner] = claim.key
        self._log.clear()

    def drop_claim(self, key: str) -> None:
        """Forget a claim, if it is known."""
        if key in self._claims:
            self._disown(self._claims[key].claim)
            self._set(key, None)
        self._log.clear()

    def _disown(self, claim: dra.ResourceClaim) -> None:
        owner = _synthetic_owner(claim)
        if owner is not None and self._made_for.get(owner) == claim.key:
            del self._made_for[owner]

    def adopt(
        self,
        demand: PodDemand,
        *,
        allocations: Mapping[str, dra.AllocationResult] | None = None,
        extended: dra.AllocationResult | None = None,
    ) -> None:
        """A pod runs, or is being bound with these allocations (by the pod's claim names).

        ``extended`` is that of the claim for its extended resources. This is made before it is allocated, and
        the pod may name it before it is known here. The devices are taken all the while.
        """
        given = allocations or {}
        for claim in demand.claims:
            state = self._claims.get(claim.key)
            if state is not None:
                allocation = state.allocation or given.get(claim.name)
                self._set(claim.key, _with_pod(state, demand.pod_uid, allocation))
        made = self._claims.get(demand.extended_key)
        if made is None and extended is not None:
            made = _State(_claim_for_resources(demand, demand.resources)[0])
        if made is not None:
            allocation = made.allocation or extended
            self._set(demand.extended_key, _with_pod(made, demand.pod_uid, allocation))
        self._log.clear()

    # --- questions ------------------------------------------------------------------------------
    def demand(self, pod: Pod) -> PodDemand:
        """What the pod asks for; to be asked again when its claims or the device classes change.

        Claims that do not exist (yet) are part of it: :meth:`obstacle` tells. Costs time by its claims,
        containers and their resources; nothing of it depends on a node.
        """
        claims, unresolved = claims_of(pod)
        named = {claim.key for claim in claims}
        known = (self._claims[key].claim for key in named if key in self._claims)
        gpus = sum(_gpus(claim) for claim in known)
        resources: dict[str, str] = {}
        for resource in sorted(resources_of(pod)):
            class_ = self.inventory.class_of_resource(resource)
            if class_ is not None:
                resources[resource] = class_
        made = made_for_extended(pod) or self._made_for.get((pod.metadata.namespace, pod.metadata.uid), "")
        return PodDemand(
            pod=pod,
            claims=claims,
            unresolved=unresolved,
            resources=resources,
            made="" if made in named else made,  # one that it names is as any other
            gpus=gpus,
        )

    def wishes(self, demand: PodDemand) -> tuple[bytes | str, ...]:
        """What the claims of a pod ask for, each in full; one that has its devices stands for itself."""
        states = [(each.key, self._claims.get(each.key)) for each in demand.claims]
        return tuple(
            [
                _encode(state.claim.spec) if state is not None and state.allocation is None else key
                for key, state in states
            ]
        )

    def obstacle(self, demand: PodDemand, *, queue: str, queue_label: str = names.QUEUE_LABEL) -> str | None:
        """Why no node can serve the pod's claims; None if one might.

        A sentence for its owner, about the first claim that has a problem: it is missing, being deleted or
        used by too many, asks for GPUs without naming ``queue``, or for a class that does not exist.
        """
        if demand.unresolved:
            return demand.unresolved
        for each in demand.claims:
            problem = self._problem(each, demand.pod_uid, queue, queue_label)
            if problem:
                return f"claim {each.key}: {problem}"
        return None

    def _problem(self, pod_claim: PodClaim, pod_uid: str, queue: str, queue_label: str) -> str | None:
        state = self._claims.get(pod_claim.key)
        if state is None:
            return "does not exist"
        claim = state.claim
        if claim.metadata.deletion_timestamp:
            return "is being deleted"
        if pod_uid not in state.reserved and len(state.reserved) >= dra.RESERVED_FOR_MAX:
            return f"is used by {len(state.reserved)} pods, which is the most that may share one"
        if may_take_gpus(claim) and not pod_claim.from_template and claim.labels.get(queue_label) != queue:
            found = claim.labels.get(queue_label)
            instead = f", not {found!r}" if found else "; it has no such label"
            return f"label {queue_label} must name the pod's queue {queue!r}{instead}"
        if state.allocation is not None:
            return None
        for request in claim.spec.devices.requests:
            exact = request.exactly
            if exact is not None and self.inventory.device_class(exact.device_class_name) is None:
                return f"device class {exact.device_class_name!r} does not exist"
        return None

    def claims(self) -> list[tuple[dra.ResourceClaim, dra.AllocationResult | None, frozenset[str]]]:
        """All claims, what they hold now, and the pods (uids) they are reserved for; no synthetic ones."""
        return [
            (state.claim, state.allocation, state.reserved)
            for key, state in self._claims.items()
            if not key.endswith(SYNTHETIC)
        ]

    def counted_gpus(self, demand: PodDemand) -> int:
        """GPUs of the pod's claims that another placed pod has been charged for already.

        They need not be free again for this one. Costs time by the pod's claims.
        """
        shared = [self._claims[each.key] for each in demand.claims if each.key in self._claims]
        return sum(_gpus(state.claim) for state in shared if state.placed - {demand.pod_uid})

    def fit(
        self, demand: PodDemand, node: str, *, offered: Collection[str] = (), after_release: bool = False
    ) -> Plan | Unfit:
        """Find devices on a node for everything that the pod asks for.

        Args:
            demand: what is asked for.
            node: where.
            offered: resources that the node's device plugins offer, which therefore need no claim.
            after_release: whether devices of releasing pods may be used if the free ones do not do.
        """
        plan = self._fit(demand, node, offered, after_release=False)
        if isinstance(plan, Unfit) and after_release:
            return self._fit(demand, node, offered, after_release=True)
        return plan

    def _fit(
        self, demand: PodDemand, node: str, offered: Collection[str], *, after_release: bool
    ) -> Plan | Unfit:
        kept: dict[str, dra.AllocationResult] = {}
        fresh: list[dra.ResourceClaim] = []
        for each in demand.claims:
            state = self._claims.get(each.key)
            if state is None:
                return Unfit(f"claim {each.key} does not exist")
            # A claim that all its users are about to leave may be allocated anew where it cannot stay.
            if state.allocation is None or (
                after_release and state.is_releasing and not self._stays(state, node)
            ):
                fresh.append(state.claim)
            elif state.waits and not after_release:
                return Unfit(f"claim {each.key} waits for devices that others are giving up")
            elif self._stays(state, node):
                kept[each.key] = state.allocation
            else:
                return Unfit(
                    f"claim {each.key} is allocated on other nodes, or its devices are promised to others"
                )
        synthetic, mappings = self._synthetic(demand, offered)
        former = self._claims.get(demand.extended_key)
        if former is None or former.allocation is None:
            fresh += [synthetic] if synthetic is not None else []
        elif synthetic is not None and _serves(former.allocation, synthetic) and self._stays(former, node):
            kept[synthetic.key] = former.allocation
        elif after_release and former.is_releasing:
            fresh += [synthetic] if synthetic is not None else []
        else:
            return Unfit(
                f"claim {demand.extended_key} is allocated otherwise, or its devices are promised to others"
            )
        usage = _DevicesInUse(
            self, after_release, {device for each in kept.values() for device in _devices(each)}
        )
        results = allocate(fresh, node, inventory=self.inventory, usage=usage) if fresh else []
        if isinstance(results, Unfit):
            return results
        found = {claim.key: result for claim, result in zip(fresh, results, strict=True)} | kept
        if synthetic is not None:
            synthetic.status.allocation = found[synthetic.key]
        return Plan(
            node=node,
            allocations=tuple((each, found[each.key]) for each in demand.claims),
            extended=synthetic,
            mappings=tuple(mappings),
            waits=after_release,
        )

    def _stays(self, state: _State, node: str) -> bool:
        """Whether an allocated claim can be used on the node as it is.

        One whose users are all on their way out cannot where others were promised its devices meanwhile.
        """
        assert state.allocation is not None
        selector = state.allocation.node_selector
        if selector is not None and not node_selector(selector, node, self.inventory.labels_of(node)):
            return False
        return not state.is_releasing or all(
            self._used[each] <= self._releasing[each] for each in _devices(state.allocation)
        )

    def _synthetic(
        self, demand: PodDemand, offered: Collection[str]
    ) -> tuple[dra.ResourceClaim | None, list[Json]]:
        """A claim for the extended resources that the node does not offer."""
        classes = {name: class_ for name, class_ in demand.resources.items() if name not in offered}
        return _claim_for_resources(demand, classes) if classes else (None, [])

    # --- what can be undone ---------------------------------------------------------------------
    def place(self, demand: PodDemand, plan: Plan) -> None:
        """The pod takes what was planned for it; the ledger must not have changed since.

        After: its claims are allocated and reserved for it, and the devices are taken. Undone by
        :meth:`undo`.
        """
        for each, allocation in plan.allocations:
            state = self._claims[each.key]
            if allocation is not state.allocation:
                moved = state.allocation is not None
                waits = moved or any(self._used[device] for device in _devices(allocation))
                state = replace(state, waits=waits)
            self._change(each.key, _with_pod(state, demand.pod_uid, allocation))
        if plan.extended is not None:
            state = self._claims.get(demand.extended_key, _State(plan.extended))
            found = plan.extended.status.allocation
            self._change(demand.extended_key, _with_pod(state, demand.pod_uid, found))

    def keeps(self, demand: PodDemand, node: str) -> bool:
        """Whether a pod could go on with the devices that its claims have."""
        return all(state.allocation is None or self._stays(state, node) for _, state in self._states(demand))

    def release(self, demand: PodDemand) -> None:
        """The pod is being evicted: it holds its devices still, but not for long.

        After: plans ``after_release`` may have them, and wait. A pod that holds nothing is ignored. Undone
        by :meth:`undo`.
        """
        uid = demand.pod_uid
        for key, state in self._states(demand):
            if uid in state.reserved:
                self._change(key, replace(state, releasing=state.releasing | {uid}))

    def remove(self, demand: PodDemand) -> None:
        """The pod is gone; claims that nobody else uses lose their devices.

        Its synthetic claim goes with it, unless others use that: they were named by whoever may write claims.
        Undone by :meth:`undo`.
        """
        gone = {demand.pod_uid}
        for key, state in self._states(demand):
            reserved = state.reserved - gone
            if key == demand.extended_key and not reserved:
                self._change(key, None)
                continue
            self._change(
                key,
                _State(
                    claim=state.claim,
                    allocation=state.allocation if reserved else None,
                    reserved=reserved,
                    placed=state.placed - gone,
                    releasing=state.releasing - gone,
                    leaving=state.leaving if reserved else (),
                    waits=state.waits and bool(reserved),
                ),
            )

    def mark(self) -> int:
        """A point to go back to; void once a fact is put in."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Go back to a mark.

        After: claims, devices and counters are as when :meth:`mark` gave it. Before: no fact was put in
        since, as that ends the time over which can be undone.
        """
        while len(self._log) > mark:
            self._set(*self._log.pop())

    def _states(self, demand: PodDemand) -> list[tuple[str, _State]]:
        keys = [*(each.key for each in demand.claims), demand.extended_key]
        return [(key, self._claims[key]) for key in keys if key in self._claims]

    def _change(self, key: str, state: _State | None) -> None:
        self._log.append((key, self._claims.get(key)))
        self._set(key, state)

    def _set(self, key: str, state: _State | None) -> None:
        """Put one claim into a state, with the devices and counters that go with it."""
        old = self._claims.get(key)
        if old is not None:
            self._charge(old, -1)
        if state is None:
            self._claims.pop(key, None)
            return
        self._claims[key] = state
        self._charge(state, 1)

    def _charge(self, state: _State, sign: int) -> None:
        held = [(state.allocation, state.is_releasing), *((each, True) for each in state.leaving)]
        for allocation, releasing in held:
            for device in _devices(allocation):
                self._used[device] += sign
                if releasing:
                    self._releasing[device] += sign


class _DevicesInUse:
    """What is in use, with or without what is being released, and what the pod itself keeps."""

    def __init__(self, ledger: ClaimLedger, after_release: bool, kept: set[DeviceId]) -> None:
        self._kept = kept
        self._draws_on = ledger.inventory.draws_on
        self._used = ledger._used
        self._releasing = ledger._releasing if after_release else Counter[DeviceId]()

    def is_free(self, device: DeviceId) -> bool:
        return device not in self._kept and self._used[device] <= self._releasing[device]

    def counted(self, counter: CounterId) -> Decimal:
        draws = self._draws_on(counter).items()
        return sum((amount for device, amount in draws if not self.is_free(device)), Decimal())


def _claim_for_resources(
    demand: PodDemand, classes: Mapping[str, str]
) -> tuple[dra.ResourceClaim, list[Json]]:
    """A claim for extended resources, each by its device class, and which container uses what of it."""
    requests, mappings = extended_requests(demand.pod, classes)
    namespace, _, name = demand.extended_key.partition("/")
    claim = dra.ResourceClaim(
        metadata=ObjectMeta(
            name=name, namespace=namespace, annotations={dra.EXTENDED_CLAIM_ANNOTATION: "true"}
        ),
        spec=dra.ResourceClaimSpec(devices=dra.DeviceClaim(requests=requests)),
    )
    return claim, mappings


def _serves(allocation: dra.AllocationResult, claim: dra.ResourceClaim) -> bool:
    """Whether there is a device for everything that a claim for extended resources asks for, and no more."""
    wanted = {each.name: each.exactly.count for each in claim.spec.devices.requests if each.exactly}
    return Counter(each.request for each in allocation.devices.results) == wanted


def _synthetic_owner(claim: dra.ResourceClaim) -> tuple[str, str] | None:
    """Namespace and uid of the pod for whose extended resources the claim was made, if it was.

    An owner is a pod of the claim's own namespace: uids can be read elsewhere, and written here.
    """
    if claim.annotations.get(dra.EXTENDED_CLAIM_ANNOTATION) != "true":
        return None
    owners = claim.metadata.owner_references or ()
    uid = next((each.uid for each in owners if each.controller and each.kind == "Pod"), None)
    return None if uid is None else (claim.metadata.namespace, uid)


def _with_pod(state: _State, uid: str, allocation: dra.AllocationResult | None) -> _State:
    moved = (state.allocation,) if state.allocation is not None and allocation is not state.allocation else ()
    return replace(
        state,
        allocation=allocation,
        reserved=state.reserved | {uid},
        placed=state.placed | {uid},
        releasing=state.releasing - {uid},
        leaving=state.leaving + moved,
    )


def _devices(allocation: dra.AllocationResult | None) -> list[DeviceId]:
    """The devices that an allocation holds; administrative access holds nothing."""
    if allocation is None:
        return []
    return [
        DeviceId(each.driver, each.pool, each.device)
        for each in allocation.devices.results
        if not each.admin_access
    ]


def _gpus(claim: dra.ResourceClaim) -> int:
    _, count = claimed_gpus(claim) or ("", 0)
    return count
