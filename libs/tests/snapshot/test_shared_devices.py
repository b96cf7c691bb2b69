"""What a device that pods share, and a claim that they share, count against their node."""

import pytest

from kai.snapshot.amounts import SharedClaim, SharedDevice

MIB = 1000


@pytest.mark.parametrize(
    ("held", "releasing", "promised", "reservations", "whole", "free", "joinable", "unused"),
    [
        pytest.param(0, 0, 0, 1, (-1, 1), 1000, False, True, id="only its reservation pod is there"),
        pytest.param(600, 0, 0, 1, (-1, 0), 400, True, False, id="somebody stays"),
        pytest.param(600, 200, 0, 1, (-1, 0), 600, True, False, id="one of several leaves"),
        pytest.param(600, 600, 0, 1, (-1, 1), 1000, False, False, id="all leave: it counts as a whole one"),
        pytest.param(600, 600, 300, 1, (-1, 0), 700, True, False, id="all leave, and somebody waits for it"),
        pytest.param(0, 0, 300, 0, (0, -1), 700, True, False, id="somebody waits for a whole one"),
        pytest.param(800, 0, 0, 0, (-1, 0), 200, False, False, id="too full, with its reservation pod gone"),
    ],
)
def test_a_device_counts_by_what_it_is_now(
    held, releasing, promised, reservations, whole, free, joinable, unused
):
    device = SharedDevice(
        held_mib=held, releasing_mib=releasing, pipelined_mib=promised, reservation_pods=reservations
    )
    assert device.whole_gpus() == whole
    assert device.free_mib(MIB) == free
    assert device.joinable(MIB, 300) is joinable
    assert device.unused is unused


@pytest.mark.parametrize(
    ("held", "releasing", "promised", "slots"),
    [
        pytest.param(600, 0, 0, (-1, 0), id="somebody stays"),
        pytest.param(600, 600, 0, (-1, 1), id="all leave"),
        pytest.param(600, 600, 300, (-1, 0), id="all leave, and somebody waits for it"),
        pytest.param(0, 0, 300, (0, -1), id="somebody waits for a whole one"),
    ],
)
def test_a_device_takes_the_slot_of_its_reservation_pod_until_that_is_there(held, releasing, promised, slots):
    device = SharedDevice(held_mib=held, releasing_mib=releasing, pipelined_mib=promised)
    assert device.slots() == slots
    device.reservation_pods = 1
    assert device.slots() == (0, 0)


@pytest.mark.parametrize(
    ("users", "releasing", "promised", "whole"),
    [
        pytest.param(1, 0, 0, (-4, 0), id="used"),
        pytest.param(3, 2, 0, (-4, 0), id="one stays"),
        pytest.param(2, 2, 0, (-4, 4), id="all leave"),
        pytest.param(2, 2, 1, (-4, 0), id="all leave, and somebody waits"),
        pytest.param(0, 0, 2, (0, -4), id="promised"),
        pytest.param(0, 0, 0, (0, 0), id="unused"),
    ],
)
def test_a_claim_counts_once_with_all_its_gpus(users, releasing, promised, whole):
    assert (
        SharedClaim(gpus=4, users=users, releasing_users=releasing, pipelined_users=promised).whole_gpus()
        == whole
    )
