"""What an expression may cost is known before it is evaluated: an expensive one is refused with its field."""

import msgspec
import pytest

from kai.model import cel, dra, limits
from kai.model.cel import Selector, SelectorFault, compile_selector, estimated_cost, variables_of
from kai.model.faults import OutOfBounds
from kai.snapshot.devices import check
from kai.snapshot.state import Kind

pytest.importorskip("cel_expr_python")

ONES = ",".join(["1"] * 900)
LONG = "a" * 2000
EXPENSIVE = {
    "loops in loops": f"[{ONES}].all(a, [{ONES}].all(b, [{ONES}].all(c, a + b + c < 10)))",
    "a text that replaces each of its letters by itself, twice": (
        f"cel.bind(s, '{LONG}', s.replace('a', s).replace('a', s).size() > 0)"
    ),
    "a text added up to itself": (
        f"cel.bind(a, '{LONG}', cel.bind(b, {'+'.join(['a'] * 14)}, cel.bind(c, {'+'.join(['b'] * 14)}, "
        f"cel.bind(d, {'+'.join(['c'] * 14)}, d.size() > 0))))"
    ),
    "a list of lists": f"'{LONG}'.split('').map(a, '{LONG}'.split('')).size() > 0",
    "patterns over and over": f"[{ONES}].all(a, '{LONG}'.matches('(a|aa|a?|aaaaaaaaaaaaaaaaaaaa)*b'))",
    "a text that is formatted": f"'{'%s' * 3000}'.format([device.driver]).size() > 0",
}
CHEAP = [
    "device.driver == 'gpu.example.com'",
    "device.attributes['gpu.example.com'].model == 'A100'",
    "device.capacity['gpu.example.com'].memory.compareTo(quantity('80Gi')) >= 0",
    "cel.bind(own, device.attributes['d'], own.index > 2 && own.model.startsWith('A'))",
    "device.attributes['d'].model.lowerAscii() in ['a100', 'h100']",
    "[1, 2, 3].exists(x, device.attributes['d'].index == x)",
]


def a_claim(*expressions, **spec):
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    request = {"name": "r", "exactly": {"deviceClassName": "c", "selectors": selectors}}
    return {
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"devices": {"requests": [request]}},
        **spec,
    }


@pytest.mark.parametrize("what", EXPENSIVE)
def test_an_expensive_expression_is_not_evaluated(what):
    found = compile_selector(EXPENSIVE[what])
    assert isinstance(found, SelectorFault)
    assert "may cost" in found.reason
    assert len(found.reason) < 600


@pytest.mark.parametrize("what", EXPENSIVE)
def test_a_claim_with_an_expensive_expression_is_refused_by_the_name_of_the_field(what):
    with pytest.raises(OutOfBounds, match="1000000 units of estimated cost") as refused:
        check(Kind.RESOURCE_CLAIM, a_claim("true", EXPENSIVE[what]))
    assert refused.value.field == "spec.devices.requests[0].exactly.selectors[1].cel.expression"


@pytest.mark.parametrize("expression", CHEAP)
def test_what_people_write_costs_a_thousandth_of_the_budget(expression):
    assert isinstance(compile_selector(expression), Selector)
    assert 0 < estimated_cost(expression) < limits.EXPRESSION_COST.most / 1000


def test_a_claim_of_many_expressions_is_refused_for_what_they_cost_together():
    many = [f"'{'a' * 1000}{number}'.matches('(a|b)*c')" for number in range(20)]
    assert sum(map(estimated_cost, many)) < limits.EXPRESSION_COST.most
    check(Kind.RESOURCE_CLAIM, a_claim(*many))
    half = f"cel.bind(s, '{LONG}', s.replace('a', s).size() > 0)"
    check(Kind.RESOURCE_CLAIM, a_claim(half, half))
    with pytest.raises(OutOfBounds, match=r"selectors\[2\]"):
        check(Kind.RESOURCE_CLAIM, a_claim(half, half, half))


def test_a_claim_of_long_expressions_is_refused_for_their_length_together():
    long = f"'{'x' * 9000}' != ''"
    check(Kind.RESOURCE_CLAIM, a_claim(long, long, long))
    with pytest.raises(OutOfBounds, match="32768 characters"):
        check(Kind.RESOURCE_CLAIM, a_claim(long, long, long, long))


@pytest.mark.parametrize(
    "expression", ["(" * 400 + "true" + ")" * 400, "!" * 5000 + "true", "+".join(["1"] * 40) + " > 0"]
)
def test_an_expression_nested_too_deep_is_no_trouble(expression):
    found = compile_selector(expression)
    if isinstance(found, Selector):
        found.matches(variables_of("d", msgspec.convert({"name": "g"}, dra.Device)))


def test_only_so_many_compiled_expressions_are_kept():
    for number in range(200):
        compile_selector(f"'{number}{'x' * 5000}' == ''")
    assert len(cel.COMPILED) <= cel.KEPT_CHARACTERS
