"""Default priority class and preemptibility for each kind, from a ConfigMap."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

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


class InvalidEntry(ValueError):
    """An entry cannot be meant; the message says what is wrong and what to write."""


_Types: TypeAlias = list[object] | None
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


def parse(types: str, *, of: str) -> TypeDefaults:
    """Read the text of key ``types`` of an object; what cannot be meant is told of ``of``.

    Null is as good as nothing, keys may be in any case, and of two entries for a kind the last counts. One
    with a key that is not known, or a value that cannot be used, is left out: whoever wrote it meant
    something else than what the rest of it says. The others count.

    Raises:
        ValueError: it is not a JSON list.
    """
    entries: dict[str, TypeDefault] = {}
    problems: list[str] = []
    for number, told in enumerate(msgspec.json.decode(types, type=_Types) or ()):
        place = f"{of}: data.types[{number}]"
        try:
            entry = _entry(told)
        except InvalidEntry as error:
            problems.append(f"{place} is left out: {error}")
            continue
        kind = f"{entry.type_name}.{entry.group}" if entry.group else entry.type_name
        if kind in entries:
            problems.append(f"{place} counts instead of an earlier entry for {kind}; keep one of them")
        entries[kind] = entry
    return TypeDefaults(entries, tuple(problems))


def _entry(told: object) -> TypeDefault:
    """One entry.

    Raises:
        InvalidEntry: it cannot be meant.
    """
    if not isinstance(told, dict | None):
        raise InvalidEntry(f"it is {told!r}; it must be a mapping")
    said: dict[str, str] = {}
    for key, value in (told or {}).items():
        if (known := _KEYS.get(key.lower())) is None:
            raise InvalidEntry(spelling.unknown("key", key, _KEYS.values()))
        if not isinstance(value, str | None):
            raise InvalidEntry(f"{known} is {value!r}; it must be a text")
        if value is not None:
            said[known] = value
    entry = msgspec.convert(said, TypeDefault)
    if not entry.type_name:
        raise InvalidEntry("it names no kind; set typeName")
    if entry.preemptibility and entry.preemptibility.lower() not in PREEMPTIBILITIES:
        raise InvalidEntry(
            f"preemptibility is {entry.preemptibility!r}; it must be {' or '.join(PREEMPTIBILITIES)}"
        )
    return entry
