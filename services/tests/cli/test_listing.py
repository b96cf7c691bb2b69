"""In which order rows come that are sorted by a column, and what is told beside them."""

import pytest

from kai_cli.listing import Notes, size


@pytest.mark.parametrize(
    "cells",
    [
        ["-", "45s", "1m", "1h12m", "2d3h", "11d"],
        ["?", "0", "0.5", "3", "12", "unlimited"],
        ["1/3", "2/3", "10/10"],
        ["1Gi", "7.5Gi", "64Gi"],
        ["-", "alpha", "Beta", "gamma"],
    ],
    ids=["times", "numbers", "parts", "amounts", "names"],
)
def test_cells_are_sorted_by_what_they_mean(cells):
    turned = cells[::-1]
    assert sorted(turned, key=size) == cells


def test_what_is_not_known_is_told_anew_once_it_was_known_meanwhile(capsys):
    notes = Notes()
    for lacks in (("a", "b"), ("a",), ("", ""), ("a",)):
        notes.tell(*lacks)
    assert capsys.readouterr().err.splitlines() == ["kai: a", "kai: b", "kai: a"]
