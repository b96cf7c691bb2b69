"""Rules that pods and pod templates must keep."""

import json
import re
from dataclasses import replace
from typing import Final

from kai.model.quantity import parse
from kai_local.apiserver.errors import Cause, Obj, invalid_value, required, show, unsupported
from kai_local.apiserver.rules.metadata_rules import (
    LABEL,
    LABEL_RULE,
    VALUE_RULE,
    is_label_value,
    labels,
    qualified_name,
)
from kai_local.apiserver.schemas.sameness import first_places, without

_MUTABLE: Final = frozenset({"activeDeadlineSeconds", "tolerations"})
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NATIVE: Final = re.compile(r"(cpu|memory|ephemeral-storage|storage|pods|hugepages-.+)\Z")
_DNS_POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"


def pod_update(spec: Obj, old: Obj) -> list[Cause]:
    """What the new spec of a pod changes though it may not."""

    def frozen(source: Obj) -> Obj:
        kept = {key: value for key, value in source.items() if key not in _MUTABLE}
        for key in ("containers", "initContainers"):
            if key in kept:
                kept[key] = [{name: v for name, v in c.items() if name != "image"} for c in kept[key]]
        if old.get("schedulingGates"):
            # A gated pod may lose gates, and its node constraints may get tighter.
            for key in ("schedulingGates", "nodeSelector", "affinity"):
                kept.pop(key, None)
        return kept

    known = {gate.get("name") for gate in old.get("schedulingGates", ())}
    note = "Forbidden: only deletion is allowed, but found new scheduling gate"
    new_gates = [
        Cause(f"spec.schedulingGates[{index}].name", note, "FieldValueForbidden")
        for index, gate in enumerate(spec.get("schedulingGates", ()))
        if gate.get("name") not in known
    ]
    if known and new_gates:
        return new_gates
    gone = without(old.get("tolerations", ()), spec.get("tolerations", ()))
    if frozen(spec) == frozen(old) and not gone:
        return []
    note = (
        "pod updates may not change fields other than "
        "`spec.containers[*].image`,`spec.initContainers[*].image`,"
        "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
    )
    return [Cause("spec", f"Forbidden: {note}", "FieldValueForbidden")]


def ephemeral(spec: Obj, old: Obj) -> list[Cause]:
    """What is wrong with the containers that are added to a pod: those that it has stay as they are."""
    added, before = spec.get("ephemeralContainers") or [], old.get("ephemeralContainers") or []
    field, by_name = "spec.ephemeralContainers", {one["name"]: one for one in added if one.get("name")}
    causes = []
    for container in before:
        if by_name.get(container["name"]) != container:
            note = (
                f"existing ephemeral containers {json.dumps(container['name'])} may not be changed or removed"
            )
            causes.append(Cause(field, f"Forbidden: {note}", "FieldValueForbidden"))
    taken = {one["name"] for key in ("containers", "initContainers") for one in old.get(key) or ()}
    for index, container in enumerate(added):
        name = container.get("name")
        if not name:
            causes.append(required(f"{field}[{index}].name"))
        elif name in taken:
            causes.append(
                Cause(f"{field}[{index}].name", f'Duplicate value: "{name}"', "FieldValueDuplicate")
            )
        taken.add(name)
        if container.get("resources"):
            note = "cannot be set for an Ephemeral Container"
            causes.append(Cause(f"{field}[{index}].resources", f"Forbidden: {note}", "FieldValueForbidden"))
    return causes


def pod(obj: Obj) -> list[Cause]:
    """What is wrong with a pod."""
    spec = obj.get("spec", {})
    causes = pod_spec(spec, "spec")
    if gates := spec.get("schedulingGates"):
        causes += [
            replace(cause, field=f"spec.schedulingGates[{index}]")
            for index, gate in enumerate(gates)
            for cause in qualified_name("", gate.get("name", ""))
        ]
        if spec.get("nodeName"):
            note = "Forbidden: cannot be set until all schedulingGates have been cleared"
            causes.append(Cause("spec.nodeName", note, "FieldValueForbidden"))
    return causes


def pod_spec(
    spec: Obj, field: str, policies: tuple[str, ...] = ("Always", "OnFailure", "Never")
) -> list[Cause]:
    """What is wrong with the spec of a pod, or of a template whose pods may have these restart policies."""
    causes = []
    if not spec.get("containers"):
        causes.append(required(f"{field}.containers"))
    names: set[str] = set()
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key, ())):
            causes += _container(container, f"{field}.{key}[{index}]", names, spec)
    if spec.get("restartPolicy") not in policies:
        causes.append(unsupported(f"{field}.restartPolicy", spec.get("restartPolicy"), list(policies)))
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        causes.append(unsupported(f"{field}.dnsPolicy", spec.get("dnsPolicy"), list(_DNS_POLICIES)))
    if volumes := spec.get("volumes"):
        causes += _volumes(volumes, f"{field}.volumes")
    for key, value in spec.get("nodeSelector", {}).items():
        causes += labels(f"{field}.nodeSelector", {key: value})
    for index, toleration in enumerate(spec.get("tolerations", ())):
        causes += _toleration(toleration, f"{field}.tolerations[{index}]")
    return causes


