"""How a group says whose it is: a YAML mapping that reads back as it was."""

import uuid

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kai.grouping.default_rule import top_owner_metadata
from kai.grouping.objects.documents import Document

WORDS = ["yes", "NO", "On", "off", "True", "false", "null", "~", "y", "n", "1e3", "0x1f", "12", "1.5", ".inf"]
DATES = ["2026-11-22", "2026-11-22t10-00", "12e45678-1234-1234-1234-123456789012"]


def an_owner(name, uid):
    return Document.of_body({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": uid}})


@given(
    name=st.one_of(
        st.sampled_from(WORDS + DATES),
        st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True),
        st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12),
    ),
    uid=st.uuids().map(str),
)
def test_it_reads_back_as_it_was_whatever_the_name(name, uid):
    written = yaml.safe_load(top_owner_metadata(an_owner(name, uid)))
    assert (written["name"], written["uid"], written["kind"]) == (name, uid, "Pod")


@pytest.mark.parametrize("word", WORDS)
def test_words_that_mean_something_to_yaml_are_quoted(word):
    plain = yaml.safe_load(word) == word
    assert top_owner_metadata(an_owner(word, "u")).startswith(
        f"name: {word}\n" if plain else f'name: "{word}"\n'
    )


def test_ordinary_names_and_uids_are_not_quoted():
    uid = str(uuid.UUID(int=7))
    lines = top_owner_metadata(an_owner("train-0.worker", uid)).splitlines()
    assert lines == ["name: train-0.worker", f"uid: {uid}", 'group: ""', "version: v1", "kind: Pod"]
