"""Which requests a webhook or a policy is about: rules, and selectors of namespaces and objects."""

from dataclasses import dataclass
from typing import Any, Final

from kai_local.apiserver.admission.builtin import NAMESPACES
from kai_local.apiserver.calls.requests import Target, WriteOptions
from kai_local.apiserver.errors import Obj
from kai_local.apiserver.kinds import selectors
from kai_local.apiserver.kinds.catalogue import dig
from kai_local.apiserver.store.storage import Store

#: Nobody is asked about changes of those who are asked: a mistake in one could not be mended else.
EXEMPT: Final = "admissionregistration.k8s.io"


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """What somebody wants to be asked about: a webhook, or ``matchConstraints`` of a policy."""

    rules: tuple[Obj, ...]
    excluded: tuple[Obj, ...]
    namespaces: selectors.LabelSelector
    objects: selectors.LabelSelector
    #: Without rules: all requests (a binding), or none (a webhook).
    without_rules: bool

    def concerns(self, operation: str, target: Target) -> bool:
        """Whether it may be about requests to this kind of target; names and labels are not looked at."""
        if target.resource.group == EXEMPT:
            return False
        if any(_covers(rule, operation, target) for rule in self.excluded if not rule.get("resourceNames")):
            return False
        if not self.rules:
            return self.without_rules
        return any(_covers(rule, operation, target) for rule in self.rules)

    def selects(self, request: Obj, target: Target, labels: dict[str, str] | None) -> bool:
        """Whether it is about this request, which it concerns; ``labels`` are those of the namespace."""
        operation = request["operation"]
        if any(_covers(rule, operation, target) and _names(rule, target) for rule in self.excluded):
            return False
        if self.rules and not any(
            _covers(rule, operation, target) and _names(rule, target) for rule in self.rules
        ):
            return False
        if labels is not None and not self.namespaces.matches(labels):
            return False
        states = [state for state in (request.get("object"), request.get("oldObject")) if state]
        return any(self.objects.matches(dig(state, "metadata", "labels")) for state in states)


def of_webhook(spec: Obj) -> Match:
    """The requests that a webhook wants to see."""
    return _match(spec, spec.get("rules"), (), without_rules=False)


def of_policy(constraints: Obj | None) -> Match:
    """The requests that ``matchConstraints`` of a policy, or ``matchResources`` of a binding, name."""
    spec = constraints or {}
    return _match(spec, spec.get("resourceRules"), spec.get("excludeResourceRules"), without_rules=True)


def _match(spec: Obj, rules: Any, excluded: Any, *, without_rules: bool) -> Match:
    return Match(
        tuple(rules or ()),
        tuple(excluded or ()),
        selectors.from_object(spec.get("namespaceSelector") or {}),
        selectors.from_object(spec.get("objectSelector") or {}),
        without_rules,
    )


def _covers(rule: Obj, operation: str, target: Target) -> bool:
    resource = target.resource
    name = f"{resource.plural}/{target.subresource}" if target.subresource else resource.plural
    return (
        _has(rule.get("operations"), operation)
        and _has(rule.get("apiGroups"), resource.group)
        and _has(rule.get("apiVersions"), *resource.versions)
        and _has_resource(rule.get("resources") or (), name)
        and rule.get("scope", "*") in ("*", "Namespaced" if resource.namespaced else "Cluster")
    )


def _names(rule: Obj, target: Target) -> bool:
    wanted = rule.get("resourceNames")
    return not wanted or target.name in wanted


def _has(allowed: list[str] | None, *values: str) -> bool:
    return "*" in (allowed or ()) or any(value in (allowed or ()) for value in values)


def _has_resource(allowed: list[str] | tuple[()], name: str) -> bool:
    plural, _, sub = name.partition("/")
    options = {name, "*/*"}
    options |= {f"*/{sub}", f"{plural}/*"} if sub else {"*", f"{plural}/*"}
    return any(item in options for item in allowed)


def namespace_labels(store: Store, target: Target, request: Obj) -> dict[str, str] | None:
    """The labels that a selector of namespaces looks at; None where it does not count."""
    if target.resource.key == NAMESPACES:
        states = request.get("object") or request.get("oldObject")
        labels: dict[str, str] = dig(states, "metadata", "labels") or {}
        return labels
    if not target.resource.namespaced:
        return None
    record = store.collection(NAMESPACES).get("", target.namespace)
    return (record.obj["metadata"].get("labels") or {}) if record is not None else {}


def admission_request(
    operation: str, target: Target, obj: Obj | None, old: Obj | None, options: WriteOptions
) -> Obj:
    """The ``request`` of an AdmissionReview, without a uid."""
    resource = target.resource
    version = resource.storage_version
    kind = {"group": resource.group, "version": version, "kind": resource.kind}
    if target.subresource in _OTHER_KINDS:
        kind = _OTHER_KINDS[target.subresource]
    plural = {"group": resource.group, "version": version, "resource": resource.plural}
    request: dict[str, Any] = {
        "kind": kind,
        "resource": plural,
        "requestKind": kind,
        "requestResource": plural,
        "operation": operation,
        "userInfo": options.user.info(),
        "object": obj,
        "oldObject": old,
        "dryRun": options.dry_run,
        "options": {"kind": f"{operation.title()}Options", "apiVersion": "meta.k8s.io/v1"},
        "name": target.name,
    }
    if target.subresource:
        request["subResource"] = request["requestSubResource"] = target.subresource
    if target.namespace:
        request["namespace"] = target.namespace
    return request


#: What is sent to these subresources is no state of the object.
_OTHER_KINDS: Final = {
    "binding": {"group": "", "version": "v1", "kind": "Binding"},
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction"},
}
