"""Devices for many requests: the first choice in order that serves all, or none within bounds."""

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai.engine.dra.allocator import Unfit, allocate
from kai.engine.dra.inventory import Inventory
from libs.tests.engine.dra.builders import DRIVER, a_claim, a_class, a_device, a_request, a_slice

pytest.importorskip("cel_expr_python")

CLAIMS, REQUESTS = 12, 32


class Usage:
    """What others use: devices by name. One may ask for it ``most`` times."""

    def __init__(self, *used, most=10_000_000):
        self.used = used
        self.left = most

    def is_free(self, device):
        self.left -= 1
        assert self.left, "the search has no end"
        return device.name not in self.used

    def counted(self, counter):
        return 0


def an_inventory(*slices):
    found = Inventory(lambda node: {})
    for each in slices:
        found.put_slice(each)
    found.put_class(a_class())
    return found


def an_alternative(name, count=1, mode="ExactCount"):
    return {"name": name, "deviceClassName": "gpu", "allocationMode": mode, "count": count}


def chosen(results):
    return [[(each.request, each.device) for each in result.devices.results] for result in results]


def test_as_many_requests_as_claims_may_have_get_the_first_devices_of_a_large_node():
    parts = [[f"g{at:03}" for at in range(first, first + 128)] for first in range(0, 640, 128)]
    inventory = an_inventory(*(a_slice("n", part, name=part[0], pool=part[0]) for part in parts))
    claims = [a_claim(f"c{c}", *(a_request(f"r{r}") for r in range(REQUESTS))) for c in range(CLAIMS)]
    found = allocate(claims, "n", inventory=inventory, usage=Usage())
    assert chosen(found) == [
        [(f"r{r}", f"g{c * REQUESTS + r:03}") for r in range(REQUESTS)] for c in range(CLAIMS)
    ]


@pytest.mark.parametrize("alternatives", [
    [an_alternative("a"), an_alternative("b")],
    [an_alternative("all", mode="All"), an_alternative("one")],
    [an_alternative("many", 2), an_alternative("one")],
])  # fmt: skip
def test_a_search_that_has_given_up_tries_no_further_alternatives(alternatives):
    """Two for each of thirty requests are a thousand million ways."""
    usage = Usage(most=2_000_000)
    requests = [{"name": f"r{at}", "firstAvailable": alternatives} for at in range(30)]
    in_vain = a_request("none", expressions=["false"])
    found = allocate(
        [a_claim("c", *requests, in_vain)], "n", inventory=an_inventory(a_slice("n", 40)), usage=usage
    )
    assert isinstance(found, Unfit)
    assert "too many choices" in found.reason


# --- against the definition ---------------------------------------------------------------------------
MODELS = ("A", "B")
counts = st.integers(min_value=1, max_value=2)
options = st.tuples(st.sampled_from(["ExactCount", "ExactCount", "All"]), counts)
requests_drawn = st.lists(st.lists(options, min_size=1, max_size=2), min_size=1, max_size=3)


def by_definition(models, used, drawn, kind):
    """The first way in lexicographic order: of options, then of devices."""
    everything = range(len(models))

    def ways(request):
        for at, (mode, count) in enumerate(request):
            for devices in [tuple(everything)] if mode == "All" else combinations(everything, count):
                yield at, devices

    for way in product(*(list(ways(request)) for request in drawn)):
        devices = [device for _, each in way for device in each]
        values = [models[device] for device in devices]
        alike = kind == "" or len(set(values)) == (1 if kind == "matchAttribute" else len(values))
        if alike and len(set(devices)) == len(devices) and not used.intersection(devices):
            return [(f"r{r}/o{at}", f"g{each}") for r, (at, devices) in enumerate(way) for each in devices]
    return None


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(MODELS), min_size=1, max_size=5),
    st.sets(st.integers(min_value=0, max_value=4), max_size=2),
    requests_drawn,
    st.sampled_from(["", "matchAttribute", "distinctAttribute"]),
)
def test_it_is_the_first_choice_in_order_that_serves_all(models, used, drawn, kind):
    devices = [a_device(f"g{at}", model=model) for at, model in enumerate(models)]
    alternatives = [
        [an_alternative(f"o{at}", count, mode) for at, (mode, count) in enumerate(each)] for each in drawn
    ]
    requests = [{"name": f"r{r}", "firstAvailable": each} for r, each in enumerate(alternatives)]
    constraints = [{kind: f"{DRIVER}/model"}] if kind else []
    found = allocate(
        [a_claim("c", *requests, constraints=constraints)],
        "n",
        inventory=an_inventory(a_slice("n", devices)),
        usage=Usage(*(f"g{at}" for at in used)),
    )
    expected = by_definition(models, used, drawn, kind)
    assert (None if isinstance(found, Unfit) else chosen(found)[0]) == expected
