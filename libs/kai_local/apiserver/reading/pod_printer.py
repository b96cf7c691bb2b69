"""How pods and selectors read in a table."""

from collections.abc import Callable
from typing import Any, Final

from kai.model.rules.phases import has_ended
from kai_local.apiserver.clock import seconds_of
from kai_local.apiserver.errors import Obj
from kai_local.apiserver.kinds.catalogue import dig

_NONE: Final = "<none>"


def selector_text(selector: Obj | None) -> str:
    """A label selector in one line."""
    if not selector:
        return _NONE
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression["key"], expression["operator"]
        values = ",".join(expression.get("values") or ())
        shown = {"Exists": key, "DoesNotExist": f"!{key}"}
        terms.append(shown.get(operator, f"{key} {operator.lower()} ({values})"))
    return ",".join(terms) or _NONE


def pod_cells(
    pod: Obj, now: float, duration: Callable[[float], str], age: Callable[[Obj, float], str]
) -> list[Any]:
    """The cells of a pod."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    statuses = status.get("containerStatuses", ())
    sidecars = {one["name"] for one in spec.get("initContainers", ()) if one.get("restartPolicy") == "Always"}
    aside = [one for one in status.get("initContainerStatuses", ()) if one.get("name") in sidecars]
    ready = sum(bool(container.get("ready")) for container in (*statuses, *aside))
    total = len(spec.get("containers", ())) + len(sidecars)
    count = sum(container.get("restartCount", 0) for container in statuses)
    restarts = str(count)
    ended = [dig(container, "lastState", "terminated", "finishedAt") for container in statuses]
    if count and any(ended):
        restarts += f" ({duration(now - max(seconds_of(stamp) for stamp in ended if stamp))} ago)"
    gates = spec.get("readinessGates", ())
    conditions = {c["type"]: c["status"] for c in status.get("conditions", ())}
    met = sum(conditions.get(gate["conditionType"]) == "True" for gate in gates)
    return [
        pod["metadata"]["name"], f"{ready}/{total}", pod_status(pod), restarts,
        age(pod, now), status.get("podIP") or _NONE, spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE, f"{met}/{len(gates)}" if gates else _NONE,
    ]  # fmt: skip


def pod_status(pod: Obj) -> str:
    """The word in the STATUS column."""
    status = pod.get("status", {})
    text = status.get("reason") or status.get("phase", "")
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            text = "SchedulingGated"
    initialising = _init_status(pod, status)
    text = initialising or _container_status(status, text)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if not has_ended(status.get("phase", "")):
            return "Terminating"
    return text


def _init_status(pod: Obj, status: Obj) -> str:
    inits = pod.get("spec", {}).get("initContainers", ())
    always = {c["name"] for c in inits if c.get("restartPolicy") == "Always"}
    for index, container in enumerate(status.get("initContainerStatuses", ())):
        state = container.get("state", {})
        terminated, waiting = state.get("terminated"), state.get("waiting")
        if terminated is not None and terminated.get("exitCode") == 0:
            continue
        if container.get("name") in always and container.get("started"):
            continue
        if terminated is not None:
            return "Init:" + (terminated.get("reason") or f"ExitCode:{terminated.get('exitCode')}")
        if waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(inits)}"
    return ""


def _container_status(status: Obj, text: str) -> str:
    running = False
    for container in reversed(status.get("containerStatuses", ())):
        state = container.get("state", {})
        waiting, terminated = state.get("waiting", {}), state.get("terminated")
        if waiting.get("reason"):
            text = waiting["reason"]
        elif terminated is not None:
            text = terminated.get("reason") or f"ExitCode:{terminated.get('exitCode', 0)}"
        elif container.get("ready") and "running" in state:
            running = True
    if text == "Completed" and running:
        return "Running"
    return text
