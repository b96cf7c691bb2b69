"""Default priority class and preemptibility for each kind, from a ConfigMap."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from kai.grouping.objects.documents import Document
from kai.model import spelling
from kai.model.rules.priorities import PREEMPTIBILITIES


class TypeDefault(msgspec.Struct, rename="camel", frozen=True):
    """One entry of the ConfigMap's key ``types``, a JSON list. ``group`` empty: a kind of any group."""

    type_name: str = ""
    group: str = ""
    priority_name: str = ""
    preemptibility: str = ""


_Types: TypeAlias = list[dict[str, object] | None] | None
_NOTHING = TypeDefault()
#: Keys as they are documented, by how they are compared: in any case of letters.
_KEYS = {field.encode_name.lower(): field.encode_name for field in msgspec.structs.fields(TypeDefault)}


@dataclass(frozen=True, slots=True)
class TypeDefaults:
    """Entries by ``Kind.group`` and by bare ``Kind``, and what is wrong with others."""

    entries: dict[str, TypeDefault] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def of(self, owner: Document) -> TypeDefault:
        """The entry for the owner's kind in its group, else for the kind in any group, else an empty one."""
        exact = self.entries.get(f"{owner.kind}.{owner.group}")
        return exact or self.entries.get(owner.kind, _NOTHING)


def parse(types: str) -> TypeDefaults:
    """Read the text of key ``types`` as leniently as Go; what cannot be meant is told.

    Null is as good as nothing, keys may be in any case, and of two entries for a kind the last counts.

    Raises:
        ValueError: it is not a JSON list of ``{typeName, group, priorityName, preemptibility}``.
    """
    entries: dict[str, TypeDefault] = {}
    problems: list[str] = []
    for number, told in enumerate(msgspec.json.decode(types, type=_Types) or ()):
        said: dict[str, object] = {}
        for key, value in (told or {}).items():
            if (known := _KEYS.get(key.lower())) is None:
                problems.append(f"types[{number}]: {spelling.unknown('key', key, _KEYS.values())}")
            elif value is not None:
                said[known] = value
        entry = msgspec.convert(said, TypeDefault)
        kind = f"{entry.type_name}.{entry.group}" if entry.group else entry.type_name
        if not entry.type_name:
            problems.append(f"types[{number}] is left out: it names no kind; set typeName")
            continue
        if kind in entries:
            problems.append(
                f"types[{number}] counts instead of an earlier entry for {kind}; keep one of them"
            )
        if entry.preemptibility and entry.preemptibility.lower() not in PREEMPTIBILITIES:
            allowed = " or ".join(PREEMPTIBILITIES)
            problems.append(
                f"types[{number}].preemptibility is ignored: it is {entry.preemptibility!r}, not {allowed}"
            )
        entries[kind] = entry
    return TypeDefaults(entries, tuple(problems))
