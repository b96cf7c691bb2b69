"""Which taints are tolerated."""

import pytest

from kai.model.dra import DeviceTaint, DeviceToleration
from kai.model.objects import Taint, Toleration
from kai.model.rules.taints import tolerates, untolerated

GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        ({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "yes"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "cpu", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({}, False),
        ({"value": "yes"}, False),
        ({"key": "gpu", "operator": "Like", "value": "yes"}, False),
        ({"key": "gpu", "operator": "Gt", "value": "yes"}, False),
    ],
)
def test_a_toleration_covers_taints_of_nodes_and_devices_alike(toleration, covers):
    assert tolerates(Toleration(**toleration), Taint(**GPU)) is covers
    assert tolerates(DeviceToleration(**toleration), DeviceTaint(**GPU)) is covers


@pytest.mark.parametrize(
    ("operator", "bound", "value", "covers"),
    [
        ("Gt", "900", "950", True),
        ("Gt", "950", "950", False),
        ("Gt", "990", "950", False),
        ("Lt", "990", "950", True),
        ("Lt", "950", "950", False),
        ("Lt", "900", "950", False),
        ("Lt", "10", "9", True),
        ("Gt", "-5", "0", True),
        ("Gt", "", "950", False),
        ("Gt", "900", "", False),
        ("Gt", "900", "high", False),
        ("Gt", "900", "0950", False),
        ("Lt", "+990", "950", False),
        ("Lt", "9223372036854775808", "1", False),
    ],
)
def test_numbers_of_taints_are_compared(operator, bound, value, covers):
    taint = Taint(key="sla", value=value, effect="NoSchedule")
    assert tolerates(Toleration(key="sla", operator=operator, value=bound), taint) is covers
    assert not tolerates(Toleration(operator=operator, value=bound), taint)
    assert not tolerates(Toleration(key="other", operator=operator, value=bound), taint)


def test_the_first_taint_that_keeps_pods_away_and_is_not_tolerated_is_told():
    soft = Taint(key="slow", effect="PreferNoSchedule")
    gpu, old = Taint(**GPU), Taint(key="old", effect="NoExecute")
    assert untolerated([soft], []) is None
    assert untolerated([soft, gpu, old], []) is gpu
    assert untolerated([soft, gpu, old], [Toleration(key="gpu", operator="Exists")]) is old
    assert untolerated([gpu, old], [Toleration(operator="Exists")]) is None


def test_who_is_there_already_is_driven_out_only_by_what_drives_out():
    gpu, old = Taint(**GPU), Taint(key="old", effect="NoExecute")
    assert untolerated([gpu], [], effects=("NoExecute",)) is None
    assert untolerated([gpu, old], [], effects=("NoExecute",)) is old
