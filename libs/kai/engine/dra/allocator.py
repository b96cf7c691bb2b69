"""Choosing devices for claims on one node, by depth-first search.

Devices are tried in the inventory's order, so the result depends on nothing else. A claim with one plain
request takes the first free devices without any backtracking; constraints, counters and alternatives make
the search go back.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Protocol, TypeAlias

import msgspec

from kai.engine.dra.inventory import TAKEN_BACK, CounterId, DeviceId, Inventory, NodeDevices, UsableDevice
from kai.model import dra
from kai.model.cel import SelectorFault
from kai.model.objects import Json
from kai.model.words import listed

#: Choices that a search may try before it gives up; far beyond what real claims need.
_MOST_CHOICES: Final = 50_000
#: A search that took so many and found nothing is kept in mind while the same devices are in use: below that
#: it costs no more than writing down what was sought.
_MANY_CHOICES: Final = 64


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a pod's claims cannot be had."""

    reason: str


class DevicesInUse(Protocol):
    """What is in use already."""

    def is_free(self, device: DeviceId) -> bool:
        """Whether nobody uses the device."""

    def counted(self, counter: CounterId) -> Decimal:
        """How much of a shared counter is in use."""


@dataclass(frozen=True, slots=True)
class _Option:
    """One way to satisfy a request."""

    name: str  # as in the result: "request" or "request/alternative"
    parent: str
    spec: dra.DeviceSubRequest
    device_class: dra.DeviceClass
    candidates: list[UsableDevice]
    admin: bool

    @property
    def takes_all(self) -> bool:
        return self.spec.allocation_mode == "All"


@dataclass(slots=True)
class _Constraint:
    """Devices that must share (or not share) an attribute; the values of those chosen so far."""

    attribute: str
    distinct: bool
    requests: frozenset[str]
    values: list[tuple[object, ...]] = field(default_factory=list)

    def concerns(self, option: _Option) -> bool:
        return not self.requests or option.name in self.requests or option.parent in self.requests

    def admits(self, value: tuple[object, ...] | None) -> bool:
        if value is None:
            return False
        if self.distinct:
            return value not in self.values
        return not self.values or value == self.values[0]


@dataclass(slots=True)
class _Request:
    """A request of a claim with its options, best first."""

    claim: int
    options: list[_Option]
    constraints: list[_Constraint]


@dataclass(slots=True)
class _Choice:
    option: _Option
    device: UsableDevice


def allocate(
    claims: Sequence[dra.ResourceClaim], node: str, *, inventory: Inventory, usage: DevicesInUse
) -> list[dra.AllocationResult] | Unfit:
    """Allocate all claims on the node together, or say why not.

    Before: the claims are of one namespace and none is allocated. Nothing is taken: the caller records the
    results, one for each claim in the same order. A claim gets at most 32 devices. Of a prioritised list the
    first alternative that works is taken, in the light of everything before it. What a search takes back is
    charged to the namespace; one that has spent its part gives up.
    """
    requests: list[_Request] = []
    for position, claim in enumerate(claims):
        prepared = _requests_of(claim, position, node, inventory)
        if isinstance(prepared, Unfit):
            return prepared
        requests += prepared
    namespace, devices = claims[0].metadata.namespace if claims else "", inventory.of_node(node)
    if devices.in_vain:
        to_its_end = devices.in_vain.get(_what_is_sought(claims, devices, usage))
        if to_its_end is not None:
            return _nothing(claims, devices, to_its_end=to_its_end)
    search = _Search(
        requests, devices, usage, may_take_back=lambda: inventory.effort.spend(namespace, TAKEN_BACK)
    )
    if not search.run():
        # Of counters, which of these devices are in use does not tell enough: those of other nodes draw too.
        if search.choices >= _MANY_CHOICES and not devices.counters:
            sought = _what_is_sought(claims, devices, usage)
            devices.found_nothing(sought, to_its_end=not search.exhausted)
        return _nothing(claims, devices, to_its_end=not search.exhausted)
    return [
        _result(claim, [each for at, each in search.chosen if at == position], node)
        for position, claim in enumerate(claims)
    ]


def _what_is_sought(claims: Sequence[dra.ResourceClaim], devices: NodeDevices, usage: DevicesInUse) -> object:
    """What a search depends on, where no counters are shared: what is asked for, and what is in use."""
    asked = tuple(msgspec.json.encode(claim.spec.devices) for claim in claims)
    return asked, frozenset(device.id for device in devices.devices if not usage.is_free(device.id))


