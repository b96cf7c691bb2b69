"""Names in sentences, and texts that are cut where nobody would take the whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.model.words import listed, shortened


@pytest.mark.parametrize(
    ("names", "said"),
    [([], ""), (["a", "b", "c"], "a, b, c"), (["a", "b", "c", "d", "e"], "a, b, c and 2 more")],
)
def test_of_many_names_the_first_are_told_and_how_many_more_there_are(names, said):
    assert listed(names) == said


def test_what_has_commas_is_told_with_something_else_between():
    assert listed(["a, b", "c", "d"], most=2, between="; ") == "a, b; c and 1 more"


@pytest.mark.parametrize(
    ("text", "said"),
    [("x" * 10, "x" * 10), ("x" * 11, "xxxxxxx…"), ("ä" * 5, "ä" * 5), ("ä" * 6, "äää…"), ("😀" * 3, "😀…")],
    ids=["fits", "too long", "fits in bytes", "too long in bytes", "wide characters"],
)
def test_a_text_is_cut_between_characters(text, said):
    assert shortened(text, most=10) == said


@given(text=st.text(), most=st.integers(3, 40))
def test_what_is_cut_is_the_beginning_within_its_bytes(text, most):
    said = shortened(text, most=most)
    assert len(said.encode()) <= most
    assert said == text or (said.endswith("…") and text.startswith(said.removesuffix("…")))
