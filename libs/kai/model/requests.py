"""What a pod asks its node for, as kubelets count it.

One rule for everybody who charges pods. Amounts come in whatever form the caller counts in: ``amounts``
turns a resource list into numbers by key, a new dictionary each time, and the sums are made of those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final, Protocol, TypeVar

from kai.model.objects import Condition, ContainerStatus, ResourceList, ResourceRequirements

K = TypeVar("K", int, str)
N = TypeVar("N", int, Decimal)

_NOTHING: Final[ResourceList] = {}
#: Beside huge pages, what requests of a pod as a whole may name.
_POD_LEVEL: Final = ("cpu", "memory")


class _Container(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def resources(self) -> ResourceRequirements | None: ...
    @property
    def restart_policy(self) -> str | None: ...


class _Spec(Protocol):
    @property
    def containers(self) -> Sequence[_Container]: ...
    @property
    def init_containers(self) -> Sequence[_Container] | None: ...
    @property
    def overhead(self) -> ResourceList | None: ...
    @property
    def resources(self) -> ResourceRequirements | None: ...


class _Status(Protocol):
    @property
    def conditions(self) -> Sequence[Condition] | None: ...
    @property
    def container_statuses(self) -> Sequence[ContainerStatus] | None: ...
    @property
    def init_container_statuses(self) -> Sequence[ContainerStatus] | None: ...
    @property
    def resources(self) -> ResourceRequirements | None: ...
    @property
    def allocated_resources(self) -> ResourceList | None: ...


class AnyPod(Protocol):
    """A pod, as far as its requests go."""

    @property
    def spec(self) -> _Spec:
        """What was asked for."""
        ...

    @property
    def status(self) -> _Status:
        """What a kubelet says of it."""
        ...


def pod_requests(pod: AnyPod, amounts: Callable[[ResourceList], dict[K, N]]) -> dict[K, N]:
    """Containers and sidecars together, or the peak while its init containers run; and its overhead.

    What is asked for the pod as a whole counts instead of its containers. A container that is being resized
    counts with the most of what it is to have, was promised and has; where the node can never give what it
    is to have, that does not count.
    """
    spec, status = pod.spec, pod.status
    granted = _granted(status)
    never = bool(granted) and _never(status)

    def of(container: _Container) -> dict[K, N]:
        asked = amounts(requests(container.resources))
        has = granted.get(container.name)
        return asked if has is None else _most_of(asked, amounts(has[0]), amounts(has[1]), never=never)

    total: dict[K, N] = {}
    for container in spec.containers:
        _add(total, of(container))
    sidecars: dict[K, N] = {}
    peak: dict[K, N] = {}
    for container in spec.init_containers or ():
        if is_sidecar(container):
            _add(sidecars, of(container))
        else:
            started = amounts(requests(container.resources))  # it cannot be resized
            _add(started, sidecars)
            _raise(peak, started)
    _add(total, sidecars)
    _raise(total, peak)
    if spec.resources is not None:
        total |= _of_the_pod(spec.resources, status, amounts)
    if spec.overhead:
        _add(total, amounts(spec.overhead))
    return total


def is_sidecar(init: _Container) -> bool:
    """Whether an init container runs beside those that come after it, for as long as the pod does."""
    return init.restart_policy == "Always"


def requests(resources: ResourceRequirements | None) -> ResourceList:
    """Requests; a limit counts where no request is given."""
    if resources is None:
        return _NOTHING
    if not resources.limits:
        return resources.requests or _NOTHING
    return {**resources.limits, **(resources.requests or {})}


def resized(pod: AnyPod) -> tuple[object, ...] | None:
    """What of a pod's status its requests depend on; None if they are as specified."""
    status, whole = pod.status, pod.spec.resources is not None
    if not whole and not status.container_statuses and not status.init_container_statuses:
        return None  # no kubelet told anything yet
    granted = _granted(status)
    if not granted and not whole:
        return None
    specs = [*pod.spec.containers, *(pod.spec.init_containers or ())]
    differing = [
        (each.name, granted[each.name])
        for each in specs
        if each.name in granted and any(has != requests(each.resources) for has in granted[each.name] if has)
    ]
    of_all = (status.resources, status.allocated_resources) if whole else (None, None)
    if not differing and of_all == (None, None):
        return None
    return (*differing, *of_all, _never(status))


def _granted(status: _Status) -> dict[str, tuple[ResourceList, ResourceList]]:
    """By container: what was promised to it, and what it has; only of those that a kubelet tells about."""
    if not status.container_statuses and not status.init_container_statuses:
        return {}
    statuses = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    return {
        each.name: (each.allocated_resources or _NOTHING, each.resources.requests or _NOTHING)
        for each in statuses
        if each.resources is not None
    }


def _never(status: _Status) -> bool:
    """Whether the node can never give what a resize asks for."""
    return any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible"
        for condition in status.conditions or ()
    )


def _of_the_pod(
    asked: ResourceRequirements, status: _Status, amounts: Callable[[ResourceList], dict[K, N]]
) -> dict[K, N]:
    has = status.resources.requests or _NOTHING if status.resources is not None else _NOTHING
    parts = (requests(asked), status.allocated_resources or _NOTHING, has)
    wanted, promised, given = (amounts(_pod_level(each)) for each in parts)
    return _most_of(wanted, promised, given, never=_never(status))


def _pod_level(resources: ResourceList) -> ResourceList:
    return {
        name: text for name, text in resources.items() if name in _POD_LEVEL or name.startswith("hugepages-")
    }


def _most_of(asked: dict[K, N], promised: dict[K, N], has: dict[K, N], *, never: bool) -> dict[K, N]:
    held = dict(promised)
    _raise(held, has)
    if never and held:
        return held | {key: amount for key, amount in asked.items() if key not in held}
    _raise(held, asked)
    return held


def _add(total: dict[K, N], more: Mapping[K, N]) -> None:
    for key, amount in more.items():
        total[key] = total[key] + amount if key in total else amount


def _raise(total: dict[K, N], other: Mapping[K, N]) -> None:
    for key, amount in other.items():
        if key not in total or amount > total[key]:
            total[key] = amount
