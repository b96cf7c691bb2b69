"""Which pod group is meant by what people call a workload."""

from __future__ import annotations

from kai.model import spelling
from kai.model.ids import PodGroupKey
from kai.model.objects import PodGroup
from kai.simulate.changes import ChangeRefused
from kai.snapshot.state import ClusterState


def called(group: PodGroup) -> str:
    """``namespace/job/name`` of what made a group; ``namespace/podgroup/name`` where nothing did."""
    meta = group.metadata
    if not meta.owner_references:
        return f"{meta.namespace}/podgroup/{meta.name}"
    owner = meta.owner_references[0]
    return f"{meta.namespace}/{owner.kind.lower()}/{owner.name}"


def workload_name(state: ClusterState, key: PodGroupKey) -> str:
    """The same for the group ``namespace/name`` of a state, known or not."""
    group = state.group_objects.get(key)
    namespace, _, name = key.partition("/")
    return f"{namespace}/podgroup/{name}" if group is None else called(group)


def group_named(state: ClusterState, text: str, *, namespace: str) -> PodGroupKey:
    """The pod group of ``name``, ``kind/name`` or ``namespace/kind/name``; the kind may be ``podgroup``.

    A bare name is that of the workload, or else of the pod group.

    Raises:
        ChangeRefused: there is none, or there are several.
    """
    parts = text.split("/")
    if len(parts) > 3:
        raise ChangeRefused(f"{text!r} is no workload; write NAME, KIND/NAME or NAMESPACE/KIND/NAME")
    name, kind = parts[-1], parts[-2].lower() if len(parts) > 1 else ""
    where = parts[0] if len(parts) == 3 else namespace
    known = {key: workload_name(state, key) for key in state.group_objects if key.startswith(f"{where}/")}
    if kind in ("", "podgroup", "pg") and (key := PodGroupKey(f"{where}/{name}")) in known:
        return key
    found = [
        key
        for key, workload in known.items()
        if workload.rpartition("/")[2] == name and kind in ("", workload.split("/")[1])
    ]
    if len(found) > 1:
        several = ", ".join(sorted(f"podgroup/{key.partition('/')[2]}" for key in found))
        raise ChangeRefused(f"{text!r} is ambiguous in namespace {where}: {several}; name one of them")
    if not found:
        names = [workload.partition("/")[2] for workload in known.values()]
        near = spelling.nearest(text, [*names, *(each.rpartition("/")[2] for each in names)])
        hint = f"did you mean {near!r}?" if near else f"see `kai get podgroups -n {where}`"
        raise ChangeRefused(f"there is no workload {text!r} in namespace {where}; {hint}")
    return found[0]
