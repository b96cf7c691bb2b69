"""Which object something failed over: whoever meets a failure needs its name to do something about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class FailedOver(Exception):
    """Something failed over one object.

    ``about`` is its Kubernetes kind and ``namespace/name`` (or the name of what has no namespace). The cause
    is what was raised over it.
    """

    def __init__(self, about: str, error: Exception) -> None:
        super().__init__(f"{about}: {type(error).__name__}: {error}")
        self.about = about


def described(error: Exception) -> str:
    """The object, where one is known, and what was raised, with its type."""
    return str(error) if isinstance(error, FailedOver) else f"{type(error).__name__}: {error}"


@contextmanager
def all_over(about: str) -> Iterator[None]:
    """Whatever fails in the block fails over one object, which is known before.

    Raises:
        FailedOver: something did.
    """
    try:
        yield
    except Exception as error:
        raise FailedOver(about, error) from error


def blame_one_of(
    items: Sequence[T], work: Callable[[Sequence[T]], object], *, about: Callable[[T], str]
) -> None:
    """Say over which of ``items`` it was that ``work`` failed, which was done for all of them together.

    Returns if it fails over none of them alone. Costs about as much as the work did, as it is done again for
    halves.

    Raises:
        FailedOver: the first of those over which it fails alone; ``about`` names it.
    """
    while len(items) > 1:
        half = items[: len(items) // 2]
        items = half if _failure(work, half) is not None else items[len(half) :]
    error = _failure(work, items) if items else None
    if error is not None:
        raise FailedOver(about(items[0]), error) from error


def _failure(work: Callable[[Sequence[T]], object], items: Sequence[T]) -> Exception | None:
    try:
        work(items)
    except Exception as error:  # noqa: BLE001 (that is the question)
        return error
    return None
