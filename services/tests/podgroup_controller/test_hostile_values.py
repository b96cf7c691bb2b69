"""Nothing that a pod, a group or a claim says makes its status fail, or drifts from what it says later."""

import msgspec
import pytest

from kai.model.dra import ResourceClaim
from kai.model.rules.device_claims import claimed_gpus
from kai_podgroup_controller import accounting
from kai_podgroup_controller.accounting import Surroundings

HUGE = ("9" * 5000, "²", "٣", "1e999", "1e999999999", "-1", "nan", "much", str(2**64), "0.5" * 100)
NOWHERE = Surroundings(lambda node: None, lambda claim: None)
INT64 = 2**63 - 1


@pytest.mark.parametrize("annotation", ["gpu-memory", "gpu-fraction", "gpu-fraction-num-devices"])
@pytest.mark.parametrize("value", HUGE, ids=lambda value: value[:12])
def test_a_part_of_a_gpu_that_nobody_can_read_counts_as_none(build, annotation, value):
    annotations = {"gpu-fraction": "0.5"} if annotation.endswith("devices") else {}
    pod = build.facts(annotations=annotations | {annotation: value})
    status = accounting.resources_status([pod, pod], NOWHERE, preemptible=True)
    assert status.requested == {"cpu": "2"}


@pytest.mark.parametrize("value", HUGE, ids=lambda value: value[:12])
def test_requests_end_at_what_the_api_can_say(build, value):
    pod = build.facts(requests=[{"cpu": "1", "memory": value}])
    status = accounting.resources_status([pod, pod], NOWHERE, preemptible=True)
    assert status.requested["cpu"] == "2"
    assert len(msgspec.json.encode(status)) < 200


def test_a_claim_counts_no_more_than_the_api_can_say():
    exactly = {"deviceClassName": "gpu.example.com", "count": INT64}
    claim = {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}] * 3}}}
    assert claimed_gpus(msgspec.convert(claim, ResourceClaim)) == ("gpu.example.com", INT64)
