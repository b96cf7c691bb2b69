"""The weights of the order of nodes stand in one table, and each outweighs what it says."""

import ast
from pathlib import Path

import kai.engine
from kai.engine.kernel import scores

ENGINE = Path(kai.engine.__file__).parent
#: What each plugin adds to a node's score at most, in the order of the table.
MOST = {
    "nodeplacement": scores.BINPACK,
    "resourcetype": scores.RESOURCE_TYPE,
    "gpusharingorder": scores.NO_GPUS,
    "nodeavailability": scores.AVAILABILITY,
    "joining a shared GPU": scores.GPU_SHARING,
    "topology": scores.TOPOLOGY * scores.TOPOLOGY_TENTHS,
    "preferences": scores.PREFERENCE * scores.MOST * scores.TAINTS,
    "nominatednode": scores.NOMINATED_NODE,
}


def test_what_comes_later_outweighs_each_that_comes_before() -> None:
    most = list(MOST.values())
    assert most == sorted(most)
    kinds = scores.POD_AFFINITY + scores.NODE_AFFINITY + scores.TOPOLOGY_SPREAD + scores.TAINTS
    assert kinds * scores.MOST * scores.PREFERENCE < scores.NOMINATED_NODE
    assert scores.NUMA <= scores.NO_GPUS < scores.AVAILABILITY
    assert scores.GPU_QUARTER_TAKEN * 4 < scores.GPUS_TAKEN < scores.NO_GPUS


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
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "scores"
