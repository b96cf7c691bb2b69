"""ValidatingAdmissionPolicies: compiled when they are stored, asked about the requests that they match.

What cannot be compiled is refused, as are parameters: nothing here reads them. There is no audit log, so
``auditAnnotations`` are compiled and go nowhere, as does what a binding wants told by ``Audit``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kai_local.apiserver.access.authz import Authorizer
from kai_local.apiserver.admission import matching
from kai_local.apiserver.admission.builtin import NAMESPACES
from kai_local.apiserver.admission.policy_cel import Language, Program, Variable, Variables
from kai_local.apiserver.calls.requests import Target, WriteOptions
from kai_local.apiserver.errors import ApiFailure, Cause, Obj, forbidden, invalid_value, required, unsupported
from kai_local.apiserver.kinds.catalogue import Resource
from kai_local.apiserver.schemas import cel_reads
from kai_local.apiserver.schemas.cel import CelError
from kai_local.apiserver.store.storage import Change, Store

POLICIES: Final = ("admissionregistration.k8s.io", "validatingadmissionpolicies")
BINDINGS: Final = ("admissionregistration.k8s.io", "validatingadmissionpolicybindings")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_CODES: Final = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413, "Unauthorized": 401}
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_NO_PARAMETERS: Final = "the embedded API server reads no parameters of policies"


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    """One rule: what must be true, and what is said where it is not."""

    program: Program
    message: str
    told: Program | None
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """A stored policy, ready to be asked."""

    name: str
    spec: Obj
    match: matching.Match
    conditions: tuple[Program, ...]
    variables: dict[str, Program]
    validations: tuple[Validation, ...]
    #: What its expressions read of their inputs; None for all of them.
    members: dict[str, cel_reads.Reads] | None

    @property
    def strict(self) -> bool:
        """Whether an error refuses the request."""
        return bool(self.spec.get("failurePolicy", "Fail") == "Fail")


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """Puts a policy into force for what it matches."""

    name: str
    match: matching.Match
    actions: tuple[str, ...]


class Policies:
    """Asks the stored policies that a binding puts into force.

    ``check_policy`` and ``check_binding`` are for the registry's ``on_write``.
    """

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._language = Language(authorizer)
        self._policies: dict[str, Policy] = {}
        self._bindings: dict[str, list[Binding]] = {}
        self._checked: Policy | None = None
        self._concerned: dict[tuple[str, Resource, str], tuple[Policy, ...]] = {}
        store.collection(POLICIES).listeners.append(self._follow)
        store.collection(BINDINGS).listeners.append(self._bind)

    # --- what is stored ----------------------------------------------------------------------------

    def check_policy(self, obj: Obj, _old: Obj | None) -> list[Cause]:
        """What is wrong with a policy that somebody wants to store."""
        causes: list[Cause] = []
        spec = obj.get("spec") or {}
        if not (spec.get("matchConstraints") or {}).get("resourceRules"):
            causes.append(required("spec.matchConstraints.resourceRules"))
        if spec.get("paramKind"):
            causes.append(Cause("spec.paramKind", f"Forbidden: {_NO_PARAMETERS}", "FieldValueForbidden"))
        if spec.get("failurePolicy", "Fail") not in ("Fail", "Ignore"):
            causes.append(unsupported("spec.failurePolicy", spec["failurePolicy"], ["Fail", "Ignore"]))
        if not spec.get("validations") and not spec.get("auditAnnotations"):
            note = "validations or auditAnnotations must contain at least one item"
            causes += [required("spec.validations", note), required("spec.auditAnnotations", note)]
        self._checked = _Compiler(self._language, obj["metadata"].get("name", ""), spec, causes).policy()
        return causes

    def check_binding(self, obj: Obj, _old: Obj | None) -> list[Cause]:
        """What is wrong with a binding that somebody wants to store."""
        causes: list[Cause] = []
        spec = obj.get("spec") or {}
        if not spec.get("policyName"):
            causes.append(required("spec.policyName"))
        if spec.get("paramRef"):
            causes.append(Cause("spec.paramRef", f"Forbidden: {_NO_PARAMETERS}", "FieldValueForbidden"))
        actions = spec.get("validationActions") or []
        if not actions:
            causes.append(required("spec.validationActions"))
        causes += [
            unsupported(f"spec.validationActions[{index}]", action, list(_ACTIONS))
            for index, action in enumerate(actions)
            if action not in _ACTIONS
        ]
        return causes

    def _follow(self, change: Change) -> None:
        self._concerned.clear()
        obj = change.record.obj
        name, spec = change.record.name, obj.get("spec") or {}
        if change.kind == "DELETED":
            self._policies.pop(name, None)
            return
        known = self._policies.get(name)
        if known is not None and known.spec == spec:
            return
        checked = self._checked
        if checked is None or (checked.name, checked.spec) != (name, spec):  # as from a journal
            checked = _Compiler(self._language, name, spec, []).policy()
        self._policies[name] = checked

    def _bind(self, _change: Change) -> None:
        self._concerned.clear()
        self._bindings = {}
        for record in self._store.collection(BINDINGS).records():
            spec = record.obj.get("spec") or {}
            binding = Binding(
                record.name,
                matching.of_policy(spec.get("matchResources")),
                tuple(spec.get("validationActions") or ()),
            )
            self._bindings.setdefault(spec.get("policyName", ""), []).append(binding)

    # --- what is asked -----------------------------------------------------------------------------

    def concern(self, operation: str, target: Target) -> bool:
        """Whether any policy in force may be about the request."""
        return bool(self._policies) and bool(self._asked(operation, target))

    def _asked(self, operation: str, target: Target) -> tuple[Policy, ...]:
        key = (operation, target.resource, target.subresource)
        found = self._concerned.get(key)
        if found is None:
            found = self._concerned[key] = tuple(
                policy
                for policy in self._policies.values()
                if policy.match.concerns(operation, target)
                and any(
                    binding.match.concerns(operation, target)
                    for binding in self._bindings.get(policy.name, ())
                )
            )
        return found

    def validate(
        self, operation: str, target: Target, obj: Obj | None, old: Obj | None, options: WriteOptions
    ) -> None:
        """Ask the policies. Raises ApiFailure with the first refusal, as of the real server's many."""
        asked = self._asked(operation, target)
        if not asked:
            return
        new, before = _spoken(target, obj), _spoken(target, old)
        request = matching.admission_request(operation, target, new, before, options)
        labels = matching.namespace_labels(self._store, target, request)
        inputs = self._inputs(request, target, options)
        refused: ApiFailure | None = None
        for policy in asked:
            if not policy.match.selects(request, target, labels):
                continue
            bindings = [
                binding
                for binding in self._bindings[policy.name]
                if binding.match.concerns(operation, target)
                and binding.match.selects(request, target, labels)
            ]
            values = _Values(policy, inputs, self._language)
            for told, reason in _findings(policy, values) if bindings else ():
                for binding in bindings:
                    if "Deny" in binding.actions:
                        refused = refused or _refusal(policy, binding, target, told, reason)
                    if "Warn" in binding.actions:
                        options.warnings.append(
                            f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding "
                            f"'{binding.name}': {told}"
                        )
        if refused is not None:
            raise refused

    def _inputs(self, request: Obj, target: Target, options: WriteOptions) -> dict[str, Any]:
        namespace = None
        if target.resource.namespaced:
            namespace = self._store.collection(NAMESPACES).get("", target.namespace)
        return {
            "object": request["object"],
            "oldObject": request["oldObject"],
            "request": {key: value for key, value in request.items() if key not in ("object", "oldObject")},
            "namespaceObject": namespace.obj if namespace is not None else None,
            **self._language.asking(options.user, target),
        }


