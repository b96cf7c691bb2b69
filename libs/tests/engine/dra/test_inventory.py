"""What an inventory says after its facts change."""

from kai.engine.dra.inventory import Inventory
from kai.model import cel
from libs.tests.engine.dra.builders import a_class, a_slice


def names(inventory, node="n1"):
    return [device.id.name for device in inventory.of_node(node).devices]


def test_slices_come_and_go():
    inventory = Inventory(lambda _: {})
    inventory.put_slice(a_slice("n1", ["a"], name="s1"))
    assert names(inventory) == ["a"]
    inventory.put_slice(a_slice("n1", ["b", "c"], name="s1"))
    inventory.put_slice(a_slice("n1", ["d"], name="s2", pool="other"))
    assert names(inventory) == ["b", "c", "d"]
    inventory.drop_slice("s1")
    inventory.drop_slice("never was there")
    assert names(inventory) == ["d"]


def test_a_slice_that_moves_to_another_node_leaves_the_first():
    inventory = Inventory(lambda _: {})
    inventory.put_slice(a_slice("n1", ["a"], name="s1"))
    assert names(inventory) == ["a"]
    inventory.put_slice(a_slice("n2", ["a"], name="s1"))
    assert (names(inventory, "n1"), names(inventory, "n2")) == ([], ["a"])


def test_labels_decide_anew_when_the_node_is_forgotten():
    labels = {"n1": {"zone": "a"}}
    selector = {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]
    }
    inventory = Inventory(labels.get)
    inventory.put_slice(a_slice(None, ["a"], name="s1", pool="n1", nodeSelector=selector))
    assert names(inventory) == []
    labels["n1"] = {"zone": "b"}
    inventory.forget_node("n1")
    assert names(inventory) == ["a"]


def test_of_classes_for_one_resource_the_newest_counts_then_the_first_by_name():
    inventory = Inventory(lambda _: {})
    inventory.put_class(a_class("b", extendedResourceName="example.com/x", created="2030-01-01T00:00:00Z"))
    inventory.put_class(a_class("a", extendedResourceName="example.com/x", created="2030-01-01T00:00:00Z"))
    inventory.put_class(a_class("c", extendedResourceName="example.com/x", created="2029-01-01T00:00:00Z"))
    assert inventory.class_of_resource("example.com/x") == "a"
    assert inventory.class_of_resource("deviceclass.resource.kubernetes.io/c") == "c"
    inventory.drop_class("a")
    assert inventory.class_of_resource("example.com/x") == "b"
    assert inventory.class_of_resource("example.com/y") is None


def test_without_the_library_a_selector_is_a_fault_that_names_the_remedy(monkeypatch):
    monkeypatch.setattr(cel, "cel", None)
    monkeypatch.setattr(cel, "COMPILED", cel.Compiled())
    found = cel.compile_selector("true")
    assert isinstance(found, cel.SelectorFault)
    assert "cel-expr-python is not installed" in found.reason
