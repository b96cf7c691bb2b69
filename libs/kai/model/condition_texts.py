"""What the scheduling conditions of pod groups say, between what is put around it."""

from __future__ import annotations

from kai.model.verdicts import SEPARATOR


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