def _nothing(claims: Sequence[dra.ResourceClaim], devices: NodeDevices, *, to_its_end: bool) -> Unfit:
    names = listed([claim.key for claim in claims])
    if not to_its_end:
        return Unfit(f"gave up looking for devices for {names}: there are too many choices")
    return Unfit(f"not enough devices for {names}{_pools_missing(devices)}")


def _pools_missing(devices: NodeDevices) -> str:
    if not devices.unusable_pools:
        return ""
    return f" (pools with slices missing or devices named twice: {listed(devices.unusable_pools)})"


def _requests_of(
    claim: dra.ResourceClaim, position: int, node: str, inventory: Inventory
) -> list[_Request] | Unfit:
    constraints = [_constraint(each) for each in claim.spec.devices.constraints]
    requests = []
    for request in claim.spec.devices.requests:
        options = _options(claim, request, node, inventory)
        if isinstance(options, Unfit):
            return options
        requests.append(_Request(position, options, constraints))
    return requests


def _constraint(spec: dra.DeviceConstraint) -> _Constraint:
    return _Constraint(
        attribute=spec.match_attribute or spec.distinct_attribute or "",
        distinct=spec.match_attribute is None,
        requests=frozenset(spec.requests),
    )


def _options(
    claim: dra.ResourceClaim, request: dra.DeviceRequest, node: str, inventory: Inventory
) -> list[_Option] | Unfit:
    if request.exactly is not None:
        specs: list[tuple[str, dra.DeviceSubRequest]] = [(request.name, request.exactly)]
    else:
        specs = [(f"{request.name}/{each.name}", each) for each in request.first_available]
    options = []
    for name, spec in specs:
        class_ = inventory.device_class(spec.device_class_name)
        if class_ is None:
            return Unfit(f"claim {claim.key}: device class {spec.device_class_name!r} does not exist")
        if spec.allocation_mode not in ("", "ExactCount", "All"):
            return Unfit(f"claim {claim.key}: allocation mode {spec.allocation_mode!r} is not known")
        candidates = inventory.candidates(node, class_, spec, namespace=claim.metadata.namespace)
        if isinstance(candidates, SelectorFault):
            return Unfit(f"claim {claim.key}: {candidates.reason}")
        admin = request.exactly is not None and bool(request.exactly.admin_access)
        options.append(_Option(name, request.name, spec, class_, candidates, admin))
    return options


#: A call of the search: gives the call that it waits for, and is told whether that found something.
_Step: TypeAlias = Generator["_Step", "bool | None", bool]


