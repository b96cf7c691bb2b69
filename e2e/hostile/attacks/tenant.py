"""The hostile tenant: what an attack is, and how he draws one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from e2e.hostile import site
from e2e.manifests import a_group, a_pod, members

Json = dict[str, Any]
_BEYOND: Final = (str(2**31), str(2**53), str(2**63 - 1), str(2**64 - 1), "9" * 5000, "1e308", "-1", "0")
_ODD: Final = (
    "",
    "NaN",
    "inf",
    "-inf",
    "0x10",
    "1_000",
    "½",
    "²",
    "\u202e5",
    "٣",
    "1" + "0" * 300,
    "null",
    "{}",
    "0.0000001",
)


@dataclass(frozen=True, slots=True)
class Patched:
    """What is changed so many seconds after an object was put."""

    after: float
    manifest: Json
    patch: Json


@dataclass(frozen=True, slots=True)
class Attack:
    """Objects to put, in order, and what is done to them later. ``lasts``: seconds, for what goes at once."""

    manifests: tuple[Json, ...]
    later: tuple[Patched, ...] = ()
    lasts: float | None = None


@dataclass(slots=True)
class Tenant:
    """Draws attacks: how they are called, where they are, and what of their kind there is."""

    rng: random.Random
    namespaces: tuple[str, ...]
    count: int = 0

    def draw(self, forms: Sequence[Form]) -> tuple[str, Attack]:
        """One attack of one of these forms, and what it is in words."""
        self.count += 1
        form = self.rng.choice(forms)
        return form.__name__.replace("_", " "), form(
            self, f"h-{self.count}", self.rng.choice(self.namespaces)
        )

    def pod(self, name: str, namespace: str, **more: Any) -> Json:
        """A pod of his queue."""
        return a_pod(name, namespace, site.TENANT_QUEUE, **more)

    def group(self, name: str, namespace: str, **spec: Any) -> Json:
        """A pod group of his queue."""
        return a_group(name, namespace, site.TENANT_QUEUE, **spec)

    def grouped(self, name: str, namespace: str, group: Json, count: int = 1, **more: Any) -> Attack:
        """A pod group with pods in it."""
        return Attack((group, *members(name, namespace, site.TENANT_QUEUE, "", count, **more)))

    def absurd(self) -> str:
        """A text where a number should be, or one that is too large."""
        return self.rng.choice((*_BEYOND, *_ODD))


#: Makes an attack of its kind, of objects so called in a namespace.
Form: TypeAlias = Callable[[Tenant, str, str], Attack]
