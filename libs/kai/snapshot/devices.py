"""Bounds of devices, of claims of them, and of what else stays JSON until plugins read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from kai.model import dra, limits
from kai.model.cel import estimated_cost
from kai.model.numa import NodeResourceTopology
from kai.model.objects import ApiStruct, LabelRequirement, LabelSelector
from kai.snapshot import storage
from kai.snapshot.kinds import Kind
from kai.snapshot.shapes import conform


class _BudgetSpec(ApiStruct):
    selector: LabelSelector | None = None


class _BudgetStatus(ApiStruct):
    disruptions_allowed: int = 0


class _Budget(ApiStruct):
    spec: _BudgetSpec = msgspec.field(default_factory=_BudgetSpec)
    status: _BudgetStatus | None = None


#: What multiplies the work of an expression, each within the others.
_LOOP: Final = re.compile(r"(?:\.\s*(?:all|exists|exists_one|map|filter)|cel\s*\.\s*bind)\s*\(")
_SHAPES: Final[Mapping[Kind, Any]] = {
    Kind.RESOURCE_CLAIM: dra.ResourceClaim,
    Kind.RESOURCE_SLICE: dra.ResourceSlice,
    Kind.DEVICE_CLASS: dra.DeviceClass,
    Kind.NODE_RESOURCE_TOPOLOGY: NodeResourceTopology,
    **storage.SHAPES,
    Kind.POD_DISRUPTION_BUDGET: _Budget,
}


def check(kind: Kind, obj: Any) -> None:
    """Look at an object of any kind that has no rows of its own.

    Raises:
        OutOfBounds: a field is beyond its bounds, or has not the type that it must have.
    """
    shape = _SHAPES.get(kind)
    if shape is None:
        return
    match conform(obj, shape) if isinstance(obj, dict) else obj:
        case dra.ResourceClaim() as claim:
            _check_claim(claim)
        case dra.ResourceSlice() as slice_:
            _check_slice(slice_)
        case dra.DeviceClass() as class_:
            _Expressions().check(class_.spec.selectors, "spec.selectors")
        case NodeResourceTopology() as topology:
            _check_zones(topology)
        case storage.Volume(spec=spec):
            _check_storage(spec.capacity, "spec.capacity")
            _check_storage(spec.resources.requests if spec.resources else None, "spec.resources.requests")
            _check_selector(spec.selector, limits.CLAIM_SELECTOR)
            if spec.node_affinity is not None and spec.node_affinity.required is not None:
                _check_volume_terms(spec.node_affinity.required.node_selector_terms)
        case storage.StorageClass(allowed_topologies=terms):
            _check_topologies(terms)
        case storage.StorageCapacity() as capacity:
            _check_storage({"capacity": capacity.capacity or "0"}, "")
            _check_storage({"maximumVolumeSize": capacity.maximum_volume_size or "0"}, "")
            _check_selector(capacity.node_topology, limits.CAPACITY_NODES)
        case storage.CsiNode(spec=drivers):
            for number, driver in enumerate(drivers.drivers or ()):
                if driver.allocatable is not None and driver.allocatable.count is not None:
                    limits.SLOTS.check(driver.allocatable.count, f"spec.drivers[{number}].allocatable.count")
        case _Budget(spec=budget, status=status):
            _check_selector(budget.selector, limits.BUDGET_SELECTOR)
            if status is not None:
                limits.DISRUPTIONS.check(status.disruptions_allowed)


def _check_claim(claim: dra.ResourceClaim) -> None:
    devices = claim.spec.devices
    limits.CLAIM_REQUESTS.check_count(devices.requests)
    limits.CONSTRAINTS.check_count(devices.constraints)
    limits.CONFIGURATIONS.check_count(devices.config)
    status = claim.status
    limits.CONSUMERS.check_count(status.reserved_for)
    if status.allocation is not None:
        limits.RESULTS.check_count(status.allocation.devices.results)
        return  # it has what it has, whatever it asked for
    expressions = _Expressions()
    for number, request in enumerate(devices.requests):
        where = f"spec.devices.requests[{number}]"
        limits.ALTERNATIVES.check_count(request.first_available, f"{where}.firstAvailable")
        if request.exactly is not None:
            _check_request(request.exactly, f"{where}.exactly", expressions)
        for other, alternative in enumerate(request.first_available):
            _check_request(alternative, f"{where}.firstAvailable[{other}]", expressions)


def _check_request(request: dra.DeviceSubRequest, where: str, expressions: _Expressions) -> None:
    limits.CLAIM_COUNT.check(request.count, f"{where}.count")
    limits.DEVICE_TOLERATIONS.check_count(request.tolerations, f"{where}.tolerations")
    if request.capacity is not None:
        limits.CAPACITIES.check_count(request.capacity.requests, f"{where}.capacity.requests")
        for name, amount in request.capacity.requests.items():
            limits.DEVICE_AMOUNT.quantity(amount, f"{where}.capacity.requests[{name}]")
    expressions.check(request.selectors, f"{where}.selectors")


class _Expressions:
    """The expressions of one object: each has bounds, and so have all of them together."""

    def __init__(self) -> None:
        self._length = 0
        self._cost = 0

    def check(self, selectors: Iterable[dra.DeviceSelector], where: str) -> None:
        """Look at some more of them."""
        chosen = list(selectors)
        limits.SELECTORS.check_count(chosen, where)
        for number, selector in enumerate(chosen):
            if selector.cel is not None:
                self._check(selector.cel.expression, f"{where}[{number}].cel.expression")

    def _check(self, expression: str, field: str) -> None:
        limits.EXPRESSION_LENGTH.check_count(expression, field)
        limits.EXPRESSION_LOOPS.check_count(_LOOP.findall(expression), field)
        self._length += len(expression)
        limits.EXPRESSIONS_LENGTH.check(self._length, field)
        self._cost += estimated_cost(expression)
        limits.EXPRESSION_COST.check(self._cost, field)


def _check_slice(slice_: dra.ResourceSlice) -> None:
    spec = slice_.spec
    limits.DEVICES.check_count(spec.devices)
    limits.COUNTER_SETS.check_count(spec.shared_counters)
    for number, counter_set in enumerate(spec.shared_counters):
        _check_counters(counter_set.counters, f"spec.sharedCounters[{number}].counters")
    for number, device in enumerate(spec.devices):
        where = f"spec.devices[{number}]"
        limits.ATTRIBUTES.check_count(device.attributes, f"{where}.attributes")
        limits.CAPACITIES.check_count(device.capacity, f"{where}.capacity")
        limits.DEVICE_TAINTS.check_count(device.taints, f"{where}.taints")
        limits.BINDING_CONDITIONS.check_count(device.binding_conditions, f"{where}.bindingConditions")
        limits.BINDING_CONDITIONS.check_count(
            device.binding_failure_conditions, f"{where}.bindingFailureConditions"
        )
        limits.COUNTER_SETS.check_count(device.consumes_counters, f"{where}.consumesCounters")
        for key, amount in device.capacity.items():
            limits.DEVICE_AMOUNT.quantity(amount.value, f"{where}.capacity[{key}].value")
        for other, drawn in enumerate(device.consumes_counters):
            _check_counters(drawn.counters, f"{where}.consumesCounters[{other}].counters")


def _check_counters(counters: Mapping[str, dra.Counter], where: str) -> None:
    limits.COUNTERS.check_count(counters, where)
    for key, counter in counters.items():
        limits.DEVICE_AMOUNT.quantity(counter.value, f"{where}[{key}].value")


def _check_zones(topology: NodeResourceTopology) -> None:
    limits.ZONES.check_count(topology.zones)
    for number, zone in enumerate(topology.zones):
        where = f"zones[{number}].resources"
        limits.ZONE_RESOURCES.check_count(zone.resources, where)
        for other, each in enumerate(zone.resources):
            scale = 1000 if each.name == "cpu" else 1
            limits.ZONE_AMOUNT.quantity(str(each.allocatable), f"{where}[{other}].allocatable", scale=scale)
            limits.ZONE_AMOUNT.quantity(str(each.available), f"{where}[{other}].available", scale=scale)


def _check_storage(amounts: Mapping[str, str] | None, where: str) -> None:
    for key, text in (amounts or {}).items():
        limits.STORAGE.quantity(text, f"{where}[{key}]" if where else key)


def _check_selector(selector: LabelSelector | None, bounds: limits.SelectorLimits) -> None:
    if selector is not None:
        bounds.labels.check_count(selector.match_labels)
        where = bounds.expressions.field
        _check_requirements(selector.match_expressions, where, most=bounds.expressions, values=bounds.values)


def _check_volume_terms(terms: list[storage.NodeSelectorTerm] | None) -> None:
    limits.VOLUME_TERMS.check_count(terms)
    most, values = limits.VOLUME_EXPRESSIONS, limits.VOLUME_VALUES
    for number, term in enumerate(terms or ()):
        where = f"{limits.VOLUME_TERMS.field}[{number}]"
        _check_requirements(term.match_expressions, f"{where}.matchExpressions", most=most, values=values)
        _check_requirements(term.match_fields, f"{where}.matchFields", most=most, values=values)


def _check_topologies(terms: list[storage.TopologySelectorTerm] | None) -> None:
    limits.ALLOWED_TERMS.check_count(terms)
    most, values = limits.ALLOWED_EXPRESSIONS, limits.ALLOWED_VALUES
    for number, term in enumerate(terms or ()):
        where = f"{limits.ALLOWED_TERMS.field}[{number}].matchLabelExpressions"
        _check_requirements(term.match_label_expressions, where, most=most, values=values)


def _check_requirements(
    found: list[LabelRequirement] | None, where: str, *, most: limits.Limit, values: limits.Limit
) -> None:
    most.check_count(found, where)
    for number, each in enumerate(found or ()):
        values.check_count(each.values, f"{where}[{number}].values")
