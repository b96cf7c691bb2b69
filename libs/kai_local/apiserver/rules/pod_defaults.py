"""Defaults of pods and pod templates."""

from typing import Any, Final

from kai.model.quantity import parse
from kai_local.apiserver.errors import Obj

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_FILE_MODES: Final = ("secret", "configMap", "projected", "downwardAPI")


def fill(target: Obj, **values: Any) -> None:
    """Set what is not set yet."""
    for key, value in values.items():
        target.setdefault(key, value)


def pod_spec(spec: Obj) -> None:
    """Defaults that pods and templates share."""
    fill(
        spec,
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        terminationGracePeriodSeconds=30,
        schedulerName="default-scheduler",
        securityContext={},
    )
    if not spec["schedulerName"]:
        spec["schedulerName"] = "default-scheduler"
    if "serviceAccountName" in spec or "serviceAccount" in spec:
        name = spec.get("serviceAccountName") or spec["serviceAccount"]
        spec["serviceAccountName"] = spec["serviceAccount"] = name
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        _container(container)
    for volume in spec.get("volumes", ()):
        _volume(volume)


def pod(obj: Obj) -> None:
    """Defaults of a pod: those of its spec, requests from limits, phase and quality of service."""
    spec = obj.setdefault("spec", {})
    pod_spec(spec)
    fill(spec, enableServiceLinks=True, preemptionPolicy="PreemptLowerPriority")
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = "default"
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container["resources"]
        limits = resources.get("limits")
        if limits:
            resources["requests"] = {**limits, **resources.get("requests", {})}
    status = obj.setdefault("status", {})
    status.setdefault("phase", "Pending")
    if "qosClass" not in status:
        status["qosClass"] = quality_of_service(spec)


def _container(container: Obj) -> None:
    image = container.get("image", "")
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    always = "@" not in image and tag in ("", "latest")
    fill(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if always else "IfNotPresent",
    )
    for port in container.get("ports", ()):
        fill(port, protocol="TCP")
    for probe in _PROBES:
        if probe in container:
            fill(container[probe], timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
            if "httpGet" in container[probe]:
                fill(container[probe]["httpGet"], path="/", scheme="HTTP")
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("fieldRef")
        if reference is not None:
            fill(reference, apiVersion="v1")


def _volume(volume: Obj) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for source in _FILE_MODES:
        if source in volume:
            fill(volume[source], defaultMode=420)
    _field_references(volume.get("downwardAPI", {}))
    for source in volume.get("projected", {}).get("sources", ()):
        _field_references(source.get("downwardAPI", {}))
        if "serviceAccountToken" in source:
            fill(source["serviceAccountToken"], expirationSeconds=3600)


def _field_references(downward: Obj) -> None:
    for item in downward.get("items", ()):
        if "fieldRef" in item:
            fill(item["fieldRef"], apiVersion="v1")


def quality_of_service(spec: Obj) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort`` by the cpu and memory of all containers."""
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    guaranteed = True
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container.get("resources", {})
        for name, text in resources.get("requests", {}).items():
            if name in ("cpu", "memory") and parse(text):
                requests[name] = requests.get(name, 0) + parse(text)
        own = {
            name: parse(text)
            for name, text in resources.get("limits", {}).items()
            if name in ("cpu", "memory")
        }
        for name, value in own.items():
            limits[name] = limits.get(name, 0) + value
        guaranteed = guaranteed and own.keys() == {"cpu", "memory"}
    if not requests and not limits:
        return "BestEffort"
    return (
        "Guaranteed"
        if guaranteed and all(limits[name] == requests.get(name) for name in limits)
        else "Burstable"
    )
