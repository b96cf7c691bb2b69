"""Which shared devices a pod was given: labels, in one form for one device and in another for several.

The binder writes one of the two. Where both are there each of the devices counts: none of them may be taken
for free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kai.model import limits
from kai.model.ids import GpuGroup
from kai.model.names import GPU_GROUP_LABEL, MULTI_GPU_GROUP_PREFIX


def gpu_groups(labels: Mapping[str, str] | None) -> tuple[GpuGroup, ...]:
    """The groups, each once and in order; no more than a pod may have of them."""
    if not labels:
        return ()
    one = labels.get(GPU_GROUP_LABEL)
    if MULTI_GPU_GROUP_PREFIX not in "".join(labels):  # nearly all pods there are
        return (GpuGroup(one),) if one else ()
    found = [
        text or key.removeprefix(MULTI_GPU_GROUP_PREFIX)
        for key, text in labels.items()
        if key.startswith(MULTI_GPU_GROUP_PREFIX)
    ]
    groups = sorted({*found, one} if one else set(found))[: limits.GPU_GROUPS.most]
    return tuple(map(GpuGroup, groups))


def is_gpu_group_label(key: str) -> bool:
    """Whether a label names a shared device."""
    return key == GPU_GROUP_LABEL or key.startswith(MULTI_GPU_GROUP_PREFIX)


def gpu_group_labels(groups: Sequence[str]) -> dict[str, str]:
    """The labels of a pod that was given these groups."""
    if len(groups) == 1:
        return {GPU_GROUP_LABEL: groups[0]}
    return {f"{MULTI_GPU_GROUP_PREFIX}{group}": group for group in groups}
