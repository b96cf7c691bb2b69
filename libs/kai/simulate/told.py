"""What would follow from changes, as ``kai what-if -o json`` prints it (``docs/what-if.md``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from kai.model.decisions import QueueShare
from kai.model.ids import PodGroupKey
from kai.simulate import lives, naming
from kai.simulate.changes import AddWorkload, Change
from kai.simulate.course import Event, Happened
from kai.simulate.what_if import Answer, Picture, Work
from kai.snapshot.state import ClusterState
from kai.snapshot.times import rfc3339

_RESOURCES: Final = ("cpu", "memory", "gpu")


def as_document(state: ClusterState, changes: Sequence[Change], answer: Answer) -> dict[str, Any]:
    """The answer as JSON. Amounts are millicores, bytes and GPUs, -1 is unlimited; times are seconds."""
    coming = [each for change in changes if isinstance(change, AddWorkload) for each in change.groups]
    owners = {group.key: naming.called(group) for group in coming}

    def called(group: str) -> str:
        return owners.get(group) or naming.workload_name(state, PodGroupKey(group))

    changed = answer.changed
    return {
        "now": rfc3339(answer.now),
        "changes": [{"text": change.text, "command": change.command(state)} for change in changes],
        "queues": _queues(answer.before, changed.after),
        "workloads": _workloads(answer, called, set(owners)),
        "events": [_event(event, answer, called) for event in changed.events],
        "evicted": sorted(changed.evicted),
        "started": sorted(changed.started),
        "deleted": sorted(changed.pods(Happened.DELETED)),
        "moreAfter": None if changed.more_at is None else changed.more_at - answer.now,
    }


def _queues(before: Picture, after: Picture) -> list[dict[str, Any]]:
    """Those of which something changes, parents before children."""
    found = []
    for name in dict.fromkeys((*before.queues, *after.queues)):
        old, new = before.queues.get(name), after.queues.get(name)
        told = (None if old is None else _share(old), None if new is None else _share(new))
        if told[0] != told[1]:
            found.append({"queue": name, "before": told[0], "after": told[1]})
    return found


def _share(share: QueueShare) -> dict[str, Any]:
    fields = {
        "quota": share.deserved,
        "limit": share.limit,
        "overQuotaWeight": share.over_quota_weight,
        "fairShare": share.fair_share,
        "allocated": share.allocated,
        "requested": share.requested,
    }
    return {name: dict(zip(_RESOURCES, vector, strict=True)) for name, vector in fields.items()}


def _workloads(answer: Answer, called: Callable[[str], str], coming: set[str]) -> list[dict[str, Any]]:
    """Those of which something changes, and those that come."""
    before, after = answer.before.work, answer.changed.after.work
    touched = {event.group for event in answer.changed.events}
    found = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if key not in touched and key not in coming and _pods(old) == _pods(new):
            continue
        outcome = answer.changed.outcomes.get(key)
        waits = new is not None and new.waiting and outcome is not None
        known = new or old
        found.append(
            {
                "workload": called(key),
                "podGroup": key,
                "queue": known.queue if known is not None else "",
                "before": _pods(old),
                "after": _pods(new),
                "reason": lives.without_numbers(outcome.message) if waits and outcome is not None else "",
            }
        )
    return found


def _pods(work: Work | None) -> dict[str, int] | None:
    return None if work is None else {"running": work.running, "waiting": work.waiting}


def _event(event: Event, answer: Answer, called: Callable[[str], str]) -> dict[str, Any]:
    return {
        "after": round(event.at - answer.now, 3),
        "what": event.what.value,
        "pod": event.pod,
        "workload": called(event.group) if event.group else "",
        "node": event.node,
        "by": called(event.by) if event.by else "",
        "action": event.action,
        "why": event.why,
        "anyway": answer.anyway(event),
    }
