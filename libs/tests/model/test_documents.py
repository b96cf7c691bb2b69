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
