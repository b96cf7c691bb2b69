import numpy as np
import pytest

from kai.engine.packing.parts import STEPS, part_worth


def worth(**counts):
    """By the size in steps, from how many parts are asked for: ``worth(of_47=10)``."""
    sizes = [int(name.removeprefix("of_")) / STEPS for name in counts]
    return part_worth(np.array(sizes), np.array([float(count) for count in counts.values()]))


def test_a_part_saves_what_pods_can_make_of_it():
    found = worth(of_47=10)
    assert found[[46, 47, 53, 94, STEPS]] == pytest.approx([0, 0.5, 0.5, 1, 1])


def test_what_is_left_beside_a_large_part_is_worth_nothing_where_few_can_take_it():
    assert worth(of_81=100, of_16=10)[19] == pytest.approx(0)
    assert worth(of_81=10, of_16=1000)[19] == pytest.approx(1 / 6)


def test_without_parts_only_whole_devices_are_worth_something():
    found = part_worth(np.ones(1), np.ones(1))
    assert found.tolist() == [0.0] * STEPS + [1.0]


def test_worth_never_falls_with_size_nor_exceeds_a_device():
    rng = np.random.default_rng(1)
    for _ in range(20):
        portion = rng.integers(1, STEPS + 1, size=60) / STEPS
        found = part_worth(portion, rng.integers(1, 500, size=60).astype(float))
        assert (np.diff(found) >= 0).all()
        assert (found[0], found[STEPS]) == (0, 1)
