"""The acceptance vectors R1 to R16 of the specification, and the exactness of undo."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai.engine.fairness import QueueColumns, QueueForest, QueueShares, ReclaimRules

GPU = 2


class Queues:
    """Queues of GPUs by name: ``(deserved, fair share, allocated)``, parents before children."""

    def __init__(self, **queues):
        self.rows = {name: row for row, name in enumerate(queues)}
        parents = [self.rows.get(queue[3] if len(queue) > 3 else "", -1) for queue in queues.values()]
        self.columns = QueueColumns.zeros(len(queues))
        for row, queue in enumerate(queues.values()):
            self.columns.deserved[row, GPU] = queue[0]
            self.columns.fair_share[row, GPU] = queue[1]
            self.columns.allocated[row, GPU] = queue[2]
        self.forest = QueueForest(parents, priority=[100] * len(queues), rank=range(len(queues)))

    def rules(self, multiplier=1.0):
        return ReclaimRules(self.forest, self.columns, QueueShares.of(self.columns), multiplier)

    def reclaim(self, by, *victims, gpus=1.0, preemptible=True, multiplier=1.0):
        request = (0.0, 0.0, gpus)
        firm = None if preemptible else request
        claim = self.rules(multiplier).open(self.rows[by], request, firm=firm)
        for name, amount in victims or [("p2", 1.0)]:
            claim.add(self.rows[name], cpu_millis=0.0, memory_bytes=0.0, gpus=amount)
        return claim.accepts()


def siblings(p1=(3, 3, 2), p2=(2, 2, 3), parent=(5, 5, 5)):
    return Queues(parent=parent, p1=(*p1, "parent"), p2=(*p2, "parent"))


def departments(d1=(3, 3, 2), p1=(3, 3, 2), d2=(2, 2, 3), p2=(2, 2, 3)):
    return Queues(d1=d1, d2=d2, p1=(*p1, "d1"), p2=(*p2, "d2"))


def test_r1_from_a_queue_over_its_share():
    assert siblings().reclaim("p1")


def test_r2_r3_not_from_a_queue_within_its_share():
    assert not siblings(p2=(2, 2, 2), parent=(5, 5, 4)).reclaim("p1")
    assert not siblings(p2=(2, 2, 1), parent=(5, 5, 3)).reclaim("p1")


def test_r4_a_queue_under_deserved_takes_from_one_over_deserved():
    assert siblings(p2=(2, 3, 3)).reclaim("p1")


def test_r5_not_when_it_ends_more_saturated():
    assert not siblings(p1=(3, 3, 3), parent=(5, 5, 6)).reclaim("p1")


def test_r6_the_slack_of_the_parent_is_irrelevant():
    assert not siblings(p1=(3, 3, 3), parent=(7, 9, 6)).reclaim("p1")


def test_a_queue_without_a_share_is_not_compared_though_nothing_is_left_of_what_it_held():
    assert siblings(p1=(1, 1, 1), p2=(0, 0, 1)).reclaim("p1")


def test_r7_r8_r9_what_is_not_preemptible_stays_within_deserved_at_every_level():
    assert siblings(p1=(2, 3, 2)).reclaim("p1", preemptible=False)
    queues = siblings(p1=(2, 3, 2), parent=(3, 5, 5))
    assert queues.reclaim("p1", preemptible=False)
    queues.columns.allocated_non_preemptible[queues.rows["parent"], GPU] = 3
    assert not queues.reclaim("p1", preemptible=False)


def test_r10_a_parent_without_involved_siblings_may_be_over_its_share():
    assert siblings(p1=(2, 3, 2), parent=(1, 1, 3)).reclaim("p1")


def test_r11_r12_r13_departments():
    assert departments().reclaim("p1")
    assert not departments(p2=(2, 2, 2), d2=(2, 2, 2)).reclaim("p1")
    assert departments(d1=(3, 3, 1), p1=(3, 3, 1), p2=(2, 4, 3), d2=(2, 4, 3)).reclaim("p1")


def test_r14_both_over_but_the_reclaimer_less():
    queues = Queues(d1=(4, 4, 4), d2=(3, 3, 7), p1=(3, 1, 0, "d1"), p2=(1, 3, 4, "d1"), q=(3, 3, 7, "d2"))
    assert queues.reclaim("p1", ("q", 1.0))
    assert not queues.reclaim("p1", ("q", 1.0), multiplier=1.7)


def test_r15_only_involved_resources_are_compared():
    queues = Queues(d1=(4, 4, 4), d2=(3, 3, 7), p=(1, 1, 1, "d1"), q=(3, 3, 7, "d2"))
    queues.columns.fair_share[[0, 1], 0] = 1000
    queues.columns.allocated[[0, 1], 0] = [3000, 1000]
    assert queues.reclaim("p", ("q", 1.0))


def test_r16_cousins_and_siblings_in_one_scenario():
    queues = Queues(
        top=(2, 2, 2),
        mid1=(1, 1, 0.5, "top"),
        mid2=(1, 1, 1.5, "top"),
        a=(1, 1, 0, "mid1"),
        b=(0, 0, 0.5, "mid1"),
        c=(1, 1, 1.5, "mid2"),
    )
    assert queues.reclaim("a", ("c", 1.5), ("b", 0.5))


def test_each_chunk_is_judged_by_what_its_queue_holds_before_it():
    queues = siblings(p2=(1, 1, 3), parent=(5, 5, 5))
    claim = queues.rules().open(queues.rows["p1"], (0.0, 0.0, 1.0), firm=None)
    victim = queues.rows["p2"]
    assert claim.add(victim, cpu_millis=0, memory_bytes=0, gpus=1)
    assert claim.add(victim, cpu_millis=0, memory_bytes=0, gpus=1)
    assert not claim.add(victim, cpu_millis=0, memory_bytes=0, gpus=1)
    assert claim.rejected == 1
    assert not claim.accepts()


@pytest.mark.parametrize(
    ("reclaimer", "victim", "kept"),
    [
        ((4, 4, 0), (4, 4, 2), False),
        ((4, 4, 0), (0, 4, 4), True),
        ((4, 4, 0), (2, 4, 2), True),
        ((1, 4, 0), (2, 4, 3), False),
        ((1, 4, 0), (2, 4, 5), True),
    ],
)
def test_the_victim_filter(reclaimer, victim, kept):
    queues = Queues(x=reclaimer, y=victim)
    assert queues.rules().may_be_victim(0, (0.0, 0.0, 2.0), victim=1) is kept


@pytest.mark.parametrize(
    ("held", "request_", "can"), [(2, 1, True), (3, 1, False), (0, 3, True), (0, 3.5, False)]
)
def test_reclaim_stays_within_the_fair_share(held, request_, can):
    rules = Queues(x=(1, 3, held)).rules()
    assert rules.can_reclaim(0, (0.0, 0.0, request_), firm=None) is can


def test_what_is_not_preemptible_reclaims_only_what_it_deserves():
    queues = Queues(x=(2, 5, 2))
    queues.columns.allocated_non_preemptible[0, GPU] = 1
    assert queues.rules().can_reclaim(0, (0.0, 0.0, 1.0), firm=(0.0, 0.0, 1.0))
    assert not queues.rules().can_reclaim(0, (0.0, 0.0, 2.0), firm=(0.0, 0.0, 2.0))
    assert queues.rules().can_reclaim(0, (0.0, 0.0, 2.0), firm=(0.0, 0.0, 1.0))


def test_a_search_keeps_the_state_it_began_with():
    queues = siblings()
    claim = queues.rules().open(queues.rows["p1"], (0.0, 0.0, 1.0), firm=None)
    queues.columns.allocated[:] = 0
    claim.add(queues.rows["p2"], cpu_millis=0, memory_bytes=0, gpus=1)
    assert claim.accepts()


def test_where_lines_part():
    forest = QueueForest([-1, 0, 0, 1, 1, 2, -1], priority=[100] * 7, rank=range(7))
    assert forest.leveled(3, 4) == (3, 4)
    assert forest.leveled(3, 5) == (1, 2)
    assert forest.leveled(3, 6) == (0, 6)
    assert forest.leveled(3, 1) == (1, 1)


chunks = st.lists(
    st.tuples(st.integers(2, 5), st.sampled_from([0.1, 0.3, 0.7, 1.0, 2.0])), min_size=1, max_size=12
)


@settings(max_examples=200)
@given(chunks, st.data())
def test_undo_is_exact_and_adding_again_judges_the_same(victims, data):
    held = data.draw(st.lists(st.sampled_from([0, 0.3, 1, 2.7, 4]), min_size=6, max_size=6))
    fair = data.draw(st.lists(st.sampled_from([0, 1, 2, 3]), min_size=6, max_size=6))
    names = "abcdef"
    parents = ["", "", "a", "a", "b", "b"]
    queues = Queues(
        **{name: (min(fair[row], 1), fair[row], held[row], parents[row]) for row, name in enumerate(names)}
    )
    keep = data.draw(st.integers(0, len(victims)))

    def judged(claim, chunks):
        verdicts = [
            claim.add(queue, cpu_millis=0.0, memory_bytes=0.0, gpus=amount) for queue, amount in chunks
        ]
        return verdicts, claim.accepts(), claim.rejected, dict(claim._remaining)

    def fresh():
        return queues.rules().open(2, (0.0, 0.0, 1.0), firm=None)

    claim = fresh()
    judged(claim, victims[:keep])
    mark = claim.mark()
    judged(claim, victims[keep:])
    claim.undo(mark)
    again = judged(claim, victims[keep:])
    plain = judged(fresh(), victims)
    assert again[1:] == plain[1:]
    assert np.array_equal(again[0], plain[0][keep:])
