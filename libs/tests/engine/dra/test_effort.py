"""Claims of one namespace get only so much of a cycle, and those of others what they ask for."""

import pytest

from kai.engine.dra import inventory as inventories
from kai.engine.dra.allocator import Unfit, allocate
from kai.engine.dra.inventory import Inventory
from libs.tests.engine.dra.builders import DRIVER, a_claim, a_class, a_device, a_request, a_slice

pytest.importorskip("cel_expr_python")


class NobodyElse:
    def is_free(self, device):
        return True

    def counted(self, counter):
        return 0


def an_inventory(devices=16, indices=6):
    found = Inventory(lambda node: {})
    indexed = [a_device(f"g{n}", attributes={"index": {"int": n % indices}}) for n in range(devices)]
    found.put_slice(a_slice("n", indexed))
    found.put_class(a_class())
    return found


def asking(namespace, *exactly, constraints=()):
    """A claim with so many requests, each by what it says beyond one device."""
    requests = [a_request(f"r{n}", **each) for n, each in enumerate(exactly)]
    return a_claim("c", *requests, namespace=namespace, constraints=constraints)


def selected(expression):
    return {"expressions": [expression]}


def without_a_way_out(namespace):
    """Seven devices of which no two have the same index, of which there are six."""
    apart = [{"distinctAttribute": f"{DRIVER}/index"}]
    return asking(namespace, *[{}] * 7, constraints=apart)


@pytest.fixture
def choices():
    """The devices that were tried, and a usage that knows."""
    tried = []

    class Counting(NobodyElse):
        def is_free(self, device):
            tried.append(device)
            return True

    return tried, Counting()


def test_a_search_without_a_way_out_ends_soon_and_the_next_of_its_namespace_at_once(choices):
    tried, usage = choices
    inventory = an_inventory()
    first = allocate([without_a_way_out("hostile")], "n", inventory=inventory, usage=usage)
    assert isinstance(first, Unfit)
    assert "gave up looking for devices for hostile/c" in first.reason
    spent = len(tried)
    tried.clear()
    assert isinstance(allocate([without_a_way_out("hostile")], "n", inventory=inventory, usage=usage), Unfit)
    assert len(tried) < spent / 100


@pytest.mark.parametrize("namespace", ["hostile", "team"])
def test_what_was_sought_in_vain_is_not_sought_again_while_the_same_devices_are_in_use(choices, namespace):
    tried, usage = choices
    inventory = an_inventory()
    allocate([without_a_way_out("hostile")], "n", inventory=inventory, usage=usage)
    inventory.effort.renew()
    tried.clear()
    again = allocate([without_a_way_out(namespace)], "n", inventory=inventory, usage=usage)
    assert isinstance(again, Unfit)
    assert f"devices for {namespace}/c" in again.reason
    assert len(tried) <= 16


def test_what_was_sought_in_vain_is_sought_again_once_other_devices_are_free():
    class Some(NobodyElse):
        def __init__(self, *taken):
            self.taken = taken

        def is_free(self, device):
            return device.name not in self.taken

    inventory = an_inventory(devices=18, indices=9)
    seven = without_a_way_out("team")
    busy = Some("g6", "g15", "g7", "g16", "g8", "g17")
    assert isinstance(allocate([seven], "n", inventory=inventory, usage=busy), Unfit)
    assert inventory.of_node("n").in_vain
    assert isinstance(allocate([seven], "n", inventory=inventory, usage=busy), Unfit)
    assert not isinstance(
        allocate([seven], "n", inventory=inventory, usage=Some("g6", "g15", "g7", "g16")), Unfit
    )


def test_others_are_served_in_the_same_cycle_and_it_itself_in_the_next():
    inventory = an_inventory()
    for _ in range(3):
        allocate([without_a_way_out("hostile")], "n", inventory=inventory, usage=NobodyElse())
    apart = [{"distinctAttribute": f"{DRIVER}/index"}]
    for namespace in ("team", "team"):
        found = allocate(
            [asking(namespace, {}, {}, constraints=apart)], "n", inventory=inventory, usage=NobodyElse()
        )
        assert not isinstance(found, Unfit)
    inventory.effort.renew()
    again = allocate(
        [asking("hostile", {}, {}, constraints=apart)], "n", inventory=inventory, usage=NobodyElse()
    )
    assert not isinstance(again, Unfit)


def test_selectors_beyond_what_a_cycle_may_cost_wait_for_the_next_and_are_then_evaluated(monkeypatch):
    monkeypatch.setattr(inventories, "MOST_EFFORT", 300)
    inventory = an_inventory()
    claims = [asking("hostile", selected(f"device.driver != 'x{n}'")) for n in range(10)]

    def served():
        found = [allocate([claim], "n", inventory=inventory, usage=NobodyElse()) for claim in claims]
        refused = [each.reason for each in found if isinstance(each, Unfit)]
        assert all("looked at in a later cycle" in reason for reason in refused)
        return len(found) - len(refused)

    first = served()
    assert 0 < first < len(claims)
    ordinary = asking("team", selected("device.driver != 'y'"))
    assert not isinstance(allocate([ordinary], "n", inventory=inventory, usage=NobodyElse()), Unfit)
    for _ in range(10):
        inventory.effort.renew()
        last = served()
    assert last == len(claims)


def test_more_devices_than_are_free_are_refused_without_trying_each_choice(choices):
    tried, usage = choices
    found = allocate([asking("team", {"count": 17})], "n", inventory=an_inventory(), usage=usage)
    assert isinstance(found, Unfit)
    assert len(tried) <= 17


def test_what_was_looked_at_is_forgotten_when_there_is_too_much_of_it():
    inventory = an_inventory()
    for number in range(600):
        inventory.effort.renew()
        claim = asking("hostile", selected(f"device.driver != 'x{number}'"))
        allocate([claim], "n", inventory=inventory, usage=NobodyElse())
    node = inventory.of_node("n")
    assert len(node.candidates) <= 256
    assert max(len(device._verdicts) for device in node.devices) <= 256
