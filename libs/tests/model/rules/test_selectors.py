"""Whom label selectors and node selectors mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.bench.objects import a_node
from kai.engine.kernel.labels import NodeLabels
from kai.model.rules.selectors import (
    OneOf,
    field_requirement,
    label_requirement,
    label_selector,
    node_requirement,
    node_selector,
)
from kai.snapshot.state import ClusterState, Kind

REQUIREMENTS = [
    ("In", ["a", "b"], "a", True),
    ("In", ["a", "b"], "c", False),
    ("In", ["a"], None, False),
    ("In", [""], "", True),
    ("NotIn", ["a"], "b", True),
    ("NotIn", ["a"], "a", False),
    ("NotIn", ["a"], None, True),
    ("Exists", [], "", True),
    ("Exists", None, None, False),
    ("DoesNotExist", [], None, True),
    ("DoesNotExist", [], "a", False),
]
#: What no API server takes, and has no meaning therefore.
MEANINGLESS = [
    ("In", [], "a"),
    ("NotIn", [], "a"),
    ("NotIn", None, None),
    ("Exists", ["a"], "a"),
    ("DoesNotExist", ["a"], None),
    ("Matches", ["a"], "a"),
    (None, ["a"], "a"),
    ("in", ["a"], "a"),
]


@pytest.mark.parametrize(("operator", "values", "value", "holds"), REQUIREMENTS)
def test_a_requirement_holds_of_labels_and_of_nodes_alike(operator, values, value, holds):
    expression = {"key": "k", "operator": operator, "values": values}
    assert label_requirement(expression)(value) is holds
    assert node_requirement(expression)(value) is holds


@pytest.mark.parametrize(("operator", "values", "value"), MEANINGLESS)
def test_a_requirement_without_meaning_holds_of_nobody(operator, values, value):
    expression = {"key": "k", "operator": operator, "values": values}
    assert not label_requirement(expression)(value)
    assert not node_requirement(expression)(value)


@pytest.mark.parametrize(
    ("operator", "values", "value", "holds"),
    [
        ("Gt", ["4"], "5", True),
        ("Gt", ["4"], "4", False),
        ("Gt", ["-3"], "0", True),
        ("Lt", ["4"], "3", True),
        ("Lt", ["4"], "4", False),
        ("Gt", ["4"], "0010", True),
        ("Gt", ["4"], None, False),
        ("Lt", ["4"], "", False),
        ("Gt", ["4"], "many", False),
        ("Gt", ["4"], "1_000", False),
        ("Gt", ["4"], "5.5", False),
        ("Gt", ["4"], "٧", False),
        ("Gt", ["4"], "9223372036854775807", True),
        ("Gt", ["4"], "9223372036854775808", False),
        ("Gt", ["few"], "5", False),
        ("Gt", [" 4"], "5", False),
        ("Gt", [], "5", False),
        ("Gt", ["4", "4"], "5", False),
    ],
)
def test_nodes_are_compared_with_one_whole_number_within_int64(operator, values, value, holds):
    assert node_requirement({"key": "k", "operator": operator, "values": values})(value) is holds


def test_label_selectors_do_not_compare():
    assert not label_requirement({"key": "k", "operator": "Gt", "values": ["4"]})("5")


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ({"key": "metadata.name", "operator": "In", "values": ["n1"]}, True),
        ({"key": "metadata.name", "operator": "In", "values": ["n2"]}, False),
        ({"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}, True),
        ({"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}, False),
        ({"key": "metadata.name", "operator": "Exists"}, False),
        ({"key": "metadata.uid", "operator": "In", "values": ["n1"]}, False),
        ({"key": "metadata.uid", "operator": "NotIn", "values": ["n2"]}, False),
    ],
)
def test_of_fields_only_the_name_counts(expression, holds):
    assert field_requirement(expression)("n1") is holds


NOT_A = {"key": "app", "operator": "NotIn", "values": ["a"]}


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "a"}}, True),
        ({"matchLabels": {"app": "b"}}, False),
        ({"matchLabels": {"gone": ""}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchLabels": {"app": "a"}, "matchExpressions": [NOT_A]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Resembles", "values": ["a"]}]}, False),
    ],
)
def test_a_label_selector_means_what_satisfies_all_of_it(selector, selects):
    assert label_selector(selector)({"app": "a"}) is selects


@given(
    expressions=st.lists(
        st.fixed_dictionaries(
            {
                "key": st.sampled_from("ab"),
                "operator": st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Resembles")),
                "values": st.none() | st.lists(st.sampled_from("xy"), max_size=2),
            }
        ),
        max_size=4,
    ),
    labels=st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz")),
)
def test_a_label_selector_means_those_of_whom_each_of_its_requirements_holds(expressions, labels):
    expected = all(label_requirement(each)(labels.get(each["key"])) for each in expressions)
    assert label_selector({"matchExpressions": expressions})(labels) is expected


def test_requirements_that_hold_for_whoever_has_no_such_label_are_not_gone_through_for_him():
    asked = []

    class Labels(dict):
        def __getitem__(self, key):
            asked.append(key)
            return super().__getitem__(key)

        def get(self, key, default=None):
            asked.append(key)
            return super().get(key, default)

    unwanted = [{"key": f"k{i}", "operator": "NotIn", "values": ["a"]} for i in range(100)]
    assert label_selector({"matchExpressions": unwanted})(Labels({"k7": "b", "app": "a"}))
    assert asked == ["k7"]


BIG = {"key": "size", "operator": "Gt", "values": ["3"]}
N1 = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


@pytest.mark.parametrize(
    ("terms", "means"),
    [
        (None, False),
        ([], False),
        ([{}], False),
        ([{"matchExpressions": [], "matchFields": None}], False),
        ([{"matchExpressions": [BIG]}], True),
        ([{"matchFields": [N1]}], True),
        ([{"matchExpressions": [BIG], "matchFields": [N1]}], True),
        ([{"matchExpressions": [BIG, {"key": "gone", "operator": "Exists"}]}], False),
        ([{"matchExpressions": [{"key": "gone", "operator": "Exists"}]}, {"matchFields": [N1]}], True),
        ([{}, {"matchFields": [N1 | {"operator": "NotIn"}]}], False),
    ],
)
def test_a_node_selector_means_nodes_that_satisfy_one_whole_term(terms, means):
    assert node_selector({"nodeSelectorTerms": terms}, "n1", {"size": "4"}) is means


# --- all nodes at once --------------------------------------------------------------------------
_KEYS = st.sampled_from(["zone", "size", "metadata.name"])
_VALUES = st.sampled_from(["a", "b", "3", "40", "-1", "1_0", "", "n0", "n1"])
_EXPRESSIONS = st.fixed_dictionaries(
    {
        "key": _KEYS,
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like"]),
        "values": st.none() | st.lists(_VALUES, max_size=2),
    }
)
_TERMS = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(_EXPRESSIONS, max_size=2),
        "matchFields": st.lists(_EXPRESSIONS, max_size=2),
    },
)


@given(
    labels=st.lists(st.dictionaries(_KEYS, _VALUES), min_size=1, max_size=4),
    terms=st.lists(_TERMS, max_size=3),
)
def test_masks_over_nodes_agree_with_the_rule(labels, terms):
    state = ClusterState()
    for index, each in enumerate(labels):
        state.apply(Kind.NODE, a_node(f"n{index}", labels=each))
    nodes = state.nodes.nodes
    mask = NodeLabels(nodes).terms(terms)
    selector = {"nodeSelectorTerms": terms}
    assert mask.tolist() == [node_selector(selector, each.name, each.object.labels) for each in nodes]


def test_of_many_nodes_only_those_are_asked_about_that_an_expression_names(monkeypatch):
    asked = []
    original = OneOf.__call__
    monkeypatch.setattr(
        OneOf, "__call__", lambda self, value: (asked.append(value), original(self, value))[1]
    )
    state = ClusterState()
    for index in range(50):
        state.apply(Kind.NODE, a_node(f"n{index}", labels={"zone": f"z{index}"}))
    unwanted = {"key": "zone", "operator": "NotIn", "values": ["z7", "nowhere"]}
    named = {"key": "metadata.name", "operator": "In", "values": ["n3"]}
    found = NodeLabels(state.nodes.nodes)
    assert found.terms([{"matchExpressions": [unwanted]}]).sum() == 49
    assert found.terms([{"matchFields": [named]}]).nonzero()[0].tolist() == [3]
    assert asked == [None]


def test_labels_that_pods_make_up_are_looked_for_on_no_node():
    read = []

    class Labels(dict):
        def get(self, key, default=None):
            read.append(key)
            return super().get(key, default)

    state = ClusterState()
    state.apply(Kind.NODE, a_node("n0", labels={"zone": "a"}))
    node = state.nodes.nodes[0]
    node.object.metadata.labels = Labels(node.object.labels)
    found = NodeLabels([node])
    assert not any(found.known(f"made-up-{number}") for number in range(5000))
    assert found.known("zone")
    assert read == ["zone"]
