"""Rules of pods of our scheduler: what they may ask of a GPU, and what of it is surely not meant."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from kai.model import duration, names, sharing
from kai.model.objects import Container, Json, Pod
from kai.validation.verdict import Verdict

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_UNSIGNED = re.compile(r"[0-9]+")
_LARGEST_UNSIGNED = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRules:
    """What this installation allows."""

    gpu_sharing: bool = False
    #: Whether containers without a GPU are kept from naming devices by themselves.
    block_visible_devices: bool = False


def check(pod: Pod, rules: PodRules, *, creating: bool = True) -> Verdict:
    """Refuses a pod whose request for a GPU makes no sense, with the first reason that is found.

    The same pods are refused when they are updated, since the rest of the system relies on it; warnings
    are for those who create a pod.
    """
    error = next(_errors(pod, rules), None)
    if error is not None:
        return Verdict((_located(pod, error),))
    return (
        Verdict.of(warnings=(_located(pod, warning) for warning in _warnings(pod))) if creating else Verdict()
    )


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
    if memory is not None and not _is_positive_integer(memory):
        yield f'annotation {names.GPU_MEMORY} is "{memory}"; write a positive number of MiB, e.g. 4096'
    if fraction is not None and not _is_proper_fraction(fraction):
        yield (
            f'annotation {names.GPU_FRACTION} is "{fraction}"; write a decimal above 0 and below 1, e.g. 0.5 '
            f"(whole GPUs are limits of {names.NVIDIA_GPU})"
        )
    if devices is not None and not _is_positive_integer(devices):
        yield f'annotation {names.GPU_FRACTION_NUM_DEVICES} is "{devices}"; write a positive number, e.g. 2'
    if shares:
        try:
            sharing.fraction_container(pod)
        except sharing.NoSuchContainer as error:
            yield str(error)
    if rules.block_visible_devices:
        yield from _visible_devices(pod, shares=shares)


def _whole_and_part(annotation: str, container: str) -> str:
    return (
        f'annotation {annotation} excludes limits of {names.NVIDIA_GPU}, which container "{container}" has; '
        "a pod has either whole GPUs or a part of one"
    )


def _is_positive_integer(text: str) -> bool:
    return _UNSIGNED.fullmatch(text) is not None and 0 < int(text) <= _LARGEST_UNSIGNED


def _is_proper_fraction(text: str) -> bool:
    return _DECIMAL.fullmatch(text) is not None and 0 < float(text) < 1


def _visible_devices(pod: Pod, *, shares: bool) -> Iterator[str]:
    spared = _container_at(pod, sharing.fraction_container(pod)) if shares and pod.spec.containers else None
    for container in _all_containers(pod):
        if container is spared:
            continue
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


# --- warnings ----------------------------------------------------------------------------------
def _warnings(pod: Pod) -> Iterator[str]:
    yield from _rounded_fraction(pod)
    yield from _ignored_without_fraction(pod)
    yield from _other_devices(pod)
    for key, is_meant, remedy in _CHECKED_ANNOTATIONS:
        yield from _ignored("annotation", key, pod.annotations.get(key), is_meant, remedy)
    for key, is_meant, remedy in _CHECKED_LABELS:
        yield from _ignored("label", key, pod.labels.get(key), is_meant, remedy)


def _rounded_fraction(pod: Pod) -> Iterator[str]:
    text = pod.annotations.get(names.GPU_FRACTION)
    if text is None:
        return
    exact = Decimal(text)
    counted = round(exact, 2)
    if counted != exact:
        yield f"annotation {names.GPU_FRACTION} {text} counts as {counted}: parts of a GPU have two decimals"


def _ignored_without_fraction(pod: Pod) -> Iterator[str]:
    if names.GPU_FRACTION_CONTAINER in pod.annotations and not sharing.asks_for_fraction(pod):
        yield (
            f"annotation {names.GPU_FRACTION_CONTAINER} has no effect "
            f"without {names.GPU_FRACTION} or {names.GPU_MEMORY}"
        )


def _other_devices(pod: Pod) -> Iterator[str]:
    if not sharing.asks_for_fraction(pod):
        return
    for container in _all_containers(pod):
        for resource in _limits(container):
            if resource.startswith(names.MIG_PREFIX) or resource == names.AMD_GPU:
                yield f'container "{container.name}" also asks for {resource}; both are charged'


def _ignored(
    what: str, key: str, text: str | None, is_meant: Callable[[str], bool], remedy: str
) -> Iterator[str]:
    if text is not None and not is_meant(text):
        yield f'{what} {key} "{text}" is ignored; {remedy}'


def _is_duration(text: str) -> bool:
    try:
        duration.parse(text, days=False)
    except duration.InvalidDuration:
        return False
    return True


def _is_integer(text: str) -> bool:
    return re.fullmatch(r"[+-]?[0-9]+", text) is not None


_Checked = tuple[tuple[str, Callable[[str], bool], str], ...]
_CHECKED_ANNOTATIONS: _Checked = (
    (names.MPS, lambda text: text in ("true", "false"), 'write "true" or "false"'),
    (
        names.PREEMPTION_DELAY,
        lambda text: _is_duration(text) and not text.startswith("-"),
        "write a duration with a unit, for example 5m",
    ),
    (
        names.STALENESS_GRACE_PERIOD,
        _is_duration,
        "write a duration with a unit, for example 60s, or -1s for never",
    ),
    (names.SKIP_POD_GROUPER, lambda text: text in ("true", "false"), 'write exactly "true"'),
    (
        names.SEGMENT_SIZE,
        lambda text: _UNSIGNED.fullmatch(text) is not None and int(text) > 1,
        "write a whole number above 1",
    ),
    (names.BATCH_MIN_MEMBER, lambda _: False, "set it on the Job itself instead of its pods"),
)
_CHECKED_LABELS: _Checked = (
    (names.TASK_PRIORITY_LABEL, _is_integer, "write a whole number"),
    (
        names.PREEMPTIBILITY_LABEL,
        lambda text: text in ("", "preemptible", "non-preemptible"),
        'write "preemptible" or "non-preemptible"',
    ),
)

#: All that the rules go by, unless devices are blocked: a pod with none of these is always in order.
ANNOTATIONS: tuple[str, ...] = (
    names.GPU_FRACTION,
    names.GPU_MEMORY,
    names.GPU_FRACTION_NUM_DEVICES,
    names.GPU_FRACTION_CONTAINER,
    *(key for key, _, _ in _CHECKED_ANNOTATIONS),
)
LABELS: tuple[str, ...] = tuple(key for key, _, _ in _CHECKED_LABELS)
