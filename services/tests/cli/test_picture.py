"""How keys change what `kai top` shows."""

from dataclasses import dataclass

import pytest
from rich.console import Console

from kai_cli.keys import keys_in
from kai_cli.output import Column
from kai_cli.views.picture import ENDS, Listing, Picture, after, drawn

COLUMNS = (Column("NAME"), Column("AGE", True), Column("NOTE", wide=True))


@dataclass(frozen=True)
class Row:
    name: str
    age: str

    @property
    def key(self):
        return self.name

    def cells(self):
        return (self.name, self.age, "")

    def document(self):
        return {}


LISTS = (
    Listing("queues", COLUMNS, [Row("top", "9d")], ordered=True),
    Listing("nodes", COLUMNS, [Row("b", "2h"), Row("a", "30s")]),
    Listing("waiting", COLUMNS, [Row("y", "5m"), Row("x", "1d"), Row("z", "10s")]),
)


def shown(keys):
    picture = Picture()
    for key in keys:
        picture = after(picture, key, LISTS)
    screen = Console(width=200, color_system=None)
    with screen.capture() as captured:
        screen.print(drawn(["headline"], LISTS, picture, keys=True))
    return picture, captured.get()


def test_headlines_and_rows_command_no_terminal():
    lists = [Listing("queues", COLUMNS, [Row("a\x1b[2J[/x]", "1d")])]
    screen = Console(width=200, color_system=None, markup=False)
    with screen.capture() as captured:
        screen.print(drawn(["lacks \x1b]0;t\x07"], lists, Picture(), keys=True))
    text = captured.get()
    assert "\x1b" not in text
    assert r"lacks \x1b]0;t\x07" in text
    assert r"a\x1b[2J[/x]" in text


def order(text, *names):
    return sorted(names, key=lambda name: text.index(f"\n{name} "))


def test_lists_come_as_they_are_with_the_keys_below_them():
    picture, text = shown("")
    assert picture == Picture()
    assert order(text, "y", "x", "z") == ["y", "x", "z"]
    assert text.startswith("headline\n")
    assert "q end" in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [("\t\t>", "xyz"), ("\t\t>>", "zyx"), ("\t\t<", "zyx"), ("\t\t<R", "xyz"), ("\t\t>>>", "xyz")],
)
def test_a_list_is_sorted_by_the_column_that_is_chosen(keys, expected):
    _, text = shown(keys)
    assert order(text, "x", "y", "z") == list(expected)


def test_the_tree_of_queues_keeps_its_order():
    picture, _ = shown(">R")
    assert picture.columns == {}


def test_a_list_is_hidden_and_comes_back_and_keys_are_about_one_that_is_shown():
    picture, text = shown("1")
    assert "9d" not in text
    assert picture.focus == 1
    assert "9d" in shown("11")[1]
    assert shown("123")[0].focus in (0, 1, 2)


@pytest.mark.parametrize("key", ["0", "4", "z", "²", "\x00"])
def test_a_key_that_means_nothing_changes_nothing(key):
    assert shown(key)[0] == Picture()


def test_that_nothing_is_asked_any_more_is_told():
    assert "paused" in shown("p")[1]
    assert "paused" not in shown("pp")[1]


@pytest.mark.parametrize(
    ("read", "keys"),
    [
        ("q", ["q"]),
        ("\x1b", ["\x1b"]),
        ("\x1b[A", ["\x1b[A"]),
        ("\x1bOB>", ["\x1bOB", ">"]),
        ("1\x1b[1;5R2", ["1", "\x1b[1;5R", "2"]),
        ("\x1b[15~\x1bp\n", ["\x1b[15~", "\x1bp", "\n"]),
        ("\x1b\x1b[A", ["\x1b", "\x1b[A"]),
    ],
)
def test_what_one_key_sends_is_one_key(read, keys):
    assert keys_in(read) == keys


@pytest.mark.parametrize("key", ["\x1b[A", "\x1bOB", "\x1b[1;5R", "\x1b[3~"])
def test_arrows_and_function_keys_mean_nothing_and_end_nothing(key):
    assert key not in ENDS
    assert shown([key])[0] == Picture()
