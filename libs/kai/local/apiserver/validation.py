"""Rules that objects of built-in kinds must keep; violations as causes that name the field."""

import re
from collections.abc import Callable
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kai.local.apiserver import selectors
from kai.local.apiserver.catalogue import Resource, dig
from kai.local.apiserver.decode import Path, render
from kai.local.apiserver.errors import Cause, Obj, invalid_value, required, show, unsupported
from kai.local.apiserver.schema import Node
from kai.model.quantity import parse

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_KEY_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")
_CRON_MACRO: Final = re.compile(r"@(yearly|annually|monthly|weekly|daily|midnight|hourly|every \S+)")
_CRON_FIELD: Final = re.compile(r"[0-9A-Za-z*?/,-]+")

LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
    "start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_KEY_RULE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_IMMUTABLE: Final = "field is immutable"
_LABEL_NAMED: Final = frozenset({"Namespace", "Service"})
_PATH_NAMED: Final = frozenset({"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"})


def metadata(resource: Resource, meta: Obj) -> list[Cause]:
    """Name, labels and annotations."""
    causes = []
    name = meta.get("name", "")
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif resource.kind in _LABEL_NAMED:
        if len(name) > 63 or not _LABEL.match(name):
            causes.append(invalid_value("metadata.name", name, LABEL_RULE))
    elif resource.kind in _PATH_NAMED:
        if "/" in name or "%" in name:
            causes.append(invalid_value("metadata.name", name, "may not contain '/' or '%'"))
    elif len(name) > 253:
        causes.append(invalid_value("metadata.name", name, "must be no more than 253 characters"))
    elif not _SUBDOMAIN.match(name):
        causes.append(invalid_value("metadata.name", name, SUBDOMAIN_RULE))
    causes += labels("metadata.labels", meta.get("labels"))
    for key in meta.get("annotations") or ():
        causes += _qualified_name("metadata.annotations", key.lower())
    for finalizer in meta.get("finalizers") or ():
        causes += _qualified_name("metadata.finalizers", finalizer)
    return causes


def metadata_change(new: Obj, old: Obj) -> list[Cause]:
    """What a change of the metadata must not touch; each cause is there twice, as a real server has it."""
    causes = []
    uid = new.get("uid")
    if uid and uid != old["uid"]:
        causes.append(invalid_value("metadata.uid", uid, _IMMUTABLE))
    if "deletionTimestamp" in old:
        added = [item for item in new.get("finalizers") or () if item not in (old.get("finalizers") or ())]
        if added:
            note = "no new finalizers can be added if the object is being deleted, found new finalizers "
            note = f"Forbidden: {note}{show(added)}"
            causes.append(Cause("metadata.finalizers", note, "FieldValueForbidden"))
    return causes * 2


def labels(field: str, values: Any) -> list[Cause]:
    """Keys and values of a label map."""
    causes = []
    for key, value in (values or {}).items():
        causes += _qualified_name(field, key)
        if not isinstance(value, str) or len(value) > 63 or not _LABEL_VALUE.match(value):
            note = (
                _VALUE_RULE
                if not isinstance(value, str) or len(value) <= 63
                else "must be no more than 63 characters"
            )
            causes.append(invalid_value(field, value, note))
    return causes


def _qualified_name(field: str, key: str) -> list[Cause]:
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _SUBDOMAIN.match(prefix)):
        return [invalid_value(field, key, "prefix part " + SUBDOMAIN_RULE)]
    if len(name) > 63:
        return [invalid_value(field, key, "name part must be no more than 63 characters")]
    return [] if _KEY_NAME.match(name) else [invalid_value(field, key, _KEY_RULE)]


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
            causes.append(invalid_value(path, dig(obj, *keys), _IMMUTABLE))
    if resource.key == ("", "pods"):
        causes += _pod_update(obj["spec"], old["spec"])
    return _unique(causes)


def _unique(causes: list[Cause]) -> list[Cause]:
    return list(dict.fromkeys(causes))


_FIXED: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("apps", "Deployment"): ("spec.selector",),
    ("apps", "ReplicaSet"): ("spec.selector",),
    ("apps", "StatefulSet"): ("spec.selector", "spec.serviceName", "spec.podManagementPolicy"),
    ("apps", "DaemonSet"): ("spec.selector",),
    ("batch", "Job"): ("spec.selector", "spec.template", "spec.completionMode"),
    ("scheduling.k8s.io", "PriorityClass"): ("value", "preemptionPolicy"),
    ("storage.k8s.io", "StorageClass"): ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    ("rbac.authorization.k8s.io", "RoleBinding"): ("roleRef",),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): ("roleRef",),
    ("resource.k8s.io", "ResourceClaim"): ("spec",),
    ("resource.k8s.io", "ResourceClaimTemplate"): ("spec",),
    ("", "Secret"): ("type",),
}
_POD_MUTABLE: Final = frozenset({"activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations"})


