"""``status.schedulingConditions``: why a pod group cannot be scheduled, by node pool.

Clients rely on the order: the newest condition is the last, and its ``transitionID`` is one more than
that of the last before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final

import msgspec

from kai.model import condition_texts, names, quantity
from kai.model.decisions import Explanation, Outcome, PodGroupOutcome
from kai.model.objects import Json, ResourceList, SchedulingCondition
from kai.model.resource_lists import parsed
from kai_podgroup_controller.facts import WatchedGroup

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
UNSCHEDULABLE_ON_NODE_POOL: Final = "UnschedulableOnNodePool"
UNSCHEDULABLE: Final = "Unschedulable"


def message_of(group: WatchedGroup, text: str) -> str:
    """A message for users; a group that gives up after one attempt may be tried in many node pools."""
    text = text or "no node can take it"
    return condition_texts.of_pool(group.node_pool, text) if group.single_attempt else text


def shown_by(group: WatchedGroup) -> str:
    """The message of its newest condition."""
    return group.conditions[-1].message if group.conditions else ""


def shown_since(group: WatchedGroup) -> datetime | None:
    """When it came to its newest condition; None if it has none, or that does not say."""
    try:
        since = datetime.fromisoformat(group.conditions[-1].last_transition_time or "")
    except (IndexError, ValueError):
        return None
    return since if since.tzinfo else None


def updated(
    group: WatchedGroup, outcome: PodGroupOutcome, *, message: str, now: datetime
) -> tuple[SchedulingCondition, ...] | None:
    """The conditions after this outcome, of which the user is told so; None if they stay as they are."""
    if outcome.clear_conditions:
        return () if group.conditions else None
    if outcome.outcome is not Outcome.UNSCHEDULABLE or not outcome.write_condition:
        return None
    new = _condition(group, outcome, message, transition=_next_id(group.conditions), now=now)
    return with_condition(group.conditions, new)


def with_condition(
    conditions: Sequence[SchedulingCondition], new: SchedulingCondition
) -> tuple[SchedulingCondition, ...] | None:
    """``new`` as the last and the only one of its node pool; None if the last one says the same.

    Where but the verdict behind the scheduler's words is another, nothing has come to another state.
    """
    last = conditions[-1] if conditions else None
    if last is not None and _says_same(last, new):
        if last.message == new.message:
            return None
        new = msgspec.structs.replace(
            new, last_transition_time=last.last_transition_time, transition_id=last.transition_id
        )
    return (*(each for each in conditions if each.node_pool != new.node_pool), new)


def _says_same(one: SchedulingCondition, other: SchedulingCondition) -> bool:
    own = condition_texts.without_verdict
    return (one.type, one.node_pool, one.reason, own(one.message), one.status) == (
        other.type,
        other.node_pool,
        other.reason,
        own(other.message),
        other.status,
    )


def _next_id(conditions: Sequence[SchedulingCondition]) -> str:
    last = conditions[-1].transition_id if conditions else ""
    return str(int(last) + 1) if _NUMBER.fullmatch(last) else "1"


def _condition(
    group: WatchedGroup, outcome: PodGroupOutcome, message: str, *, transition: str, now: datetime
) -> SchedulingCondition:
    return SchedulingCondition(
        type=UNSCHEDULABLE_ON_NODE_POOL,
        node_pool=group.node_pool,
        reason=UNSCHEDULABLE,
        message=condition_texts.bounded(message),
        reasons=list(_reasons(outcome.explanations)),
        last_transition_time=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        status="True",
        transition_id=transition,
    )


def _reasons(explanations: Sequence[Explanation]) -> Iterator[Json]:
    """One by one, as many as have as much to say together as one message may; the first in any case."""
    left = condition_texts.MOST_BYTES
    for number, explanation in enumerate(explanations):
        reason = _reason(explanation)
        left -= len(reason["message"].encode())
        if left < 0 and number:
            return
        yield reason


def _reason(explanation: Explanation) -> Json:
    reason: Json = {"reason": explanation.reason, "message": condition_texts.bounded(explanation.message)}
    details = (explanation.details or {}).get("queueDetails")
    if details:
        written = {
            key: _resource_list(value) if isinstance(value, dict) else value for key, value in details.items()
        }
        reason["details"] = {"queueDetails": written}
    return reason


def _resource_list(amounts: Json) -> ResourceList:
    """The engine's numbers (millicores, bytes, devices; -1 is unlimited) as quantities."""
    written: ResourceList = {}
    for key, amount in amounts.items():
        value = Decimal(repr(amount)) if isinstance(amount, int | float) else parsed(str(amount))
        if key == "cpu" and value >= 0:
            value /= 1000
        written[names.NVIDIA_GPU if key == "gpu" else key] = quantity.render(value, binary=key == "memory")
    return written
