"""The benchmark of statuses on a small tree: sums are exact, and nothing is written for nothing."""

import pytest

from e2e.bench import statuses
from e2e.bench.statuses import LEVELS, a_tree


@pytest.mark.parametrize("queues", [LEVELS, 60, 5000])
def test_a_tree_has_so_many_queues_in_five_levels(queues):
    tree = a_tree(queues)
    assert len(tree.parents) == queues
    assert {len([*tree.path(leaf)]) for leaf in tree.leaves} == {LEVELS}
    assert all(not parent or parent in tree.parents for parent in tree.parents.values())


def test_too_few_queues_for_a_tree_are_told():
    with pytest.raises(ValueError, match="4 queues are too few for 5 levels"):
        a_tree(4)


@pytest.mark.integration
async def test_sums_are_exact_and_only_what_changed_is_written():
    phases = await statuses.run(40, 60, 5, calm=3.0)
    assert {phase.title: phase.faults for phase in phases} == {phase.title: [] for phase in phases}
    written = [sum(sum(found.values()) for found in phase.writes.values()) for phase in phases]
    assert written[0] >= 60 + 40
    assert written[1] >= 5 + LEVELS
    assert written[2:] == [0, 0]