def _pod_update(spec: Obj, old: Obj) -> list[Cause]:
    def frozen(source: Obj) -> Obj:
        kept = {key: value for key, value in source.items() if key not in _POD_MUTABLE}
        for key in ("containers", "initContainers"):
            if key in kept:
                kept[key] = [{name: v for name, v in c.items() if name != "image"} for c in kept[key]]
        if old.get("schedulingGates"):
            # A gated pod may lose gates, and its node constraints may get tighter.
            for key in ("schedulingGates", "nodeSelector", "affinity"):
                kept.pop(key, None)
        return kept

    added = [t for t in old.get("tolerations", ()) if t not in spec.get("tolerations", ())]
    if frozen(spec) == frozen(old) and not added:
        return []
    note = (
        "pod updates may not change fields other than "
        "`spec.containers[*].image`,`spec.initContainers[*].image`,"
        "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
    )
    return [Cause("spec", f"Forbidden: {note}", "FieldValueForbidden")]


def _pod(obj: Obj) -> list[Cause]:
    return _pod_spec(obj.get("spec", {}), "spec")


def _pod_spec(
    spec: Obj, field: str, policies: tuple[str, ...] = ("Always", "OnFailure", "Never")
) -> list[Cause]:
    causes = []
    if not spec.get("containers"):
        causes.append(required(f"{field}.containers"))
    names: set[str] = set()
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key, ())):
            causes += _container(container, f"{field}.{key}[{index}]", names, spec)
    if spec.get("restartPolicy") not in policies:
        causes.append(unsupported(f"{field}.restartPolicy", spec.get("restartPolicy"), list(policies)))
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        note = "must be greater than or equal to 0"
        causes.append(
            invalid_value(
                f"{field}.terminationGracePeriodSeconds", spec["terminationGracePeriodSeconds"], note
            )
        )
    for key, value in spec.get("nodeSelector", {}).items():
        causes += labels(f"{field}.nodeSelector", {key: value})
    return causes


def _container(container: Obj, field: str, names: set[str], spec: Obj) -> list[Cause]:
    causes = []
    name = container.get("name", "")
    if name and (len(name) > 63 or not _LABEL.match(name)):
        causes.append(invalid_value(f"{field}.name", name, LABEL_RULE))
    if name and name in names:
        causes.append(Cause(f"{field}.name", f"Duplicate value: {show(name)}", "FieldValueDuplicate"))
    names.add(name)
    if not container.get("image"):
        causes.append(required(f"{field}.image"))
    causes += _resources(container.get("resources", {}), f"{field}.resources")
    volumes = {volume.get("name") for volume in spec.get("volumes", ())}
    for index, mount in enumerate(container.get("volumeMounts", ())):
        if mount.get("name") not in volumes:
            where = f"{field}.volumeMounts[{index}].name"
            causes.append(Cause(where, f"Not found: {show(mount.get('name'))}", "FieldValueNotFound"))
    return causes


def _resources(resources: Obj, field: str) -> list[Cause]:
    causes = []
    limits = resources.get("limits", {})
    for block in ("limits", "requests"):
        for name, text in resources.get(block, {}).items():
            where = f"{field}.{block}"
            if "/" not in name and not _NATIVE.match(name):
                note = "must be a standard resource type or fully qualified"
                causes.append(invalid_value(f"{where}[{name}]", name, note))
            elif parse(text) < 0:
                causes.append(invalid_value(f"{where}.{name}", text, "must be greater than or equal to 0"))
            elif "/" in name and parse(text) % 1:
                causes.append(invalid_value(f"{where}.{name}", text, "must be an integer"))
    for name, text in resources.get("requests", {}).items():
        if name in limits and parse(text) > parse(limits[name]):
            note = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(invalid_value(f"{field}.requests", text, note))
        elif name in limits and "/" in name and parse(text) != parse(limits[name]):
            note = f"must be equal to {name} limit of {limits[name]}"
            causes.append(invalid_value(f"{field}.requests", text, note))
    note = "Limit must be set for non overcommitable resources"
    unlimited = [name for name in resources.get("requests", {}) if "/" in name and name not in limits]
    return causes + [required(f"{field}.limits[{name}]", note) for name in unlimited]


_NATIVE: Final = re.compile(r"(cpu|memory|ephemeral-storage|storage|pods|hugepages-.+)\Z")


def _workload(obj: Obj) -> list[Cause]:
    spec = obj.get("spec", {})
    causes = []
    if spec.get("replicas", 0) < 0:
        causes.append(invalid_value("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
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
    return causes + _pod_spec(inner, "spec.template.spec", ("Always",))


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
            "activeDeadlineSeconds",
            "ttlSecondsAfterFinished",
        )
        if spec.get(key, 0) < 0
    ]
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
    return causes + _pod_spec(inner, f"{field}.template.spec", ("OnFailure", "Never"))


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
    ("", "Pod"): _pod,
    ("", "Service"): _service,
    ("", "PersistentVolumeClaim"): _claim,
    ("apps", "Deployment"): _workload,
    ("apps", "ReplicaSet"): _workload,
    ("apps", "StatefulSet"): _workload,
    ("apps", "DaemonSet"): _workload,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _webhooks,
}