class _Values:
    """Values of the expressions of a policy for one request; a variable has one when it is first read."""

    def __init__(self, policy: Policy, inputs: dict[str, Any], language: Language) -> None:
        self._policy = policy
        self._inputs = inputs
        self._shared = language.share(cel_reads.only_of(inputs, policy.members))
        self._variables: dict[str, Any] = {}

    def of(self, program: Program) -> Any:
        """Raises CelError: the expression fails, or a variable that it needs."""
        if not program.reads:
            return program.evaluate_shared(self._shared)
        values, failed = dict(self._inputs), None
        for name in program.reads:
            value = self._variable(name)
            if isinstance(value, CelError):
                failed = value  # counts if it is needed
            else:
                values[f"variables.{name}"] = value
        try:
            return program.evaluate(values)
        except CelError as error:
            raise failed or error from None

    def _variable(self, name: str) -> Any:
        if name not in self._variables:
            try:
                value = self.of(self._policy.variables[name])
            except CelError as error:
                value = error
            self._variables[name] = value
        return self._variables[name]


def _spoken(target: Target, obj: Obj | None) -> Obj | None:
    """The object in the version in which the request speaks."""
    convert = target.version.from_storage
    return convert(obj) if convert is not None and obj is not None else obj


def _findings(policy: Policy, values: _Values) -> Iterator[tuple[str, str]]:
    """What the policy has against a request, with reasons; nothing where a condition does not hold."""
    failed = None
    for condition in policy.conditions:
        try:
            if not values.of(condition):
                return
        except CelError as error:
            failed = failed or error
    if failed is not None:
        if policy.strict:
            yield str(failed), "Invalid"
        return
    for validation in policy.validations:
        try:
            if values.of(validation.program):
                continue
        except CelError as error:
            if policy.strict:
                yield str(error), "Invalid"
            continue
        yield _told(validation, values), validation.reason


