"""What a Job says of failures that end it or do not count (``podFailurePolicy``), and of when it has done
enough (``successPolicy``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from kai.model.objects import Json
from kai_local.controllers.job_indexes import parse_indexes
from kai_local.controllers.objects import Workload
from kai_local.parts.objects import LocalPod

IGNORE: Final = "Ignore"
FAIL_INDEX: Final = "FailIndex"
FAIL_JOB: Final = "FailJob"


def action_on(job: Workload, pod: LocalPod) -> str:
    """What the first rule that a failed pod matches asks for; ``Count`` without one."""
    match = next(_matches(job, pod), None)
    return match[0] if match is not None else "Count"


def end_by_failure(job: Workload, pods: Iterable[LocalPod]) -> tuple[str, str] | None:
    """Reason and message where a pod has failed in a way that ends the Job."""
    for pod in pods:
        if pod.status.phase == "Failed":
            action, why = next(_matches(job, pod), ("", ""))
            if action == FAIL_JOB:
                return "PodFailurePolicy", why
    return None


def end_by_success(job: Workload, done: Collection[int]) -> tuple[str, str] | None:
    """Reason and message where the indexes that are done are enough."""
    for place, rule in enumerate((job.spec.get("successPolicy") or {}).get("rules") or ()):
        named = rule.get("succeededIndexes")
        wanted = set(done if named is None else parse_indexes(named))
        least = int(rule.get("succeededCount") or len(wanted))
        if least and len(wanted.intersection(done)) >= least:
            return "SuccessPolicy", f"Matched rules at index {place}"
    return None


def _matches(job: Workload, pod: LocalPod) -> Iterator[tuple[str, str]]:
    """Actions of the rules that a failed pod matches, and why it does."""
    for place, rule in enumerate((job.spec.get("podFailurePolicy") or {}).get("rules") or ()):
        action = str(rule.get("action"))
        why = _exit_code(rule.get("onExitCodes"), pod) or _condition(rule.get("onPodConditions") or (), pod)
        if why:
            yield action, f"{why} matching {action} rule at index {place}"


def _exit_code(wanted: Json | None, pod: LocalPod) -> str:
    for status in pod.status.container_statuses or () if wanted else ():
        code = (((status.get("state") or {}).get("terminated")) or {}).get("exitCode") or 0
        name = (wanted or {}).get("containerName") or status["name"]
        among = code in ((wanted or {}).get("values") or ())
        if code and name == status["name"] and among == ((wanted or {}).get("operator") == "In"):
            return f"Container {name} for pod {pod.key} failed with exit code {code}"
    return ""


def _condition(patterns: Iterable[Json], pod: LocalPod) -> str:
    for pattern in patterns:
        kind = str(pattern.get("type"))
        condition = pod.condition(kind)
        if condition is not None and condition.status == pattern.get("status", "True"):
            return f"Pod {pod.key} has condition {kind}"
    return ""
