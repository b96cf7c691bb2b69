"""Documents are read as they are meant, whether they are JSON or YAML."""

import pytest
import yaml

from kai.model import documents


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{\n\t"a": {\n\t\t"b": 1e+16,\n\t\t"c": 1E3\n\t}\n}', {"a": {"b": 1e16, "c": 1e3}}),
        ('{"a": "1e3", "b": "2026-01-01"}', {"a": "1e3", "b": "2026-01-01"}),
        ("a: 1\nb: [x, {c: d}]", {"a": 1, "b": ["x", {"c": "d"}]}),
        ("{a: 1}", {"a": 1}),
        ("", None),
    ],
    ids=["JSON with tabs and exponents", "texts in JSON", "YAML", "YAML in braces", "nothing"],
)
def test_json_is_read_as_json_and_all_else_as_yaml(text, value):
    assert documents.load(text) == value


@pytest.mark.parametrize(
    ("text", "where"),
    [('{"a": {"b": 1,\n"b": 2}}', "'b' is there twice"), ("a: 1\na: 2", "line 2: 'a' is there twice")],
    ids=["JSON", "YAML"],
)
def test_a_key_that_is_there_twice_is_named(text, where):
    with pytest.raises(documents.DuplicateKey, match=where):
        documents.load(text)


@pytest.mark.parametrize("text", ['{"a": ', '{"a": NaN', "a: 2026-13-45", f"a: {'9' * 5000}"])
def test_what_is_neither_is_told_as_yaml(text):
    with pytest.raises(yaml.YAMLError):
        documents.load(text)


def test_words_that_json_has_not_are_texts_as_in_yaml():
    assert documents.load('{"a": NaN, "b": Infinity}') == {"a": "NaN", "b": "Infinity"}


# --- manifests ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2026-11-01", "2026-11-01"),
        ("2026-13-45", "2026-13-45"),
        ("0000-00-00", "0000-00-00"),
        ("2026-11-01T10:00:00Z", "2026-11-01T10:00:00Z"),
        ("!!timestamp 2026-11-01", "2026-11-01"),
        ("=", "="),
        ("[=, '!=']", ["=", "!="]),
        ("22:22", "22:22"),
        ("190:20:30.15", "190:20:30.15"),
        ("1", 1),
        ("0x1F", 31),
        ("1.5", 1.5),
        ("on", True),
        ("~", None),
    ],
)
def test_a_value_of_a_manifest_is_what_a_server_gets_of_it(written, value):
    assert documents.load_manifests(f"a: {written}") == [{"a": value}]


def test_all_documents_of_a_manifest_come_in_order_and_their_keys_are_texts():
    text = "a: 1\n---\n---\non: {1: x, 1.5: y, '1.0': z, =: w}\n"
    told = [{"a": 1}, None, {"true": {"1": "x", "1.5": "y", "1.0": "z", "=": "w"}}]
    assert documents.load_manifests(text) == told


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: 1\n---\nb:\n  c: 1\n  c: 2", "line 5: 'c' is there twice; say it once"),
        ("a: {on: 1, true: 2}", "line 1: 'true' is there twice; say it once"),
        ("a:\n  1: x\n  '1': y", "line 3: '1' is there twice; say it once"),
        ("a: &a {x: 1}\nb: {<<: *a, y: 1, y: 2}", "line 2: 'y' is there twice; say it once"),
    ],
)
def test_a_key_that_is_in_a_manifest_twice_is_named_with_its_line(text, where):
    with pytest.raises(documents.DuplicateKey, match=where):
        documents.load_manifests(text)


@pytest.mark.parametrize("load", [documents.load, lambda text: documents.load_manifests(text)[0]])
def test_what_is_merged_in_may_be_said_otherwise(load):
    text = "a: {<<: &b {<<: &c {x: 1, y: 1}, x: 2}, x: 3}\nb: *b\nc: *c"
    assert load(text) == {"a": {"x": 3, "y": 1}, "b": {"x": 2, "y": 1}, "c": {"x": 1, "y": 1}}


@pytest.mark.parametrize(
    "written", ["[", "'", "!!bool x", "!!int ''", "!!int x", "!!float x", "!unknown x", "9" * 5000]
)
@pytest.mark.parametrize("load", [documents.load, documents.load_manifests])
def test_a_value_that_is_none_of_its_kind_is_told_as_yaml(load, written):
    with pytest.raises(yaml.YAMLError):
        load(f"a: {written}")
