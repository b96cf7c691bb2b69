"""The devices that nodes can use, from ResourceSlices and DeviceClasses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

from kai.model import dra, quantity
from kai.model.cel import SelectorFault, compile_selector, estimated_cost, variables_of
from kai.model.objects import Json
from kai.model.rules.device_claims import is_gpu_name
from kai.model.rules.selectors import node_selector
from kai.model.rules.taints import untolerated


class DeviceId(NamedTuple):
    """What identifies a device in the cluster."""

    driver: str
    pool: str
    name: str


#: Driver, pool, counter set, counter.
CounterId: TypeAlias = tuple[str, str, str, str]


@dataclass(slots=True, eq=False)
class UsableDevice:
    """A device as one node sees it."""

    id: DeviceId
    spec: dra.Device
    #: What an allocation of it requires of nodes: this node alone, a selector, or nothing.
    node_name: str | None
    node_selector: Json | None
    counters: dict[CounterId, Decimal]
    _variables: dict[str, Any] | None = None
    _verdicts: dict[str, bool | SelectorFault] = field(default_factory=dict)

    def attribute(self, name: str) -> tuple[object, ...] | None:
        """The value of a fully qualified attribute, or None; values of different types never equal.

        Drivers may leave out their own domain where they name attributes.
        """
        domain, _, short = name.partition("/")
        found = self.spec.attributes.get(name)
        if found is None and domain == self.id.driver:
            found = self.spec.attributes.get(short)
        return None if found is None else (found.integer, found.boolean, found.string, found.version)

    def has(self, amounts: Iterable[tuple[str, str]]) -> bool:
        """Whether its capacity is at least that, by fully qualified name."""
        return all(
            (found := self._capacity(name)) is not None and found >= quantity.parse(amount)
            for name, amount in amounts
        )

    def _capacity(self, name: str) -> Decimal | None:
        domain, _, short = name.rpartition("/")
        own = domain in ("", self.id.driver)
        names = (name, short, f"{self.id.driver}/{short}") if own else (name,)
        found = next(filter(None, map(self.spec.capacity.get, names)), None)
        return None if found is None else quantity.parse(found.value)

    def selected(self, expressions: Iterable[str]) -> bool | SelectorFault:
        """Whether all expressions hold; the first that does not decides, also where it cannot be evaluated.

        Verdicts are kept, as they follow from the device alone.
        """
        for expression in expressions:
            verdict = self._verdicts.get(expression)
            if verdict is None:
                _make_room(self._verdicts)
                verdict = self._verdicts[expression] = self._evaluate(expression)
            if verdict is not True:
                return verdict
        return True

    def _evaluate(self, expression: str) -> bool | SelectorFault:
        selector = compile_selector(expression)
        if isinstance(selector, SelectorFault):
            return selector
        if self._variables is None:
            self._variables = variables_of(self.id.driver, self.spec)
        return selector.matches(self._variables)


@dataclass(slots=True, eq=False)
class NodeDevices:
    """The devices of one node, and what of them each kind of request may use (kept)."""

    devices: list[UsableDevice]
    #: Pools of which not all slices are there yet, and pools that name a device twice.
    unusable_pools: list[str]
    counters: dict[CounterId, Decimal]
    candidates: dict[object, list[UsableDevice] | SelectorFault] = field(default_factory=dict)
    #: Long searches that found nothing, with what was in use then: whether they came to their end.
    in_vain: dict[object, bool] = field(default_factory=dict)

    def found_nothing(self, search: object, *, to_its_end: bool) -> None:
        """Keep that a search found nothing; of too many the oldest is forgotten.

        ``search`` is all that its end depends on, to be compared. A search that was not ``to_its_end`` gave
        up.
        """
        _make_room(self.in_vain)
        self.in_vain[search] = to_its_end


class Effort:
    """What may be spent in one cycle on the claims of each namespace, so that none makes others wait.

    In units of :mod:`kai.model.cel_cost`: looking at devices anew costs what the expressions may, for each
    device, and a choice that is taken back :data:`TAKEN_BACK`.
    """

    def __init__(self) -> None:
        self._spent: dict[str, int] = {}

    def renew(self) -> None:
        """A cycle begins: each namespace has its whole part again."""
        self._spent.clear()

    def spend(self, namespace: str, units: int) -> bool:
        """Whether there is enough left; something is done for everybody.

        ``units`` are those of :data:`MOST_EFFORT`, and are counted for the namespace if there is. The first
        in a cycle always goes, however much it is.
        """
        spent = self._spent.get(namespace, 0)
        if spent and spent + units > MOST_EFFORT:
            return False
        self._spent[namespace] = spent + units
        return True


#: Some tenths of a second: what a thousand ordinary selectors cost on a thousand devices.
MOST_EFFORT: Final = 10_000_000
TAKEN_BACK: Final = 500
#: Kinds of requests of which is kept what a node has for them, and expressions for each device.
_KEPT: Final = 256


class Inventory:
    """Slices and classes; a node's devices are put together when first asked for."""

    def __init__(self, labels_of_node: Callable[[str], Mapping[str, str] | None]) -> None:
        self._labels_of_node = labels_of_node
        self.effort = Effort()
        self._slices: dict[str, dra.ResourceSlice] = {}
        self._of_node: dict[str, set[str]] = {}
        self._shared: set[str] = set()
        self._pools: dict[tuple[str, str], set[str]] = {}
        self._classes: dict[str, dra.DeviceClass] = {}
        self._resources: dict[str, str] = {}
        self._nodes: dict[str, NodeDevices] = {}
        self._draws: dict[CounterId, dict[DeviceId, Decimal]] = {}

    # --- facts ----------------------------------------------------------------------------------
    def put_slice(self, slice_: dra.ResourceSlice) -> None:
        """Add or replace a slice.

        After: the devices of its nodes are put together anew when next asked for; also those of all nodes on
        which its pool has slices, as a newer generation may hide older ones.
        """
        self.drop_slice(slice_.metadata.name)
        name, spec = slice_.metadata.name, slice_.spec
        self._slices[name] = slice_
        self._pools.setdefault((spec.driver, spec.pool.name), set()).add(name)
        if spec.node_name:
            self._of_node.setdefault(spec.node_name, set()).add(name)
        else:
            self._shared.add(name)
        for device, counter, amount in _draws(spec):
            self._draws.setdefault(counter, {})[device] = amount
        self._touch(spec)

    def drop_slice(self, name: str) -> None:
        """Forget a slice, if it is known."""
        slice_ = self._slices.pop(name, None)
        if slice_ is None:
            return
        spec = slice_.spec
        self._pools[spec.driver, spec.pool.name].discard(name)
        self._of_node.get(spec.node_name or "", set()).discard(name)
        self._shared.discard(name)
        for device, counter, _ in _draws(spec):
            self._draws[counter].pop(device, None)
        self._touch(spec)

    def put_class(self, class_: dra.DeviceClass) -> None:
        """Add or replace a device class; what requests find on nodes is found anew after that."""
        self._classes[class_.metadata.name] = class_
        self._classes_changed()

    def drop_class(self, name: str) -> None:
        """Forget a device class, if it is known."""
        if self._classes.pop(name, None) is not None:
            self._classes_changed()

    def forget_node(self, node: str) -> None:
        """The node's labels changed or it left.

        Its devices are put together anew when next asked for: slices choose nodes by their labels.
        """
        self._nodes.pop(node, None)

    def _touch(self, spec: dra.ResourceSliceSpec) -> None:
        """A slice of one node changes that node, and others only where its pool spans them."""
        for name in self._pools.get((spec.driver, spec.pool.name), ()):
            self._nodes.pop(self._slices[name].spec.node_name or "", None)
        if spec.node_name:
            self._nodes.pop(spec.node_name, None)
        else:
            self._nodes.clear()

    def _classes_changed(self) -> None:
        for node in self._nodes.values():
            node.candidates.clear()
        self._resources = {}
        # Of several the last one written counts: the newest, and of equally old ones the first by name.
        newest_last = sorted(
            self._classes.values(),
            key=lambda each: (each.metadata.creation_timestamp or "", _backwards(each)),
        )
        for class_ in newest_last:
            name = class_.metadata.name
            self._resources[dra.DEVICE_CLASS_RESOURCE_PREFIX + name] = name
            if class_.spec.extended_resource_name:
                self._resources[class_.spec.extended_resource_name] = name

    # --- questions ------------------------------------------------------------------------------
    def device_class(self, name: str) -> dra.DeviceClass | None:
        """A device class by name; None if there is none."""
        return self._classes.get(name)

    def class_of_resource(self, resource: str) -> str | None:
        """The device class behind an extended resource; of several the newest, then the first by name."""
        return self._resources.get(resource)

    @property
    def backed_resources(self) -> KeysView[str]:
        """The extended resources behind which there is a device class."""
        return self._resources.keys()

    def labels_of(self, node: str) -> Mapping[str, str]:
        """The node's labels; empty if it is not known."""
        return self._labels_of_node(node) or {}

    def draws_on(self, counter: CounterId) -> Mapping[DeviceId, Decimal]:
        """The devices that draw from a shared counter, and how much each does, be they in use or not."""
        return self._draws.get(counter, {})

    def reaches_shared_gpus(self, node: str) -> bool:
        """Whether the node can use devices of drivers of GPUs that belong to no node alone."""
        labels = self.labels_of(node)
        return any(
            _reaches(spec, node, labels)
            and (not spec.per_device_node_selection or _reaches_some(spec.devices, node, labels))
            for spec in (self._slices[name].spec for name in self._shared)
            if is_gpu_name(spec.driver)
        )

    def of_node(self, node: str) -> NodeDevices:
        """The devices that this node can use, in order of pool, slice name and place in the slice.

        Of each pool those of the newest generation. The same object until a slice or the node changes; to be
        read only. Made when first asked for, in time by the slices of the node and those that nodes share.
        """
        found = self._nodes.get(node)
        if found is None:
            found = self._nodes[node] = self._assemble(node)
        return found

    def candidates(
        self, node: str, class_: dra.DeviceClass, request: dra.DeviceSubRequest, *, namespace: str = ""
    ) -> list[UsableDevice] | SelectorFault:
        """The node's devices that class and request select, large enough and tolerated, used or not.

        In the order of :meth:`of_node`, and not to be changed. A fault where a selector cannot be evaluated,
        or where the claim's ``namespace``, which pays for looking at them for the first time, has spent its
        part of the cycle.
        """
        expressions = (*_expressions(class_.spec.selectors), *_expressions(request.selectors))
        tolerations = tuple(
            (each.key, each.operator, each.value, each.effect) for each in request.tolerations
        )
        devices = self.of_node(node)
        amounts = tuple(sorted(request.capacity.requests.items())) if request.capacity else ()
        key = (expressions, tolerations, amounts)
        found = devices.candidates.get(key)
        if found is None:
            cost = sum(map(estimated_cost, expressions)) * len(devices.devices)
            if not self.effort.spend(namespace, cost):
                return SelectorFault(
                    f"its selectors are looked at in a later cycle: those of namespace {namespace} cost more "
                    f"than {MOST_EFFORT} units by now"
                )
            _make_room(devices.candidates)
            having = [each for each in devices.devices if each.has(amounts)]
            found = devices.candidates[key] = _select(having, expressions, request.tolerations)
        return found

    # --- putting a node together ----------------------------------------------------------------
    def _assemble(self, node: str) -> NodeDevices:
        labels = self.labels_of(node)
        pools: dict[tuple[str, str], list[dra.ResourceSlice]] = {}
        for name in sorted(self._of_node.get(node, set()) | self._shared):
            spec = self._slices[name].spec
            if _reaches(spec, node, labels):
                pools.setdefault((spec.driver, spec.pool.name), []).append(self._slices[name])
        assembled = NodeDevices([], [], {})
        for key in sorted(pools):
            self._add_pool(assembled, key, pools[key], node, labels)
        return assembled

    def _add_pool(
        self,
        assembled: NodeDevices,
        key: tuple[str, str],
        slices: list[dra.ResourceSlice],
        node: str,
        labels: Mapping[str, str],
    ) -> None:
        # What is the newest generation, and whether it is complete, is a matter of all nodes of the pool.
        everywhere = [self._slices[name].spec.pool for name in self._pools[key]]
        generation = max(pool.generation for pool in everywhere)
        current = [pool for pool in everywhere if pool.generation == generation]
        slices = [each for each in slices if each.spec.pool.generation == generation]
        if not slices:
            return
        devices = [
            _usable(key, each.spec, device, node)
            for each in slices
            for device in each.spec.devices
            if not each.spec.per_device_node_selection or _device_reaches(device, node, labels)
        ]
        if len(current) < current[0].resource_slice_count or len({each.id for each in devices}) < len(
            devices
        ):
            assembled.unusable_pools.append("/".join(key))
            return
        assembled.devices += devices
        # Counters may stand in another slice of the pool than the devices that draw from them.
        for name in self._pools[key]:
            spec = self._slices[name].spec
            if spec.pool.generation == generation:
                for counter_set in spec.shared_counters:
                    for counter, amount in counter_set.counters.items():
                        assembled.counters[*key, counter_set.name, counter] = quantity.parse(amount.value)


