"""What somebody wants to be otherwise, in the words of ``kai what-if``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kai.model import quantity
from kai.model.rules.queue_amounts import written
from kai.simulate import changes, naming
from kai.simulate.changes import Bound, Change, ChangeRefused
from kai.snapshot.state import ClusterState

_UNLIMITED: Final = ("unlimited", "-1")
#: Digits; of anything there are fewer.
_LONGEST_NUMBER: Final = 30
_AMOUNTS: Final = "a queue and amounts, as gpu=8 cpu=64"
#: What each change takes.
_TAKES: Final = {
    "quota": _AMOUNTS,
    "limit": _AMOUNTS,
    "weight": _AMOUNTS,
    "priority": "a workload and a priority class",
    "preemptibility": "a workload and a preemptibility",
    "minimum": "a workload and how many pods",
    "delete": "a workload",
    "drain": "nodes",
    "remove": "nodes",
    "nodes": "how many, and the node that they are like",
    "delete-queue": "a queue",
}


class NoSuchChange(ValueError):
    """The words are no change that is known."""


def changes_of(state: ClusterState, words: Sequence[str], *, namespace: str, like: str = "") -> list[Change]:
    """The changes that words mean: a kind of change, and what it takes.

    Args:
        state: of which cluster.
        words: as in ``quota QUEUE gpu=8``.
        namespace: of workloads that name none.
        like: with ``nodes``, the node that new ones are like.

    Raises:
        NoSuchChange: there is no such change, or it takes something else.
        ChangeRefused: it cannot be made in this cluster.
    """
    action, arguments = words[0], words[1:]

    def group(text: str) -> str:
        return naming.group_named(state, text, namespace=namespace)

    known: dict[str, tuple[int, int | None, Callable[[], list[Change]]]] = {
        "quota": (2, None, lambda: [_bounds(Bound.QUOTA, arguments)]),
        "limit": (2, None, lambda: [_bounds(Bound.LIMIT, arguments)]),
        "weight": (2, None, lambda: [_bounds(Bound.WEIGHT, arguments)]),
        "priority": (
            2,
            2,
            lambda: [changes.SetPriority(group=group(arguments[0]), priority_class=arguments[1])],
        ),
        "preemptibility": (
            2,
            2,
            lambda: [changes.SetPreemptibility(group=group(arguments[0]), preemptibility=arguments[1])],
        ),
        "minimum": (
            2,
            2,
            lambda: [changes.SetMinimum(group=group(arguments[0]), minimum=_count("minimum", arguments[1]))],
        ),
        "delete": (1, 1, lambda: [changes.RemoveWorkload(group=group(arguments[0]))]),
        "drain": (1, None, lambda: [changes.DrainNode(node=node) for node in arguments]),
        "remove": (1, None, lambda: [changes.RemoveNode(node=node) for node in arguments]),
        "nodes": (1, 1, lambda: [changes.AddNodes(like=like, count=_count("nodes", arguments[0]))]),
        "delete-queue": (1, 1, lambda: [changes.DeleteQueue(queue=arguments[0])]),
    }
    if action not in known:
        raise NoSuchChange(f"{action!r} is no change that is known")
    least, most, made = known[action]
    if (
        len(arguments) < least
        or (most is not None and len(arguments) > most)
        or ((action == "nodes") != bool(like))
    ):
        raise NoSuchChange(f"{action!r} takes {_TAKES[action]}")
    return made()


def _bounds(bound: Bound, arguments: Sequence[str]) -> Change:
    amounts: dict[str, float] = {}
    given: dict[str, str] = {}
    for text in arguments[1:]:
        resource, said, amount = text.rpartition("=")
        resource = (resource if said else "gpu").lower()
        if resource not in changes.RESOURCES:
            raise ChangeRefused(f"{text!r}: queues share out gpu, cpu and memory; write gpu=8, for example")
        if resource in given:
            raise ChangeRefused(f"{resource} is said twice, {given[resource]} and {amount}; say it once")
        given[resource] = amount
        amounts[resource] = _amount(resource, amount, bound)
    return changes.SetBounds(queue=arguments[0], bound=bound, amounts=amounts)


def _amount(resource: str, text: str, bound: Bound) -> float:
    """In the units of queues: GPUs, thousandths of CPUs, millions of bytes; -1 is unlimited."""
    if text.lower() in _UNLIMITED and bound is not Bound.WEIGHT:
        return -1.0
    try:
        amount = float(quantity.parse(text))
    except quantity.InvalidQuantity as error:
        raise ChangeRefused(f"{resource}: {error}") from error
    if amount < 0:
        raise ChangeRefused(f"{resource}: {text} is negative; write an amount, or unlimited")
    if bound is Bound.WEIGHT:
        return amount
    return written(resource, amount)


def _count(what: str, text: str) -> int:
    if not text.isdecimal() or len(text) > _LONGEST_NUMBER:
        raise ChangeRefused(f"{what}: {text!r} is no number; write how many")
    return int(text)
