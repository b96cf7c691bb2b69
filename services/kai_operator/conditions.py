"""What Config and shards say of themselves: conditions, as KAI's users and ``kubectl wait`` know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from kai.model import condition_texts
from kai_operator.bodies import RETIRED
from kai_operator.kinds import PROMETHEUSES, Manifest, Ref, ref_of

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What one should know though nothing is wrong; ``reason`` and ``warns`` are of its event."""

    text: str
    reason: str
    warns: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How things stand with a Config or a shard, at the end of a pass.

    ``problems`` are of its specification, which then is not in force; ``unknown`` if it is not known what
    there is to be; ``stopped`` says why nothing of it may be; ``troubles`` kept single objects from being as
    they should; ``notes`` are what one should know though nothing is wrong; ``missing`` is what it needs and
    the cluster lacks.
    """

    problems: Sequence[str] = ()
    unknown: bool = False
    stopped: str = ""
    troubles: Mapping[Ref, str] = field(default_factory=dict)
    notes: Sequence[Note] = ()
    unavailable: Sequence[str] = ()
    missing: Sequence[str] = ()
    prometheus: str | None = None
    watches_prometheus: bool = False

    @property
    def meanwhile(self) -> str:
        """What becomes of what runs, where the specification cannot be used."""
        if self.stopped:
            return "nothing of it runs"
        if self.unknown:
            return "what runs is left alone, since it is not known what was before"
        return "what ran before goes on"


def unavailable(objects: Iterable[Manifest]) -> dict[Ref, str]:
    """In words, which of these do not have all their pods ready, or say that they are not available."""
    found = {}
    for manifest in objects:
        status = manifest.get("status") or {}
        observed = int(status.get("observedGeneration", 0))
        current = observed >= int(manifest["metadata"].get("generation", 0))
        if manifest["kind"] == "Deployment":
            wanted = int((manifest.get("spec") or {}).get("replicas", 1))
            # Its own condition Available is true with a pod less, where it may lack one.
            updated, able = (int(status.get(key, 0)) for key in ("updatedReplicas", "availableReplicas"))
            older = max(0, int(status.get("replicas", 0)) - updated)
            if not (current and updated == wanted == able and not older):
                found[ref_of(manifest)] = f"{ref_of(manifest)}: {_counted(wanted, updated, older, able)}"
        elif manifest["kind"] == "DaemonSet":
            wanted, able = (int(status.get(key, 0)) for key in ("desiredNumberScheduled", "numberAvailable"))
            updated = int(status.get("updatedNumberScheduled", 0))
            older = max(0, int(status.get("currentNumberScheduled", 0)) - updated)
            if not (current and updated == wanted and able == wanted):
                found[ref_of(manifest)] = f"{ref_of(manifest)}: {_counted(wanted, updated, older, able)}"
        elif manifest["kind"] == PROMETHEUSES.kind and not _is_retired(manifest):
            # An operator of another release may say nothing.
            available = _by_type(status.get("conditions") or ()).get("Available") or {}
            if available.get("status") == "False":
                why = available.get("message") or available.get("reason") or "not available"
                found[ref_of(manifest)] = f"{ref_of(manifest)}: {why}"
    return found


def _is_retired(manifest: Manifest) -> bool:
    """Whether it was switched off, and is only kept: nobody waits for that."""
    return RETIRED in (manifest["metadata"].get("annotations") or {})


def _counted(wanted: int, updated: int, older: int, able: int) -> str:
    """How many of the wanted pods there are. Those of an earlier template still do what that says."""
    beside = f", {older} older" if older else ""
    # Which of those that are able are older is not said; at least so many are not.
    return f"{max(0, min(updated, able - older))} of {wanted} pods{beside}"


def begun(known: Sequence[Manifest], *, generation: int, now: datetime) -> list[Manifest] | None:
    """Conditions when work on a generation begins; None if they say so already."""
    current = _by_type(known).get("Reconciling")
    if current is not None and current.get("observedGeneration") == generation:
        return None
    return _merged(known, [_condition("Reconciling", True, "reconciling", "", generation, now)])


def ended(known: Sequence[Manifest], standing: Standing, *, generation: int, now: datetime) -> list[Manifest]:
    """Conditions when a pass is over; equal to ``known`` if nothing changed."""
    return _merged(known, list(_conditions(standing, generation, now)))


def _conditions(standing: Standing, generation: int, now: datetime) -> Iterable[Manifest]:
    stopped = [standing.stopped] if standing.stopped else []
    invalid, troubles = _listed(standing.problems), _listed([*stopped, *standing.troubles.values()])
    away = _listed(stopped or standing.unavailable)
    unanswered = standing.watches_prometheus and standing.prometheus

    def told(kind: str, value: bool | None, reason: str, message: str = "") -> Manifest:
        return _condition(kind, value, reason, message, generation, now)

    yield told("Reconciling", False, "invalid_spec" if invalid else "reconciled", invalid)
    if troubles:
        yield told("Deployed", False, "not_deployed", troubles)
    elif standing.unknown:
        yield told("Deployed", None, "not_known", standing.meanwhile)
    else:
        yield told("Deployed", True, "deployed", _listed([note.text for note in standing.notes]))
    if standing.unknown:
        yield told("Available", None, "not_known", standing.meanwhile)
    elif away:
        yield told("Available", False, "not_available", away)
    elif standing.watches_prometheus:
        reason = "prometheus_connection_failed" if unanswered else "prometheus_connected"
        yield told("Available", not unanswered, reason, unanswered or "")
    else:
        yield told("Available", True, "available")
    missing = _listed(standing.missing)
    reason = "dependencies_missing" if missing else "dependencies_fulfilled"
    yield told("DependenciesFulfilled", not missing, reason, missing)
    if invalid:
        yield told("Ready", False, "invalid_spec", f"{invalid}; {standing.meanwhile}")
    else:
        beside = "" if stopped else away
        wrong = "; ".join(text for text in (troubles, beside, unanswered or "") if text)
        yield told("Ready", not wrong, "not_ready" if wrong else "ready", wrong)


def _condition(
    kind: str, value: bool | None, reason: str, message: str, generation: int, now: datetime
) -> Manifest:
    return {
        "type": kind,
        "status": "Unknown" if value is None else str(value),
        "reason": reason,
        "message": condition_texts.bounded(message),
        "observedGeneration": generation,
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _merged(known: Sequence[Manifest], told: Sequence[Manifest]) -> list[Manifest]:
    """All conditions, each with the time at which its status last changed; those of others stay."""
    found = _by_type(known)
    for condition in told:
        before = found.get(condition["type"])
        if before is not None and before.get("status") == condition["status"]:
            condition = {**condition, "lastTransitionTime": before["lastTransitionTime"]}
        found[condition["type"]] = condition
    return list(found.values())


def _by_type(conditions: Sequence[Manifest]) -> dict[str, Manifest]:
    return {condition["type"]: condition for condition in conditions}


def _listed(texts: Sequence[str]) -> str:
    shown = list(texts[:_SHOWN])
    if len(texts) > _SHOWN:
        shown.append(f"and {len(texts) - _SHOWN} more")
    return "; ".join(shown)
