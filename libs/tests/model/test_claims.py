"""What reservation pods say of who holds what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai.model import names
from kai.model.claims import Claim, Grant, claims_of, granted

HALF = Grant(1, portion_centi=50)
GRANTS = st.builds(Grant, st.integers(1, 1024), portion_centi=st.integers(1, 100)) | st.builds(
    Grant, st.integers(1, 1024), memory_mib=st.integers(1, 2**31)
)


@given(GRANTS, st.integers(0, 2**40))
def test_a_claim_is_read_as_it_was_written(grant, until):
    claim = Claim(float(until), "team-a/p", grant)
    assert Claim.parse(claim.render()) == claim


@given(GRANTS)
def test_a_grant_is_what_its_annotations_ask_for(grant):
    assert Grant.asked(grant.annotations, devices=grant.devices) == grant


@pytest.mark.parametrize(
    "text",
    ["", "1x", "x0.50", "1x0.5", "1x1.01", "0x0.50", "2000x0.50", "1x0Mi", "1x99999999999Mi", "1x-1Mi",
     "1x0.00", "1xnan", "١x0.50", "1x0.50 2x0.50", "1" * 5000 + "x0.50"],
)  # fmt: skip
def test_what_is_no_grant_grants_nothing(text):
    claim = Claim.parse(f"1800000000 team-a/p {text}")
    assert (claim.until, claim.pod, claim.grant) == (1800000000.0, "team-a/p", None)


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {names.GPU_FRACTION: "0"},
        {names.GPU_FRACTION: "-0.5"},
        {names.GPU_FRACTION: "nan"},
        {names.GPU_FRACTION: "inf"},
        {names.GPU_FRACTION: "7"},
        {names.GPU_FRACTION: "half"},
        {names.GPU_MEMORY: "1" * 5000},
        {names.GPU_MEMORY: "many"},
    ],
)
def test_annotations_that_ask_for_nothing_are_no_grant(annotations):
    assert Grant.asked(annotations, devices=1) is None


def test_claims_are_found_among_other_annotations():
    annotations = {
        "claim.kai.scheduler/u1": "5 a/p 1x0.50",
        "other": "x",
        "claim.kai.scheduler/u2": "nonsense",
    }
    assert claims_of(annotations) == {"u1": Claim(5.0, "a/p", HALF), "u2": Claim(0.0, "", None)}


@pytest.mark.parametrize(
    ("claims", "found"),
    [
        ({}, None),
        ({"g1": Claim(9, "a/p")}, None),
        ({"g1": Claim(9, "a/p", HALF)}, (HALF, {"g1"})),
        ({"g1": Claim(5, "a/p", HALF), "g2": Claim(9, "a/p", HALF)}, (HALF, {"g2"})),
        ({"g1": Claim(9, "a/p", HALF), "g2": Claim(9, "a/p", HALF)}, (HALF, {"g1", "g2"})),
        ({"g1": Claim(9, "a/p", Grant(2, 50))}, (Grant(2, 50), {"g1"})),
        (
            {f"g{until}": Claim(until, "a/p", Grant(2, 50)) for until in (1, 2, 3)},
            (Grant(2, 50), {"g2", "g3"}),
        ),
    ],
    ids=["none", "no grant", "one", "decided anew", "as new", "one of two is known", "two of three"],
)  # fmt: skip
def test_as_many_of_the_newest_claims_count_as_the_pod_has_devices(claims, found):
    assert granted(claims) == found
