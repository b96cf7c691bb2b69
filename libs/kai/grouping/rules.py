"""Which rule groups a pod: by the kind of its top owner."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from functools import cache

from kai.grouping import karta, workloads
from kai.grouping.draft import GroupDraft
from kai.grouping.objects.documents import Document
from kai.grouping.workload import ANY_VERSION, Kind, Rule, Workload


@cache
def known_kinds() -> dict[tuple[str, str], Kind]:
    """Every kind that a module of :mod:`kai.grouping.workloads` declares in its ``KINDS``."""
    table: dict[tuple[str, str], Kind] = {}
    for module in pkgutil.iter_modules(workloads.__path__):
        for kind in importlib.import_module(f"{workloads.__name__}.{module.name}").KINDS:
            if (kind.api_version, kind.kind) in table:
                raise RuntimeError(f"{kind.kind} of {kind.api_version} is declared twice")
            table[kind.api_version, kind.kind] = kind
    return table


def exact_rule(owner: Document) -> Rule | None:
    """The rule of the kind in just this version."""
    kind = known_kinds().get((owner.api_version, owner.kind))
    return kind.rule if kind else None


def is_known(api_version: str, kind: str) -> bool:
    """Whether a kind of owners has a rule of its own, in this version or in any."""
    of_group = f"{api_version.rpartition('/')[0]}/{ANY_VERSION}"
    owners = known_kinds().keys() - {("v1", "Pod")}
    return (api_version, kind) in owners or (of_group, kind) in owners


async def group(workload: Workload) -> GroupDraft:
    """Apply the top owner's rule: of its kind and version, of its kind, of a Karta definition, the default.

    Raises:
        GroupingError: the rule cannot be applied.
    """
    top = workload.top
    rule = exact_rule(top) or exact_rule(replace(top, api_version=f"{top.group}/{ANY_VERSION}"))
    if rule is not None:
        return await rule(workload)
    if workload.options.generic_karta_fallback:
        draft = await karta.group(workload)
        if draft is not None:
            return draft
    return workload.draft(all_owners=True)
