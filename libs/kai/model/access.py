"""Who may use a queue, and the priorities of the system: one rule for all who are asked.

What counts is what a tenant cannot make up: the namespace that a pod is in, the labels of that namespace, and
the service account that the pod runs as. Who created a pod is not known any more when it is scheduled, and
mostly was a controller.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kai.model import limits, names
from kai.model.objects import LabelSelector, Queue, QueueAccess
from kai.model.rules.selectors import selects

_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Who wants to use a queue. Without ``account`` any service account of the namespace may come."""

    namespace: str
    #: Of the namespace.
    labels: Mapping[str, str] = field(default_factory=dict)
    account: str | None = None

    @property
    def where(self) -> str:
        """How messages call it."""
        account = f', service account "{self.account}"' if self.account is not None else ""
        return f'namespace "{self.namespace}"{account}'


def admits(access: QueueAccess | None, user: User) -> bool:
    """Whether what a queue says about its users is true of this one; a queue that says nothing admits all."""
    if access is None:
        return True
    namespace, groups, accounts = user.namespace, access.groups or (), access.service_accounts or ()
    if namespace in (access.namespaces or ()):
        return True
    if names.ALL_SERVICE_ACCOUNTS in groups or f"{names.ALL_SERVICE_ACCOUNTS}:{namespace}" in groups:
        return True
    if access.namespace_selector is not None and selects_namespace(access.namespace_selector, user.labels):
        return True
    if user.account is None:
        return any(each.startswith(f"{namespace}/") for each in accounts)
    return f"{namespace}/{user.account}" in accounts


def selects_namespace(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether a selector means a namespace with these labels."""
    return selects(msgspec.to_builtins(selector), labels)


def barrier(queue: str, queues: Mapping[str, Queue], user: User) -> str:
    """The queue that keeps a user out: this one, or the nearest above it that does; empty if none does.

    What does not exist keeps nobody out: nothing is scheduled there anyway.
    """
    seen: set[str] = set()
    name = queue
    while name and name not in seen and (found := queues.get(name)) is not None:
        if not admits(found.spec.access, user):
            return name
        seen.add(name)
        name = found.spec.parent_queue
    return ""


def refusal(queue: str, shut: str, access: QueueAccess | None, user: User) -> str:
    """Why a user may not use a queue, who may, and whom to ask; ``shut`` is the :func:`barrier`."""
    above = f', above queue "{queue}",' if shut != queue else ""
    return (
        f'queue "{shut}"{above} is not open to {user.where}: it admits {admitted(access)}; '
        f'name a queue of yours, or ask who administers queue "{shut}" to add you to its spec.access'
    )


def admitted(access: QueueAccess | None) -> str:
    """Who is admitted, in words."""
    if access is None:
        return "everybody"
    return "; ".join(_admitted(access)) or "nobody"


def _admitted(access: QueueAccess) -> Iterator[str]:
    for what, listed in (
        ("namespaces", access.namespaces),
        ("service accounts", access.service_accounts),
        ("groups", access.groups),
    ):
        if listed:
            yield f"{what} {_first(listed)}"
    selector = access.namespace_selector
    if selector is not None:
        parts = [f"{key}={value}" for key, value in (selector.match_labels or {}).items()]
        for each in selector.match_expressions or ():
            values = f" ({_first(each.values)})" if each.values else ""
            parts.append(f"{each.key} {each.operator}{values}")
        yield f"namespaces with labels {_first(parts)}" if parts else "all namespaces"


def _first(items: Sequence[str]) -> str:
    more = len(items) - _SHOWN
    return ", ".join([*items[:_SHOWN], *([f"and {more} more"] if more > 0 else ())])


# --- what a queue may say ----------------------------------------------------------------------
def check_size(access: QueueAccess) -> None:
    """Raises OutOfBounds for lists that are too long."""
    limits.ACCESS_NAMESPACES.check_count(access.namespaces)
    limits.ACCESS_ACCOUNTS.check_count(access.service_accounts)
    limits.ACCESS_GROUPS.check_count(access.groups)
    if (selector := access.namespace_selector) is not None:
        limits.ACCESS_LABELS.check_count(selector.match_labels)
        limits.ACCESS_EXPRESSIONS.check_count(selector.match_expressions)
        for each in selector.match_expressions or ():
            limits.ACCESS_VALUES.check_count(each.values)


# --- priorities of the system ------------------------------------------------------------------
def usurped(priority_class: str, namespace: str, own: Collection[str]) -> bool:
    """Whether somebody outside of the system's namespaces (``own``) names a priority of the system."""
    return priority_class.startswith(names.SYSTEM_PRIORITY_PREFIX) and namespace not in own


def priority_refusal(priority_class: str, namespace: str, own: Collection[str]) -> str:
    """Why a priority class may not be used, and what to do."""
    return (
        f'priority class "{priority_class}" is of the system, and not for namespace "{namespace}" '
        f"(only {', '.join(sorted(own))}); name another one or none"
    )
