"""Which pod group is meant by what people call a workload."""

from __future__ import annotations

from kai.model import kinds, spelling
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

    Kinds are called as kubectl does. A bare name is that of the workload, or of the pod group.

    Raises:
        ChangeRefused: there is none, or there are several.
    """
    parts = text.split("/")
    if len(parts) > 3:
        raise ChangeRefused(f"{text!r} is no workload; write NAME, KIND/NAME or NAMESPACE/KIND/NAME")
    name, kind = parts[-1], parts[-2].lower() if len(parts) > 1 else ""
    where = parts[0] if len(parts) == 3 else namespace
    there = {key: group for key, group in state.group_objects.items() if key.startswith(f"{where}/")}
    own = PodGroupKey(f"{where}/{name}")
    if kind in kinds.WORDS["PodGroup"] and own in there:
        return own
    found = [
        key
        for key, group in there.items()
        if _is_meant(group, kind, name) or (not kind and key == own)  # what is called like another's job
    ]
    if len(found) > 1:
        several = ", ".join(sorted(f"podgroup/{key.partition('/')[2]}" for key in found))
        raise ChangeRefused(f"{text!r} is ambiguous in namespace {where}: {several}; name one of them")
    if not found:
        names = [called(group).partition("/")[2] for group in there.values()]
        near = spelling.nearest(text, [*names, *(each.rpartition("/")[2] for each in names)])
        hint = f"did you mean {near!r}?" if near else f"see `kai get podgroups -n {where}`"
        raise ChangeRefused(f"there is no workload {text!r} in namespace {where}; {hint}")
    return found[0]


def _is_meant(group: PodGroup, kind: str, name: str) -> bool:
    """Whether ``kind/name`` is what made a group; an empty kind is any."""
    for owner in (group.metadata.owner_references or ())[:1]:
        is_of_kind = not kind or kinds.is_called(kind, kind=owner.kind, api_version=owner.api_version)
        return owner.name == name and is_of_kind
    return False
