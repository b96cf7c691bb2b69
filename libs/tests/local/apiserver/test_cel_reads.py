"""Expressions over large objects cost what they read of them, not what the objects hold."""

from __future__ import annotations

from typing import Any

import pytest

from kai_local.apiserver.access.authz import Authorizer
from kai_local.apiserver.admission.policies import BINDINGS, POLICIES, Policies
from kai_local.apiserver.admission.policy_cel import Language, Program, Variable
from kai_local.apiserver.calls.requests import Target, User, WriteOptions
from kai_local.apiserver.errors import ApiFailure
from kai_local.apiserver.kinds import builtins
from kai_local.apiserver.kinds.catalogue import Catalogue
from kai_local.apiserver.schemas import cel, cel_reads
from kai_local.apiserver.store.storage import Store

READS: dict[str, dict[str, Any] | None] = {
    "object.metadata.name == 'a'": {"object": {"metadata": {"name": None}}},
    "object['metadata'].name": {"object": {"metadata": {"name": None}}},
    "has(object.spec)": {"object": {"spec": {}}},
    "has(object.spec) && has(object.spec.queue)": {"object": {"spec": {"queue": {}}}},
    "has(object.spec) ? object.spec.queue : ''": {"object": {"spec": {"queue": None}}},
    "object != null && has(object.metadata.labels) ? dyn(object.metadata.labels) : dyn({})": {
        "object": {"metadata": {"labels": None}}
    },
    "(object != null && has(object.spec) ? object : oldObject).spec.name": {
        "object": {"spec": {"name": None}},
        "oldObject": {"spec": {"name": None}},
    },
    "object.spec.list.all(item, item.name == oldObject.name)": {
        "object": {"spec": {"list": None}},
        "oldObject": {"name": None},
    },
    "object.spec.list[0].name": {"object": {"spec": {"list": None}}},
    "object.metadata.labels[object.metadata.name]": {"object": {"metadata": {"labels": None, "name": None}}},
    "object.?spec.?queue.orValue('')": {"object": {"spec": {"queue": None}}},
    "object == oldObject": {"object": None, "oldObject": None},
    "cel.bind(it, object, it.spec)": None,
    "[object.a, {'b': object.b}][0]": {"object": {"a": None, "b": None}},
    "size(object.spec)": {"object": {"spec": None}},
    "object == null": {"object": {}},
}


@pytest.mark.parametrize(("expression", "reads"), READS.items())
def test_what_an_expression_reads_is_seen_in_its_parts(expression, reads):
    try:
        program, found = cel.compile_expression(expression, ("object", "oldObject"))
    except cel.CelError:
        assert reads is None
        return
    assert program is not None
    assert {name: found[name] for name in found if name in ("object", "oldObject")} == reads


WORLDS = [
    {},
    {"spec": {}},
    {"spec": None},
    {"spec": []},
    {"spec": "text"},
    {"metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {"queue": "q", "name": "n", "list": []}},
    {"spec": {"list": [{"name": "x"}, {"name": "y"}], "other": [1] * 100}, "name": "x", "a": 1, "b": 2},
]


@pytest.mark.parametrize("expression", [expression for expression in READS if "cel.bind" not in expression])
@pytest.mark.parametrize("world", WORLDS)
def test_what_is_left_out_changes_no_value_and_no_error(expression, world):
    def value(**inputs):
        try:
            return cel.value_of(program, data=inputs)
        except cel.CelError as error:
            return str(error)

    program, reads = cel.compile_expression(expression, ("object", "oldObject"))
    inputs = {"object": world, "oldObject": world}
    assert value(**cel_reads.only_of(inputs, reads)) == value(**inputs)


@pytest.fixture
def language():
    return Language(Authorizer(Store(), rbac=False))


#: What the library cannot convert: whoever tries fails.
POISON = {"large": object()}


def test_a_rule_converts_only_what_it_reads():
    assert cel.evaluate("self.a == 1 && !has(self.c)", self={"a": 1, "b": POISON}) is True


def test_variables_are_inputs_like_others(language: Language):
    dyn = language.compile("object.a").returns
    program = language.compile("variables.it.b == object.c", (Variable("it", dyn.name(), dyn),))
    inputs = {"object": {"c": 1, "d": POISON}, "oldObject": POISON, "variables.it": {"b": 1}}
    assert program.evaluate(inputs) is True


def test_inputs_that_are_shared_are_converted_once(language: Language):
    read: Program = language.compile("object.a")
    obj = {"a": 1}
    shared = language.share({"object": obj, "oldObject": POISON})
    assert read.evaluate_shared(shared) == 1
    obj["a"] = 2
    assert read.evaluate_shared(shared) == 1, "it was converted again"


def test_an_expression_that_goes_on_for_too_long_fails(language: Language):
    program = language.compile("object.all(k, k != '')")
    with pytest.raises(cel.CelError, match="Iteration budget exceeded"):
        program.evaluate({"object": {str(number): 1 for number in range(20_000)}})
    with pytest.raises(cel.CelError, match="Iteration budget exceeded"):
        cel.evaluate("self.all(k, k != '')", self={str(number): 1 for number in range(20_000)})


def _enforce(*expressions: str, conditions: tuple[str, ...] = ()) -> Policies:
    store = Store()
    policies = Policies(store, Authorizer(store, rbac=False))
    rule = {"apiGroups": [""], "apiVersions": ["*"], "resources": ["pods"], "operations": ["CREATE"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": f"c{n}", "expression": text} for n, text in enumerate(conditions)],
        "variables": [{"name": "name", "expression": "object.metadata.name"}],
        "validations": [{"expression": each} for each in expressions],
    }
    binding = {"policyName": "p", "validationActions": ["Deny"]}
    for key, body in ((POLICIES, spec), (BINDINGS, binding)):
        store.collection(key).put({"metadata": {"name": "p", "uid": "u"}, "spec": body})
    return policies


def _ask(policies: Policies, pod: dict[str, Any]) -> None:
    catalogue = Catalogue()
    builtins.install(catalogue)
    pods = catalogue.get("", "pods")
    target = Target(pods, pods.versions["v1"], "default", "p")
    policies.validate("CREATE", target, pod, None, WriteOptions(User("u", ()), False, "m", "Warn", False))


def test_a_policy_converts_of_an_object_what_its_expressions_read():
    policies = _enforce("variables.name == 'p'", "has(object.spec)", "object.metadata.name != 'q'")
    _ask(policies, {"metadata": {"name": "p", "annotations": POISON}, "spec": POISON})
    with pytest.raises(ApiFailure, match="failed expression"):
        _ask(policies, {"metadata": {"name": "q", "annotations": POISON}, "spec": POISON})


def test_a_policy_that_a_condition_keeps_out_converts_nothing_of_the_object():
    policies = _enforce("object == oldObject", conditions=("request.userInfo.username == 'somebody-else'",))
    _ask(policies, {"metadata": {"name": "p"}, "spec": POISON})
