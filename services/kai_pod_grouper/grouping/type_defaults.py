"""Default priority class and preemptibility for each kind, from a ConfigMap."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from kai.model import spelling
from kai.model.rules.priorities import PREEMPTIBILITIES
from kai_pod_grouper.objects.documents import Document


class TypeDefault(msgspec.Struct, rename="camel", frozen=True):
    """One entry of the ConfigMap's key ``types``, a JSON list. ``group`` empty: a kind of any group."""

    type_name: str = ""
    group: str = ""
    priority_name: str = ""
    preemptibility: str = ""


_NOTHING = TypeDefault()
_KEYS = tuple(field.encode_name for field in msgspec.structs.fields(TypeDefault))


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
    """Read the text of key ``types``; an entry that cannot be meant is left out, and told.

    Raises:
        ValueError: it is not a JSON list of ``{typeName, group, priorityName, preemptibility}``.
    """
    entries: dict[str, TypeDefault] = {}
    problems: list[str] = []
    for number, told in enumerate(msgspec.json.decode(types, type=list[dict[str, str]])):
        entry = msgspec.convert(told, TypeDefault)
        kind = f"{entry.type_name}.{entry.group}" if entry.group else entry.type_name
        if problem := _problem(told, entry) or (f"{kind} is there twice" if kind in entries else ""):
            problems.append(f"types[{number}] is left out: {problem}")
            continue
        if entry.preemptibility and entry.preemptibility.lower() not in PREEMPTIBILITIES:
            allowed = " or ".join(PREEMPTIBILITIES)
            problems.append(
                f"types[{number}].preemptibility is ignored: it is {entry.preemptibility!r}, not {allowed}"
            )
        entries[kind] = entry
    return TypeDefaults(entries, tuple(problems))


def _problem(told: dict[str, str], entry: TypeDefault) -> str:
    for key in told:
        if key not in _KEYS:
            return spelling.unknown("key", key, _KEYS)
    return "" if entry.type_name else "it names no kind; set typeName"
