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


# --- what does not fit ----------------------------------------------------------------------------
def on_a_screen(lists, *, height, width=120, keys=""):
    picture = Picture()
    for key in keys:
        picture = after(picture, key, lists)
    screen = Console(width=width, height=height, color_system=None)
    with screen.capture() as captured:
        screen.print(drawn(["headline"], lists, picture, keys=True, screen=screen))
    return [line.rstrip() for line in captured.get().splitlines()]


def many(name, count, columns=COLUMNS):
    return Listing(name, columns, [Row(f"{name}-{number}", "1d") for number in range(count)])


@pytest.mark.parametrize("height", [24, 40, 11])
@pytest.mark.parametrize("width", [120, 60])
def test_lists_that_do_not_fit_say_how_many_more_there_are_and_leave_room_for_the_keys(height, width):
    lines = on_a_screen([many("queues", 100), many("nodes", 100)], height=height, width=width)
    assert len(lines) <= height
    assert lines[-1].endswith("q end")
    for name in ("queues", "nodes"):
        shown = [line for line in lines if line.startswith(f"{name}-")]
        assert f"… and {100 - len(shown)} more" in lines


def test_room_that_a_short_list_leaves_is_for_the_long_one():
    lines = on_a_screen([many("queues", 2), many("nodes", 100)], height=24)
    assert len(lines) == 24
    assert len([line for line in lines if line.startswith("queues-")]) == 2
    assert "… and 88 more" in lines


def test_what_fits_is_not_cut():
    lines = on_a_screen([many("queues", 3), many("nodes", 4)], height=16)
    assert len([line for line in lines if line.startswith(("queues-", "nodes-"))]) == 7
    assert not any("more" in line for line in lines)


def test_rows_of_several_lines_are_counted_as_what_they_are():
    wordy = (Column("NAME", prose=True), Column("AGE", True), Column("NOTE", wide=True))
    rows = [Row(f"a row with words that fold {number}", "1d") for number in range(100)]
    lines = on_a_screen([Listing("nodes", wordy, rows)], height=24, width=30)
    assert len(lines) <= 24
    shown = [line for line in lines if line.startswith("a row")]
    assert f"… and {100 - len(shown)} more" in lines


def test_a_screen_without_room_for_any_list_still_has_the_keys():
    lines = on_a_screen([many("queues", 9), many("nodes", 9), many("waiting", 9)], height=4)
    assert len(lines) <= 4
    assert lines[-1].endswith("q end")
