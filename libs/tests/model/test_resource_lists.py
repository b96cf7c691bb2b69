"""Amounts as they are summed up in status fields."""

from decimal import Decimal

import pytest

from kai.model.resource_lists import parsed


@pytest.mark.parametrize(
    ("text", "amount"),
    [("1500m", "1.5"), ("2Ki", "2048"), ("", "0"), ("much", "0"), ("9" * 5000, "0")],
)
def test_an_amount_is_exact_and_what_is_none_is_nothing(text, amount):
    assert parsed(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["1e999", "9" * 60, "-1e999"])
def test_what_was_added_can_be_taken_away_again_without_a_trace(text):
    assert Decimal(1) + parsed(text) - parsed(text) == 1
