"""Default priority class and preemptibility for each kind, from a ConfigMap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from kai_pod_grouper.objects.documents import Document


class TypeDefault(msgspec.Struct, rename="camel", frozen=True):
    """One entry of the ConfigMap's key ``types``, a JSON list. ``group`` empty: a kind of any group."""

    type_name: str = ""
    group: str = ""
    priority_name: str = ""
    preemptibility: str = ""


_NOTHING = TypeDefault()


@dataclass(frozen=True, slots=True)
class TypeDefaults:
    """Entries by ``Kind.group`` and by bare ``Kind``."""

    entries: dict[str, TypeDefault] = field(default_factory=dict)

    def of(self, owner: Document) -> TypeDefault:
        """The entry for the owner's kind in its group, else for the kind in any group, else an empty one."""
        exact = self.entries.get(f"{owner.kind}.{owner.group}")
        return exact or self.entries.get(owner.kind, _NOTHING)


def parse(types: str) -> TypeDefaults:
    """Read the text of key ``types``.

    Raises:
        ValueError: it is not a JSON list of ``{typeName, group, priorityName, preemptibility}``.
    """
    entries: Iterable[TypeDefault] = msgspec.json.decode(types, type=list[TypeDefault])
    return TypeDefaults({f"{e.type_name}.{e.group}" if e.group else e.type_name: e for e in entries})
