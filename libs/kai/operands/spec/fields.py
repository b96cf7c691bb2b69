"""Fields of our custom resources: each is declared once, with its values, its default and its meaning.

What reads an object and what writes the schema of its kind go by the same declarations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Generic, TypeVar

from kai.model.objects import Json
from kai.operands.spec.problems import Place

T = TypeVar("T")
F = TypeVar("F", bound="Fields")
_DECLARED: Final = "declared"
_MAPPING: Final = "a mapping of fields"


class FieldKind(Generic[T]):
    """Which values a field takes."""

    def read(self, given: Any, *, base: T, at: Place) -> T:
        """What is given, over what holds without it. What cannot be used is told to the place."""
        raise NotImplementedError

    @property
    def schema(self) -> Json:
        """The same for an API server, in OpenAPI."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Scalar(FieldKind[T]):
    """A single value; ``convert`` raises a ValueError or TypeError for one that is not ``allowed``."""

    allowed: str
    convert: Callable[[Any], T]
    openapi: Json

    def read(self, given: Any, *, base: T, at: Place) -> T:
        """The value, or the one without it if it cannot be used."""
        try:
            return self.convert(given)
        except (ValueError, TypeError):
            at.refuse(given, self.allowed)
            return base

    @property
    def schema(self) -> Json:
        """As it was declared."""
        return self.openapi


@dataclass(frozen=True, slots=True)
class Refused(FieldKind[None]):
    """A field of the original that has no meaning here."""

    remedy: str
    openapi: Json

    def read(self, given: Any, *, base: None, at: Place) -> None:
        """Never to be had."""
        at.complain(f"has no meaning here: {self.remedy}")

    @property
    def schema(self) -> Json:
        """As in the original, so that it is the operator that answers."""
        return self.openapi


@dataclass(frozen=True, slots=True)
class ListOf(FieldKind[tuple[Any, ...]]):
    """Any number of one kind."""

    kind: FieldKind[Any]

    def read(self, given: Any, *, base: tuple[Any, ...], at: Place) -> tuple[Any, ...]:
        """The list in place of the one without it; elements that cannot be used are left out."""
        if not isinstance(given, Sequence) or isinstance(given, str):
            at.refuse(given, "a list")
            return base
        found = (self.kind.read(each, base=None, at=at.below(n)) for n, each in enumerate(given))
        return tuple(each for each in found if each is not None)

    @property
    def schema(self) -> Json:
        """Of the list."""
        return {"type": "array", "items": self.kind.schema}


@dataclass(frozen=True, slots=True)
class MapOf(FieldKind[Mapping[str, Any]]):
    """One kind by names that the user chooses, or that ``known`` has."""

    kind: FieldKind[Any]
    known: tuple[str, ...] = ()
    what: str = "name"

    def read(self, given: Any, *, base: Mapping[str, Any], at: Place) -> Mapping[str, Any]:
        """The mapping in place of the one without it; values that cannot be used are left out."""
        if not isinstance(given, Mapping):
            at.refuse(given, "a mapping")
            return base
        found: dict[str, Any] = {}
        for key, each in given.items():
            if self.known and key not in self.known:
                at.unknown(key, self.known, what=self.what)
            elif each is not None:
                found[str(key)] = self.kind.read(each, base=None, at=at.below(str(key)))
        # Whoever looks at several of them together could do nothing with what has no value.
        return {key: each for key, each in found.items() if each is not None}

    @property
    def schema(self) -> Json:
        """Of the mapping; whose names are known is told by the operator, with what may be meant."""
        return {"type": "object", "additionalProperties": self.kind.schema}


@dataclass(frozen=True, slots=True)
class Part(FieldKind[F]):
    """Fields below a field."""

    type: type[F]

    def read(self, given: Any, *, base: F | None, at: Place) -> F:
        """Those that are given, over those of the base."""
        return read_fields(given, base=base if base is not None else self.type(), at=at)

    @property
    def schema(self) -> Json:
        """Of all fields."""
        return schema_of(self.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A field as it is spelled in manifests."""

    spelling: str
    kind: FieldKind[Any]
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """What a mapping of a manifest says; the defaults where it says nothing."""

    @classmethod
    def declared(cls) -> dict[str, Declared]:
        """The fields by attribute."""
        return {each.name: _spelled(each.name, each.metadata[_DECLARED]) for each in fields(cls)}

    def check(self, at: Place) -> None:
        """Say what is wrong with fields that are in order one by one; a subclass overrides it."""


def value(kind: FieldKind[T], default: Any = None, *, meaning: str, spelling: str = "") -> Any:
    """A field of :class:`Fields`; ``spelling`` is the attribute in camel case unless given."""
    declared = Declared(spelling=spelling, kind=kind, meaning=meaning)
    if isinstance(default, dict):
        return field(default_factory=lambda: default, metadata={_DECLARED: declared})
    return field(default=default, metadata={_DECLARED: declared})


def part(kind: type[F], *, meaning: str, spelling: str = "", default: F | None = None) -> Any:
    """A field that has fields."""
    given = kind() if default is None else default
    return value(Part(kind), given, meaning=meaning, spelling=spelling)


def refused(remedy: str, *, openapi: Json, spelling: str = "") -> Any:
    """A field of the original that has no meaning here; ``remedy`` says what to do instead."""
    return value(Refused(remedy, openapi), None, meaning=f"Refused: {remedy}.", spelling=spelling)


def read_fields(given: Any, *, base: F, at: Place) -> F:
    """The fields that a mapping gives, over those of ``base``; null is as good as nothing."""
    if not isinstance(given, Mapping):
        at.refuse(given, _MAPPING)
        return base
    by_spelling = {declared.spelling: (name, declared) for name, declared in base.declared().items()}
    changes: dict[str, Any] = {}
    for key, each in given.items():
        if key not in by_spelling:
            at.unknown(key, by_spelling)
        elif each is not None:
            name, declared = by_spelling[key]
            changes[name] = declared.kind.read(each, base=getattr(base, name), at=at.below(key))
    read = replace(base, **changes)
    read.check(at)
    return read


def schema_of(kind: type[Fields]) -> Json:
    """The schema of a mapping with these fields."""
    properties = {
        each.spelling: {"description": each.meaning, **each.kind.schema} for each in kind.declared().values()
    }
    return {"type": "object", "properties": properties}


def _spelled(name: str, declared: Declared) -> Declared:
    if declared.spelling:
        return declared
    return replace(declared, spelling=re.sub(r"_(\w)", lambda found: found[1].upper(), name))
