"""What the API server refuses of several things: all others are done, and then it is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kai.kube.errors import ApiError, NotFound

#: Nobody reads more of them.
_SHOWN: Final = 10


class Refused(Exception):
    """Some of it could not be done; the message says what, and why."""


class Refusals:
    """Gathers what was refused."""

    def __init__(self) -> None:
        self._told: list[str] = []

    @contextmanager
    def gathered(self, what: str) -> Iterator[None]:
        """Go on after the block where the API server refuses what is done there.

        Raises:
            NotFound: what is asked for is not there, which is the caller's matter.
            KubeError: the API server cannot be reached, so that nothing else would be done either.
        """
        try:
            yield
        except NotFound:
            raise
        except ApiError as error:
            self.add(what, error)

    def add(self, what: str, error: ApiError) -> None:
        """This was refused."""
        self._told.append(f"{what}: {error}")

    def tell(self) -> None:
        """
        Raises:
            Refused: something was.
        """
        if not self._told:
            return
        more = len(self._told) - _SHOWN
        shown = [*self._told[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        raise Refused("; ".join(shown))
