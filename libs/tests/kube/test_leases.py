"""Who leads, by what a Lease says."""

import pytest

from kai.kube.leases import Leader, Lease, LeaseSpec, leader_of
from kai.model import names
from kai.model.objects import ObjectMeta


def a_lease(epoch):
    annotations = {names.EPOCH_ANNOTATION: epoch, names.ENDPOINT_ANNOTATION: "host:1"}
    return Lease(metadata=ObjectMeta(annotations=annotations), spec=LeaseSpec(holder_identity="a"))


def test_who_holds_it_leads_with_its_epoch():
    assert leader_of(a_lease("7")) == Leader("a", "host:1", 7)


@pytest.mark.parametrize("epoch", ["", "x", "-1", "1.5", "٣", "9" * 20, "9" * 5000])
def test_an_epoch_that_is_none_is_nobodys(epoch):
    assert leader_of(a_lease(epoch)) is None
