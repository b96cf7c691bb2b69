"""What accounts may ask of the API server: read from roles, and as the table of ``docs/security.md``.

::

    role, or rules that a server tells  ->  rights, one for each verb  ->  rows of the table  ->  rights again
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
EVERYWHERE = "everywhere"
Json = dict[str, Any]
_ROW = re.compile(
    r"\| `(?P<account>[^`]+)` \| (?P<where>[^|]+) \| (?P<verbs>[a-z, ]+) \| (?P<nouns>[^|]+) \|"
)


@dataclass(frozen=True, order=True, slots=True)
class Right:
    """A verb on a resource (``pods/status``) of an API group; with ``name`` on that object only."""

    verb: str
    group: str
    resource: str
    name: str = ""

    @property
    def noun(self) -> str:
        """``leases.coordination.k8s.io kai-scheduler``."""
        noun = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{noun} {self.name}" if self.name else noun


Held = dict[tuple[str, str], set[Right]]
"""Rights by account and the namespace in which they hold, or :data:`EVERYWHERE`."""


def of_rules(rules: Iterable[Json]) -> set[Right]:
    """What rules of roles allow; those about paths that are no resources are left out."""
    return {
        Right(verb, group, resource, name)
        for rule in rules
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or ("",)
    }


def of_manifests(manifests: list[Json]) -> Held:
    """What the roles and bindings among these objects give to service accounts."""
    rules = {(m["kind"], m["metadata"]["name"]): m["rules"] for m in manifests if "rules" in m}
    held: Held = defaultdict(set)
    for manifest in manifests:
        if manifest["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            role = manifest["roleRef"]["kind"], manifest["roleRef"]["name"]
            where = manifest["metadata"].get("namespace", EVERYWHERE)
            for subject in manifest["subjects"]:
                held[subject["name"], where] |= of_rules(rules[role])
    return dict(held)


def as_table(held: Held) -> list[str]:
    """Rows of Markdown: what is allowed with the same verbs stands together."""
    return [
        f"| `{account}` | {where} | {', '.join(verbs)} | {', '.join(sorted(nouns))} |"
        for account, where in sorted(held)
        for verbs, nouns in sorted(_by_verbs(held[account, where]).items())
    ]


def _by_verbs(rights: set[Right]) -> dict[tuple[str, ...], list[str]]:
    verbs = defaultdict(set)
    for right in rights:
        verbs[right.noun].add(right.verb)
    found = defaultdict(list)
    for noun, of_it in verbs.items():
        found[tuple(sorted(of_it))].append(noun)
    return found


def rows() -> list[str]:
    """The rows of the table as it is checked in."""
    return [line for line in PAGE.read_text().splitlines() if _ROW.fullmatch(line)]


def checked_in() -> Held:
    """The table as rights."""
    held: Held = defaultdict(set)
    for row in rows():
        found = _ROW.fullmatch(row)
        assert found is not None
        held[found["account"], found["where"]] |= set(_read(found["verbs"], found["nouns"]))
    return dict(held)


def _read(verbs: str, nouns: str) -> Iterator[Right]:
    for noun in nouns.split(", "):
        noun, _, name = noun.partition(" ")
        resource, _, group = noun.partition(".")
        for verb in verbs.split(", "):
            yield Right(verb, group, resource, name)
