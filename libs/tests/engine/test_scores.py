"""The weights of the order of nodes stand in one table, and each outweighs what it says."""

import ast
from pathlib import Path

import kai.engine
from kai.engine.config.plugin_table import Weight

ENGINE = Path(kai.engine.__file__).parent
#: What each plugin adds to a node's score at most, in the order of the table.
MOST = {
    "nodeplacement": Weight.BINPACK,
    "resourcetype": Weight.RESOURCE_TYPE,
    "gpusharingorder": Weight.NO_GPUS,
    "nodeavailability": Weight.AVAILABILITY,
    "joining a shared GPU": Weight.GPU_SHARING,
    "topology": Weight.TOPOLOGY * Weight.TOPOLOGY_TENTHS,
    "preferences": Weight.PREFERENCE * Weight.MOST * Weight.TAINTS,
    "nominatednode": Weight.NOMINATED_NODE,
}


def test_what_comes_later_outweighs_each_that_comes_before() -> None:
    most = list(MOST.values())
    assert most == sorted(most)
    kinds = Weight.POD_AFFINITY + Weight.NODE_AFFINITY + Weight.TOPOLOGY_SPREAD + Weight.TAINTS
    assert kinds * Weight.MOST * Weight.PREFERENCE < Weight.NOMINATED_NODE
    assert Weight.NUMA <= Weight.NO_GPUS < Weight.AVAILABILITY
    assert Weight.GPU_QUARTER_TAKEN * 4 < Weight.GPUS_TAKEN < Weight.NO_GPUS


def test_no_other_module_multiplies_a_weight_by_a_number_of_its_own() -> None:
    found = [
        f"{path.relative_to(ENGINE)}:{node.lineno}"
        for path in ENGINE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.BinOp)
        and any(is_weight(side) for side in (node.left, node.right))
        and any(isinstance(side, ast.Constant) for side in (node.left, node.right))
    ]
    assert not found


def is_weight(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Weight"
