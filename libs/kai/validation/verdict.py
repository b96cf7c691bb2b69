"""What a check came to."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """Errors refuse the object; warnings only tell the user. Each names object, field and remedy."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, errors: Iterable[str] = (), warnings: Iterable[str] = ()) -> "Verdict":
        """A verdict from any iterables."""
        return cls(tuple(errors), tuple(warnings))

    @property
    def allowed(self) -> bool:
        """Whether the object may be stored."""
        return not self.errors

    @property
    def message(self) -> str:
        """All errors in one line; empty if there are none."""
        return "; ".join(self.errors)


ACCEPTED = Verdict()
