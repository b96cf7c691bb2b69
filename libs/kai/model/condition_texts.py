"""What conditions say: how long it may be, and in those of pod groups what is put around it."""

from __future__ import annotations

from typing import Final

from kai.model.verdicts import SEPARATOR
from kai.model.words import shortened

#: So much Kubernetes takes in most conditions, counted in characters. In those of pods it takes more, until
#: the whole object has more than etcd takes: then it refuses each further write.
MOST_BYTES: Final = 32_768


def bounded(message: str) -> str:
    """A message as any condition takes it: every one that is written passes here."""
    return shortened(message, most=MOST_BYTES)


def of_pool(pool: str, text: str) -> str:
    """A text of a group that wants a single attempt: it may be tried in many node pools."""
    return f"{_head(pool)}{text}"


def without_verdict(message: str) -> str:
    """What the scheduler says, without the verdict behind it."""
    return message.partition(SEPARATOR)[0]


def own_text(message: str, *, pool: str) -> str:
    """What the scheduler of a node pool says, without anything around it."""
    return without_verdict(message).removeprefix(_head(pool))


def _head(pool: str) -> str:
    return f"Node-Pool '{pool}': "
