"""Words that a rule of the domain goes by stand in the rule's module only; who needs the rule asks that."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "libs" / "kai" / "model" / "rules"
HOMES = {
    "phases.py": frozenset({"Succeeded", "Failed"}),
    "taints.py": frozenset({"NoSchedule", "NoExecute"}),
    "priorities.py": frozenset({"preemptible"}),
}
#: Judges what the engine decided, by rules of its own on purpose.
APART = {"libs/kai/bench/audit.py"}


def written(tree: ast.AST) -> Iterator[tuple[int, frozenset[str]]]:
    """Each literal collection of texts with its line, and each text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, frozenset({node.value})
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            texts = {getattr(each, "value", each) for each in node.elts}
            yield node.lineno, frozenset(each for each in texts if isinstance(each, str))


def repeats() -> Iterator[tuple[str, str]]:
    """Of each rule's words, where they stand."""
    for folder in ("libs/kai", "libs/kai_local", "services"):
        for path in (ROOT / folder).rglob("*.py"):
            place = str(path.relative_to(ROOT))
            if place in APART or place.startswith("services/tests/"):
                continue
            for line, words in written(ast.parse(path.read_text())):
                for home, kept in HOMES.items():
                    if words == kept:
                        yield home, place if path == RULES / home else f"{place}:{line}"


def test_words_of_a_rule_stand_in_its_module_only() -> None:
    assert set(repeats()) == {(home, f"libs/kai/model/rules/{home}") for home in HOMES}


@pytest.mark.parametrize("code", ["x in ('NoExecute', 'NoSchedule')", "{'NoSchedule', 'NoExecute'}"])
def test_they_are_found_in_any_order_and_collection(code: str) -> None:
    assert HOMES["taints.py"] in [words for _, words in written(ast.parse(code))]
