"""Rules of pods of our scheduler: what they may ask of a GPU."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kai.model import limits, names, sharing
from kai.model.faults import OutOfBounds
from kai.model.limits import Limit
from kai.model.objects import Container, Json, Pod
from kai.snapshot import pod_bounds
from kai.validation.verdict import Verdict

#: As long as whoever takes pods in reads one: without an end, a long text that is none would be tried in as
#: many ways as the square of its length, and all other reviews would wait.
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,32}\.?[0-9]{0,32}|\.[0-9]{1,32})(?:[eE][+-]?[0-9]{1,3})?")
_UNSIGNED = re.compile(r"[0-9]{1,20}")
_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRules:
    """What this installation allows."""

    gpu_sharing: bool = False
    #: Whether containers without a GPU are kept from naming devices by themselves.
    block_visible_devices: bool = False


def check(pod: Pod, rules: PodRules, *, before: Pod | None = None) -> Verdict:
    """Refuses a pod whose request for a GPU makes no sense, with the first reason that is found.

    The same pods are refused when they are updated, since the rest of the system relies on it. What was wrong
    ``before`` is no reason: rules change while pods run, and whose finalizers cannot be taken off never ends.
    """
    errors = list(_errors(pod, rules))
    if errors and before is not None:
        known = set(_errors(before, rules))
        errors = [each for each in errors if each not in known]
    return Verdict((_located(pod, errors[0]),)) if errors else Verdict()


def check_new(pod: Pod, rules: PodRules) -> Verdict:
    """The same for a pod that is created, which the scheduler must also be able to take in."""
    verdict = check(pod, rules)
    if verdict.allowed:
        try:
            pod_bounds.check(pod)
        except OutOfBounds as error:
            return Verdict((_located(pod, str(error)),))
    return verdict


def check_added(pod: Pod, added: Sequence[Container], rules: PodRules) -> Verdict:
    """Refuses ephemeral containers that a pod may not have."""
    error = next(_naming_devices(added), None) if rules.block_visible_devices else None
    return Verdict() if error is None else Verdict((_located(pod, error),))


def _located(pod: Pod, finding: str) -> str:
    meta = pod.metadata
    return f"pod {meta.namespace}/{meta.name or meta.generate_name + '*'}: {finding}"


# --- errors ------------------------------------------------------------------------------------
def _errors(pod: Pod, rules: PodRules) -> Iterator[str]:
    fraction, memory = pod.annotations.get(names.GPU_FRACTION), pod.annotations.get(names.GPU_MEMORY)
    devices = pod.annotations.get(names.GPU_FRACTION_NUM_DEVICES)
    shares = sharing.asks_for_fraction(pod)
    whole = next((c.name for c in _all_containers(pod) if names.NVIDIA_GPU in _limits(c)), None)

    if shares and not rules.gpu_sharing:
        yield (
            "it asks for a part of a GPU by annotation but GPU sharing is disabled; "
            "install with global.gpuSharing=true or ask for whole GPUs"
        )
    if pod.annotations.get(names.MPS) == "true" and not shares:
        yield (
            f'annotation {names.MPS} is "true" without a part of a GPU; '
            f"add {names.GPU_FRACTION} or {names.GPU_MEMORY}, or remove it"
        )
    if fraction is not None and whole is not None:
        yield _whole_and_part(names.GPU_FRACTION, whole)
    if memory is not None and fraction is not None:
        yield f"annotations {names.GPU_MEMORY} and {names.GPU_FRACTION} exclude each other; keep one"
    if memory is not None and whole is not None:
        yield _whole_and_part(names.GPU_MEMORY, whole)
    if devices is not None and not shares:
        yield (
            f"annotation {names.GPU_FRACTION_NUM_DEVICES} says on how many devices but not how much of each; "
            f"add {names.GPU_FRACTION} or {names.GPU_MEMORY}"
        )
    if memory is not None and not _is_number(memory, limits.GPU_MEMORY):
        most = limits.GPU_MEMORY.most
        yield (
            f'annotation {names.GPU_MEMORY} is "{_shown(memory)}"; '
            f"write a positive number of MiB, at most {most}, e.g. 4096"
        )
    if fraction is not None and not _is_proper_fraction(fraction):
        yield (
            f'annotation {names.GPU_FRACTION} is "{_shown(fraction)}"; '
            f"write a decimal above 0 and below 1, e.g. 0.5 (whole GPUs are limits of {names.NVIDIA_GPU})"
        )
    if devices is not None and not _is_number(devices, limits.SHARED_DEVICES):
        most = limits.SHARED_DEVICES.most
        yield (
            f'annotation {names.GPU_FRACTION_NUM_DEVICES} is "{_shown(devices)}"; '
            f"write a positive number, at most {most}, e.g. 2"
        )
    if shares:
        try:
            sharing.fraction_container(pod)
        except sharing.NoSuchContainer as error:
            yield str(error)
            return  # which container is to see devices is not known
    if rules.block_visible_devices:
        yield from _visible_devices(pod, shares=shares)


def _whole_and_part(annotation: str, container: str) -> str:
    return (
        f'annotation {annotation} excludes limits of {names.NVIDIA_GPU}, which container "{container}" has; '
        "a pod has either whole GPUs or a part of one"
    )


def _is_number(text: str, limit: Limit) -> bool:
    """Whether it is a number without a sign and within its bounds, however many digits somebody sends."""
    return _UNSIGNED.fullmatch(text) is not None and limit.within(int(text))


def _is_proper_fraction(text: str) -> bool:
    return _DECIMAL.fullmatch(text) is not None and 0 < float(text) < 1


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _visible_devices(pod: Pod, *, shares: bool) -> Iterator[str]:
    spared = _container_at(pod, sharing.fraction_container(pod)) if shares and pod.spec.containers else None
    yield from _naming_devices(one for one in _all_containers(pod) if one is not spared)


def _naming_devices(containers: Iterable[Container]) -> Iterator[str]:
    for container in containers:
        for variable in container.env or []:
            if variable.get("name") == names.NVIDIA_VISIBLE_DEVICES and not _harmless(variable):
                yield (
                    f'container "{container.name}" sets {names.NVIDIA_VISIBLE_DEVICES}, '
                    'which this cluster does not allow; remove it or set it to "void" or "none"'
                )


def _harmless(variable: Json) -> bool:
    return not variable.get("valueFrom") and variable.get("value", "") in ("", "void", "none")


def _all_containers(pod: Pod) -> list[Container]:
    return [*(pod.spec.init_containers or []), *pod.spec.containers]


def _container_at(pod: Pod, position: sharing.ContainerPosition) -> Container:
    containers = (pod.spec.init_containers or []) if position.init else pod.spec.containers
    return containers[position.index]


def _limits(container: Container) -> dict[str, str]:
    return (container.resources and container.resources.limits) or {}


#: A pod with none of these annotations is in order, unless devices are blocked or it is beyond its bounds.
ANNOTATIONS: tuple[str, ...] = (
    names.GPU_FRACTION,
    names.GPU_MEMORY,
    names.GPU_FRACTION_NUM_DEVICES,
    names.MPS,
)
