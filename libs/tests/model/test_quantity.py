"""Numbers in labels."""

import pytest

from kai.model.quantity import integer


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("", None),
        (None, None),
        ("1e3", None),
        ("9" * 5000, None),
        (str(2**63), None),
        ("1_000", None),
    ],
)
def test_a_number_in_a_label_is_decimal_and_within_int64(text, value):
    assert integer(text) == value