class _Search:
    def __init__(
        self,
        requests: list[_Request],
        node: NodeDevices,
        usage: DevicesInUse,
        *,
        may_take_back: Callable[[], bool],
    ) -> None:
        self._requests = requests
        self._node = node
        self._usage = usage
        self._may_take_back = may_take_back
        self._taken: set[DeviceId] = set()
        self._drawn: dict[CounterId, Decimal] = {}
        self._stopped = False
        self.chosen: list[tuple[int, _Choice]] = []

        self.choices = 0

    @property
    def exhausted(self) -> bool:
        return self.choices >= _MOST_CHOICES or self._stopped

    def run(self) -> bool:
        """Whether there is a way. Ways go as deep as devices are asked for, so calls are kept in a list."""
        steps = [self._satisfy(0)]
        found: bool | None = None
        while steps:
            try:
                deeper = steps[-1].send(found)
            except StopIteration as end:
                steps.pop()
                found = end.value
            else:
                steps.append(deeper)
                found = None
        return bool(found)

    def _satisfy(self, at: int) -> _Step:
        if at == len(self._requests):
            return True
        for option in self._requests[at].options:
            if option.takes_all:
                done = yield self._take_all(at, option)
            else:
                done = yield self._take_some(at, option, 0, option.spec.count or 1)
            # With two alternatives for each of many requests, even one choice for each has no end.
            if done or self.exhausted:
                return bool(done)
        return False

    def _take_all(self, at: int, option: _Option) -> _Step:
        before = len(self.chosen)
        # What is there of an incomplete pool may not be all, so as in Kubernetes nobody gets all then.
        if not option.candidates or self._node.unusable_pools:
            return False
        for device in option.candidates:
            if not self._take(at, option, device):
                break
        else:
            if (yield self._satisfy(at + 1)):
                return True
        while len(self.chosen) > before:
            self._give_back(at)
        return False

    def _take_some(self, at: int, option: _Option, start: int, left: int) -> _Step:
        if left == 0:
            return bool((yield self._satisfy(at + 1)))
        # Counted once for a request, in time by all devices; a single one is found as quickly as counted.
        if start == 0 and left > 1 and self._too_few(option, left):
            return False
        # Ascending from ``start``: sets of devices are tried, not their orders.
        for position in range(start, len(option.candidates) - left + 1):
            if not self._take(at, option, option.candidates[position]):
                continue
            if (yield self._take_some(at, option, position + 1, left - 1)):
                return True
            self._give_back(at)
            self._stopped = self._stopped or not self._may_take_back()
            if self.exhausted:
                return False
        return False

    def _too_few(self, option: _Option, wanted: int) -> bool:
        """Whether there are not even enough that are free, so that no choice among them is of use."""
        if option.admin:
            return len(option.candidates) < wanted
        return sum(self._available(device) for device in option.candidates) < wanted

    def _take(self, at: int, option: _Option, device: UsableDevice) -> bool:
        request = self._requests[at]
        if not option.admin and not self._available(device):
            return False
        if sum(claim == request.claim for claim, _ in self.chosen) >= dra.RESULTS_MAX:
            return False
        concerned = [each for each in request.constraints if each.concerns(option)]
        if not all(each.admits(device.attribute(each.attribute)) for each in concerned):
            return False
        for each in concerned:
            value = device.attribute(each.attribute)
            assert value is not None
            each.values.append(value)
        if not option.admin:
            self._taken.add(device.id)
            for counter, amount in device.counters.items():
                self._drawn[counter] = self._drawn.get(counter, Decimal()) + amount
        self.chosen.append((request.claim, _Choice(option, device)))
        self.choices += 1
        return True

    def _give_back(self, at: int) -> None:
        _, choice = self.chosen.pop()
        for each in self._requests[at].constraints:
            if each.concerns(choice.option):
                each.values.pop()
        if not choice.option.admin:
            self._taken.discard(choice.device.id)
            for counter, amount in choice.device.counters.items():
                self._drawn[counter] -= amount

    def _available(self, device: UsableDevice) -> bool:
        if device.id in self._taken or not self._usage.is_free(device.id):
            return False
        return all(
            self._usage.counted(counter) + self._drawn.get(counter, 0) + amount
            <= self._node.counters.get(counter, 0)
            for counter, amount in device.counters.items()
        )


# --- the result in API form ---------------------------------------------------------------------
def _result(claim: dra.ResourceClaim, choices: list[_Choice], node: str) -> dra.AllocationResult:
    return dra.AllocationResult(
        devices=dra.DeviceAllocation(
            results=[
                dra.DeviceResult(
                    request=choice.option.name,
                    driver=choice.device.id.driver,
                    pool=choice.device.id.pool,
                    device=choice.device.id.name,
                    admin_access=choice.option.admin or None,
                    tolerations=choice.option.spec.tolerations,
                    binding_conditions=choice.device.spec.binding_conditions,
                    binding_failure_conditions=choice.device.spec.binding_failure_conditions,
                )
                for choice in choices
            ],
            config=_configuration(claim, choices),
        ),
        node_selector=_node_selector(choices, node),
    )


def _configuration(claim: dra.ResourceClaim, choices: list[_Choice]) -> list[Json]:
    """First what the classes configure, then what the claim does, for the requests that were satisfied."""
    options = {choice.option.name: choice.option for choice in choices}
    config: list[Json] = [
        {"source": "FromClass", "requests": [name], **entry}
        for name, option in options.items()
        for entry in option.device_class.spec.config
    ]
    used = set(options) | {option.parent for option in options.values()}
    config += [
        {"source": "FromClaim", **entry}
        for entry in claim.spec.devices.config
        if not entry.get("requests") or used.intersection(entry["requests"])
    ]
    return config


def _node_selector(choices: list[_Choice], node: str) -> Json | None:
    """Where the allocation can be used: this node if a device is local to it, else what the slices demand.

    A device may also come to the node that it is allocated for.
    """
    if any(choice.device.node_name or choice.device.spec.binds_to_node for choice in choices):
        only = {"key": "metadata.name", "operator": "In", "values": [node]}
        return {"nodeSelectorTerms": [{"matchFields": [only]}]}
    term: dict[str, list[Json]] = {}
    for choice in choices:
        for each in (choice.device.node_selector or {}).get("nodeSelectorTerms") or ():
            for kind in ("matchExpressions", "matchFields"):
                for requirement in each.get(kind) or ():
                    if requirement not in term.setdefault(kind, []):
                        term[kind].append(requirement)
    return {"nodeSelectorTerms": [{kind: found for kind, found in term.items() if found}]} if term else None
