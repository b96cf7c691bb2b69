"""How many pods of one size find room."""

import pytest

from kai.model.rules.free_slots import free_slots


@pytest.mark.parametrize(
    ("nodes_by_free", "slots"),
    {
        "no node": ((), (0, 0, 0, 0)),
        "nothing is free": ((5,), (0, 0, 0, 0)),
        "three on each of two nodes are no place for four": ((0, 0, 0, 2), (6, 2, 0, 0)),
        "one node wholly free": ((1, 0, 0, 0, 0, 0, 0, 0, 1), (8, 4, 2, 1)),
        "more than eight on a node": ((*(0,) * 16, 1), (16, 8, 4, 2)),
    }.values(),
)
def test_what_is_left_over_on_a_node_is_no_room(nodes_by_free, slots):
    assert tuple(free_slots(nodes_by_free, size) for size in (1, 2, 4, 8)) == slots
