"""The weights of the order of nodes stand in one table, and each outweighs what it says."""

import ast
from pathlib import Path

import pytest

import kai.engine
from kai.config.plugin_table import DEFAULT_PLUGINS, PlacementStrategy, Weight
from kai.engine import Engine
from libs.tests.engine.builders import NOW, a_job, a_state, config, nodes, task_of

ENGINE = Path(kai.engine.__file__).parent
#: What each plugin adds to a node's score at most, in the order of the table.
MOST = {
    "nodeplacement": max(Weight.BINPACK, Weight.HEADROOM),
    "resourcetype": Weight.RESOURCE_TYPE,
    "gpusharingorder": Weight.NO_GPUS,
    "nodeavailability": Weight.AVAILABILITY,
    "joining a shared GPU": Weight.GPU_SHARING,
    "topology": Weight.TOPOLOGY * Weight.TOPOLOGY_TENTHS,
    "preferences": Weight.PREFERENCE * Weight.MOST * Weight.TAINTS,
    "nominatednode": Weight.NOMINATED_NODE,
}
#: Where scores come from: what is no weight there is a part, and so 1 at most.
ROOMS = ("framework", "kernel", "neighbourhood", "numa", "packing", "plugins")
#: Larger numbers that are added to no score, by module.
NO_SCORES = {
    ("packing/columns.py", 2.0),  # counts of pods are rounded to powers of it
    ("packing/compiled.py", 2.0),  # stands for a device with more room than any has
    ("packing/headroom.py", 2.0),  # the same
    ("packing/parts.py", 2.0),  # weighs two kinds of loss, of which the sum becomes a score
    ("plugins/topology.py", 1000.0),  # stands for a domain with less room than any has
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


def test_no_module_that_makes_scores_has_a_number_of_its_own() -> None:
    found = {
        (str(path.relative_to(ENGINE)), node.value)
        for room in ROOMS
        for path in (ENGINE / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, float) and abs(node.value) > 1
    }
    assert found == NO_SCORES


@pytest.mark.parametrize("strategy", PlacementStrategy)
@pytest.mark.parametrize("job", [a_job("j", gpus=1), a_job("j", cpu="1")], ids=["with GPUs", "without"])
def test_no_strategy_of_placement_outweighs_what_comes_after_it(strategy, job) -> None:
    others = [plugin for plugin in DEFAULT_PLUGINS if plugin != "nodeplacement"]
    by = config(off=others, told={"nodeplacement": {"gpu": strategy, "cpu": strategy}})
    state = a_state(nodes(2, gpus=4, cpu="8"), a_job("old", gpus=3, cpu="1", on="n0"), job)
    view = Engine(by).open(state, NOW).view(task_of(state, "j-0").cls)
    score = view.refresh()
    assert 0 < score.max() <= MOST["nodeplacement"]


def is_weight(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Weight"