def _volumes(volumes: list[Obj], field: str) -> list[Cause]:
    names = [volume.get("name") for volume in volumes]
    first = first_places(names)
    return [
        Cause(f"{field}[{index}].name", f"Duplicate value: {show(name)}", "FieldValueDuplicate")
        for index, name in enumerate(names)
        if name and first[name] < index
    ]


def _toleration(toleration: Obj, field: str) -> list[Cause]:
    key, operator, value, effect = map(toleration.get, ("key", "operator", "value", "effect"))
    causes = list(qualified_name(f"{field}.key", key)) if key else []
    if not key and operator != "Exists":
        note = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.append(invalid_value(f"{field}.operator", operator or "", note))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        note = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid_value(f"{field}.effect", effect or "", note))
    if operator == "Exists" and value:
        note = "value must be empty when `operator` is 'Exists'"
        causes.append(invalid_value(f"{field}.operator", value, note))
    elif operator in ("Equal", None, "") and value and not is_label_value(value):
        causes.append(invalid_value(f"{field}.operator", value, VALUE_RULE))
    elif operator not in ("Exists", "Equal", None, ""):
        causes.append(unsupported(f"{field}.operator", operator, ["Equal", "Exists"]))
    if effect and effect not in EFFECTS:
        causes.append(unsupported(f"{field}.effect", effect, list(EFFECTS)))
    return causes


def _container(container: Obj, field: str, names: set[str], spec: Obj) -> list[Cause]:
    causes = []
    name = container.get("name", "")
    if name and (len(name) > 63 or not LABEL.match(name)):
        causes.append(invalid_value(f"{field}.name", name, LABEL_RULE))
    if name and name in names:
        causes.append(Cause(f"{field}.name", f"Duplicate value: {show(name)}", "FieldValueDuplicate"))
    names.add(name)
    if not container.get("image"):
        causes.append(required(f"{field}.image"))
    causes += _resources(container.get("resources", {}), f"{field}.resources")
    if container.get("imagePullPolicy") not in _PULL_POLICIES:
        policy = container.get("imagePullPolicy")
        causes.append(unsupported(f"{field}.imagePullPolicy", policy, list(_PULL_POLICIES)))
    for index, port in enumerate(container.get("ports", ())):
        if not port.get("containerPort"):
            causes.append(required(f"{field}.ports[{index}].containerPort"))
    if mounts := container.get("volumeMounts"):
        causes += _mounts(mounts, f"{field}.volumeMounts", spec)
    return causes


def _mounts(mounts: list[Obj], field: str, spec: Obj) -> list[Cause]:
    volumes = {volume.get("name") for volume in spec.get("volumes", ())}
    return [
        Cause(f"{field}[{index}].name", f"Not found: {show(mount.get('name'))}", "FieldValueNotFound")
        for index, mount in enumerate(mounts)
        if mount.get("name") not in volumes
    ]


def _resources(resources: Obj, field: str) -> list[Cause]:
    causes = []
    limits = resources.get("limits", {})
    for block in ("limits", "requests"):
        for name, text in resources.get(block, {}).items():
            where, amount = f"{field}.{block}[{name}]", parse(text)
            if "/" not in name and not _NATIVE.match(name):
                note = "must be a standard resource type or fully qualified"
                causes.append(invalid_value(where, name, note))
            elif amount < 0:
                causes.append(invalid_value(where, text, _NOT_NEGATIVE))
            elif "/" in name and amount != amount.to_integral_value():
                causes.append(invalid_value(where, text, "must be an integer"))
    for name, text in resources.get("requests", {}).items():
        if name in limits and parse(text) > parse(limits[name]):
            note = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(invalid_value(f"{field}.requests", text, note))
        elif name in limits and "/" in name and parse(text) != parse(limits[name]):
            note = f"must be equal to {name} limit of {limits[name]}"
            causes.append(invalid_value(f"{field}.requests", text, note))
    note = "Limit must be set for non overcommitable resources"
    unlimited = [name for name in resources.get("requests", {}) if "/" in name and name not in limits]
    return causes + [required(f"{field}.limits", note) for _ in unlimited]
