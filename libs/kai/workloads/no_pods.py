"""Whether a workload asks for pods at all, as it stands."""

from __future__ import annotations

from typing import Final

from kai.model.objects import Json
from kai.workloads.parts import at

#: Any of them that is 0 leaves nothing to make.
_COUNTS: Final = ("replicas", "parallelism", "completions")


def is_suspended(body: Json) -> bool:
    """Whether it has no pods until it is resumed."""
    return any(at(body, *path).get("suspend") is True for path in (("spec",), ("spec", "runPolicy")))


def zero_of(body: Json) -> str:
    """The field of its spec that is 0, so that it asks for no pods; empty where there is none."""
    spec = at(body, "spec")
    return next((name for name in _COUNTS if spec.get(name) == 0 and spec[name] is not False), "")


def why_none(body: Json) -> str:
    """Why it asks for no pods; empty where it does not say that it does not."""
    if is_suspended(body):
        return "is suspended, so it has no pods"
    zero = zero_of(body)
    return f"asks for no pods: its spec.{zero} is 0" if zero else ""
