"""What a pod was granted counts for as long as it is on its node, whatever is written on it later."""

from collections.abc import Iterator
from typing import Final

from kai.model import names
from kai.model.objects import Pod
from kai.model.rules.gpu_groups import is_gpu_group_label
from kai.validation.verdict import Verdict

#: What asks for a part of a GPU, and what the binder tells about it.
ANNOTATIONS: Final = (
    names.GPU_FRACTION,
    names.GPU_MEMORY,
    names.GPU_FRACTION_NUM_DEVICES,
    names.RECEIVED_RESOURCE_TYPE,
)
#: Characters of a value that a message repeats.
_SHOWN: Final = 64


def check_update(old: Pod, new: Pod) -> Verdict:
    """Refuses to change, on a pod that has a node, how much of which GPUs it holds."""
    if not old.spec.node_name:
        return Verdict()
    where = f"pod {old.key}"
    return Verdict.of(f"{where}: {change}" for change in _changes(old, new))


def _changes(old: Pod, new: Pod) -> Iterator[str]:
    for key in ANNOTATIONS:
        if old.annotations.get(key) != new.annotations.get(key):
            yield _refusal("annotation", key, old.annotations.get(key), old.spec.node_name)
    for key in sorted({*_groups(old), *_groups(new)}):
        if old.labels.get(key) != new.labels.get(key):
            yield _refusal("label", key, old.labels.get(key), old.spec.node_name)


def _groups(pod: Pod) -> Iterator[str]:
    """Labels that say which devices it shares."""
    return filter(is_gpu_group_label, pod.labels)


def _refusal(what: str, key: str, granted: str | None, node: str) -> str:
    held = f'is "{granted[:_SHOWN]}"' if granted is not None else "is not there"
    return (
        f"{what} {key} {held}, by which the pod was given its place on node {node}; "
        "leave it as it is, and make another pod to ask for something else"
    )
