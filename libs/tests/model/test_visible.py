"""What of somebody's text a terminal would obey."""

import pytest

from kai.model.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ein Wort, 字, 👩‍🚀 \\x1b", "ein Wort, 字, 👩‍🚀 \\x1b"),
        ("\x00\t\r\x1b\x7f", r"\x00\t\r\x1b\x7f"),
        ("\x80\x9b\x9f\xa0", r"\x80\x9b\x9f" + "\xa0"),
        ("a\nb\u2028c\u2029", r"a\nb\u2028c\u2029"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled(text, shown):
    assert visible(text) == shown


def test_lines_stay_where_they_may():
    assert visible("a\nb\r\n\x1b", lines=True) == "a\nb\\r\n\\x1b"
