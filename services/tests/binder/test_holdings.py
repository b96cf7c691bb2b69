"""Who holds which shared devices of a node, as reservations come and go."""

import msgspec
import pytest

from kai.model import names
from kai_binder.holdings import holder, holdings
from kai_binder.objects import WatchedPod
from kai_binder.reservation_pods import ReservationPod

GROUP = "g1"


def a_reservation(uid, *, device="", claimed_by=(), group=GROUP):
    claims = {
        f"{names.RESERVATION_CLAIM_PREFIX}uid-{name}": f"1800000000 team/{name} 1x0.50" for name in claimed_by
    }
    told = {names.RESERVED_GPU: device} if device else {}
    metadata = {"uid": uid, "labels": {names.GPU_GROUP_LABEL: group}, "annotations": {**told, **claims}}
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": "n1"}}, ReservationPod)


def a_consumer(name, *, group=GROUP):
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "labels": {names.GPU_GROUP_LABEL: group},
        "annotations": {names.GPU_FRACTION: "0.5"},
    }
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": "n1"}}, WatchedPod)


@pytest.mark.parametrize(
    ("standing", "held", "lost"),
    [
        ([], set(), {GROUP: "GPU-1"}),
        ([{"device": "GPU-1"}], {GROUP}, {}),
        ([{"device": "GPU-2"}], set(), {GROUP: "GPU-1"}),
        ([{}], set(), {GROUP: "GPU-1"}),
        ([{"device": "GPU-2", "claimed_by": ["p"]}], {GROUP}, {}),
        ([{"device": "GPU-2"}, {"device": "GPU-1"}], {GROUP}, {}),
        ([{"device": "GPU-2", "group": "g2"}], set(), {GROUP: "GPU-1"}),
    ],
    ids=[
        "there is none again",
        "one of the same device",
        "one of another device",
        "one that has no device yet",
        "the pod claims the new one, too",
        "one of each",
        "one of another group",
    ],
)
def test_after_its_reservation_has_ended_a_pod_holds_what_another_one_holds(standing, held, lost):
    ended = a_reservation("former", device="GPU-1", claimed_by=["p"])
    there = [a_reservation(f"now-{number}", **each) for number, each in enumerate(standing)]
    found = holdings([a_consumer("p")], standing=there, ended=[ended])
    assert (found.held, found.lost) == ({"uid-p": held}, {"uid-p": lost})
    assert found.outlived == ([ended] if lost else [])
    assert found.used == held


def test_who_claimed_one_that_never_got_a_device_has_lost_none():
    ended = a_reservation("former", claimed_by=["p"])
    found = holdings([a_consumer("p")], standing=[a_reservation("now", device="GPU-2")], ended=[ended])
    assert found.lost == {"uid-p": {}}


def test_who_lost_a_device_is_not_recorded_where_it_does_not_run():
    pods = [a_consumer("lost"), a_consumer("told by its labels")]
    ended = a_reservation("former", device="GPU-1", claimed_by=["lost"])
    found = holdings(pods, standing=[a_reservation("now", device="GPU-2")], ended=[ended])
    assert found.unrecorded == pods[1:]


@pytest.mark.parametrize(
    ("devices", "found"),
    [([], "now-1"), (["GPU-1"], "now-1"), (["GPU-2", "GPU-9"], "now-2"), (["GPU-3"], None)],
    ids=["nobody knows its device", "of the first", "of the second", "of another group"],
)
def test_a_pod_of_which_nothing_is_recorded_goes_by_the_reservation_of_the_device_that_it_was_told(
    devices, found
):
    standing = [
        a_reservation("now-1", device="GPU-1"),
        a_reservation("now-2", device="GPU-2"),
        a_reservation("now-3", device="GPU-3", group="g2"),
    ]
    reservation = holder(GROUP, standing=standing, devices=devices)
    assert (reservation and reservation.metadata.uid) == found
