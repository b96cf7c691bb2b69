"""Rules that objects of built-in kinds must keep; violations as causes that name the field."""

import re
from collections.abc import Callable
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kai_local.apiserver.errors import Cause, Obj, invalid_value, required, show, unsupported
from kai_local.apiserver.kinds import selectors
from kai_local.apiserver.kinds.catalogue import Resource, dig
from kai_local.apiserver.rules import pod_rules
from kai_local.apiserver.rules.metadata_rules import IMMUTABLE, labels
from kai_local.apiserver.schemas.decode import Path, render
from kai_local.apiserver.schemas.schema import Node

_CRON_MACRO: Final = re.compile(r"@(yearly|annually|monthly|weekly|daily|midnight|hourly|every \S+)")
_CRON_FIELD: Final = re.compile(r"[0-9A-Za-z*?/,-]+")

_MAPS: Final = ("ConfigMap", "Secret")
_MAP_BLOCKS: Final = ("data", "binaryData")
_MAP_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_MAP_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_PERCENT: Final = re.compile(r"[0-9]+%")
_AT_MOST_ALL: Final = re.compile(r"0*(100|[0-9]{1,2})%")
_PERCENT_RULE: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
    "used for validation is '[0-9]+%')"
)
_NOT_REQUIRED: Final = frozenset(
    {("PriorityClass", "value"), ("Event", "metadata"), ("Event", "involvedObject")}
)


def missing(node: Node, value: Any, path: Path, kind: str, causes: list[Cause]) -> None:
    """Required fields that are absent, in all but the status."""
    if isinstance(value, dict):
        needed = node.required if node.properties is not None else ()
        absent = [key for key in needed if value.get(key) in (None, "") and (kind, key) not in _NOT_REQUIRED]
        causes += [required(render((path, key))) for key in absent]
        for key, member in value.items():
            child = node.child(key)
            if (
                child is not None
                and isinstance(member, dict | list)
                and not (path is None and key in _UNCHECKED)
            ):
                missing(child, member, (path, key), kind, causes)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            if isinstance(item, dict):
                missing(node.items, item, (path, index), kind, causes)


_UNCHECKED: Final = frozenset({"status", "metadata"})


def created(resource: Resource, node: Node | None, obj: Obj) -> list[Cause]:
    """Everything wrong with a new object of a built-in kind."""
    causes: list[Cause] = []
    if node is not None:
        missing(node, obj, None, resource.kind, causes)
    rule = _RULES.get((resource.group, resource.kind))
    if rule is not None:
        causes += rule(obj)
    return _unique(causes)


def updated(resource: Resource, node: Node | None, obj: Obj, old: Obj) -> list[Cause]:
    """Everything wrong with a new state of an object: the rules of new ones, and what may not change."""
    if obj.get("spec") is old.get("spec") and resource.kind == "Pod":
        return []
    causes = created(resource, node, obj)
    for path in _FIXED.get((resource.group, resource.kind), ()):
        keys = path.split(".")
        if dig(obj, *keys) != dig(old, *keys):
            causes.append(invalid_value(path, dig(obj, *keys), IMMUTABLE))
    if resource.kind in _MAPS and old.get("immutable"):
        causes += _map_update(obj, old)
    elif resource.key == ("", "pods"):
        causes += pod_rules.pod_update(obj["spec"], old["spec"])
    elif resource.key == ("apps", "statefulsets"):
        causes += _stateful_set_update(obj["spec"], old["spec"])
    elif resource.key == ("batch", "jobs"):
        causes += _completions_update(obj["spec"], old["spec"])
    return _unique(causes)


def _unique(causes: list[Cause]) -> list[Cause]:
    return list(dict.fromkeys(causes))


_FIXED: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("apps", "Deployment"): ("spec.selector",),
    ("apps", "ReplicaSet"): ("spec.selector",),
    ("apps", "DaemonSet"): ("spec.selector",),
    ("batch", "Job"): (
        "spec.selector",
        "spec.template",
        "spec.completionMode",
        "spec.podFailurePolicy",
        "spec.successPolicy",
        "spec.backoffLimitPerIndex",
        "spec.managedBy",
    ),
    ("discovery.k8s.io", "EndpointSlice"): ("addressType",),
    ("scheduling.k8s.io", "PriorityClass"): ("value", "preemptionPolicy"),
    ("storage.k8s.io", "StorageClass"): ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    ("rbac.authorization.k8s.io", "RoleBinding"): ("roleRef",),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): ("roleRef",),
    ("resource.k8s.io", "ResourceClaim"): ("spec",),
    ("resource.k8s.io", "ResourceClaimTemplate"): ("spec",),
    ("", "Secret"): ("type",),
}


