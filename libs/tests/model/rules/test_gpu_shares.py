"""Which part of GPUs a pod asks for."""

from decimal import Decimal

import pytest

from kai.model import limits
from kai.model.claims import Grant
from kai.model.faults import OutOfBounds
from kai.model.rules.gpu_shares import Share, asked_share, centi_of_memory

FRACTION, MEMORY, DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"


@pytest.mark.parametrize(
    ("annotations", "share"),
    [
        ({}, None),
        ({FRACTION: "0.5"}, Share(1, Decimal("0.5"))),
        ({FRACTION: "0.5", DEVICES: "2"}, Share(2, Decimal("0.5"))),
        ({FRACTION: "1"}, Share(1, Decimal(1))),
        ({FRACTION: ".25"}, Share(1, Decimal("0.25"))),
        ({FRACTION: "5e-1"}, Share(1, Decimal("0.5"))),
        ({MEMORY: "4096"}, Share(1, memory_mib=4096)),
        ({MEMORY: "4096", DEVICES: "3"}, Share(3, memory_mib=4096)),
        ({FRACTION: "0.5", MEMORY: "4096"}, Share(1, Decimal("0.5"))),
        ({FRACTION: "", MEMORY: "4096"}, Share(1, memory_mib=4096)),
        ({FRACTION: "", MEMORY: ""}, None),
        ({DEVICES: "2"}, None),
        ({FRACTION: "0.5", DEVICES: ""}, Share(1, Decimal("0.5"))),
    ],
)
def test_a_pod_asks_for_a_portion_or_for_memory_of_some_devices(annotations, share):
    assert asked_share(annotations) == share


@pytest.mark.parametrize(
    "annotations",
    [
        {FRACTION: "half"},
        {FRACTION: "0"},
        {FRACTION: "-0.5"},
        {FRACTION: "1.01"},
        {FRACTION: "nan"},
        {FRACTION: "inf"},
        {FRACTION: " 0.5"},
        {FRACTION: "0_0.5"},
        {FRACTION: "500m"},
        {FRACTION: "0." + "1" * 5000},
        {MEMORY: "0"},
        {MEMORY: "4Gi"},
        {MEMORY: str(limits.GPU_MEMORY.most + 1)},
        {FRACTION: "0.5", DEVICES: "0"},
        {FRACTION: "0.5", DEVICES: "many"},
        {DEVICES: "many"},
    ],
)
def test_what_cannot_be_read_is_refused(annotations):
    with pytest.raises(OutOfBounds):
        asked_share(annotations)


@pytest.mark.parametrize(
    ("portion", "centi"),
    [("0.5", 50), ("1", 100), ("0.333", 33), ("0.125", 12), ("0.375", 38), ("0.575", 58), ("0.001", 1)],
)
def test_a_portion_counts_in_hundredths_and_at_least_one(portion, centi):
    assert Share(1, Decimal(portion)).portion_centi == centi
    grant = Grant.asked({FRACTION: portion}, devices=1)
    assert grant is not None
    assert grant.portion_centi == centi


def test_memory_has_no_portion():
    assert Share(1, memory_mib=4096).portion_centi == 0


@pytest.mark.parametrize(
    ("share", "device_mib", "part", "gpus"),
    [
        (Share(1, Decimal("0.5")), None, "0.5", "0.5"),
        (Share(3, Decimal("0.333")), 16_000, "0.333", "0.999"),
        (Share(1, memory_mib=4_000), 16_000, "0.25", "0.25"),
        (Share(2, memory_mib=1_000), 16_000, "0.0625", "0.125"),
        (Share(1, memory_mib=20_000), 16_000, "1.25", "1.25"),
        (Share(1, memory_mib=4_000), None, None, None),
        (Share(1, memory_mib=4_000), 0, None, None),
    ],
)
def test_people_are_told_the_exact_part(share, device_mib, part, gpus):
    found = (share.of_device(device_mib), share.gpus(device_mib))
    assert found == tuple(None if text is None else Decimal(text) for text in (part, gpus))


@pytest.mark.parametrize(
    ("memory_mib", "device_mib", "centi"),
    [
        (0, 16_000, 0),
        (1, 16_000, 1),
        (160, 16_000, 1),
        (161, 16_000, 2),
        (4_000, 16_000, 25),
        (1_000, 16_000, 7),
        (16_000, 16_000, 100),
        (20_000, 16_000, 125),
        (5, 0, 500),
    ],
)
def test_queues_are_charged_for_memory_in_hundredths_rounded_up(memory_mib, device_mib, centi):
    assert centi_of_memory(memory_mib, device_mib) == centi
