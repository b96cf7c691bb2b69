"""The language of admission policies: what expressions may name, and what Kubernetes adds to CEL for them.

``object``, ``oldObject``, ``request`` and ``namespaceObject`` have no types here: a field that a kind does
not have is an error when it is read, not when the policy is stored. Variables have that of their expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Final

from cel_expr_python import cel
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kai_local.apiserver.access.authn import service_account
from kai_local.apiserver.access.authz import Action, Authorizer
from kai_local.apiserver.calls.requests import Target, User
from kai_local.apiserver.schemas import cel_reads
from kai_local.apiserver.schemas.cel import CelError, extensions, library, value_of

_DYN: Final = cel.Type.DYN
_VARIABLE: Final = re.compile(r"\bvariables\s*\.\s*([A-Za-z_]\w*)")
_INPUTS: Final = dict.fromkeys(("object", "oldObject", "request", "namespaceObject"), _DYN)
_TEXT: Final = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_ONE: Final = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
_MANY: Final = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
_USER: Final = {"username": _ONE, "groups": _MANY}
_MESSAGES: Final = {
    "Authorizer": _USER,
    "PathCheck": {**_USER, "path": _ONE},
    "GroupCheck": {**_USER, "group": _ONE},
    "ResourceCheck": {
        **_USER,
        **dict.fromkeys(("group", "resource", "subresource", "namespace", "name"), _ONE),
    },
    "Decision": {"verdict": _ONE},
}


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a policy with its type; types of the library cannot be compared, their names can."""

    name: str
    type_name: str
    type: Any = field(compare=False)


Variables = tuple[Variable, ...]
"""In the order in which they are defined."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A compiled expression."""

    expression: str
    program: Any
    #: Variables of the policy that it may read.
    reads: tuple[str, ...]
    returns: Any
    #: What it reads of its inputs; None for all of them.
    members: dict[str, cel_reads.Reads] | None

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value over these inputs, names as they are written. Raises CelError."""
        return self._value(data=cel_reads.only_of(values, self.members))

    def evaluate_shared(self, inputs: Any) -> Any:
        """The same over inputs of ``Language.share``. Raises CelError."""
        return self._value(activation=inputs)

    def _value(self, **inputs: Any) -> Any:
        try:
            return value_of(self.program, **inputs)
        except CelError as error:
            raise CelError(f"expression '{self.expression}' resulted in error: {error}") from error


class Language:
    """Compiles expressions of policies; ``authorizer`` in them asks this one."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._environment = lru_cache(maxsize=64)(self._new_environment)

    def compile(
        self, expression: str, variables: Variables = (), *, returns: str = "", authorizer: bool = True
    ) -> Program:
        """Compile for values of the type ``returns`` (any if empty). Raises CelError."""
        try:
            program = self._environment(variables, authorizer).compile(expression)
        except RuntimeError as error:
            raise CelError(f"compilation failed: {error}") from error
        kind = program.return_type()
        if returns and kind.name() != returns:
            raise CelError(f"must evaluate to {returns.lower()}")
        known = {variable.name for variable in variables}
        reads = dict.fromkeys(name for name in _VARIABLE.findall(expression) if name in known)
        return Program(expression, program, tuple(reads), kind, cel_reads.reads_of(program))

    def share(self, inputs: Mapping[str, Any]) -> Any:
        """Inputs for many expressions: one is converted when it is first read, and once."""
        return self._environment((), True).Activation(data=inputs)

    def asking(self, user: User, target: Target) -> dict[str, Any]:
        """The inputs that stand for ``authorizer`` and ``authorizer.requestResource``."""
        who = {"username": user.name, "groups": user.groups}
        resource = _message("ResourceCheck")(
            **who,
            group=target.resource.group,
            resource=target.resource.plural,
            subresource=target.subresource,
            namespace=target.namespace,
            name=target.name,
        )
        return {"authorizer": _message("Authorizer")(**who), "authorizer.requestResource": resource}

    def _new_environment(self, variables: Variables, authorizer: bool) -> Any:
        names = dict(_INPUTS)
        functions = library()
        if authorizer:
            names["authorizer"] = _type("Authorizer")
            names["authorizer.requestResource"] = _type("ResourceCheck")
            functions += self._questions()
        names.update((f"variables.{variable.name}", variable.type) for variable in variables)
        return cel.NewEnv(
            descriptor_pool=_pool(), variables=names, functions=functions, extensions=extensions()
        )

    def _questions(self) -> list[Any]:
        """``authorizer.group(g).resource(r).check(verb).allowed()``, and the steps that may be between."""

        def steps(name: str, impl: Callable[..., Any], *overloads: tuple[str, Any, int]) -> Any:
            # At run time all types are just messages: one implementation serves all overloads.
            return cel.FunctionDecl(
                name,
                [
                    cel.Overload(
                        f"{of.lower()}_{name.lower()}",
                        result,
                        [_type(of), *[cel.Type.STRING] * count],
                        is_member=True,
                        **({} if index else {"impl": impl}),
                    )
                    for index, (of, result, count) in enumerate(overloads)
                ],
            )

        narrowed = [
            steps(part, _narrow("ResourceCheck", part), ("ResourceCheck", _type("ResourceCheck"), 1))
            for part in ("subresource", "namespace", "name")
        ]
        return [
            *narrowed,
            steps("group", _narrow("GroupCheck", "group"), ("Authorizer", _type("GroupCheck"), 1)),
            steps("path", _narrow("PathCheck", "path"), ("Authorizer", _type("PathCheck"), 1)),
            steps(
                "resource", _narrow("ResourceCheck", "resource"), ("GroupCheck", _type("ResourceCheck"), 1)
            ),
            steps("serviceAccount", _as_account, ("Authorizer", _type("Authorizer"), 2)),
            steps(
                "check",
                self._check,
                ("ResourceCheck", _type("Decision"), 1),
                ("PathCheck", _type("Decision"), 1),
            ),
            steps("allowed", lambda decision: decision.verdict == "allowed", ("Decision", cel.Type.BOOL, 0)),
        ]

    def _check(self, question: Any, verb: str) -> Any:
        user = User(question.username, tuple(question.groups))
        if question.DESCRIPTOR.name == "PathCheck":
            action = Action(verb, path=question.path)
        else:
            action = Action(
                verb,
                question.group,
                question.resource,
                question.subresource,
                question.namespace,
                question.name,
            )
        allowed = self._authorizer.allows(user, action)
        return _message("Decision")(verdict="allowed" if allowed else "denied")


def _narrow(kind: str, field: str) -> Callable[[Any, str], Any]:
    """A step from one question to the next, which knows one thing more."""

    def step(question: Any, value: str) -> Any:
        known = {name: getattr(question, name) for name in _MESSAGES[question.DESCRIPTOR.name]}
        return _message(kind)(**{**known, field: value})

    return step


def _as_account(_question: Any, namespace: str, name: str) -> Any:
    user = service_account(namespace, name)
    return _message("Authorizer")(username=user.name, groups=user.groups)


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(
        name="kai/policies.proto", package="kubernetes", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (part, label) in enumerate(fields.items(), start=1):
            message.field.add(name=part, number=number, type=_TEXT, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


@cache
def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"kubernetes.{name}"))


def _type(name: str) -> Any:
    return cel.Type(f"kubernetes.{name}")