def _workload(obj: Obj) -> list[Cause]:
    spec = obj.get("spec", {})
    causes = []
    if spec.get("replicas", 0) < 0:
        causes.append(invalid_value("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
    for strategy in ("strategy", "updateStrategy"):
        where, rolling = f"spec.{strategy}.rollingUpdate", dig(spec, strategy, "rollingUpdate") or {}
        causes += _pods_or_percent(f"{where}.maxUnavailable", rolling.get("maxUnavailable"))
        # of Deployments there may be as many more as one likes
        above = strategy == "strategy"
        causes += _pods_or_percent(f"{where}.maxSurge", rolling.get("maxSurge"), above_all=above)
    template = spec.get("template")
    if template is None:
        return causes
    found = dig(template, "metadata", "labels") or {}
    selector = spec.get("selector")
    if selector is not None:
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            causes.append(
                invalid_value("spec.selector", selector, "empty selector is invalid for deployment")
            )
        elif not selectors.from_object(selector).matches(found):
            note = "`selector` does not match template `labels`"
            causes.append(invalid_value("spec.template.metadata.labels", found, note))
    causes += labels("spec.template.metadata.labels", found)
    inner = template.get("spec", {})
    if claims := spec.get("volumeClaimTemplates"):
        # the pods of a StatefulSet get a volume for each of its claims
        promised = [{"name": dig(claim, "metadata", "name")} for claim in claims]
        inner = {**inner, "volumes": [*inner.get("volumes", ()), *promised]}
    return causes + pod_rules.pod_spec(inner, "spec.template.spec", ("Always",))


def _pods_or_percent(field: str, value: int | str | None, *, above_all: bool = False) -> list[Cause]:
    """What is wrong with a number of pods, or a percentage of them: of all at most unless ``above_all``."""
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            return [invalid_value(field, value, _PERCENT_RULE)]
        if not (above_all or _AT_MOST_ALL.fullmatch(value)):
            return [invalid_value(field, value, "must not be greater than 100%")]
    elif value is not None and value < 0:
        return [invalid_value(field, value, "must be greater than or equal to 0")]
    return []


def _disruption_budget(obj: Obj) -> list[Cause]:
    spec = obj.get("spec", {})
    causes = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        causes.append(invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for key in ("minAvailable", "maxUnavailable"):
        causes += _pods_or_percent(f"spec.{key}", spec.get(key))
    return causes


def _job(obj: Obj) -> list[Cause]:
    return _job_spec(obj.get("spec", {}), "spec")


def _cron_job(obj: Obj) -> list[Cause]:
    spec = obj.get("spec", {})
    causes = []
    schedule = spec.get("schedule", "")
    fields = schedule.split()
    if not schedule:
        causes.append(required("spec.schedule"))
    elif not _CRON_MACRO.fullmatch(schedule):
        if len(fields) != 5:
            note = f"expected exactly 5 fields, found {len(fields)}: {show(fields)}"
            causes.append(invalid_value("spec.schedule", schedule, note))
        elif wrong := [field for field in fields if not _CRON_FIELD.fullmatch(field)]:
            causes.append(invalid_value("spec.schedule", schedule, f"failed to parse {show(wrong[0])}"))
    if zone := spec.get("timeZone"):
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError):
            causes.append(invalid_value("spec.timeZone", zone, f"unknown time zone {zone}"))
    return causes + _job_spec(dig(spec, "jobTemplate", "spec") or {}, "spec.jobTemplate.spec")


def _job_spec(spec: Obj, field: str) -> list[Cause]:
    causes = [
        invalid_value(f"{field}.{key}", spec[key], "must be greater than or equal to 0")
        for key in (
            "parallelism",
            "completions",
            "backoffLimit",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
            "activeDeadlineSeconds",
            "ttlSecondsAfterFinished",
        )
        if spec.get(key, 0) < 0
    ]
    if spec.get("completionMode") != "Indexed":
        causes += [
            invalid_value(f"{field}.{key}", spec[key], "requires indexed completion mode")
            for key in ("backoffLimitPerIndex", "maxFailedIndexes")
            if key in spec
        ]
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        causes.append(required(f"{field}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    template = spec.get("template")
    if template is None:
        return causes
    inner = template.get("spec", {})
    if inner.get("restartPolicy") == "Always":
        where = f"{field}.template.spec.restartPolicy"
        causes.append(
            Cause(where, 'Required value: valid values: "OnFailure", "Never"', "FieldValueRequired")
        )
        return causes
    return causes + pod_rules.pod_spec(inner, f"{field}.template.spec", ("OnFailure", "Never"))


def _map(obj: Obj) -> list[Cause]:
    """Config maps and secrets."""
    return [
        invalid_value(f"{block}[{key}]", key, _MAP_KEY_RULE)
        for block in _MAP_BLOCKS
        for key in obj.get(block) or ()
        if len(key) > 253 or key.startswith("..") or key == "." or not _MAP_KEY.fullmatch(key)
    ]


def _node(obj: Obj) -> list[Cause]:
    """A real server has the taints of a node below its metadata, too, when it tells what is wrong."""
    return [
        unsupported(f"metadata.taints[{index}].effect", taint.get("effect"), list(pod_rules.EFFECTS))
        for index, taint in enumerate(obj.get("spec", {}).get("taints", ()))
        if taint.get("effect") not in pod_rules.EFFECTS
    ]


def _map_update(obj: Obj, old: Obj) -> list[Cause]:
    changed = [] if obj.get("immutable") else ["immutable"]
    changed += [block for block in _MAP_BLOCKS if obj.get(block) != old.get(block)]
    note = "Forbidden: field is immutable when `immutable` is set"
    return [Cause(field, note, "FieldValueForbidden") for field in changed]


def _stateful_set_update(spec: Obj, old: Obj) -> list[Cause]:
    """What changes but for the few fields that may; a claim that names its kind or does not is the same."""
    fixed = [
        {key: value for key, value in one.items() if key not in _OF_STATEFUL_SETS and value not in ([], {})}
        for one in (spec, old)
    ]
    for one in fixed:
        if claims := one.get("volumeClaimTemplates"):
            one["volumeClaimTemplates"] = [(claim.get("metadata"), claim.get("spec")) for claim in claims]
    if fixed[0] == fixed[1]:
        return []
    *names, last = map(repr, _OF_STATEFUL_SETS)
    note = f"updates to statefulset spec for fields other than {', '.join(names)} and {last} are forbidden"
    return [Cause("spec", f"Forbidden: {note}", "FieldValueForbidden")]


_OF_STATEFUL_SETS: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def _completions_update(spec: Obj, old: Obj) -> list[Cause]:
    wanted = spec.get("completions")
    if wanted == old.get("completions"):
        return []
    if spec["completionMode"] != "Indexed":
        return [invalid_value("spec.completions", wanted, IMMUTABLE)]
    if wanted == spec["parallelism"]:
        return []
    return [invalid_value("spec.completions", wanted, "can only be modified in tandem with spec.parallelism")]


def _lease(obj: Obj) -> list[Cause]:
    spec = obj.get("spec") or {}
    causes = []
    if spec.get("leaseDurationSeconds", 1) <= 0:
        where = "spec.leaseDurationSeconds"
        causes.append(invalid_value(where, spec["leaseDurationSeconds"], "must be greater than 0"))
    if spec.get("leaseTransitions", 0) < 0:
        where = "spec.leaseTransitions"
        causes.append(invalid_value(where, spec["leaseTransitions"], "must be greater than or equal to 0"))
    return causes


def _service(obj: Obj) -> list[Cause]:
    spec = obj.get("spec", {})
    if spec.get("type") == "ExternalName" or spec.get("clusterIP") == "None":
        return []
    causes = [] if spec.get("ports") else [required("spec.ports")]
    for index, port in enumerate(spec.get("ports", ())):
        if not 1 <= port.get("port", 0) <= 65535:
            note = "must be between 1 and 65535, inclusive"
            causes.append(invalid_value(f"spec.ports[{index}].port", port.get("port", 0), note))
    return causes


def _priority_class(obj: Obj) -> list[Cause]:
    if obj["value"] > 1_000_000_000 and not obj["metadata"].get("name", "").startswith("system-"):
        note = "maximum allowed value of a user defined priority is 1000000000"
        return [Cause("value", f"Forbidden: {note}", "FieldValueForbidden")]
    return []


def _claim(obj: Obj) -> list[Cause]:
    spec = obj.get("spec", {})
    causes = (
        []
        if spec.get("accessModes")
        else [required("spec.accessModes", "at least 1 access mode is required")]
    )
    if not dig(spec, "resources", "requests", "storage"):
        causes.append(required("spec.resources[storage]"))
    return causes


def _webhooks(obj: Obj) -> list[Cause]:
    causes = []
    for index, webhook in enumerate(obj.get("webhooks", ())):
        where = f"webhooks[{index}]"
        if webhook.get("sideEffects") not in (None, "None", "NoneOnDryRun"):
            causes.append(
                unsupported(f"{where}.sideEffects", webhook["sideEffects"], ["None", "NoneOnDryRun"])
            )
        client = webhook.get("clientConfig", {})
        if ("url" in client) == ("service" in client):
            causes.append(required(f"{where}.clientConfig", "exactly one of url or service is required"))
        if not 1 <= webhook.get("timeoutSeconds", 10) <= 30:
            note = "the timeout value must be between 1 and 30 seconds"
            causes.append(invalid_value(f"{where}.timeoutSeconds", webhook["timeoutSeconds"], note))
    return causes


_RULES: Final[dict[tuple[str, str], Callable[[Obj], list[Cause]]]] = {
    ("", "Pod"): pod_rules.pod,
    ("", "Node"): _node,
    ("", "ConfigMap"): _map,
    ("", "Secret"): _map,
    ("", "Service"): _service,
    ("", "PersistentVolumeClaim"): _claim,
    ("apps", "Deployment"): _workload,
    ("apps", "ReplicaSet"): _workload,
    ("apps", "StatefulSet"): _workload,
    ("apps", "DaemonSet"): _workload,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("coordination.k8s.io", "Lease"): _lease,
    ("policy", "PodDisruptionBudget"): _disruption_budget,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _webhooks,
}
