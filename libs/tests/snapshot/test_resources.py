"""What nodes offer is found once for those in a row that say the same."""

from __future__ import annotations

import pytest

from kai.model.faults import OutOfBounds
from kai.snapshot.resources import CPU, GPU, ResourceTable


def test_nodes_that_say_the_same_offer_the_same_and_share_nothing() -> None:
    table = ResourceTable()
    said = {"cpu": "4", "nvidia.com/gpu": "8"}
    first = table.offer(said)
    first[GPU] = 0
    second = table.offer(dict(said))
    assert (second[CPU], second[GPU]) == (4000, 8)
    second[GPU] = 1
    assert table.offer(said)[GPU] == 8


def test_a_node_that_says_something_else_offers_that() -> None:
    table = ResourceTable()
    said = {"cpu": "4"}
    table.offer(said)
    said["cpu"] = "5"
    assert table.offer(said) == {CPU: 5000}
    assert table.offer({"cpu": "5", "example.com/x": "1"}) == {CPU: 5000, table.column("example.com/x"): 1000}
    assert table.offer({"cpu": "5"}) == {CPU: 5000}


def test_what_cannot_be_read_is_told_of_each_node() -> None:
    table = ResourceTable()
    for _ in range(2):
        with pytest.raises(OutOfBounds):
            table.offer({"cpu": "many"})
    assert table.offer({}) == {}