def _members(programs: Iterable[Program]) -> dict[str, cel_reads.Reads] | None:
    """What any of them reads."""
    found: cel_reads.Reads = {}
    for program in programs:
        found = cel_reads.both(found, program.members)
    return found


def _told(validation: Validation, values: _Values) -> str:
    if validation.told is not None:
        try:
            text = values.of(validation.told).strip()
        except CelError:
            text = ""
        if text and "\n" not in text:
            return str(text)
    return validation.message or f"failed expression: {validation.program.expression.strip()}"


def _refusal(policy: Policy, binding: Binding, target: Target, told: str, reason: str) -> ApiFailure:
    resource = target.resource
    message = (
        f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}' denied request: {told}"
    )
    failure = forbidden(resource.plural, resource.group, target.name, message)
    failure.reason, failure.code = reason, _CODES.get(reason, 422)
    failure.details = {**(failure.details or {}), "causes": [{"message": message}]}
    return failure


class _Compiler:
    """Compiles the expressions of one policy, and notes what cannot be."""

    def __init__(self, language: Language, name: str, spec: Obj, causes: list[Cause]) -> None:
        self._language = language
        self._name, self._spec, self._causes = name, spec, causes
        self._variables: Variables = ()

    def policy(self) -> Policy:
        """The policy, without what cannot be compiled."""
        conditions = self._expressions("matchConditions", "expression", returns="BOOL")
        variables: dict[str, Program] = {}
        for index, variable in enumerate(self._spec.get("variables") or ()):
            program = self._one(f"spec.variables[{index}].expression", variable["expression"])
            if not _NAME.fullmatch(name := variable.get("name", "")):
                self._causes.append(
                    invalid_value(f"spec.variables[{index}].name", name, "must be an identifier")
                )
            elif program is not None:
                variables[name] = program
                self._variables = (*self._variables, Variable(name, program.returns.name(), program.returns))
        validations = tuple(self._validations())
        self._expressions("auditAnnotations", "valueExpression", authorizer=False)
        match = matching.of_policy(self._spec.get("matchConstraints"))
        told = [validation.told for validation in validations if validation.told is not None]
        checks = [validation.program for validation in validations]
        members = _members([*conditions, *variables.values(), *checks, *told])
        return Policy(self._name, self._spec, match, conditions, variables, validations, members)

    def _validations(self) -> Iterator[Validation]:
        for index, spec in enumerate(self._spec.get("validations") or ()):
            path, told = f"spec.validations[{index}]", None
            if spec.get("reason", "Invalid") not in _CODES:
                self._causes.append(unsupported(f"{path}.reason", spec["reason"], sorted(_CODES)))
            if spec.get("messageExpression"):
                told = self._one(
                    f"{path}.messageExpression", spec["messageExpression"], returns="STRING", authorizer=False
                )
            program = self._one(f"{path}.expression", spec["expression"], returns="BOOL")
            if program is not None:
                yield Validation(
                    program, spec.get("message", "").strip(), told, spec.get("reason", "Invalid")
                )

    def _expressions(
        self, part: str, key: str, *, returns: str = "", authorizer: bool = True
    ) -> tuple[Program, ...]:
        found = (
            self._one(f"spec.{part}[{index}].{key}", item[key], returns=returns, authorizer=authorizer)
            for index, item in enumerate(self._spec.get(part) or ())
        )
        return tuple(program for program in found if program is not None)

    def _one(
        self, path: str, expression: str, *, returns: str = "", authorizer: bool = True
    ) -> Program | None:
        try:
            return self._language.compile(expression, self._variables, returns=returns, authorizer=authorizer)
        except CelError as error:
            self._causes.append(invalid_value(path, expression, str(error)))
            return None
