"""The table of bounds, and the page that lists it."""

from pathlib import Path

import pytest

from kai.model import limits
from kai.model.faults import OutOfBounds
from kai.model.limits import Limit

PAGE = Path(__file__).parents[3] / "docs" / "limits.md"
SOME = Limit(kind="Pod", field="spec.some", least=1, most=10, unit="things")


def as_row(limit: Limit) -> str:
    where = ", ".join((*limit.enforced, "intake"))
    return f"| {limit.kind} | `{limit.field}` | {limit.bound} | {where} |"


def test_the_page_lists_the_table_row_by_row():
    """Where it does not, the assertion shows the table as it should be."""
    expected = [as_row(limit) for limit in limits.table()]
    rows = [line for line in PAGE.read_text().splitlines() if line.endswith("intake |")]
    assert rows == expected, "\n" + "\n".join(expected)


def test_bounds_are_said_with_their_unit():
    assert SOME.bound == "from 1 to 10 things"
    assert Limit(kind="Pod", field="x", most=3).bound == "at most 3"


@pytest.mark.parametrize("text", ["0", "11", "", "x", "1.5", "1_0", "٣", "9" * 5000, "1e1"])
def test_a_text_that_says_no_number_within_is_out_of_bounds(text):
    with pytest.raises(OutOfBounds, match="from 1 to 10 things") as raised:
        SOME.integer(text, "metadata.labels[x]")
    assert raised.value.field == "metadata.labels[x]"
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("text", ["1", "10", "+7"])
def test_a_number_within_is_taken(text):
    assert SOME.integer(text) == int(text)


@pytest.mark.parametrize(("text", "amount"), [("1", 1), ("9500m", 10), ("1e1", 10)])
def test_quantities_are_rounded_up(text, amount):
    assert SOME.quantity(text) == amount


@pytest.mark.parametrize("text", ["0", "11", "-1", "1e999", "1e999999999", "much", "1" * 200])
def test_a_quantity_beyond_is_refused_at_once(text):
    with pytest.raises(OutOfBounds):
        SOME.quantity(text)


@pytest.mark.parametrize(("text", "amount"), [("-5", 1), ("5", 5), ("1e900", 10), ("much", 1)])
def test_the_nearest_amount_within_stands_for_what_is_beyond(text, amount):
    assert SOME.nearest(text) == amount


def test_scaled_amounts_are_bounded_as_they_are_counted():
    assert SOME.quantity("10m", scale=1000) == 10
    with pytest.raises(OutOfBounds):
        SOME.quantity("1", scale=1000)