def _make_room(kept: dict[Any, Any]) -> None:
    """Forget the oldest where there are too many: whoever makes up requests makes up the keys."""
    while len(kept) >= _KEPT:
        del kept[next(iter(kept))]


def _backwards(class_: dra.DeviceClass) -> tuple[int, ...]:
    return tuple(-ord(each) for each in class_.metadata.name)


def _expressions(selectors: list[dra.DeviceSelector]) -> tuple[str, ...]:
    return tuple(each.cel.expression for each in selectors if each.cel is not None)


def _reaches(spec: dra.ResourceSliceSpec, node: str, labels: Mapping[str, str]) -> bool:
    if spec.node_name:
        return spec.node_name == node
    if spec.node_selector is not None:
        return node_selector(spec.node_selector, node, labels)
    return bool(spec.all_nodes or spec.per_device_node_selection)


def _device_reaches(device: dra.Device, node: str, labels: Mapping[str, str]) -> bool:
    if device.node_name:
        return device.node_name == node
    if device.node_selector is not None:
        return node_selector(device.node_selector, node, labels)
    return bool(device.all_nodes)


def _reaches_some(devices: Iterable[dra.Device], node: str, labels: Mapping[str, str]) -> bool:
    return any(not each.node_name and _device_reaches(each, node, labels) for each in devices)


