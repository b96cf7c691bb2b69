"""Small pure parts: quantities, paths, ages, protobuf, CEL."""

import base64

import pytest

from kai_local.apiserver.errors import ApiFailure
from kai_local.apiserver.kinds.discovery import version_order
from kai_local.apiserver.patches import fieldsets
from kai_local.apiserver.reading import jsonpath, printers
from kai_local.apiserver.schemas import cel, decode, protobuf, schema

CANONICAL = {
    "1": "1",
    "0.5": "500m",
    "1000m": "1",
    "1500m": "1500m",
    "1024Mi": "1Gi",
    "1.5Gi": "1536Mi",
    "100k": "100k",
    "1000k": "1M",
    "0": "0",
    "0.0": "0",
    "1e3": "1e3",
    "12345": "12345",
    "0.1": "100m",
    "2Ki": "2Ki",
    "-1": "-1",
    "1000": "1k",
}


@pytest.mark.parametrize(("text", "canonical"), CANONICAL.items())
def test_a_quantity_has_one_canonical_form(text, canonical):
    assert decode.canonical(text) == canonical


AGES = {
    0: "0s",
    59: "59s",
    119: "119s",
    120: "2m",
    125: "2m5s",
    599: "9m59s",
    600: "10m",
    10799: "179m",
    10800: "3h",
    11460: "3h11m",
    28800: "8h",
    172800: "2d",
    176400: "2d1h",
    691200: "8d",
    63072000: "2y",
    -1: "0s",
    -10: "<invalid>",
}


@pytest.mark.parametrize(("seconds", "text"), AGES.items())
def test_ages_read_as_kubectl_writes_them(seconds, text):
    assert printers.duration(seconds) == text


OBJECT = {
    "metadata": {"labels": {"a.b/c": "x"}},
    "items": [{"type": "A", "v": 1}, {"type": "B", "v": 2}],
}
PATHS = {
    ".items[0].v": [1],
    ".items[-1].v": [2],
    ".items[*].v": [1, 2],
    '.items[?(@.type=="B")].v': [2],
    r".metadata.labels.a\.b/c": ["x"],
    r".metadata.labels['a\.b/c']": ["x"],
    ".metadata.labels['a.b/c']": [],
    ".items[0]['v']": [1],
    ".none.at.all": [],
    ".items[7].v": [],
    "{.items[0].v}": [1],
    "..broken": [],
}


@pytest.mark.parametrize(("path", "values"), PATHS.items())
def test_a_json_path_finds_what_printer_columns_name(path, values):
    assert jsonpath.compile_path(path)(OBJECT) == values


def test_versions_are_listed_most_stable_first():
    from functools import cmp_to_key

    names = ["v1alpha1", "v2beta1", "v1", "v10", "v2", "foo", "v2beta2"]
    assert sorted(names, key=cmp_to_key(version_order)) == [
        "v10",
        "v2",
        "v1",
        "v2beta2",
        "v2beta1",
        "v1alpha1",
        "foo",
    ]


EXPRESSIONS = [
    ("self.a > 1", {"self": {"a": 2}}, True),
    ("has(self.b)", {"self": {"a": 2}}, False),
    ("self.map(x, x.n).isSorted()", {"self": [{"n": 1}, {"n": 2}]}, True),
    ("self.all(x, self.exists_one(y, y.n == x.n))", {"self": [{"n": 1}, {"n": 1}]}, False),
    ("self.?a.orValue(3)", {"self": {}}, 3),
    ("'ab12'.find('[0-9]+')", {}, "12"),
    ("[1, 2].sum()", {}, 3),
    ("self == null", {"self": None}, True),
]


@pytest.mark.parametrize(("expression", "values", "result"), EXPRESSIONS)
def test_an_expression_is_evaluated(expression, values, result):
    assert cel.evaluate(expression, **values) == result


@pytest.mark.parametrize("expression", ["self.missing", "self +", "unknown(self)"])
def test_an_expression_that_fails_says_so(expression):
    with pytest.raises(cel.CelError):
        cel.evaluate(expression, self={})


def test_field_paths_survive_the_round_trip_through_managed_fields():
    node = schema.builtin("", "v1", "Pod")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["x/y"]},
        "spec": {
            "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1}]}],
            "tolerations": [{"key": "k"}],
        },
    }
    paths = set(fieldsets.owned(node, pod))
    assert set(fieldsets.from_fields(fieldsets.to_fields(paths))) == paths
    shown = {fieldsets.dotted(path) for path in paths}
    assert '.spec.containers[name="c"].ports[containerPort=1,protocol="TCP"].containerPort' in shown
    assert ".spec.tolerations" in shown
    assert '.metadata.finalizers[="x/y"]' in shown


def test_a_body_in_protobuf_is_read():
    body = base64.b64decode("azhzAAoPCgJ2MRIJTmFtZXNwYWNlEhAKDAoEdGVhbRIAGgAiABIAGgA=")
    assert protobuf.decode(body) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team"},
        "spec": {},
    }


@pytest.mark.parametrize(
    "body", [b"", b"k8s\x00", b"k8s\x00\xff\xff", b"k8s\x00\x0a\x06\x0a\x01x\x12\x01y", b"nonsense"]
)
def test_a_broken_protobuf_body_is_refused(body):
    with pytest.raises(ApiFailure) as failure:
        protobuf.decode(body)
    assert failure.value.code == 400
