"""What is written says how urgent it is; whoever knows better says so."""

import pytest

from kai.kube.ranks import Rank, rank_of


@pytest.mark.parametrize(
    ("verb", "resource", "rank"),
    [
        ("create", "pods/binding", Rank.DECISION),
        ("create", "pods/eviction", Rank.DECISION),
        ("delete", "pods", Rank.DECISION),
        ("create", "podgroups", Rank.NEED),
        ("patch", "pods", Rank.NEED),
        ("create", "configmaps", Rank.NEED),
        ("update", "resourceclaims/status", Rank.NEED),
        ("patch", "podgroups/status", Rank.STATUS),
        ("patch", "pods/status", Rank.STATUS),
        ("patch", "queues/status", Rank.STATUS),
        ("create", "events", Rank.NEWS),
        ("patch", "events", Rank.NEWS),
        ("update", "leases", Rank.LEASE),
    ],
)
def test_every_write_has_a_rank(verb, resource, rank):
    assert rank_of(verb, resource) is rank


def test_decisions_come_before_what_tells_of_them():
    assert Rank.LEASE < Rank.DECISION < Rank.NEED < Rank.STATUS < Rank.NEWS