def _usable(key: tuple[str, str], spec: dra.ResourceSliceSpec, device: dra.Device, node: str) -> UsableDevice:
    local = spec.node_name or (device.node_name if spec.per_device_node_selection else None)
    selector = device.node_selector if spec.per_device_node_selection else spec.node_selector
    return UsableDevice(
        id=DeviceId(*key, device.name),
        spec=device,
        node_name=node if local else None,
        node_selector=selector,
        counters=_draw(key, device),
    )


def _draws(spec: dra.ResourceSliceSpec) -> Iterable[tuple[DeviceId, CounterId, Decimal]]:
    pool = (spec.driver, spec.pool.name)
    for device in spec.devices:
        for counter, amount in _draw(pool, device).items():
            yield DeviceId(*pool, device.name), counter, amount


def _draw(pool: tuple[str, str], device: dra.Device) -> dict[CounterId, Decimal]:
    return {
        (*pool, each.counter_set, counter): quantity.parse(amount.value)
        for each in device.consumes_counters
        for counter, amount in each.counters.items()
    }


def _select(
    devices: list[UsableDevice], expressions: tuple[str, ...], tolerations: list[dra.DeviceToleration]
) -> list[UsableDevice] | SelectorFault:
    chosen = []
    for device in devices:
        verdict = device.selected(expressions)
        if isinstance(verdict, SelectorFault):
            return verdict
        if verdict and untolerated(device.spec.taints, tolerations) is None:
            chosen.append(device)
    return chosen
